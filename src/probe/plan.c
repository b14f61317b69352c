/* plan.c - catalog entries against one file's symbols and USDT notes. */
#include "probe/plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "base/map64.h"
#include "base/sort.h"
#include "symbolize/cpython.h"
#include "symbolize/demangle.h"
#include "symbolize/torch_layout.h"
#include "symbolize/torch_names.h"

/* Planning of one file in progress. */
struct work {
	struct plan *plan;
	const struct elf_file *file;
	const char *path;
	struct file_plan *out;
	struct map64 taken;	    /* file offsets that have a site */
	struct map64 off_operators; /* hashes of names */
	VEC(uint64_t) doors;	    /* addresses of all symbols, sorted; where they are asked for */
	struct torch_names *names;  /* loaded when the first operator is met */
	int py_layout;		    /* index, -1 not looked up, -2 not to be had */
	uint32_t py_version;
	bool is_python;			  /* the file holds a CPython interpreter */
	bool torch_known;		  /* torch_layout was looked for */
	struct torch_layout torch_layout; /* 0: not found */
	const struct cat_entry *entry;
	struct entry_result *result;
	struct err *err;
	int rc;
};

static bool is_wanted_allocator(const struct plan *p, const struct cat_entry *en)
{
	return p->allocators && en->role && !strncmp(en->role, "torch_", 6);
}

static bool entry_is_off(const struct plan *p, const struct cat_entry *en)
{
	return !p->all_entries && !is_wanted_allocator(p, en) &&
	       (en->off_by_default || (en->cost == CAT_COST_HIGH && !p->frequent));
}

/* fnmatch after a cheap comparison of the part before the first wildcard: libraries have a hundred
 * thousand symbols and processes hundreds of files, and few match. */
static bool glob_matches(const char *glob, const char *name)
{
	const char *g = glob, *n = name;
	for (; *g && *g != '*' && *g != '?' && *g != '[' && *g != '\\'; g++, n++)
		if (*g != *n)
			return false;
	return *g ? !fnmatch(glob, name, 0) : !*n;
}

static bool library_matches(const char *glob, const char *path)
{
	return glob_matches(glob, glob[0] == '/' ? path : path_file_name(path));
}

bool plan_entry_wants(const struct plan *p, const struct cat_entry *en, const char *path)
{
	if (!(p->layers & 1u << en->layer))
		return false;
	for (size_t i = 0; i < en->libraries.len; i++) {
		if (library_matches(en->libraries.data[i], path))
			return true;
	}
	return false;
}

static bool has_glob(const struct library_names *names, const char *glob)
{
	for (size_t i = 0; i < names->globs.len; i++)
		if (!strcmp(names->globs.data[i], glob))
			return true;
	return false;
}

void library_names_add(struct library_names *names, const struct catalog *c)
{
	for (size_t i = 0; i < c->entries.len; i++) {
		const struct cat_list *of_entry = &c->entries.data[i].libraries;
		for (size_t k = 0; k < of_entry->len; k++)
			if (!has_glob(names, of_entry->data[k]))
				*vec_push(&names->globs) = of_entry->data[k];
	}
}

bool library_names_match(const struct library_names *names, const char *path)
{
	for (size_t i = 0; i < names->globs.len; i++)
		if (library_matches(names->globs.data[i], path))
			return true;
	return false;
}

void library_names_free(struct library_names *names)
{
	vec_free(&names->globs);
}

bool plan_wants(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->catalog->entries.len; i++) {
		const struct cat_entry *en = &p->catalog->entries.data[i];
		if (!entry_is_off(p, en) && plan_entry_wants(p, en, path))
			return true;
	}
	return false;
}

static bool any_glob_matches(char *const *globs, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (glob_matches(globs[i], name))
			return true;
	}
	return false;
}

static void set_reason(struct entry_result *r, const char *text)
{
	if (!r->reason[0])
		snprintf(r->reason, sizeof(r->reason), "%.159s", text);
}

/* ---- names ---- */

