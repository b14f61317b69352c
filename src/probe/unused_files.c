/* unused_files.c - gives back files that nobody has had mapped for long, with what is attached to
 * them. What was found in them is kept, by entry of the catalog.
 *
 * An open file keeps its room on the disk when it is deleted, and its file system from being
 * unmounted; so does a probe in it. Who maps it again is like the first that does: he is held until
 * it is read, hooked and probed. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/tracer_impl.h"

#define UNUSED_NS      60000000000ULL
#define LOOK_EVERY_NS  20000000000ULL
#define LOOKED_ON_END  8
#define CLOSED_AT_ONCE 64 /* they are many where a host builds programs */

/* ---- what was found ---- */

static void keep_result(struct tracer *t, const char *path, const struct entry_result *r)
{
	for (size_t i = 0; i < t->given_back.len; i++) {
		struct given_back *known = &t->given_back.data[i];
		if (known->result.entry != r->entry)
			continue;
		if (r->sites || !known->result.sites) {
			free(known->path);
			*known = (struct given_back){xstrdup(path), *r};
		}
		return;
	}
	*vec_push(&t->given_back) = (struct given_back){xstrdup(path), *r};
}

static void keep_results(struct tracer *t, const struct probed_file *f)
{
	for (size_t i = 0; !f->expected && i < f->facts.plan.results.len; i++)
		keep_result(t, f->path, &f->facts.plan.results.data[i]);
}

typedef void result_visit(void *ctx, const char *path, const struct entry_result *r);

static bool is_back(const struct tracer *t, const char *path)
{
	for (size_t i = 0; i < t->files.list.len; i++)
		if (!strcmp(t->files.list.data[i]->path, path))
			return true;
	return false;
}

void tracer_results(const struct tracer *t, result_visit *visit, void *ctx)
{
	for (size_t i = 0; i < t->files.list.len; i++) {
		const struct probed_file *f = t->files.list.data[i];
		for (size_t r = 0; !f->expected && r < f->facts.plan.results.len; r++)
			visit(ctx, f->path, &f->facts.plan.results.data[r]);
	}
	for (size_t i = 0; i < t->given_back.len; i++)
		if (!is_back(t, t->given_back.data[i].path))
			visit(ctx, t->given_back.data[i].path, &t->given_back.data[i].result);
}

/* ---- taking off ---- */

/* Links that go, in a thread of their own: each waits until no program runs in the kernel, and so
 * for every task that is held. Who maps the file meanwhile must not wait for that; for as long as
 * it takes his calls are told by both. */
struct leaving {
	struct attach_links links;
	pthread_t thread;
	bool done; /* atomic */
};

