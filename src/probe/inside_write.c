/* inside_write.c - writes sites, islands and jumps (wire/call_ring.h) by /proc/PID/mem, which may
 * write to code. All of it goes into the process's own memory, at places that are of our library or
 * of a probed file by its mappings; what is read there is believed only as far as it can harm that
 * process alone. */
#include "probe/inside_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "symbolize/elf_file.h"
#include "wire/call_ring.h"

#define BREAKPOINT 0xcc

/* A file that a process had mapped when it was not held. */
struct late {
	pid_t pid;
	uint64_t inode;
	char *path;
};

struct insider {
	uint64_t inode;			      /* of the library */
	uint64_t sites, islands, entry, used; /* its virtual addresses */
	uint64_t islands_offset;
	uint64_t stack_offset; /* of the function where stacks are taken, in the file, */
	uint64_t text_offset;  /* and where texts are read */
	char path[4096];
	struct attach_links links;
	struct insider_stats stats;
	struct map64 told; /* hash of file and process: a note was made */
	struct map64 processes;
	VEC(pid_t) pids; /* these */
	VEC(struct late) late;
};

static int find_symbols(struct insider *in, const char *path, struct err *e)
{
	struct elf_file *elf;
	struct elf_symbol sites, islands, entry, used, stack, text;
	int rc = elf_file_open(&elf, path, e);
	if (rc)
		return rc;
	if (elf_file_find(elf, CALL_SITES, &sites) && elf_file_find(elf, CALL_ISLANDS, &islands) &&
	    elf_file_find(elf, CALL_ENTRY, &entry) && elf_file_find(elf, CALL_USED, &used) &&
	    elf_file_find(elf, CALL_STACK, &stack) && elf_file_find(elf, CALL_TEXT, &text)) {
		in->sites = sites.address;
		in->islands = islands.address;
		in->islands_offset = islands.file_offset;
		in->entry = entry.address;
		in->used = used.address;
		in->stack_offset = stack.file_offset;
		in->text_offset = text.file_offset;
	} else {
		rc = err_set(e, ENOEXEC, "%s is not what it should be", path);
	}
	elf_file_close(elf);
	return rc;
}

int insider_open(struct insider **ret, const char *shim, struct err *e)
{
	struct stat st;
	struct insider *in = xcalloc(1, sizeof(*in));
	int rc = stat(shim, &st) ? err_set(e, errno, "cannot read %s: %s", shim, strerror(errno))
				 : find_symbols(in, shim, e);
	if (rc) {
		free(in);
		return rc;
	}
	in->inode = st.st_ino;
	snprintf(in->path, sizeof(in->path), "%s", shim);
	*ret = in;
	return 0;
}

void insider_close(struct insider *in)
{
	if (!in)
		return;
	attach_detach(&in->links);
	for (size_t i = 0; i < in->late.len; i++)
		free(in->late.data[i].path);
	vec_free(&in->late);
	vec_free(&in->pids);
	map64_free(&in->told);
	map64_free(&in->processes);
	free(in);
}

int insider_take_stacks(struct insider *in, enum attach_method method, int program, struct err *e)
{
	const struct hook_site site = {.offset = in->stack_offset};
	return attach_hooks(&in->links, method, program, in->path, &site, 1, e);
}

int insider_take_texts(struct insider *in, enum attach_method method, int program, struct err *e)
{
	const struct hook_site site = {.offset = in->text_offset};
	return attach_hooks(&in->links, method, program, in->path, &site, 1, e);
}

void insider_stats(const struct insider *in, struct insider_stats *ret)
{
	*ret = in ? in->stats : (struct insider_stats){0};
	if (in)
		ret->processes = in->processes.len;
}

/* ---- one process ---- */

struct writing {
	struct insider *in;
	int memory;
	uint64_t bias; /* of the library */
	uint32_t used; /* sites */
};

static bool peek(const struct writing *w, uint64_t address, void *ret, size_t len)
{
	return pread(w->memory, ret, len, (off_t)address) == (ssize_t)len;
}

static bool poke(const struct writing *w, uint64_t address, const void *data, size_t len)
{
	return pwrite(w->memory, data, len, (off_t)address) == (ssize_t)len;
}

static uint64_t site_at(const struct writing *w, uint32_t i)
{
	return w->in->sites + w->bias + (uint64_t)i * sizeof(struct call_site);
}

