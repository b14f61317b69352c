/* scan.c - finds what processes have mapped, and probes each file once.
 *
 * Order matters: in every process the exception guard is attached before any return
 * probe, and a probe is told to the listener before it is attached. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/tracer_impl.h"

static void note(struct tracer *t, const char *subject, const char *reason)
{
	if (t->opts.events.on_note)
		t->opts.events.on_note(t->opts.events.ctx, subject, reason);
}

#define HIDDEN_UNWINDER                                                                            \
	"its exception unwinder is linked in and stripped of its symbols, so exceptions could "    \
	"not pass traced functions"

static bool section_has(const struct elf_file *elf, const char *section, const char *text)
{
	const uint8_t *data;
	size_t len;
	uint64_t address;
	return elf_file_section(elf, section, &data, &len, &address) &&
	       memmem(data, len, text, strlen(text));
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

static void tell_plan(struct tracer *t)
{
	int layouts = bpf_map__fd(t->bpf->maps.py_layouts);
	for (; t->layouts_told < t->plan.layouts.len; t->layouts_told++) {
		uint32_t key = (uint32_t)t->layouts_told;
		bpf_map_update_elem(layouts, &key, &t->plan.layouts.data[key], BPF_ANY);
	}
	int descs = bpf_map__fd(t->bpf->maps.probes);
	for (; t->probes_told < t->plan.probes.len; t->probes_told++) {
		const struct probe_info *info = &t->plan.probes.data[t->probes_told];
		if (info->desc.nargs || info->desc.stack_chance)
			bpf_map_update_elem(descs, &info->id, &info->desc, BPF_ANY);
		if (t->opts.events.on_probe)
			t->opts.events.on_probe(t->opts.events.ctx, info);
	}
}

static struct site_group *group_of(struct probed_file *f, enum layer layer,
				   enum callback by_callback)
{
	for (size_t i = 0; i < f->groups.len; i++) {
		struct site_group *known = &f->groups.data[i];
		if (known->layer == layer && known->by_callback == by_callback)
			return known;
	}
	struct site_group *g = vec_push(&f->groups);
	g->layer = layer;
	g->by_callback = by_callback;
	return g;
}

/* ---- hooks: exception guard and dynamic linker ---- */

/* Hooks those of the symbols that the file defines; true when there were any. */
static bool hook_symbols(struct tracer *t, struct probed_file *f, const struct elf_file *elf,
			 const char *open_path, const struct bpf_program *prog,
			 const char *const *symbols, size_t n)
{
	struct hook_site sites[4];
	struct elf_symbol s, debug;
	struct err e;
	size_t found = 0;
	for (size_t i = 0; i < n; i++) {
		if (!elf_file_find(elf, symbols[i], &s) || !s.is_function)
			continue;
		sites[found] = (struct hook_site){.offset = s.file_offset};
		if (prog == t->bpf->progs.maps_changed && elf_file_find(elf, "_r_debug", &debug))
			sites[found].cookie = debug.address - s.address;
		found++;
	}
	if (!found)
		return false;
	if (attach_hooks(&f->hooks, t->method, bpf_program__fd(prog), open_path, sites, found,
			 &e)) {
		f->unguarded |= prog == t->bpf->progs.unwind_begins;
		note(t, f->path, e.msg);
	}
	return true;
}

static void hook_guard(struct tracer *t, struct probed_file *f, const struct elf_file *elf,
		       const char *open_path)
{
	static const char *const begins[] = {"_Unwind_RaiseException", "_Unwind_Resume",
					     "_Unwind_Resume_or_Rethrow", "_Unwind_ForcedUnwind"};
	static const char *const ends[] = {"__cxa_begin_catch"};
	size_t had = f->hooks.fds.len;
	if (hook_symbols(t, f, elf, open_path, t->bpf->progs.unwind_begins, begins, 4)) {
		for (size_t i = had; i < f->hooks.fds.len; i++)
			tracer_guard_keep(t, f->hooks.fds.data[i]);
	}
	hook_symbols(t, f, elf, open_path, t->bpf->progs.unwind_ends, ends, 1);
}

