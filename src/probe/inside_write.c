/* inside_write.c - probes inside of processes that are held while they map a library: nobody runs
 * its code then. What is written is inside_places.c's. */
#include "probe/inside_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/inside_running.h"
#include "symbolize/elf_file.h"
#include "wire/call_ring.h"

#define NO_SHIM "it has not loaded " CALL_SHIM

static int find_symbols(struct insider *in, const char *path, struct err *e)
{
	struct elf_file *elf;
	struct elf_symbol sites, islands, entry, used, stack, text, header, go, switches;
	int rc = elf_file_open(&elf, path, e);
	if (rc)
		return rc;
	if (elf_file_find(elf, CALL_SITES, &sites) && elf_file_find(elf, CALL_ISLANDS, &islands) &&
	    elf_file_find(elf, CALL_ENTRY, &entry) && elf_file_find(elf, CALL_USED, &used) &&
	    elf_file_find(elf, CALL_STACK, &stack) && elf_file_find(elf, CALL_TEXT, &text) &&
	    elf_file_find(elf, CALL_HEADER, &header) && elf_file_find(elf, CALL_GO, &go) &&
	    elf_file_find(elf, CALL_SWITCHES, &switches)) {
		in->sites = sites.address;
		in->islands = islands.address;
		in->islands_offset = islands.file_offset;
		in->entry = entry.address;
		in->used = used.address;
		in->header = header.address;
		in->go = go.address;
		in->switches = switches.address;
		in->stack_offset = stack.file_offset;
		in->text_offset = text.file_offset;
	} else {
		rc = err_set(e, ENOEXEC, "%s is not what it should be", path);
	}
	elf_file_close(elf);
	return rc;
}

int insider_open(struct insider **ret, const char *shim, const enum trace_mode *modes,
		 struct err *e)
{
	struct stat st;
	struct insider *in = xcalloc(1, sizeof(*in));
	in->modes = modes;
	in->stack_program = in->text_program = -1;
	int rc = stat(shim, &st) ? err_set(e, errno, "cannot read %s: %s", shim, strerror(errno))
				 : find_symbols(in, shim, e);
	if (rc) {
		free(in);
		return rc;
	}
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
	map64_free(&in->copies);
	map64_free(&in->telling);
	map64_free(&in->outside);
	map64_free(&in->said_outside);
	vec_free(&in->live);
	free(in);
}

int insider_take_stacks(struct insider *in, enum attach_method method, int program, struct err *e)
{
	const struct hook_site site = {.offset = in->stack_offset};
	in->method = method;
	in->stack_program = program;
	return attach_hooks(&in->links, method, program, in->path, &site, 1, e);
}

int insider_take_texts(struct insider *in, enum attach_method method, int program, struct err *e)
{
	const struct hook_site site = {.offset = in->text_offset};
	in->method = method;
	in->text_program = program;
	return attach_hooks(&in->links, method, program, in->path, &site, 1, e);
}

void insider_stats(const struct insider *in, struct insider_stats *ret)
{
	*ret = in ? in->stats : (struct insider_stats){0};
	if (in)
		ret->processes = in->processes.len;
}

/* ---- one file ---- */

/* The jumps last: each leads to what is there by then. */
static int write_places(struct writing *w, const struct places *p)
{
	int rc = places_write(w, p);
	for (size_t i = 0; i < p->jumps.len && !rc; i++) {
		uint8_t jump[CALL_JUMP_BYTES];
		place_jump(w, w->used + (uint32_t)i, p->jumps.data[i], jump);
		if (!inside_poke(w, p->jumps.data[i], jump, sizeof(jump)))
			rc = -errno;
	}
	w->used += rc ? 0 : (uint32_t)p->sites.len;
	return rc;
}

