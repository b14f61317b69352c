/* inside_running.c - a process that runs gets its probes inside, and loses them again.
 *
 * Until then the kernel has the probes. All is written that nobody runs yet; then the threads are
 * held, a few hundred jumps at a time, none of them standing amid the bytes of one; and at last,
 * while they are held once more, the kernel's probes are told to leave the process out and the
 * library to record: no call is told twice, and none is missed. What a thread stands in is known by
 * its instruction pointer and, for who was interrupted by a signal, by what lies on its stack. */
#include "probe/inside_running.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/inside_impl.h"
#include "probe/inside_stacks.h"
#include "remote/hold.h"

#define STOP_NS	   4000000ULL /* for all threads to stop: then they go on, and it is tried again */
#define PATIENT	   10	      /* times; then for twice as long, so often: */
#define DOUBLINGS  4	      /* where CPUs are taken, a thread that is to stop waits for one */
#define WRITING_NS 100000ULL  /* in one hold */
#define TRIES	   200
#define ALL_NS	   8000000000ULL /* for all of them */
#define REAP_NS	   20000000ULL
/* The kernel's probes stay so long for the returns of calls that they told of. */
#define RETURN_LEAST_NS 500000000ULL
#define RETURN_MOST_NS	60000000000ULL
#define PAUSE_NS	2000000L
#define STAYS_NS	5000000000ULL /* those of a command: it may start more such processes */

struct change {
	uint64_t address;
	uint8_t bytes[CALL_JUMP_BYTES];
	bool done, amid;
};

struct going {
	struct tracer *t;
	size_t open;
};

struct work {
	struct tracer *t;
	struct writing w;
	VEC(struct change) changes;   /* by address */
	VEC(struct call_site) sites;  /* those that are in use, anew */
	bool rewrites;		      /* sites that threads may know */
	bool begins;		      /* the process tells from here on */
	void *room;		      /* for stacks, which may have frames of signals */
	uint64_t code_low, code_high; /* of the library */
	struct tracer_inside_stop stop;
	int rc;
	struct err error;
	bool ended; /* atomic */
};

/* ---- while the threads are held ---- */