static void hook_loader(struct tracer *t, struct probed_file *f, const struct elf_file *elf,
			const char *open_path)
{
	static const char *const hooks[] = {"_dl_debug_state"};
	hook_symbols(t, f, elf, open_path, t->bpf->progs.maps_changed, hooks, 1);
}

int tracer_hook_file(struct tracer *t, struct probed_file *f, const char *open_path, struct err *e)
{
	if (f->hooked)
		return 0;
	struct elf_file *elf;
	int rc = elf_file_open(&elf, open_path, e);
	if (rc)
		return rc;
	f->hooked = true;
	f->hides_unwinder = hides_unwinder(elf);
	snprintf(f->build_id, sizeof(f->build_id), "%s", elf_file_build_id(elf));
	if (t->can_hold) {
		hook_guard(t, f, elf, open_path);
		hook_loader(t, f, elf, open_path);
	}
	elf_file_close(elf);
	return 0;
}

/* ---- probes ---- */

/* Attaches what can be attached: one place that the kernel refuses must not cost the
 * others. Returns how many were refused; e holds the last reason. */
static size_t attach_most(struct attach_links *links, struct tracer *t, const char *path,
			  const struct site *sites, size_t n, struct err *e)
{
	struct attach_links some = {0};
	if (!attach_sites(&some, t->method, &t->programs, path, sites, n, e)) {
		for (size_t i = 0; i < some.fds.len; i++)
			*vec_push(&links->fds) = some.fds.data[i];
		vec_free(&some.fds);
		return 0;
	}
	if (n <= 1)
		return n;
	size_t half = n / 2;
	return attach_most(links, t, path, sites, half, e) +
	       attach_most(links, t, path, sites + half, n - half, e);
}

static int attach_groups(struct tracer *t, struct probed_file *f, struct err *e)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	uint64_t start_ns = monotonic_ns();
	size_t refused = 0;
	for (size_t i = 0; i < f->groups.len; i++) {
		struct site_group *g = &f->groups.data[i];
		if (t->off_layers & 1u << g->layer || t->off_callbacks & 1u << g->by_callback)
			continue;
		refused += attach_most(&g->links, t, path, g->sites.data, g->sites.len, e);
		g->attached = true;
	}
	t->attach_ns += monotonic_ns() - start_ns;
	return refused ? err_wrap(e, -EIO, "%zu places are not traced", refused) : 0;
}

int tracer_probe_file(struct tracer *t, struct probed_file *f, const char *open_path, struct err *e)
{
	if (f->planned)
		return 0;
	f->planned = true;
	if (!plan_wants(&t->plan, f->path))
		return 0;
	uint64_t start_ns = monotonic_ns();
	struct elf_file *elf;
	struct file_plan fp = {0};
	int rc = elf_file_open(&elf, open_path, e);
	if (rc)
		return rc;
	if (f->hides_unwinder)
		rc = err_set(e, ENOTSUP, "not traced: " HIDDEN_UNWINDER);
	else
		rc = plan_file(&t->plan, elf, f->path, &fp, e);
	elf_file_close(elf);
	t->plan_ns += monotonic_ns() - start_ns;
	if (rc)
		return rc;
	for (size_t i = 0; i < fp.sites.len; i++) {
		const struct site *site = &fp.sites.data[i];
		enum callback by_callback = t->plan.probes.data[site->probe].by_callback;
		*vec_push(&group_of(f, site->layer, by_callback)->sites) = *site;
	}
	for (size_t i = 0; i < fp.results.len; i++)
		*vec_push(&f->results) = fp.results.data[i];
	file_plan_free(&fp);
	tell_plan(t);
	return f->groups.len ? attach_groups(t, f, e) : 0;
}

/* ---- processes ---- */

static void tell_maps(struct tracer *t, pid_t pid, const proc_maps_t *maps)
{
	if (t->unwinder)
		unwinder_look(t->unwinder, pid);
	if (!t->opts.events.on_maps)
		return;
	proc_maps_t copy = {0};
	for (size_t i = 0; i < maps->len; i++) {
		struct proc_map *m = vec_push(&copy);
		*m = maps->data[i];
		m->path = xstrdup(m->path);
	}
	const char **build_ids = xcalloc(maps->len, sizeof(*build_ids));
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		const struct probed_file *f = files_find(&t->files, m->device, m->inode);
		build_ids[i] = f ? f->build_id : "";
	}
	t->opts.events.on_maps(t->opts.events.ctx, pid, &copy, build_ids);
	proc_maps_free(&copy);
	free(build_ids);
}

