/* file_facts.c - the answer is a head, then probes with their arguments and texts, sites with what
 * is inside, results and layouts, all as the structs below; numbers in it are the answer's own.
 * Both ends are one program, so the order of bytes is no question. What most probes and sites lack
 * is left out: an answer is read each time that somebody maps the file. */
#include "probe/file_facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolize/elf_file.h"

#define TEXT_MOST    4096 /* of a name or a symbol; mangled names may be long */
#define LAYOUTS_MOST 16	  /* PY_LAYOUTS_MAX / 2 of bpf/state.h */

struct answer_head {
	char build_id[129];
	char interpreter[256];
	uint8_t hides_unwinder;
	struct file_hooks hooks[HOOK_KINDS];
	uint32_t probes, sites, results, layouts;
};

/* struct probe_desc but for its arguments. */
#define DESC_HEAD offsetof(struct probe_desc, args)

/* Behind it: nargs of struct arg_desc, the name, the symbol. */
struct answer_probe {
	uint32_t entry;		 /* index in the catalog */
	uint8_t desc[DESC_HEAD]; /* nargs is in it */
	uint8_t arg_order[MAX_ARGS];
	int8_t name_arg;
	uint8_t by_callback;
	uint16_t name_len, symbol_len;
};

/* Behind it, where it says so: struct inside. */
struct answer_site {
	uint64_t offset;
	uint64_t semaphore;
	uint32_t probe;
	uint8_t action;
	uint8_t cost;
	uint8_t has_inside;
};

struct answer_result {
	uint32_t entry;
	uint32_t sites;
	uint32_t by_cost[4];
	uint32_t refused;
	uint32_t inside;
	uint8_t not_needed;
	uint8_t off;
	char reason[160];
	char outside[80];
};

/* ---- hooks, in the worker ---- */

static const char *const unwind_begins[] = {"_Unwind_RaiseException", "_Unwind_Resume",
					    "_Unwind_Resume_or_Rethrow", "_Unwind_ForcedUnwind"};
static const char *const unwind_ends[] = {"__cxa_begin_catch"};

static void find_hooks(const struct elf_file *elf, enum hook_kind kind, const char *const *symbols,
		       size_t n, struct answer_head *ret)
{
	struct file_hooks *h = &ret->hooks[kind];
	struct elf_symbol s;
	for (size_t i = 0; i < n; i++)
		if (elf_file_find(elf, symbols[i], &s) && s.is_function)
			h->sites[h->n++] = (struct hook_site){.offset = s.file_offset};
}

#define LINKER_TEXT_MAX (4u << 20) /* musl's is a whole C library: 0.6 MB */
#define R_DEBUG_STATE	24	   /* offset of r_state in struct r_debug of <link.h> */
#define STORE_BYTES	7	   /* c7 /0, an 8-bit distance, 32 bits: movl $STATE, 24(%reg) */

/* The state that is stored right before the code at p; -1 = it does something else. */
static int32_t stored_state(const uint8_t *p)
{
	const uint8_t *store = p - STORE_BYTES;
	int32_t state;
	if (store[0] != 0xc7 || (store[1] & 0xf8) != 0x40 || (store[1] & 7) == 4 ||
	    store[2] != R_DEBUG_STATE)
		return -1;
	memcpy(&state, store + 3, sizeof(state));
	return state;
}

/* The dynamic linker calls _dl_debug_state before it maps, and when it has (RT_CONSISTENT, 0). The
 * function is a return, which the kernel steps through (19 us in a guest of a virtual machine); its
 * calls are emulated. So those are hooked that are made when all is mapped, where each call says
 * by the store in front of it what it is for; else the function. Returns how many. */
static int find_loader_sites(const struct elf_file *elf, const struct elf_symbol *function,
			     uint64_t ret[HOOKS_MOST])
{
	const uint8_t *text;
	size_t len;
	uint64_t start, calls[HOOKS_MOST];
	int found = 0, n = 0;
	bool known = true;
	if (elf_file_section(elf, ".text", &text, &len, &start) && len <= LINKER_TEXT_MAX)
		found = insn_find_calls(text, len, start, function->address, calls, HOOKS_MOST);
	for (int i = 0; i < found && found <= HOOKS_MOST; i++) {
		int32_t state = calls[i] - start < STORE_BYTES
					? -1
					: stored_state(text + (calls[i] - start));
		known &= state >= 0 && state <= 2;
		if (state == 0)
			ret[n++] = calls[i];
	}
	if (known && n)
		return n;
	ret[0] = function->address;
	return 1;
}