static char *site_name(struct work *w, const char *symbol)
{
	const struct cat_entry *en = w->entry;
	char *name = NULL;
	if (en->naming == CAT_NAME_TORCH_OP) {
		if (!w->names)
			w->names = torch_names_load(w->file);
		name = torch_operator_name(w->names, symbol);
	} else if (en->naming == CAT_NAME_LITERAL && en->name) {
		const char *hole = strstr(en->name, "{symbol}");
		if (!hole)
			return xstrdup(en->name);
		char *plain = demangle(symbol, 0);
		name = xasprintf("%.*s%s%s", (int)(hole - en->name), en->name, plain,
				 hole + strlen("{symbol}"));
		free(plain);
	}
	return name ? name : demangle(symbol, 0);
}

/* ---- Python ---- */

static int find_py_layout(struct work *w)
{
	struct py_layout layout;
	struct elf_symbol runtime;
	struct err why = {0};
	if (cpython_version(w->file, w->path, &w->py_version, &why))
		goto no;
	int rc = -ENOENT;
	if (w->py_version >= 0x030d0000 && elf_file_find(w->file, "_PyRuntime", &runtime)) {
		size_t len = runtime.size && runtime.size < 4096 ? runtime.size : 1024;
		const void *image = elf_file_bytes(w->file, runtime.address, len);
		if (image)
			rc = cpython_layout_from_offsets(image, len, &layout, &why);
	}
	if (rc)
		rc = cpython_layout(w->py_version, &layout, &why);
	if (rc)
		goto no;
	for (size_t i = 0; i < w->plan->layouts.len; i++) {
		if (!memcmp(&w->plan->layouts.data[i], &layout, sizeof(layout)))
			return (int)i;
	}
	if (w->plan->layouts.len == 16) { /* PY_LAYOUTS_MAX of bpf/state.h */
		snprintf(why.msg, sizeof(why.msg), "more than 16 different builds of CPython");
		goto no;
	}
	*vec_push(&w->plan->layouts) = layout;
	return (int)w->plan->layouts.len - 1;
no:
	set_reason(w->result, why.msg);
	return -2;
}

static bool needs_py_layout(const struct cat_entry *en)
{
	for (int i = 0; i < en->nargs; i++) {
		if (en->args[i].fetch.fetch == FETCH_PYCODE ||
		    en->args[i].fetch.fetch == FETCH_PYSTRING)
			return true;
	}
	return false;
}

/* ---- PyTorch ---- */

static bool needs_torch_layout(const struct cat_entry *en)
{
	for (int i = 0; i < en->nargs; i++)
		if (en->args[i].of_tensor)
			return true;
	return false;
}

/* Entries are used without the arguments that cannot be read. */
static bool is_unreadable(const struct work *w, const struct cat_arg *arg)
{
	return arg->of_tensor && !w->torch_layout.sizes;
}

/* ---- who asks for device memory ---- */

static bool asks_for_memory(const struct cat_entry *en)
{
	return en->role && !strcmp(en->role, "alloc_caller");
}

/* But for who called, such calls can be told inside of processes. */
static bool is_left_out(const struct work *w, const struct cat_arg *arg)
{
	return !w->plan->callers && asks_for_memory(w->entry) && arg->fetch.source == ARG_STACK &&
	       arg->fetch.index == ARG_CALLER;
}

/* ---- probes and sites ---- */

static enum error_rule error_rule_of(const struct cat_entry *en)
{
	switch (en->error) {
	case CAT_ERROR_NONZERO:
		return ERROR_NONZERO;
	case CAT_ERROR_NEGATIVE:
		return ERROR_NEGATIVE;
	case CAT_ERROR_NULL:
		return ERROR_NULL;
	default:
		return ERROR_NONE;
	}
}

static bool role_is(const struct cat_entry *en, const char *const *roles, size_t n)
{
	for (size_t i = 0; en->role && i < n; i++)
		if (!strcmp(en->role, roles[i]))
			return true;
	return false;
}

/* Without these calls others cannot be named (kernels, communicators), or the account of
 * memory and the nodes of graphs would be wrong: recorded in every mode. So are those that say who
 * asked for memory, where that is wanted. */