static int probe_group(struct tracer *t, struct writing *w, const struct site_group *g,
		       const struct proc_map *m, size_t *strange)
{
	struct places p = {0};
	uint64_t function;
	for (size_t i = 0; i < g->sites.len && w->used + p.sites.len < CALL_SITES_MOST; i++) {
		const struct site *site = &g->sites.data[i];
		if (!inside_in_mapping(m, site, &function))
			continue;
		if (inside_is_as_planned(w, &site->inside, function))
			places_add(w, &p, site, &t->plan, function);
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
	uint32_t island;
	for (size_t g = 0; g < f->groups.len; g++) {
		const struct site_group *group = &f->groups.data[g];
		for (size_t i = 0; group->inside && i < group->sites.len; i++)
			if (inside_in_mapping(m, &group->sites.data[i], &function))
				return inside_has_jump(
					w, function + group->sites.data[i].inside.kept, &island);
	}
	return true; /* a mapping that has none of them */
}

void inside_note(struct tracer *t, pid_t pid, const char *path, const char *why)
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
	inside_note(t, s->pid, f->path, why);
}

/* Who loads a library is first seen with it when nobody holds it, often, and held right after; a
 * program before its dynamic linker has loaded ours. why: NULL, it has its probes. */
static void set_late(struct insider *in, const struct scan *s, const struct probed_file *f,
		     const char *why)
{
	for (size_t i = in->late.len; i-- > 0;) {
		struct late *l = &in->late.data[i];
		if (l->pid != s->pid || l->inode != f->inode)
			continue;
		if (why)
			return;
		free(l->path);
		*l = in->late.data[--in->late.len];
	}
	if (why)
		*vec_push(&in->late) = (struct late){s->pid, f->inode, xstrdup(f->path), why};
}

void insider_tell(struct tracer *t)
{
	struct insider *in = t->insider;
	for (size_t i = 0; i < in->late.len; i++) {
		inside_note(t, in->late.data[i].pid, in->late.data[i].path, in->late.data[i].why);
		free(in->late.data[i].path);
	}
	in->late.len = 0;
}

void insider_processes(const struct insider *in, void (*visit)(void *ctx, pid_t pid), void *ctx)
{
	for (size_t i = 0; i < in->pids.len; i++)
		visit(ctx, in->pids.data[i]);
}

void inside_touched(struct insider *in, pid_t pid)
{
	for (size_t i = 0; i < in->live.len; i++)
		if (in->live.data[i] == pid)
			return;
	*vec_push(&in->live) = pid;
}

void inside_add_process(struct insider *in, pid_t pid)
{
	uint64_t known;
	map64_set(&in->telling, (uint64_t)pid, 1);
	inside_touched(in, pid);
	if (map64_get(&in->processes, (uint64_t)pid, &known))
		return;
	map64_set(&in->processes, (uint64_t)pid, 1);
	*vec_push(&in->pids) = pid;
}

/* From here on the kernel's probes pass over it, if it has them for others. */
static void mark_telling(struct tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint8_t value = TARGET_IS_TRACED | TARGET_TELLS_INSIDE;
	bpf_map_update_elem(bpf_map__fd(t->bpf->maps.targets), &key, &value, BPF_EXIST);
	__atomic_fetch_add(&t->bpf->bss->exclusions, 1, __ATOMIC_SEQ_CST);
}

static void tell_outside(struct tracer *t, const struct probed_file *f, pid_t pid, const char *why)
{
	struct insider *in = t->insider;
	uint64_t known;
	if (map64_get(&in->said_outside, f->inode, &known)) /* a job may start thousands */
		return;
	map64_set(&in->said_outside, f->inode, 1);
	char *text = xasprintf("process %d, and maybe others: the kernel has the probes of calls "
			       "that are told inside of others: %s",
			       pid, why);
	tracer_note(t, f->path, text);
	free(text);
}

/* The kernel has its probes: inside_settle. */
static void set_outside(struct tracer *t, const struct scan *s, const struct probed_file *f,
			const char *why)
{
	struct insider *in = t->insider;
	set_late(in, s, f, NULL);
	map64_del(&in->telling, (uint64_t)s->pid); /* the program before it told */
	map64_set(&in->outside, (uint64_t)s->pid, 1);
	tell_outside(t, f, s->pid, why);
}