/* The cookie is the distance to _r_debug, 0 if unknown: bpf/loader.h. */
static void find_loader(const struct elf_file *elf, struct file_hooks *ret)
{
	struct elf_symbol s, debug;
	uint64_t at[HOOKS_MOST], offset;
	if (!elf_file_find(elf, "_dl_debug_state", &s) || !s.is_function)
		return;
	bool has_debug = elf_file_find(elf, "_r_debug", &debug);
	int n = find_loader_sites(elf, &s, at);
	for (int i = 0; i < n; i++)
		if (elf_file_offset(elf, at[i], &offset))
			ret->sites[ret->n++] = (struct hook_site){
				.offset = offset, .cookie = has_debug ? debug.address - at[i] : 0};
}

#define SEARCHED_BYTES                                                                             \
	(64u << 20) /* of a section: the text looked for stands early or not at all */

static bool section_has(const struct elf_file *elf, const char *section, const char *text)
{
	const uint8_t *data;
	size_t len;
	uint64_t address;
	if (!elf_file_section(elf, section, &data, &len, &address))
		return false;
	return memmem(data, len < SEARCHED_BYTES ? len : SEARCHED_BYTES, text, strlen(text));
}

/* A C++ program with an unwinder of its own whose entry points cannot be found: it throws
 * past its own frames, and nobody could prepare them. std::exception's type name tells a
 * static libstdc++. */
static bool hides_unwinder(const struct elf_file *elf)
{
	struct elf_symbol s;
	const uint8_t *data;
	size_t len;
	uint64_t address;
	return elf_file_section(elf, ".gcc_except_table", &data, &len, &address) &&
	       section_has(elf, ".rodata", "St9exception") &&
	       !section_has(elf, ".dynstr", "_Unwind_Resume") &&
	       !elf_file_find(elf, "_Unwind_RaiseException", &s);
}

/* ---- putting together, in the worker ---- */

static void put_probe(struct buf *b, const struct plan *p, const struct probe_info *info)
{
	size_t name = strnlen(info->name, TEXT_MOST), symbol = strnlen(info->symbol, TEXT_MOST);
	struct answer_probe a = {
		.entry = (uint32_t)(info->entry - p->catalog->entries.data),
		.name_arg = info->name_arg,
		.by_callback = (uint8_t)info->by_callback,
		.name_len = (uint16_t)name,
		.symbol_len = (uint16_t)symbol,
	};
	memcpy(a.desc, &info->desc, DESC_HEAD);
	memcpy(a.arg_order, info->arg_order, sizeof(a.arg_order));
	buf_add(b, &a, sizeof(a));
	buf_add(b, info->desc.args, info->desc.nargs * sizeof(info->desc.args[0]));
	buf_add(b, info->name, name);
	buf_add(b, info->symbol, symbol);
}

static void put_site(struct buf *b, const struct site *s)
{
	struct answer_site a = {
		.offset = s->offset,
		.semaphore = s->semaphore,
		.probe = s->probe,
		.action = (uint8_t)s->action,
		.cost = (uint8_t)s->cost,
		.has_inside = s->inside.moved != 0,
	};
	buf_add(b, &a, sizeof(a));
	if (a.has_inside)
		buf_add(b, &s->inside, sizeof(s->inside));
}

static void put_result(struct buf *b, const struct plan *p, const struct entry_result *r)
{
	struct answer_result a = {
		.entry = (uint32_t)(r->entry - p->catalog->entries.data),
		.sites = r->sites,
		.refused = r->refused,
		.not_needed = r->not_needed,
		.off = r->off,
		.inside = r->inside,
	};
	memcpy(a.by_cost, r->by_cost, sizeof(a.by_cost));
	memcpy(a.reason, r->reason, sizeof(a.reason));
	memcpy(a.outside, r->outside, sizeof(a.outside));
	buf_add(b, &a, sizeof(a));
}

static void put_plan(struct buf *b, const struct plan *p, const struct file_plan *fp)
{
	for (size_t i = 0; i < p->probes.len; i++)
		put_probe(b, p, &p->probes.data[i]);
	for (size_t i = 0; i < fp->sites.len; i++)
		put_site(b, &fp->sites.data[i]);
	for (size_t i = 0; i < fp->results.len; i++)
		put_result(b, p, &fp->results.data[i]);
	buf_add(b, p->layouts.data, p->layouts.len * sizeof(p->layouts.data[0]));
}