static uint64_t island_at(const struct writing *w, uint32_t i)
{
	return w->in->islands + w->bias + (uint64_t)i * CALL_ISLAND_BYTES;
}

static bool is_island(const struct writing *w, uint64_t address)
{
	return address - island_at(w, 0) < (uint64_t)CALL_SITES_MOST * CALL_ISLAND_BYTES;
}

/* ---- code ---- */

static void put(uint8_t **at, const void *bytes, size_t n)
{
	memcpy(*at, bytes, n);
	*at += n;
}

/* An operand relative to the end of its instruction, which it ends. */
static void put_distance(uint8_t **at, uint64_t address, uint64_t to)
{
	int32_t distance = (int32_t)(to - (address + 4));
	put(at, &distance, sizeof(distance));
}

/* jmp *0(%rip), and where to. */
static void put_jump(uint8_t **at, uint64_t to)
{
	static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
	put(at, jump, sizeof(jump));
	put(at, &to, sizeof(to));
}

static void put_pop(uint8_t **at, int reg)
{
	const uint8_t pop[] = {0x41, (uint8_t)(0x58 | (reg & 7))};
	if (reg >= 8)
		put(at, pop, 2);
	else if (reg >= 0)
		put(at, pop + 1, 1);
}

/* Returns where in it the function's own code begins. */
static size_t make_island(const struct writing *w, uint32_t i, const struct inside *inside,
			  uint64_t function, uint8_t ret[CALL_ISLAND_BYTES])
{
	static const uint8_t push_r11[] = {0x41, 0x53};
	static const uint8_t lea_r11[] = {0x4c, 0x8d, 0x1d};
	static const uint8_t jmp[] = {0xe9};
	uint8_t *at = ret;
	uint64_t island = island_at(w, i);
	size_t both = (size_t)inside->kept + inside->moved;
	put_pop(&at, inside->pushed);
	put(&at, push_r11, sizeof(push_r11));
	put(&at, lea_r11, sizeof(lea_r11));
	put_distance(&at, island + (size_t)(at - ret), site_at(w, i));
	put(&at, jmp, sizeof(jmp));
	put_distance(&at, island + (size_t)(at - ret), w->in->entry + w->bias);
	size_t original = (size_t)(at - ret);
	at += prologue_move(&inside->rips, inside->code, both, function, at);
	put_jump(&at, function + both);
	return original;
}

_Static_assert(2 + 2 + 7 + 5 + PROLOGUE_MOVED + CALL_JUMP_BYTES <= CALL_ISLAND_BYTES,
	       "it has room");

/* ---- one file ---- */

struct places {
	VEC(struct call_site) sites;
	VEC(uint8_t) islands;
	VEC(uint64_t) jumps; /* where they are written */
};

static void places_free(struct places *p)
{
	vec_free(&p->sites);
	vec_free(&p->islands);
	vec_free(&p->jumps);
}

/* As its file has it, but for the breakpoint of a uprobe in what is kept. */
static bool is_as_planned(const struct writing *w, const struct inside *inside, uint64_t function)
{
	uint8_t there[PROLOGUE_BYTES];
	size_t n = (size_t)inside->kept + inside->moved;
	if (!peek(w, function, there, n))
		return false;
	if (there[inside->before] == BREAKPOINT)
		there[inside->before] = inside->code[inside->before];
	return !memcmp(there, inside->code, n);
}

static bool has_jump(const struct writing *w, uint64_t address)
{
	uint8_t there[CALL_JUMP_BYTES];
	uint64_t to;
	if (!peek(w, address, there, sizeof(there)) || there[0] != 0xff || there[1] != 0x25)
		return false;
	memcpy(&to, there + CALL_JUMP_BYTES - sizeof(to), sizeof(to));
	return is_island(w, to);
}

static bool in_mapping(const struct proc_map *m, const struct site *site, uint64_t *function)
{
	uint64_t offset = site->offset - site->inside.before;
	*function = m->start + (offset - m->file_offset);
	return site->offset >= site->inside.before && offset >= m->file_offset &&
	       *function + PROLOGUE_BYTES <= m->end && *function >= m->start;
}