/* The registry entry of a mapping that was not met before. Some file systems show another
 * device number in /proc/PID/maps than stat(2) gives (btrfs, overlay): the file may be
 * known by the latter. */
static struct probed_file *file_of_map(struct tracer *t, const struct proc_map *m,
				       const struct stat *st)
{
	struct probed_file *known = files_find(&t->files, st->st_dev, st->st_ino);
	if (known) {
		files_alias(&t->files, m->device, m->inode, known);
		return known;
	}
	return files_add(&t->files, m->device, m->inode, m->path);
}

/* Libraries that run code on stacks of their own making. The kernel takes a thread's
 * pending return probes for one stack: a switch in between makes a call return to where
 * another was called from. */
static const char *const stack_switchers[] = {"_greenlet*.so*", "libboost_context*.so*",
					      "libboost_coroutine*.so*", "libboost_fiber*.so*"};

/* Takes a process out of tracing for good, and says why. */
static void exclude(struct tracer *t, pid_t pid, const char *file, const char *why)
{
	uint32_t key = (uint32_t)pid;
	uint8_t yes = 1;
	char subject[32], reason[320];
	if (bpf_map_update_elem(bpf_map__fd(t->bpf->maps.excluded), &key, &yes, BPF_NOEXIST))
		return; /* it is out already */
	__atomic_add_fetch(&t->bpf->bss->exclusions, 1, __ATOMIC_SEQ_CST);
	snprintf(subject, sizeof(subject), "process %d", pid);
	snprintf(reason, sizeof(reason), "not traced since it loaded %.120s: %s%s", file, why,
		 t->method == ATTACH_SESSION ? "" : "; all probes were taken off");
	note(t, subject, reason);
	/* other links cannot leave a process out: they reach all that map the file */
	if (t->method != ATTACH_SESSION)
		tracer_switch(t, ~0u, false, NULL, NULL, NULL);
}

static bool switches_stacks(const char *path)
{
	const char *slash = strrchr(path, '/');
	for (size_t k = 0; slash && k < sizeof(stack_switchers) / sizeof(char *); k++)
		if (!fnmatch(stack_switchers[k], slash + 1, 0))
			return true;
	return false;
}

static void exclude_unsafe(struct tracer *t, pid_t pid, const proc_maps_t *maps)
{
	char exe[4096] = "";
	proc_exe("/proc", pid, exe, sizeof(exe));
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		if (switches_stacks(m->path))
			exclude(t, pid, strrchr(m->path, '/') + 1,
				"it switches stacks, which return probes do not survive");
		/* a library's hidden unwinder handles its own exceptions; a program's handles all
		 * that its libraries call back into */
		const struct probed_file *f =
			m->executable ? files_find(&t->files, m->device, m->inode) : NULL;
		if (f && f->hides_unwinder && !strcmp(m->path, exe))
			exclude(t, pid, m->path, HIDDEN_UNWINDER);
	}
}

/* From here on nobody who maps the file is held for it (bpf/mappings.h). Where a process is judged
 * by it, each one is. */
static void tell_known(struct tracer *t, const struct proc_map *m, const struct probed_file *f)
{
	struct known_file key = {.device = (uint64_t)gnu_dev_major(m->device) << 20 |
					   gnu_dev_minor(m->device),
				 .inode = m->inode};
	uint8_t yes = 1;
	if (f->planned && f->fd >= 0 && !f->unguarded && !f->hides_unwinder &&
	    !switches_stacks(m->path))
		bpf_map_update_elem(bpf_map__fd(t->bpf->maps.known_files), &key, &yes, BPF_ANY);
}

/* One pass over the maps: hooks first, then probes. Returns how many files were new. */
/* The registry entry of a mapping, opened once: what is parsed is what is attached to, and
 * an inode that is held open is not given to another file. NULL: could not be opened. */