static int plan_alone(const struct plan *asked, const struct elf_file *elf, const char *path,
		      struct answer_head *head, struct buf *ret, struct err *e)
{
	struct file_plan fp = {0};
	struct plan own = *asked; /* what is asked for; probes are numbered from 0 */
	memset(&own.probes, 0, sizeof(own.probes));
	memset(&own.layouts, 0, sizeof(own.layouts));
	int rc = 0;
	if (!head->hides_unwinder && plan_wants(&own, path))
		rc = plan_file(&own, elf, path, &fp, e);
	if (!rc) {
		head->probes = (uint32_t)own.probes.len;
		head->sites = (uint32_t)fp.sites.len;
		head->results = (uint32_t)fp.results.len;
		head->layouts = (uint32_t)own.layouts.len;
		buf_add(ret, head, sizeof(*head));
		put_plan(ret, &own, &fp);
		file_plan_free(&fp);
	}
	plan_free(&own);
	return rc;
}

int file_facts_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		      struct err *e)
{
	const char *path = (const char *)question; /* a zero follows */
	struct answer_head head = {0};
	struct elf_file *elf;
	(void)len;
	int rc = elf_file_open_fd(&elf, fd, path, 0, e);
	if (rc)
		return rc;
	snprintf(head.build_id, sizeof(head.build_id), "%s", elf_file_build_id(elf));
	if (elf_file_interpreter(elf))
		snprintf(head.interpreter, sizeof(head.interpreter), "%.255s",
			 elf_file_interpreter(elf));
	head.hides_unwinder = hides_unwinder(elf);
	find_hooks(elf, HOOK_UNWIND_BEGINS, unwind_begins, 4, &head);
	find_hooks(elf, HOOK_UNWIND_ENDS, unwind_ends, 1, &head);
	find_loader(elf, &head.hooks[HOOK_LOADER]);
	rc = plan_alone(ctx, elf, path, &head, ret, e);
	elf_file_close(elf);
	return rc;
}

/* ---- taking in, in the tracer ---- */

struct answer {
	const uint8_t *at;
	size_t left;
};

static bool take(struct answer *a, void *ret, size_t len)
{
	if (a->left < len)
		return false;
	memcpy(ret, a->at, len);
	a->at += len;
	a->left -= len;
	return true;
}

/* A text without zeros in it; NULL when it is none. */
static char *take_text(struct answer *a, size_t len)
{
	if (a->left < len || len > TEXT_MOST || memchr(a->at, 0, len))
		return NULL;
	char *text = xcalloc(1, len + 1);
	memcpy(text, a->at, len);
	a->at += len;
	a->left -= len;
	return text;
}

/* What the answer adds to the plan, until all of it is seen to be good. */
struct intake {
	struct plan *plan;
	const char *path;
	size_t had_probes, had_layouts; /* before it came */
	size_t first_probe;		/* the answer's number 0 in the plan */
	uint8_t layouts[LAYOUTS_MOST];	/* the answer's number -> the plan's */
	uint32_t nlayouts;
};

/* What is read is what the catalog says; a reader may have found only where: the interpreter's
 * frame, a field of PyTorch's tensors. Which layout it is comes later. */
static bool arg_holds(const struct arg_desc *a, const struct cat_arg *asked)
{
	struct arg_desc same = *a;
	bool framed = a->fetch == FETCH_PYCODE;
	if (framed || a->fetch == FETCH_PYSTRING)
		same.layout = asked->fetch.layout;
	if (framed && a->source == ARG_REG && a->index <= 1) /* cpython_frame_register */
		same.index = asked->fetch.index;
	if (asked->of_tensor && a->nderef && a->nderef == asked->fetch.nderef)
		same.deref[a->nderef - 1] = asked->fetch.deref[a->nderef - 1];
	return !memcmp(&same, &asked->fetch, sizeof(same));
}

static bool desc_holds(const struct answer_probe *a, const struct probe_desc *desc,
		       const struct cat_entry *en)
{
	if (a->name_arg < -1 || a->name_arg >= desc->nargs || desc->begins > desc->nargs ||
	    a->by_callback > CALLBACK_CUPTI)
		return false;
	for (int i = 0; i < desc->nargs; i++)
		if (a->arg_order[i] >= en->nargs ||
		    !arg_holds(&desc->args[i], &en->args[a->arg_order[i]]))
			return false;
	return true;
}