static void *detach(void *arg)
{
	struct leaving *l = arg;
	attach_detach(&l->links);
	__atomic_store_n(&l->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_done(const struct leaving *l)
{
	return __atomic_load_n(&l->done, __ATOMIC_ACQUIRE);
}

static void take_links(struct attach_links *from, struct attach_links *ret)
{
	for (size_t i = 0; i < from->fds.len; i++)
		*vec_push(&ret->fds) = from->fds.data[i];
	vec_free(&from->fds);
}

/* Hooks go after probes: see attach_detach. */
static void detach_behind(struct tracer *t, struct probed_file *f)
{
	struct leaving *l = xcalloc(1, sizeof(*l));
	take_links(&f->hooks, &l->links);
	for (size_t g = 0; g < f->groups.len; g++)
		take_links(&f->groups.data[g].links, &l->links);
	if (l->links.fds.len && !thread_start(&l->thread, detach, l, "eacgm-detach")) {
		*vec_push(&t->leaving) = l;
		return;
	}
	detach(l);
	free(l);
}

/* Threads that have ended, or all. */
static void join(struct tracer *t, bool all)
{
	for (size_t i = t->leaving.len; i-- > 0;) {
		struct leaving *l = t->leaving.data[i];
		if (!all && !is_done(l))
			continue;
		pthread_join(l->thread, NULL);
		free(l);
		t->leaving.data[i] = t->leaving.data[--t->leaving.len];
	}
}

void unused_free(struct tracer *t)
{
	join(t, true);
	vec_free(&t->leaving);
	for (size_t i = 0; i < t->given_back.len; i++)
		free(t->given_back.data[i].path);
	vec_free(&t->given_back);
}

/* Processes are held again that map it. */
static void forget_known(struct tracer *t, struct probed_file *f)
{
	struct known_file key = known_file_of(f->device, f->inode);
	if (f->known)
		bpf_map_delete_elem(bpf_map__fd(t->bpf->maps.known_files), &key);
	f->known = false;
}

/* The guard's share of a hook goes first: who closes a link last waits for its programs. */
static void let_go(struct tracer *t, struct probed_file *f)
{
	forget_known(t, f);
	if (f->facts.hooks[HOOK_UNWIND_BEGINS].n && f->hooks.fds.len)
		tracer_guard_drop(t, GUARD_OWNER_FILE | f->number);
	for (size_t g = 0; g < f->groups.len; g++)
		t->places_before += f->groups.data[g].sites.len;
	detach_behind(t, f);
	keep_results(t, f);
	files_remove(&t->files, f);
	t->shedding.loads.len = 0;
}

void tracer_give_back(struct tracer *t)
{
	for (struct probed_file *f; (f = files_surplus(&t->files));)
		let_go(t, f);
}

/* ---- who has them mapped ---- */

/* Records of processes can be lost, and one that maps known files all the time is told of so often.
 * So before a file goes in which something is attached, everybody is looked at. */

static bool may_go(const struct probed_file *f, uint64_t before_ns)
{
	return files_is_unused(f, before_ns) && !files_is_plain(f) && !f->known;
}

static bool is_any_to_go(const struct tracer *t, uint64_t before_ns)
{
	for (size_t i = 0; i < t->files.list.len; i++)
		if (may_go(t->files.list.data[i], before_ns))
			return true;
	return false;
}

static void look_at(struct tracer *t, pid_t pid, uint64_t before_ns)
{
	proc_maps_t maps = {0};
	struct err gone;
	bool missed = false;
	if (pid == getpid() || proc_code_read("/proc", pid, &maps, &gone))
		return;
	for (size_t i = 0; i < maps.len; i++) {
		const struct proc_map *m = &maps.data[i];
		struct probed_file *f =
			m->inode ? files_find(&t->files, m->device, m->inode) : NULL;
		if (!f || !may_go(f, before_ns))
			continue;
		f->unused_ns = monotonic_ns();
		missed = true;
	}
	if (missed && (t->opts.all || targets_known(&t->targets, pid)))
		scan_soon(t, pid);
	proc_maps_free(&maps);
}

static void forget_ended(struct tracer *t)
{
	pids_t ended = {0};
	targets_ended_unseen(&t->targets, &ended);
	for (size_t i = 0; i < ended.len; i++) {
		if (t->unwinder)
			unwinder_forget(t->unwinder, ended.data[i]);
		scan_forget(t, ended.data[i]);
	}
	vec_free(&ended);
}

/* False where it is not time yet. */
static bool look_at_all(struct tracer *t, uint64_t now_ns, uint64_t before_ns)
{
	pids_t all = {0};
	if (now_ns - t->looked_ns < LOOK_EVERY_NS)
		return false;
	t->looked_ns = now_ns;
	forget_ended(t);
	if (is_any_to_go(t, before_ns))
		proc_all("/proc", &all);
	for (size_t i = 0; i < all.len; i++) {
		look_at(t, all.data[i], before_ns);
		if (i % LOOKED_ON_END == LOOKED_ON_END - 1)
			tracer_control(t); /* held tasks wait for this thread */
	}
	vec_free(&all);
	return true;
}

/* ---- in turns ---- */

/* The programs hear of it a turn before a file goes: who maps it from then on is held until it is
 * looked at. Links that are not of sessions are too many, and reach processes that are none of
 * ours. */
void tracer_close_unused(struct tracer *t, bool all)
{
	uint64_t now_ns = monotonic_ns();
	size_t left = CLOSED_AT_ONCE;
	join(t, false);
	if (now_ns < UNUSED_NS)
		return;
	uint64_t before_ns = now_ns - UNUSED_NS;
	all &= t->method == ATTACH_SESSION;
	bool probed = all && look_at_all(t, now_ns, before_ns);
	for (size_t i = t->files.list.len; i-- > 0 && left;) {
		struct probed_file *f = t->files.list.data[i];
		bool plain = files_is_plain(f);
		if (!files_is_unused(f, before_ns) || (!all && !plain))
			continue;
		if (f->known)
			forget_known(t, f);
		else if (plain || probed)
			let_go(t, f);
		else
			continue;
		left--;
	}
}