static struct call_objects objects_of(const struct plan *plan, const struct probe_desc *d)
{
	for (uint8_t i = 0; i < d->nargs; i++) {
		const struct arg_desc *a = &d->args[i];
		if ((a->fetch != FETCH_PYCODE && a->fetch != FETCH_PYSTRING) ||
		    a->layout >= plan->layouts.len)
			continue;
		const struct py_layout *l = &plan->layouts.data[a->layout];
		return (struct call_objects){
			.frame_code = l->frame_code,
			.code_name = l->code_qualname ? l->code_qualname : l->code_name,
			.str_length = l->str_length,
			.str_state = l->str_state,
			.str_ascii_data = l->str_ascii_data,
			.str_compact_data = l->str_compact_data,
			.code_filename = (uint8_t)l->code_filename,
			.frame_code_tagged = l->frame_code_tagged,
			.state_kind_shift = l->state_kind_shift,
			.state_ascii_shift = l->state_ascii_shift,
		};
	}
	return (struct call_objects){0};
}

static void add_place(const struct writing *w, struct places *p, const struct site *site,
		      const struct plan *plan, uint64_t function)
{
	const struct probe_desc *desc = &plan->probes.data[site->probe].desc;
	uint32_t i = w->used + (uint32_t)p->sites.len;
	uint8_t island[CALL_ISLAND_BYTES];
	memset(island, BREAKPOINT, sizeof(island));
	size_t original = make_island(w, i, &site->inside, function, island);
	*vec_push(&p->sites) = (struct call_site){
		.original = island_at(w, i) + original,
		.probe = site->probe,
		.stack_words = site->inside.stack_words,
		.layer = (uint8_t)site->layer,
		.flags = COOKIE_FLAGS(site->cookie),
		.trust = site->inside.trust,
		.function = function,
		.desc = *desc,
		.objects = objects_of(plan, desc),
	};
	for (size_t k = 0; k < sizeof(island); k++)
		*vec_push(&p->islands) = island[k];
	*vec_push(&p->jumps) = function + site->inside.kept;
}

/* The jumps last: each leads to what is there by then. */
static int write_places(struct writing *w, const struct places *p)
{
	uint32_t used = w->used + (uint32_t)p->sites.len;
	if (!poke(w, site_at(w, w->used), p->sites.data, p->sites.len * sizeof(*p->sites.data)) ||
	    !poke(w, island_at(w, w->used), p->islands.data, p->islands.len) ||
	    !poke(w, w->in->used + w->bias, &used, sizeof(used)))
		return -errno;
	for (size_t i = 0; i < p->jumps.len; i++) {
		uint8_t jump[CALL_JUMP_BYTES], *at = jump;
		put_jump(&at, island_at(w, w->used + (uint32_t)i));
		if (!poke(w, p->jumps.data[i], jump, sizeof(jump)))
			return -errno;
	}
	w->used = used;
	return 0;
}

static int probe_group(struct tracer *t, struct writing *w, const struct site_group *g,
		       const struct proc_map *m, size_t *strange)
{
	struct places p = {0};
	uint64_t function;
	for (size_t i = 0; i < g->sites.len && w->used + p.sites.len < CALL_SITES_MOST; i++) {
		const struct site *site = &g->sites.data[i];
		if (!in_mapping(m, site, &function))
			continue;
		if (is_as_planned(w, &site->inside, function))
			add_place(w, &p, site, &t->plan, function);
		else
			++*strange;
	}
	int rc = p.sites.len ? write_places(w, &p) : 0;
	w->in->stats.places += rc ? 0 : p.sites.len;
	places_free(&p);
	return rc;
}

/* ---- a scan ---- */

static bool has_places(const struct probed_file *f)
{
	for (size_t g = 0; g < f->groups.len; g++)
		if (f->groups.data[g].inside && f->groups.data[g].sites.len)
			return true;
	return false;
}

/* A forked child has what its parent had. */
static bool is_probed(const struct writing *w, const struct probed_file *f,
		      const struct proc_map *m)
{
	uint64_t function;
	for (size_t g = 0; g < f->groups.len; g++) {
		const struct site_group *group = &f->groups.data[g];
		for (size_t i = 0; group->inside && i < group->sites.len; i++)
			if (in_mapping(m, &group->sites.data[i], &function))
				return has_jump(w, function + group->sites.data[i].inside.kept);
	}
	return true; /* a mapping that has none of them */
}

static void tell(struct tracer *t, pid_t pid, const char *path, const char *why)
{
	char *text = xasprintf(
		"process %d: calls that are probed inside of it are not recorded: %s", pid, why);
	tracer_note(t, path, text);
	free(text);
}