/* No more arguments than the catalog has of it, and none behind them. */
static bool take_desc(struct answer *from, const struct answer_probe *a, const struct cat_entry *en,
		      struct probe_desc *ret)
{
	memcpy(ret, a->desc, DESC_HEAD);
	return ret->nargs <= en->nargs &&
	       take(from, ret->args, ret->nargs * sizeof(ret->args[0])) && desc_holds(a, ret, en);
}

static bool number_layouts(struct intake *in, struct probe_desc *desc)
{
	for (int i = 0; i < desc->nargs; i++) {
		struct arg_desc *a = &desc->args[i];
		if (a->fetch != FETCH_PYCODE && a->fetch != FETCH_PYSTRING)
			continue;
		if (a->layout >= in->nlayouts)
			return false;
		a->layout = in->layouts[a->layout];
	}
	return true;
}

static bool take_probe(struct intake *in, struct answer *from)
{
	struct answer_probe a;
	if (!take(from, &a, sizeof(a)) || a.entry >= in->plan->catalog->entries.len)
		return false;
	const struct cat_entry *en = &in->plan->catalog->entries.data[a.entry];
	struct probe_desc desc = {0};
	if (!take_desc(from, &a, en, &desc))
		return false;
	char *name = take_text(from, a.name_len);
	char *symbol = name ? take_text(from, a.symbol_len) : NULL;
	if (!symbol) {
		free(name);
		return false;
	}
	struct probe_info *info = vec_push(&in->plan->probes);
	*info = (struct probe_info){
		.id = (uint32_t)in->plan->probes.len - 1,
		.entry = en,
		.name = name,
		.symbol = symbol,
		.library = xstrdup(in->path),
		.desc = desc,
		.name_arg = a.name_arg,
		.by_callback = (enum callback)a.by_callback,
	};
	memcpy(info->arg_order, a.arg_order, sizeof(a.arg_order));
	return true;
}

static bool take_site(struct intake *in, struct answer *from, uint32_t nprobes,
		      struct file_plan *ret)
{
	struct answer_site a;
	struct inside inside = {0};
	if (!take(from, &a, sizeof(a)) || a.probe >= nprobes || a.action > SITE_END ||
	    a.cost >= INSN_FORBIDDEN || (a.has_inside && !take(from, &inside, sizeof(inside))))
		return false;
	const struct probe_info *info = &in->plan->probes.data[in->first_probe + a.probe];
	if (!inside_holds(&inside, info) || (inside.moved && a.action != SITE_SPAN))
		return false;
	*vec_push(&ret->sites) = (struct site){
		.offset = a.offset,
		.semaphore = a.semaphore,
		.cookie = plan_cookie(info, (enum site_action)a.action, (enum insn_cost)a.cost),
		.probe = info->id,
		.layer = info->entry->layer,
		.action = (enum site_action)a.action,
		.cost = (enum insn_cost)a.cost,
		.inside = inside,
	};
	return true;
}

static bool take_result(struct intake *in, struct answer *from, struct file_plan *ret)
{
	struct answer_result a;
	if (!take(from, &a, sizeof(a)) || a.entry >= in->plan->catalog->entries.len)
		return false;
	struct entry_result *r = vec_push(&ret->results);
	r->entry = &in->plan->catalog->entries.data[a.entry];
	r->sites = a.sites;
	r->refused = a.refused;
	r->not_needed = a.not_needed;
	r->off = a.off;
	r->inside = a.inside;
	memcpy(r->by_cost, a.by_cost, sizeof(r->by_cost));
	memcpy(r->reason, a.reason, sizeof(r->reason) - 1);
	memcpy(r->outside, a.outside, sizeof(r->outside) - 1);
	return true;
}

/* Layouts stand last, and probes refer to them: they are found from the end. */
static bool take_layouts(struct intake *in, struct answer *from, uint32_t n)
{
	size_t bytes = (size_t)n * sizeof(struct py_layout);
	if (n > LAYOUTS_MOST || from->left < bytes)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct py_layout layout;
		size_t known = 0;
		memcpy(&layout, from->at + from->left - bytes + i * sizeof(layout), sizeof(layout));
		while (known < in->plan->layouts.len &&
		       memcmp(&in->plan->layouts.data[known], &layout, sizeof(layout)) != 0)
			known++;
		if (known == LAYOUTS_MOST)
			return false;
		if (known == in->plan->layouts.len)
			*vec_push(&in->plan->layouts) = layout;
		in->layouts[i] = (uint8_t)known;
	}
	in->nlayouts = n;
	from->left -= bytes;
	return true;
}