void insider_probe_static(struct tracer *t, struct probed_file *f, pid_t pid)
{
	f->outside_ns = monotonic_ns();
	if (f->state == FILE_HOOKED)
		tracer_probe_file(t, f);
	inside_settle(t);
	if (has_places(f))
		tell_outside(t, f, pid, NO_SHIM);
}

static void probe_mapping(struct tracer *t, const struct scan *s, struct writing *w,
			  const struct probed_file *f, const struct proc_map *m)
{
	size_t strange = 0;
	int rc = 0;
	for (size_t g = 0; g < f->groups.len && !rc; g++)
		if (f->groups.data[g].inside)
			rc = probe_group(t, w, &f->groups.data[g], m, &strange);
	if (rc && !w->used) { /* nothing is inside of it, and the kernel may have all */
		set_outside(t, s, f, strerror(-rc));
		return;
	}
	if (rc)
		tell_once(t, s, f, strerror(-rc));
	else if (w->used == CALL_SITES_MOST)
		tell_once(t, s, f, "there are too many");
	else if (strange)
		tell_once(t, s, f, "its code is not as the file has it");
	set_late(w->in, s, f, NULL);
	map64_del(&w->in->outside, (uint64_t)s->pid);
	inside_add_process(w->in, s->pid);
	mark_telling(t, s->pid);
}

/* Others have none: the kernel tells of them. */
static bool tells_inside(const struct insider *in, pid_t pid)
{
	uint64_t known;
	return map64_get(&in->telling, (uint64_t)pid, &known);
}

/* Nothing is loaded beside it: no dynamic linker, which would load the library. */
static bool is_static(const proc_maps_t *maps)
{
	uint64_t inode = 0;
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		if (m->inode && inode && m->inode != inode)
			return false;
		inode = m->inode ? m->inode : inode;
	}
	return inode != 0;
}

void inside_tell_switches(const struct writing *w)
{
	const uint32_t yes = 1;
	inside_poke(w, w->in->switches + w->bias, &yes, sizeof(yes));
}

void insider_probe(struct tracer *t, const struct scan *s)
{
	char path[64];
	struct writing w = {.in = t->insider, .pid = s->pid, .memory = -1};
	uint64_t start_ns = monotonic_ns();
	bool has_shim = false, any = false;
	for (size_t i = 0; i < s->files.len; i++) {
		const struct probed_file *f = s->files.data[i];
		const struct proc_map *m = &s->kept.data[s->map_of.data[i]];
		if (!has_places(f) || (t->opts.inside_running && !tells_inside(t->insider, s->pid)))
			continue;
		if (w.memory < 0) {
			snprintf(path, sizeof(path), "/proc/%d/mem", s->pid);
			w.memory = open(path, O_RDWR | O_CLOEXEC);
			has_shim = w.memory >= 0 && inside_find_library(&w, &s->kept);
			if (has_shim && s->copies_stacks)
				inside_tell_switches(&w);
		}
		any = true;
		if (w.memory < 0 && (errno == ENOENT || errno == ESRCH))
			break; /* it has just ended */
		if (w.memory < 0)
			set_outside(t, s, f, strerror(errno));
		else if (!has_shim && (s->sequence || is_static(&s->kept)))
			set_outside(t, s, f, NO_SHIM);
		else if (!has_shim)
			set_late(w.in, s, f, NO_SHIM);
		else if (is_probed(&w, f, m))
			set_late(w.in, s, f, NULL);
		else if (!s->sequence)
			set_late(w.in, s, f, "it ran the library before it could be held");
		else
			probe_mapping(t, s, &w, f, m);
	}
	if (!any) /* it executes something else now */
		map64_del(&w.in->outside, (uint64_t)s->pid);
	if (w.memory >= 0)
		close(w.memory);
	w.in->stats.ns += monotonic_ns() - start_ns;
}