static void tell_once(struct tracer *t, const struct scan *s, const struct probed_file *f,
		      const char *why)
{
	uint64_t known, key = (uint64_t)s->pid << 32 ^ f->inode;
	if (map64_get(&t->insider->told, key, &known))
		return;
	map64_set(&t->insider->told, key, 1);
	tell(t, s->pid, f->path, why);
}

/* Who loads a library is first seen with it when nobody holds it, often, and held right after. */
static void set_late(struct insider *in, const struct scan *s, const struct probed_file *f,
		     bool late)
{
	for (size_t i = in->late.len; i-- > 0;) {
		struct late *l = &in->late.data[i];
		if (l->pid != s->pid || l->inode != f->inode)
			continue;
		if (late)
			return;
		free(l->path);
		*l = in->late.data[--in->late.len];
	}
	if (late)
		*vec_push(&in->late) = (struct late){s->pid, f->inode, xstrdup(f->path)};
}

void insider_tell(struct tracer *t)
{
	struct insider *in = t->insider;
	for (size_t i = 0; i < in->late.len; i++) {
		tell(t, in->late.data[i].pid, in->late.data[i].path,
		     "it ran the library before it could be held");
		free(in->late.data[i].path);
	}
	in->late.len = 0;
}

void insider_processes(const struct insider *in, void (*visit)(void *ctx, pid_t pid), void *ctx)
{
	for (size_t i = 0; i < in->pids.len; i++)
		visit(ctx, in->pids.data[i]);
}

static bool find_shim(struct writing *w, const struct scan *s)
{
	const struct insider *in = w->in;
	for (size_t i = 0; i < s->kept.len; i++) {
		const struct proc_map *m = &s->kept.data[i];
		const char *slash = strrchr(m->path, '/');
		if (m->inode != in->inode || !slash || strcmp(slash + 1, CALL_SHIM) != 0 ||
		    in->islands_offset < m->file_offset ||
		    in->islands_offset - m->file_offset >= m->end - m->start)
			continue;
		w->bias = m->start + (in->islands_offset - m->file_offset) - in->islands;
		return peek(w, in->used + w->bias, &w->used, sizeof(w->used)) &&
		       w->used <= CALL_SITES_MOST;
	}
	return false;
}

static void probe_mapping(struct tracer *t, const struct scan *s, struct writing *w,
			  const struct probed_file *f, const struct proc_map *m)
{
	size_t strange = 0;
	int rc = 0;
	for (size_t g = 0; g < f->groups.len && !rc; g++)
		if (f->groups.data[g].inside)
			rc = probe_group(t, w, &f->groups.data[g], m, &strange);
	if (rc)
		tell_once(t, s, f, strerror(-rc));
	else if (w->used == CALL_SITES_MOST)
		tell_once(t, s, f, "there are too many");
	else if (strange)
		tell_once(t, s, f, "its code is not as the file has it");
	uint64_t known;
	set_late(w->in, s, f, false);
	if (map64_get(&w->in->processes, (uint64_t)s->pid, &known))
		return;
	map64_set(&w->in->processes, (uint64_t)s->pid, 1);
	*vec_push(&w->in->pids) = s->pid;
}

void insider_probe(struct tracer *t, const struct scan *s)
{
	char path[64];
	struct writing w = {.in = t->insider, .memory = -1};
	uint64_t start_ns = monotonic_ns();
	bool has_shim = false;
	for (size_t i = 0; i < s->files.len; i++) {
		const struct probed_file *f = s->files.data[i];
		const struct proc_map *m = &s->kept.data[s->map_of.data[i]];
		if (!has_places(f))
			continue;
		if (w.memory < 0) {
			snprintf(path, sizeof(path), "/proc/%d/mem", s->pid);
			w.memory = open(path, O_RDWR | O_CLOEXEC);
			has_shim = w.memory >= 0 && find_shim(&w, s);
		}
		if (w.memory < 0)
			tell_once(t, s, f, strerror(errno));
		else if (!has_shim)
			tell_once(t, s, f, "it has not loaded " CALL_SHIM);
		else if (is_probed(&w, f, m))
			set_late(w.in, s, f, false);
		else if (!s->sequence)
			set_late(w.in, s, f, true);
		else
			probe_mapping(t, s, &w, f, m);
	}
	if (w.memory >= 0)
		close(w.memory);
	w.in->stats.ns += monotonic_ns() - start_ns;
}