static void drop_probes(const struct intake *in)
{
	while (in->plan->probes.len > in->had_probes) {
		struct probe_info *info = &in->plan->probes.data[--in->plan->probes.len];
		free(info->name);
		free(info->symbol);
		free(info->library);
	}
}

static bool is_same_probe(const struct probe_info *a, const struct probe_info *b)
{
	return a->entry == b->entry && a->name_arg == b->name_arg &&
	       a->by_callback == b->by_callback && !strcmp(a->name, b->name) &&
	       !strcmp(a->symbol, b->symbol) && !strcmp(a->library, b->library) &&
	       !memcmp(&a->desc, &b->desc, sizeof(a->desc)) &&
	       !memcmp(a->arg_order, b->arg_order, sizeof(a->arg_order));
}

static bool is_same_run(const struct plan *p, size_t a, size_t b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_same_probe(&p->probes.data[a + i], &p->probes.data[b + i]))
			return false;
	return true;
}

/* Another copy of a file, or the file again after it was given back, has the numbers that the first
 * one had: there are MAX_PROBES of them, and PyTorch takes a fifth each time. */
static void number_again(struct intake *in, uint32_t n)
{
	const struct plan *p = in->plan;
	for (size_t first = 0; n && first + n <= in->had_probes; first++) {
		if (!is_same_run(p, first, in->had_probes, n))
			continue;
		drop_probes(in);
		in->first_probe = first;
		return;
	}
}

static bool take_all(struct intake *in, struct answer *from, const struct answer_head *head,
		     struct file_plan *ret)
{
	if (!take_layouts(in, from, head->layouts))
		return false;
	for (uint32_t i = 0; i < head->probes; i++)
		if (!take_probe(in, from) ||
		    !number_layouts(in, &in->plan->probes.data[in->plan->probes.len - 1].desc))
			return false;
	number_again(in, head->probes);
	for (uint32_t i = 0; i < head->sites; i++)
		if (!take_site(in, from, head->probes, ret))
			return false;
	for (uint32_t i = 0; i < head->results; i++)
		if (!take_result(in, from, ret))
			return false;
	return !from->left;
}

static void take_back(const struct intake *in)
{
	drop_probes(in);
	in->plan->layouts.len = in->had_layouts;
}

static bool head_holds(const struct answer_head *h)
{
	for (int i = 0; i < HOOK_KINDS; i++)
		if (h->hooks[i].n > HOOKS_MOST)
			return false;
	return memchr(h->build_id, 0, sizeof(h->build_id)) &&
	       memchr(h->interpreter, 0, sizeof(h->interpreter));
}

int file_facts_take(struct file_facts *ret, struct plan *plan, const char *path,
		    const uint8_t *answer, size_t len, struct err *e)
{
	struct answer from = {answer, len};
	struct answer_head head;
	struct file_facts f = {0};
	struct intake in = {.plan = plan,
			    .path = path,
			    .had_probes = plan->probes.len,
			    .had_layouts = plan->layouts.len,
			    .first_probe = plan->probes.len};
	if (!take(&from, &head, sizeof(head)) || !head_holds(&head))
		return err_set(e, EPROTO, "what was read of it makes no sense");
	bool taken = take_all(&in, &from, &head, &f.plan);
	if (!taken || plan->probes.len > MAX_PROBES) {
		take_back(&in);
		file_plan_free(&f.plan);
		return taken ? err_set(e, E2BIG, "more than %d functions to trace: narrow --layers",
				       MAX_PROBES)
			     : err_set(e, EPROTO, "what was read of it makes no sense");
	}
	memcpy(f.build_id, head.build_id, sizeof(f.build_id));
	memcpy(f.interpreter, head.interpreter, sizeof(f.interpreter));
	f.hides_unwinder = head.hides_unwinder;
	memcpy(f.hooks, head.hooks, sizeof(f.hooks));
	*ret = f;
	return 0;
}

void file_facts_free(struct file_facts *f)
{
	file_plan_free(&f->plan);
}