static int by_address(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

/* The change that begins at or before the address; NULL where there is none near. */
static struct change *change_at(struct work *k, uint64_t address)
{
	size_t low = 0, high = k->changes.len;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (k->changes.data[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	struct change *c = low ? &k->changes.data[low - 1] : NULL;
	return c && address - c->address < CALL_JUMP_BYTES ? c : NULL;
}

static void set_amid(struct work *k, uint64_t address)
{
	struct change *c = change_at(k, address);
	if (c && address != c->address)
		c->amid = true;
}

static void look_at_stack(void *ctx, const uint64_t *words, size_t n)
{
	struct work *k = ctx;
	uint64_t low = k->changes.data[0].address;
	uint64_t high = k->changes.data[k->changes.len - 1].address + CALL_JUMP_BYTES;
	for (size_t i = 0; i < n; i++)
		if (words[i] - low < high - low)
			set_amid(k, words[i]);
}

/* Whether a thread is at work in the library; or about to be, when starts are asked for. */
static bool somebody_is_in(struct work *k, const struct hold_thread *threads, size_t n, bool starts)
{
	for (size_t i = 0; i < n; i++) {
		const struct change *c = starts ? change_at(k, threads[i].ip) : NULL;
		if (threads[i].ip - k->code_low < k->code_high - k->code_low ||
		    (c && c->address == threads[i].ip))
			return true;
	}
	return false;
}

static bool write_sites(struct work *k)
{
	return !k->sites.len || inside_poke(&k->w, inside_site_at(&k->w, 0), k->sites.data,
					    k->sites.len * sizeof(*k->sites.data));
}

/* False: something is left to be written. */
static bool write_some(struct work *k, uint64_t until_ns)
{
	bool all = true;
	for (size_t i = 0; i < k->changes.len; i++) {
		struct change *c = &k->changes.data[i];
		if (c->done)
			continue;
		if (monotonic_ns() > until_ns)
			return false;
		if (c->amid) {
			all = false;
			continue;
		}
		if (!inside_poke(&k->w, c->address, c->bytes, sizeof(c->bytes)))
			k->rc = err_set(&k->error, errno, "its code may not be written: %s",
					strerror(errno));
		c->done = true;
	}
	return all;
}

static bool change_code(struct work *k, const struct hold_thread *threads, size_t n)
{
	if (k->rewrites && somebody_is_in(k, threads, n, false))
		return false;
	if (k->rewrites && !write_sites(k))
		k->rc = err_set(&k->error, errno, "its memory may not be written: %s",
				strerror(errno));
	k->rewrites = false;
	for (size_t i = 0; i < k->changes.len; i++)
		k->changes.data[i].amid = false;
	for (size_t i = 0; i < n && k->changes.len; i++)
		set_amid(k, threads[i].ip);
	if (k->changes.len &&
	    !inside_stacks_visit(threads, n, k->w.memory, k->room, look_at_stack, k))
		return false;
	return write_some(k, monotonic_ns() + WRITING_NS);
}

static bool begin_telling(struct work *k, const struct hold_thread *threads, size_t n)
{
	const struct writing *w = &k->w;
	uint64_t header = 0;
	uint32_t go_on = 0, go = 1, pid = (uint32_t)w->pid;
	uint8_t value = TARGET_IS_TRACED | TARGET_TELLS_INSIDE;
	if (somebody_is_in(k, threads, n, true))
		return false;
	if (!inside_peek(w, w->in->header + w->bias, &header, sizeof(header)) || !header ||
	    bpf_map_update_elem(bpf_map__fd(k->t->bpf->maps.targets), &pid, &value, BPF_EXIST) ||
	    !inside_poke(w, w->in->go + w->bias, &go, sizeof(go)) ||
	    !inside_poke(w, header + offsetof(struct call_header, stop), &go_on, sizeof(go_on)))
		k->rc = err_set(&k->error, ENOENT, "it made no file for its calls");
	__atomic_fetch_add(&k->t->bpf->bss->exclusions, 1, __ATOMIC_SEQ_CST);
	return true;
}

/* ---- holding, in a thread that ends soon ---- */

/* Until act says that it has done all there is. */
static int hold_until(struct work *k,
		      bool (*act)(struct work *k, const struct hold_thread *threads, size_t n))
{
	bool all = false;
	int rc = 0, late = 0;
	uint64_t until_ns = monotonic_ns() + ALL_NS;
	for (int i = 0; !all && i < TRIES && monotonic_ns() < until_ns; i++) {
		struct hold *h;
		const struct hold_thread *threads;
		int doublings = late / PATIENT < DOUBLINGS ? late / PATIENT : DOUBLINGS;
		rc = hold_process(&h, k->w.pid, STOP_NS << doublings, &k->error);
		if (rc && rc != -EAGAIN)
			return rc;
		late += rc != 0;
		if (!rc) {
			size_t n = hold_threads(h, &threads);
			all = act(k, threads, n);
			uint64_t stood_ns = hold_let_go(h);
			k->stop.holds++;
			k->stop.total_ns += stood_ns;
			if (stood_ns > k->stop.longest_ns)
				k->stop.longest_ns = stood_ns;
		}
		if (k->rc)
			return k->rc;
		if (!all)
			nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	if (all)
		return 0;
	return rc ? rc : err_set(&k->error, EAGAIN, "its threads were amid what was to be changed");
}

/* The pages become the process's own before anybody is held for it. */
static void touch_pages(struct work *k)
{
	uint64_t page = 0;
	uint8_t byte;
	for (size_t i = 0; i < k->changes.len; i++) {
		uint64_t address = k->changes.data[i].address;
		if (address >> 12 == page || k->changes.data[i].done)
			continue;
		page = address >> 12;
		if (inside_peek(&k->w, address, &byte, 1))
			inside_poke(&k->w, address, &byte, 1);
	}
}

static void *run(void *arg)
{
	struct work *k = arg;
	struct sched_param first = {.sched_priority = 1}; /* threads stand still until it is done */
	if (k->changes.len) {
		k->room = xcalloc(1, INSIDE_STACKS_ROOM);
		memset(k->room, 1, INSIDE_STACKS_ROOM); /* so that it has memory */
	}
	pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
	if (k->changes.len)
		touch_pages(k);
	int rc = k->changes.len || k->rewrites ? hold_until(k, change_code) : 0;
	if (!rc && k->begins)
		rc = hold_until(k, begin_telling);
	free(k->room);
	k->rc = rc;
	__atomic_store_n(&k->ended, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Held tasks of other processes are answered meanwhile. */
static int run_apart(struct work *k, struct err *e)
{
	pthread_t thread;
	qsort(k->changes.data, k->changes.len, sizeof(*k->changes.data), by_address);
	int rc = thread_start(&thread, run, k, "eacgm-inside");
	if (rc)
		return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
	uint64_t reaped_ns = monotonic_ns();
	while (!__atomic_load_n(&k->ended, __ATOMIC_SEQ_CST)) {
		tracer_control(k->t);
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
		if (monotonic_ns() - reaped_ns < REAP_NS)
			continue;
		hold_reap(k->w.pid);
		reaped_ns = monotonic_ns();
	}
	pthread_join(thread, NULL);
	if (k->rc)
		*e = k->error;
	return k->rc;
}

/* ---- what is to be written ---- */

static bool open_process(struct work *k, pid_t pid, proc_maps_t *maps, struct err *e)
{
	char path[64];
	k->w = (struct writing){.in = k->t->insider, .pid = pid};
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	k->w.memory = open(path, O_RDWR | O_CLOEXEC);
	if (k->w.memory < 0 || proc_code_read("/proc", pid, maps, e)) {
		err_set(e, ESRCH, "the process has ended");
		return false;
	}
	if (!inside_find_library(&k->w, maps)) {
		err_set(e, ENOENT, "it has not loaded " CALL_SHIM);
		return false;
	}
	for (size_t i = 0; i < maps->len; i++)
		if (scan_copies_stacks(maps->data[i].path))
			inside_tell_switches(&k->w);
	const struct proc_map *m = proc_map_at(maps, inside_island_at(&k->w, 0));
	k->code_low = m ? m->start : 0;
	k->code_high = m ? m->end : 0;
	return true;
}

static void close_process(struct work *k, proc_maps_t *maps)
{
	if (k->w.memory >= 0)
		close(k->w.memory);
	proc_maps_free(maps);
	vec_free(&k->changes);
	vec_free(&k->sites);
}

static void visit_sites(struct work *k, const proc_maps_t *maps,
			void (*visit)(void *ctx, const struct site *site, uint64_t function),
			void *ctx)
{
	uint64_t function;
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		const struct probed_file *f =
			m->inode ? files_find(&k->t->files, m->device, m->inode) : NULL;
		for (size_t g = 0; f && g < f->groups.len; g++) {
			const struct site_group *group = &f->groups.data[g];
			for (size_t s = 0; group->inside && s < group->sites.len; s++)
				if (inside_in_mapping(m, &group->sites.data[s], &function))
					visit(ctx, &group->sites.data[s], function);
		}
	}
}

struct putting {
	struct work *k;
	struct places fresh;
	struct map64 known; /* function -> index of its site */
	size_t strange, many;
};

static bool read_sites(struct putting *p)
{
	struct work *k = p->k;
	struct call_site none = {0};
	for (uint32_t i = 0; i < k->w.used; i++)
		*vec_push(&k->sites) = none;
	if (k->w.used &&
	    !inside_peek(&k->w, inside_site_at(&k->w, 0), k->sites.data, k->w.used * sizeof(none)))
		return false;
	for (uint32_t i = 0; i < k->w.used; i++)
		map64_set(&p->known, k->sites.data[i].function, i);
	return true;
}

/* An island of a session before, as it has to be. */
static bool is_its_island(const struct work *k, uint32_t i, const struct site *site,
			  uint64_t function)
{
	uint8_t there[CALL_ISLAND_BYTES], wanted[CALL_ISLAND_BYTES];
	place_island(&k->w, i, &site->inside, function, wanted);
	return i < k->w.used &&
	       inside_peek(&k->w, inside_island_at(&k->w, i), there, sizeof(there)) &&
	       !memcmp(there, wanted, sizeof(there));
}

static struct change *add_jump(struct work *k, uint64_t address, uint32_t island)
{
	struct change *c = vec_push(&k->changes);
	*c = (struct change){.address = address};
	place_jump(&k->w, island, address, c->bytes);
	return c;
}

static void put_probe(void *ctx, const struct site *site, uint64_t function)
{
	struct putting *p = ctx;
	struct work *k = p->k;
	const struct plan *plan = &k->t->plan;
	uint64_t known = UINT64_MAX, address = function + site->inside.kept;
	uint32_t island;
	if (inside_has_jump(&k->w, address,
			    &island)) { /* of a session that was killed: a live one has the lock */
		if (!is_its_island(k, island, site, function)) {
			p->strange++;
			return;
		}
		k->sites.data[island] = place_site(&k->w, island, site, plan, function);
		k->rewrites = true;
		add_jump(k, address, island)->done = true;
		return;
	}
	if (!inside_is_as_planned(&k->w, &site->inside, function)) {
		p->strange++;
		return;
	}
	if (map64_get(&p->known, function, &known) &&
	    is_its_island(k, (uint32_t)known, site, function)) {
		k->sites.data[known] = place_site(&k->w, (uint32_t)known, site, plan, function);
		k->rewrites = true;
		add_jump(k, address, (uint32_t)known);
		return;
	}
	if (k->w.used + p->fresh.sites.len >= CALL_SITES_MOST) {
		p->many++;
		return;
	}
	add_jump(k, address, k->w.used + (uint32_t)p->fresh.sites.len);
	places_add(&k->w, &p->fresh, site, plan, function);
}

static int put_probes(struct work *k, const proc_maps_t *maps, struct err *e)
{
	struct putting p = {.k = k};
	int rc = read_sites(&p) ? 0 : err_set(e, EIO, "its memory cannot be read");
	if (!rc)
		visit_sites(k, maps, put_probe, &p);
	if (!rc && p.many)
		rc = err_set(e, ENOSPC, "it has more such functions than there is room for");
	if (!rc && p.strange)
		rc = err_set(e, ENOEXEC, "the code of %zu functions is not as their files have it",
			     p.strange);
	if (!rc && places_write(&k->w, &p.fresh))
		rc = err_set(e, EPERM, "its memory may not be written: %s", strerror(errno));
	k->stop.places = k->changes.len;
	places_free(&p.fresh);
	map64_free(&p.known);
	return rc;
}

static void take_probe(void *ctx, const struct site *site, uint64_t function)
{
	struct work *k = ctx;
	uint32_t island;
	uint64_t address = function + site->inside.kept;
	if (!inside_has_jump(&k->w, address, &island))
		return;
	struct change *c = vec_push(&k->changes);
	*c = (struct change){.address = address};
	memcpy(c->bytes, site->inside.code + site->inside.kept, sizeof(c->bytes));
}

/* ---- the doors ---- */

/* Back to what it was; the threads that run it do not notice. */
static int take_off(struct tracer *t, pid_t pid, struct tracer_inside_stop *ret, struct err *e)
{
	struct work k = {.t = t};
	proc_maps_t maps = {0};
	int rc = open_process(&k, pid, &maps, e) ? 0 : -ESRCH;
	if (!rc) {
		visit_sites(&k, &maps, take_probe, &k);
		rc = k.changes.len ? run_apart(&k, e) : 0;
	}
	if (k.stop.longest_ns > ret->longest_ns)
		ret->longest_ns = k.stop.longest_ns;
	ret->holds += k.stop.holds;
	ret->total_ns += k.stop.total_ns;
	ret->places += rc ? 0 : k.changes.len;
	close_process(&k, &maps);
	return rc;
}

static void tell_as_before(struct tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint8_t value = TARGET_IS_TRACED;
	bpf_map_update_elem(bpf_map__fd(t->bpf->maps.targets), &key, &value, BPF_EXIST);
	__atomic_fetch_add(&t->bpf->bss->exclusions, 1, __ATOMIC_SEQ_CST);
}

int tracer_inside_attach(struct tracer *t, pid_t pid, struct tracer_inside_stop *ret, struct err *e)
{
	struct work k = {.t = t, .begins = true};
	proc_maps_t maps = {0};
	struct err undone;
	int rc = open_process(&k, pid, &maps, e) ? put_probes(&k, &maps, e) : -ENOENT;
	if (!rc)
		rc = run_apart(&k, e);
	*ret = k.stop;
	close_process(&k, &maps);
	inside_touched(t->insider, pid);
	if (rc) {
		tell_as_before(t, pid);
		take_off(t, pid, &k.stop, &undone); /* else at the end */
		return rc;
	}
	t->insider->stats.places += ret->places;
	t->insider->stats.ns += ret->total_ns;
	inside_add_process(t->insider, pid);
	t->inside_changed_ns = monotonic_ns();
	scan_soon(t, pid); /* what it has loaded meanwhile is noted */
	return 0;
}

void tracer_inside_leave(struct tracer *t, struct tracer_inside_stop *ret)
{
	struct err e;
	VEC(pid_t) live = {0};
	*ret = (struct tracer_inside_stop){0};
	for (size_t i = 0; t->insider && i < t->insider->live.len; i++)
		*vec_push(&live) = t->insider->live.data[i];
	for (size_t i = 0; i < live.len; i++) /* some end meanwhile */
		take_off(t, live.data[i], ret, &e);
	vec_free(&live);
}

/* ---- who has the probes ---- */

void inside_forked(struct tracer *t, pid_t parent, pid_t child)
{
	uint32_t key = (uint32_t)child;
	uint64_t known;
	uint8_t value = 0;
	bool of_command = !t->opts.inside_running &&
			  map64_get(&t->insider->telling, (uint64_t)parent, &known);
	/* the parent may have begun to tell since */
	if (of_command || (!bpf_map_lookup_elem(bpf_map__fd(t->bpf->maps.targets), &key, &value) &&
			   value & TARGET_TELLS_INSIDE))
		inside_add_process(t->insider, child);
	else if (map64_get(&t->insider->outside, (uint64_t)parent, &known))
		map64_set(&t->insider->outside, (uint64_t)child, 1);
}

void inside_forget(struct tracer *t, pid_t pid)
{
	struct insider *in = t->insider;
	map64_del(&in->telling, (uint64_t)pid);
	map64_del(&in->outside, (uint64_t)pid);
	for (size_t i = in->live.len; i-- > 0;)
		if (in->live.data[i] == pid)
			in->live.data[i] = in->live.data[--in->live.len];
}

static bool has_such_functions(const mapped_files_t *files)
{
	for (size_t i = 0; i < files->len; i++)
		for (size_t g = 0; g < files->data[i]->groups.len; g++)
			if (files->data[i]->groups.data[g].inside)
				return true;
	return false;
}

void tracer_inside_waiting(const struct tracer *t, void (*visit)(void *ctx, pid_t pid), void *ctx)
{
	size_t at = 0;
	uint64_t pid, list, known;
	while (map64_next(&t->targets.by_pid, &at, &pid, &list))
		if (!map64_get(&t->insider->telling, pid, &known) &&
		    has_such_functions((const mapped_files_t *)list))
			visit(ctx, (pid_t)pid);
}

static void note_that_there_is_one(void *ctx, pid_t pid)
{
	(void)pid;
	*(bool *)ctx = true;
}

static bool somebody_is_outside(const struct tracer *t)
{
	bool any = false;
	tracer_inside_waiting(t, note_that_there_is_one, &any);
	return any;
}

static void count_open(void *ctx, const struct rec_call *c)
{
	struct going *g = ctx;
	if (c->probe < g->t->plan.probes.len)
		g->open += c->start_ns < g->t->inside_changed_ns;
}

/* Whether what the kernel has begun to tell of has returned by now: not long after, and not for
 * ever. */
static bool may_go(struct tracer *t)
{
	struct going g = {.t = t};
	struct err e;
	uint64_t since_ns = monotonic_ns() - t->inside_changed_ns;
	if (t->inside_alone || since_ns > RETURN_MOST_NS)
		return true;
	if (since_ns < RETURN_LEAST_NS)
		return false;
	return !tracer_open_calls(t, count_open, &g, &e) && !g.open;
}

/* Whether a process that cannot tell has mapped it; of a command. */
static bool is_outside(const struct tracer *t, const struct probed_file *f)
{
	size_t at = 0;
	uint64_t pid, yes;
	while (map64_next(&t->insider->outside, &at, &pid, &yes))
		if (targets_has(&t->targets, (pid_t)pid, f))
			return true;
	return false;
}

void inside_settle(struct tracer *t)
{
	VEC(struct attach_links) gone = {0};
	struct err e;
	bool running = t->opts.inside_running;
	uint64_t now_ns = monotonic_ns();
	t->inside_alone = running && !somebody_is_outside(t) && may_go(t);
	for (size_t i = 0; i < t->files.list.len; i++) {
		struct probed_file *f = t->files.list.data[i];
		if (!running && is_outside(t, f))
			f->outside_ns = now_ns;
		bool outside = running ? !t->inside_alone
				       : f->outside_ns && now_ns - f->outside_ns < STAYS_NS;
		for (size_t g = 0; g < f->groups.len; g++) {
			struct site_group *group = &f->groups.data[g];
			group->outside = group->inside && outside;
			if (!group->inside || group->attached != tracer_group_is_off(t, group))
				continue;
			if (!group->attached) {
				if (tracer_group_on(t, f, group, &e))
					tracer_note(t, f->path, e.msg);
				continue;
			}
			*vec_push(&gone) = group->links;
			group->links = (struct attach_links){0};
			group->attached = false;
		}
	}
	if (gone.len)
		tracer_links_off(t, gone.data, gone.len);
	vec_free(&gone);
}

void tracer_inside_settle(struct tracer *t)
{
	if (t->insider)
		inside_settle(t);
}

/* ---- where a process can be held ---- */

#define CALLED_WORTH 3 /* more than what is called all the time by its kind */

/* What is called all the time first. */
static int worth_of(enum layer layer)
{
	return layer == LAYER_PYTHON ? 2 : layer == LAYER_CUDA;
}

static bool is_libc(const struct probed_file *f)
{
	const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
	return !strncmp(name, "libc.", 5) || !strncmp(name, "libc-", 5) ||
	       !strncmp(name, "libpthread", 10) || !strncmp(name, "ld-", 3);
}

static bool is_called(const struct tracer_called *c, const struct site *s)
{
	return s->probe < c->n && c->called[s->probe];
}

static size_t calls_in(const struct tracer_called *c, const struct site_group *group)
{
	size_t n = 0;
	for (size_t i = 0; i < group->sites.len; i++)
		n += is_called(c, &group->sites.data[i]);
	return n;
}

static const struct site_group *best_group(const struct tracer *t, const proc_maps_t *maps,
					   const struct tracer_called *c,
					   const struct probed_file **file, size_t *map)
{
	const struct site_group *best = NULL;
	int most = -1;
	uint64_t function;
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		const struct probed_file *f =
			m->inode ? files_find(&t->files, m->device, m->inode) : NULL;
		for (size_t g = 0; f && !is_libc(f) && g < f->groups.len; g++) {
			const struct site_group *group = &f->groups.data[g];
			if (!group->inside || !group->sites.len ||
			    !inside_in_mapping(m, &group->sites.data[0], &function))
				continue;
			int worth =
				worth_of(group->layer) + (calls_in(c, group) ? CALLED_WORTH : 0);
			if (worth <= most)
				continue;
			most = worth;
			best = group;
			*file = f;
			*map = i;
		}
	}
	return best;
}

/* Of a group's sites those that were called, or all others. */
static void add_places(struct tracer_door *to, const struct proc_map *m,
		       const struct site_group *group, size_t turn, const struct tracer_called *c,
		       bool called)
{
	size_t n = calls_in(c, group), at = 0;
	uint64_t function;
	n = called ? n : group->sites.len - n;
	size_t first = n ? turn * DOOR_PLACES % n : 0;
	for (int round = 0; round < 2; round++, at = 0)
		for (size_t i = 0; i < group->sites.len && to->nplaces < DOOR_PLACES; i++) {
			const struct site *site = &group->sites.data[i];
			if (is_called(c, site) != called || (at++ >= first) == round ||
			    !inside_in_mapping(m, site, &function))
				continue;
			to->offset[to->nplaces] = site->offset;
			to->address[to->nplaces++] = function + site->inside.before;
		}
}

bool tracer_inside_door(const struct tracer *t, pid_t pid, size_t turn,
			const struct tracer_called *c, struct tracer_door *ret)
{
	proc_maps_t maps = {0};
	const struct probed_file *file = NULL;
	const struct site_group *group = NULL;
	size_t map = 0;
	struct err e;
	*ret = (struct tracer_door){.fd = -1};
	if (!proc_code_read("/proc", pid, &maps, &e))
		group = best_group(t, &maps, c, &file, &map);
	for (int called = 1; group && called >= 0; called--)
		add_places(ret, &maps.data[map], group, turn, c, called);
	if (file && ret->nplaces)
		ret->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
	proc_maps_free(&maps);
	return ret->fd >= 0;
}