static struct probed_file *open_mapped(struct tracer *t, pid_t pid, const struct proc_map *m,
				       int *fresh)
{
	struct probed_file *f = files_find(&t->files, m->device, m->inode);
	if (f)
		return f;
	struct stat st;
	int fd = proc_map_open("/proc", pid, m, &st);
	f = fd < 0 ? files_add(&t->files, m->device, m->inode, m->path) : file_of_map(t, m, &st);
	(*fresh)++;
	if (f->fd < 0)
		f->fd = fd;
	else if (fd >= 0)
		close(fd);
	return f;
}

static int hook_or_probe(struct tracer *t, struct probed_file *f, bool probe, struct err *e)
{
	char path[64];
	if (f->fd < 0)
		return err_set(e, ENOENT, "cannot be opened");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	return probe ? tracer_probe_file(t, f, path, e) : tracer_hook_file(t, f, path, e);
}

/* False when the exception guard could not be attached: nothing may be probed then. */
static bool scan_pass(struct tracer *t, pid_t pid, const proc_maps_t *maps, bool probe, int *fresh)
{
	bool guarded = true;
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		if (!m->executable || !m->inode)
			continue;
		struct probed_file *f = open_mapped(t, pid, m, fresh);
		if (probe ? f->planned : f->hooked) {
			guarded &= !f->unguarded;
			continue;
		}
		struct err e = {0};
		int rc = hook_or_probe(t, f, probe, &e);
		if (rc && rc != -ENOEXEC && (plan_wants(&t->plan, f->path) || f->unguarded))
			note(t, f->path, e.msg);
		f->hooked = true; /* told once */
		guarded &= !f->unguarded;
		if (probe)
			tell_known(t, m, f);
	}
	return guarded;
}

int tracer_scan_pid(struct tracer *t, pid_t pid, struct err *e)
{
	proc_maps_t maps = {0};
	int rc = proc_maps_read("/proc", pid, &maps, e);
	if (rc)
		return rc;
	int fresh = 0;
	bool guarded = scan_pass(t, pid, &maps, false, &fresh);
	exclude_unsafe(t, pid, &maps);
	tell_maps(t, pid, &maps); /* before the first call is seen: names are looked up by them */
	if (guarded)
		scan_pass(t, pid, &maps, true, &fresh);
	proc_maps_free(&maps);
	return fresh;
}

/* A file by its path, as registered by device and inode in the form of /proc/PID/maps. */
static struct probed_file *file_by_path(struct tracer *t, const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return NULL;
	struct probed_file *f = files_find(&t->files, st.st_dev, st.st_ino);
	if (!f)
		f = files_add(&t->files, st.st_dev, st.st_ino, path);
	if (f->fd < 0)
		f->fd = open(path, O_RDONLY | O_CLOEXEC);
	return f;
}

void tracer_hook_loaders(struct tracer *t)
{
	static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2",
					      "/lib/ld-musl-x86_64.so.1"};
	char real[4096];
	struct err ignored; /* a host may lack either */
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
		struct probed_file *f = realpath(loaders[i], real) ? file_by_path(t, real) : NULL;
		if (f)
			hook_or_probe(t, f, false, &ignored);
	}
}

int tracer_prepare_exec(struct tracer *t, const char *path, struct err *e)
{
	char real[4096];
	if (!realpath(path, real))
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	struct elf_file *elf;
	struct err ignored;
	int rc = elf_file_open(&elf, real, &ignored);
	if (rc)
		return 0; /* a script: its interpreter comes by exec */
	const char *interpreter = elf_file_interpreter(elf);
	struct probed_file *exe = file_by_path(t, real);
	struct probed_file *linker = NULL;
	char linker_path[4096];
	if (interpreter && realpath(interpreter, linker_path))
		linker = file_by_path(t, linker_path);
	elf_file_close(elf);
	if (linker)
		rc = hook_or_probe(t, linker, false, e);
	if (!rc && exe)
		rc = hook_or_probe(t, exe, false, e);
	/* a dynamic executable is probed when the linker holds it, after the exception guard
	 * of its libraries; nobody holds a static one */
	if (!rc && exe && !exe->unguarded && !(linker && t->can_hold) &&
	    hook_or_probe(t, exe, true, e))
		note(t, exe->path, e->msg);
	return rc;
}