static bool is_needed(const struct plan *p, const struct cat_entry *en)
{
	static const char *const roles[] = {
		"kernel_name",	  "kernel_alias",	"comm_init",
		"comm_split",	  "comm_destroy",	"alloc",
		"free",		  "vmm_create",		"vmm_map",
		"vmm_unmap",	  "vmm_release",	"host_alloc",
		"host_free",	  "host_register",	"host_unregister",
		"context_retain", "context_current",	"context_push",
		"context_pop",	  "device_current",	"capture_begin",
		"capture_end",	  "graph_instantiate",	"graph_create",
		"graph_destroy",  "graph_exec_destroy", "graph_clone",
		"graph_node",	  "graph_kernel_node",	"graph_copy_node",
		"graph_set_node", "graph_child_node",	"alloc_managed",
	};
	return role_is(en, roles, sizeof(roles) / sizeof(roles[0])) ||
	       (p->callers && asks_for_memory(en));
}

/* The recorded argument, counted from 1, that is a communicator just made; 0 = none. */
static uint8_t begins_what(const struct cat_entry *en, const struct probe_info *info)
{
	static const char *const makers[] = {"comm_init", "comm_split"};
	if (!role_is(en, makers, 2))
		return 0;
	const char *made = !strcmp(en->role, "comm_init") ? "comm" : "child";
	for (uint8_t i = 0; i < info->desc.nargs; i++)
		if (!strcmp(en->args[info->arg_order[i]].name, made))
			return i + 1;
	return 0;
}

/* Fills the BPF descriptor; the argument that names the call comes first. */
static void describe(struct work *w, struct probe_info *info)
{
	const struct cat_entry *en = w->entry;
	uint8_t n = 0;
	info->name_arg = -1;
	for (uint8_t i = 0; i < en->nargs; i++) {
		if (en->args[i].is_name && info->name_arg < 0) {
			info->name_arg = 0;
			info->arg_order[n++] = i;
		}
	}
	for (uint8_t i = 0; i < en->nargs; i++) {
		if (info->name_arg >= 0 && i == info->arg_order[0])
			continue;
		if (!is_unreadable(w, &en->args[i]) && !is_left_out(w, &en->args[i]))
			info->arg_order[n++] = i;
	}
	info->desc.nargs = n;
	info->desc.error_rule = error_rule_of(en);
	info->desc.has_except = en->has_except;
	info->desc.keep = is_needed(w->plan, en);
	if (w->plan->stacks && en->stack_every)
		info->desc.stack_chance = UINT32_MAX / en->stack_every;
	info->desc.begins = begins_what(en, info);
	info->desc.error_except = en->error_except;
	for (uint8_t i = 0; i < n; i++) {
		struct arg_desc *a = &info->desc.args[i];
		*a = en->args[info->arg_order[i]].fetch;
		if (a->fetch == FETCH_PYCODE || a->fetch == FETCH_PYSTRING)
			a->layout = (uint8_t)w->py_layout;
		if (en->args[info->arg_order[i]].of_tensor)
			a->deref[a->nderef - 1] =
				(int32_t)(a->fetch == FETCH_SHAPE ? w->torch_layout.sizes
								  : w->torch_layout.scalar);
		if (a->fetch == FETCH_PYCODE)
			a->index = (uint8_t)cpython_frame_register(w->py_version);
	}
}

static struct probe_info *new_probe(struct work *w, const char *symbol)
{
	struct plan *p = w->plan;
	if (p->probes.len >= MAX_PROBES) {
		w->rc = err_set(w->err, E2BIG, "more than %d functions to trace: narrow --layers",
				MAX_PROBES);
		return NULL;
	}
	struct probe_info *info = vec_push(&p->probes);
	info->id = (uint32_t)p->probes.len - 1;
	info->entry = w->entry;
	info->name = site_name(w, symbol);
	info->symbol = xstrdup(symbol);
	info->library = xstrdup(w->path);
	describe(w, info);
	return info;
}

uint64_t plan_cookie(const struct probe_info *info, enum site_action action, enum insn_cost cost)
{
	return COOKIE_MAKE(info->id, action, info->entry->layer, info->desc.nargs,
			   info->name_arg == 0 ? CALL_NAMED : 0) |
	       (info->desc.stack_chance ? COOKIE_WITH_STACK : 0) |
	       (cost == INSN_STEPPED ? COOKIE_IS_STEPPED : 0);
}

static struct site *add_site(struct work *w, const struct probe_info *info, uint64_t offset,
			     uint64_t semaphore, enum site_action action, enum insn_cost cost)
{
	struct site *s = vec_push(&w->out->sites);
	*s = (struct site){
		.offset = offset,
		.semaphore = semaphore,
		.probe = info->id,
		.layer = w->entry->layer,
		.action = action,
		.cost = cost,
		.cookie = plan_cookie(info, action, cost),
	};
	map64_set(&w->taken, offset, info->id);
	w->result->sites++;
	w->result->by_cost[cost]++;
	return s;
}

/* Code that is jumped to, not called: there is no return address on top of the stack, and
 * a return probe would overwrite what is. GCC moves unlikely parts of a function to
 * "function.cold"; the kernel enters "_start". */
static bool is_called(const char *symbol)
{
	return !strstr(symbol, ".cold") && strcmp(symbol, "_start");
}

static int add_door(const struct elf_symbol *sym, void *ctx)
{
	struct work *w = ctx;
	*vec_push(&w->doors) = sym->address;
	return 0;
}

/* Whether another symbol lies in the first n bytes of the function at an address: it may be called
 * as well. */
static bool has_other_door(struct work *w, uint64_t address, size_t n)
{
	if (!w->doors.len) {
		elf_file_symbols(w->file, add_door, w);
		qsort(w->doors.data, w->doors.len, sizeof(*w->doors.data), sort_compare_u64);
	}
	size_t low = 0, high = w->doors.len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (w->doors.data[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->doors.len && w->doors.data[low] - address < n;
}

#define FUNCTION_MOST (1u << 18) /* bytes that are looked at */

/* As inject/calls/texts.c knows objects: those of free-threaded builds begin otherwise. */
static bool has_usual_objects(struct work *w)
{
	if (w->py_layout == -1)
		w->py_layout = find_py_layout(w);
	if (w->py_layout < 0)
		return false;
	const struct py_layout *l = &w->plan->layouts.data[w->py_layout];
	return l->str_length == 16 && l->code_filename <= UINT8_MAX;
}

/* What a probe inside the process has to know. */
static void look_inside(struct work *w, struct site *s, const struct elf_symbol *sym,
			const uint8_t *code, size_t len, uint32_t place)
{
	const char *why = "not all of it is known";
	/* all of the function is to be seen: it may jump back to where the jump is put */
	if (w->entry->layer == LAYER_PYTHON && !has_usual_objects(w))
		why = "this CPython's objects are not as usual";
	else if (sym->size == len)
		s->inside = inside_plan(&w->plan->probes.data[s->probe], code, len, place, &why);
	if (s->inside.moved &&
	    has_other_door(w, sym->address, (size_t)s->inside.kept + s->inside.moved)) {
		s->inside.moved = 0;
		why = "it has a second entry";
	}
	if (s->inside.moved)
		w->result->inside++;
	else if (!w->result->outside[0])
		snprintf(w->result->outside, sizeof(w->result->outside), "%s", why);
}

static int visit_symbol(const struct elf_symbol *sym, void *ctx)
{
	struct work *w = ctx;
	const struct cat_entry *en = w->entry;
	uint64_t taken;
	if (!sym->is_function || !is_called(sym->name) ||
	    !any_glob_matches(en->symbols.data, en->symbols.len, sym->name) ||
	    any_glob_matches(en->exclude.data, en->exclude.len, sym->name))
		return 0;
	size_t len = sym->size ? sym->size : 16;
	if (len > FUNCTION_MOST)
		len = FUNCTION_MOST;
	const uint8_t *code = elf_file_bytes(w->file, sym->address, len);
	if (!code) {
		w->result->refused++;
		set_reason(w->result, "a symbol's code lies outside the file");
		return 0;
	}
	struct insn_place place = insn_choose(code, len, !en->instant);
	if (place.cost == INSN_FORBIDDEN) {
		w->result->refused++;
		set_reason(w->result, "the kernel cannot probe a function's first instruction");
		return 0;
	}
	uint64_t offset = sym->file_offset + place.offset;
	if (map64_get(&w->taken, offset, &taken))
		return 0; /* an alias, or an earlier entry's */
	struct probe_info *info = new_probe(w, sym->name);
	if (!info)
		return w->rc;
	struct site *s =
		add_site(w, info, offset, 0, en->instant ? SITE_INSTANT : SITE_SPAN, place.cost);
	if (w->plan->inside)
		look_inside(w, s, sym, code, len, place.offset);
	return 0;
}

/* An operator that has an overload which is off. */
static void note_off_operator(struct work *w, const char *symbol)
{
	if (w->entry->naming != CAT_NAME_TORCH_OP)
		return;
	char *name = site_name(w, symbol);
	map64_set(&w->off_operators, hash_bytes(name, strlen(name)), 1);
	free(name);
}

/* An entry that is off keeps its symbols from the entries above it: they are off with it. */
static int claim_symbol(const struct elf_symbol *sym, void *ctx)
{
	struct work *w = ctx;
	const struct cat_entry *en = w->entry;
	const uint8_t *code;
	if (!sym->is_function || !any_glob_matches(en->symbols.data, en->symbols.len, sym->name))
		return 0;
	size_t len = sym->size && sym->size < 64 ? sym->size : 64;
	code = elf_file_bytes(w->file, sym->address, len);
	note_off_operator(w, sym->name);
	if (code)
		map64_set(&w->taken, sym->file_offset + insn_choose(code, len, !en->instant).offset,
			  0);
	return 0;
}

static bool usdt_matches(char *const *globs, size_t n, const struct elf_usdt *u)
{
	char full[256];
	snprintf(full, sizeof(full), "%s:%s", u->provider, u->name);
	return any_glob_matches(globs, n, full);
}

/* All sites of a USDT pair share one probe: a begin matches the end of its thread. */
static int visit_usdt(const struct elf_usdt *u, void *ctx)
{
	struct work *w = ctx;
	const struct cat_entry *en = w->entry;
	bool begins = usdt_matches(en->symbols.data, en->symbols.len, u);
	bool ends = usdt_matches(en->end_symbols.data, en->end_symbols.len, u);
	uint64_t taken;
	if ((!begins && !ends) || map64_get(&w->taken, u->file_offset, &taken))
		return 0;
	char name[256];
	snprintf(name, sizeof(name), "%s:%s", u->provider, u->name);
	bool pair = en->end_symbols.len > 0;
	struct probe_info *info = NULL;
	if (pair && w->plan->probes.len) {
		struct probe_info *last = &w->plan->probes.data[w->plan->probes.len - 1];
		if (last->entry == en && !strcmp(last->library, w->path))
			info = last;
	}
	if (!info)
		info = new_probe(w, name);
	if (!info)
		return w->rc;
	add_site(w, info, u->file_offset, u->semaphore_offset,
		 !pair	  ? SITE_INSTANT
		 : begins ? SITE_BEGIN
			  : SITE_END,
		 INSN_EMULATED);
	return 0;
}

static void explain_absence(struct work *w)
{
	if (w->result->sites || w->result->reason[0])
		return;
	if (w->entry->usdt)
		set_reason(w->result, "built without these USDT probes");
	else if (!elf_file_has_symtab(w->file))
		set_reason(w->result, "no exported symbol matches, and the file is stripped of its "
				      "local symbols");
	else
		set_reason(w->result, "no symbol matches");
	size_t len = strlen(w->result->reason);
	snprintf(w->result->reason + len, sizeof(w->result->reason) - len, ": %.60s%s",
		 w->entry->symbols.data[0], w->entry->symbols.len > 1 ? ", ..." : "");
}

/* Also true for an entry that was itself not needed: `unless` chains. */
static bool other_entry_found(const struct work *w, const char *id)
{
	for (size_t i = 0; i < w->out->results.len; i++) {
		const struct entry_result *r = &w->out->results.data[i];
		if (!strcmp(r->entry->id, id) && (r->sites || r->not_needed))
			return true;
	}
	return false;
}

static void plan_entry(struct work *w)
{
	const struct cat_entry *en = w->entry;
	if (en->unless && other_entry_found(w, en->unless)) {
		snprintf(w->result->reason, sizeof(w->result->reason), "not needed: %s is there",
			 en->unless);
		w->result->not_needed = true;
		return;
	}
	if (needs_py_layout(en)) {
		if (w->py_layout == -1)
			w->py_layout = find_py_layout(w);
		if (w->py_layout < 0) {
			set_reason(w->result, "the layout of this CPython is not known");
			return;
		}
	}
	if (needs_torch_layout(en) && !w->torch_known) {
		torch_layout_find(w->file, &w->torch_layout);
		w->torch_known = true;
	}
	if (needs_torch_layout(en) && !w->torch_layout.sizes)
		set_reason(w->result, "where its tensors have their sizes was not found: traced "
				      "without shapes");
	if (en->usdt)
		elf_file_usdt(w->file, visit_usdt, w);
	else
		elf_file_symbols(w->file, visit_symbol, w);
	explain_absence(w);
}

static void consider_entry(struct work *w, const struct cat_entry *en)
{
	if (!plan_entry_wants(w->plan, en, w->path) || (en->python && !w->is_python))
		return;
	w->entry = en;
	w->result = vec_push(&w->out->results);
	w->result->entry = en;
	if (!entry_is_off(w->plan, en)) {
		plan_entry(w);
		return;
	}
	w->result->off = true;
	set_reason(w->result, en->off_by_default
				      ? "off by default (--everything)"
				      : "off by default: frequent (--layers with its layer)");
	if (!en->usdt)
		elf_file_symbols(w->file, claim_symbol, w);
}

/* Whether another overload of the operator has arguments recorded. */
static bool has_args_elsewhere(const struct plan *p, size_t first, const char *name)
{
	for (size_t i = first; i < p->probes.len; i++) {
		const struct probe_info *info = &p->probes.data[i];
		if (info->entry->naming == CAT_NAME_TORCH_OP && info->desc.nargs &&
		    !strcmp(info->name, name))
			return true;
	}
	return false;
}

/* An operator is told without its overload: where an overload has arguments or is off, all go on
 * being probed. */
static enum callback callback_of_operator(const struct work *w, size_t first,
					  const struct probe_info *info)
{
	uint64_t off, name = hash_bytes(info->name, strlen(info->name));
	bool alike = !info->desc.nargs && !has_args_elsewhere(w->plan, first, info->name) &&
		     !map64_get(&w->off_operators, name, &off);
	return alike ? CALLBACK_TORCH : CALLBACK_NONE;
}

/* Marks the calls that others can tell as they are recorded (docs/developers/gpu-timeline.md).
 * Stacks are the probes' alone. */
static void mark_callbacks(const struct work *w, size_t first)
{
	for (size_t i = first; i < w->plan->probes.len; i++) {
		struct probe_info *info = &w->plan->probes.data[i];
		const char *role = info->entry->role ? info->entry->role : "";
		if (info->desc.stack_chance)
			continue;
		if (!strcmp(role, "autograd_node"))
			info->by_callback = CALLBACK_TORCH;
		else if (!strcmp(role, "launch") &&
			 layer_traits(info->entry->layer) & LAYER_HAS_KERNELS)
			info->by_callback = CALLBACK_CUPTI;
		else if (info->entry->naming == CAT_NAME_TORCH_OP)
			info->by_callback = callback_of_operator(w, first, info);
	}
}

int plan_file(struct plan *p, const struct elf_file *f, const char *path, struct file_plan *ret,
	      struct err *e)
{
	struct file_plan out = {0};
	size_t first = p->probes.len;
	struct work w = {
		.plan = p, .file = f, .path = path, .out = &out, .py_layout = -1, .err = e};
	w.is_python = cpython_present(f);
	/* later entries are the user's: they come first, and keep a place they share */
	for (size_t i = p->catalog->entries.len; i-- > 0 && !w.rc;) {
		if (!p->catalog->entries.data[i].unless)
			consider_entry(&w, &p->catalog->entries.data[i]);
	}
	for (size_t i = 0; i < p->catalog->entries.len && !w.rc; i++) {
		if (p->catalog->entries.data[i].unless)
			consider_entry(&w, &p->catalog->entries.data[i]);
	}
	mark_callbacks(&w, first);
	map64_free(&w.off_operators);
	vec_free(&w.doors);
	map64_free(&w.taken);
	torch_names_free(w.names);
	if (w.rc) {
		file_plan_free(&out);
		return w.rc;
	}
	*ret = out;
	return 0;
}

void file_plan_free(struct file_plan *fp)
{
	vec_free(&fp->sites);
	vec_free(&fp->results);
}

void plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->probes.len; i++) {
		free(p->probes.data[i].name);
		free(p->probes.data[i].symbol);
		free(p->probes.data[i].library);
	}
	vec_free(&p->probes);
	vec_free(&p->layouts);
}
