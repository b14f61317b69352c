/* scan.c - finds what processes have mapped, and has each file hooked and probed once.
 *
 * A scan is of one process. Its new files are read by others meanwhile (reading.c); when all are,
 * it goes on: hooks first, in all its files, then what the process has is told, then probes. A file
 * is probed when no process is known to have it together with one that is not hooked yet: an
 * exception that passes a probed frame has to be prepared for. Nothing here waits (scan_start.c
 * does, before anything is traced). */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/inside_running.h"
#include "probe/inside_write.h"
#include "probe/scan_impl.h"

#define SETTLE_NS 100000000ULL	/* a held task, once it was told of, until stacks can be walked */
#define TICK_NS	  3000000	/* while anything is under way */
#define AGAIN_NS  (2 * TICK_NS) /* after records came: LOOKS_AGAIN_NS of bpf/state.h and more */
#define TOGETHER_NS                                                                                \
	15000000ULL   /* what a process that is not held loads at once is looked at once */
#define SPARE	   20 /* nobody waits: a process's mappings are read for a twentieth of a CPU */
#define LATEST_NS  200000000ULL /* but no later than this */
#define PACE_NS	   150000000ULL /* of our time in a second, for one process's mappings */
#define PRESSED_NS 10000000000ULL

struct scans *scans_new(int epoll_fd)
{
	struct scans *s = xcalloc(1, sizeof(*s));
	struct epoll_event readable = {.events = EPOLLIN};
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->timer, &readable);
	return s;
}

static void scan_free(struct files *fs, struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		files_unuse(fs, s->files.data[i]);
	vec_free(&s->files);
	vec_free(&s->map_of);
	proc_maps_free(&s->maps);
	proc_maps_free(&s->kept);
	free(s);
}

void scans_free(struct scans *ss, struct files *fs)
{
	if (!ss)
		return;
	for (size_t i = 0; i < ss->list.len; i++)
		scan_free(fs, ss->list.data[i]);
	vec_free(&ss->list);
	vec_free(&ss->later);
	map64_free(&ss->spent_ns);
	map64_free(&ss->cost_ns);
	map64_free(&ss->payer);
	map64_free(&ss->asked);
	close(ss->timer);
	free(ss);
}

/* ---- what a process is told of ---- */

static void tell_maps(struct tracer *t, const struct scan *s)
{
	if (!t->opts.events.on_maps)
		return;
	proc_maps_t copy = {0};
	proc_maps_copy(&copy, &s->maps);
	const char **build_ids = xcalloc(s->maps.len + 1, sizeof(*build_ids));
	for (size_t i = 0; i < s->maps.len; i++)
		build_ids[i] = "";
	for (size_t i = 0; i < s->files.len; i++)
		build_ids[s->map_of.data[i]] = s->files.data[i]->facts.build_id;
	t->opts.events.on_maps(t->opts.events.ctx, s->pid, &copy, build_ids, s->seen_ns);
	proc_maps_free(&copy);
	free(build_ids);
}

/* ---- a scan's way ---- */

static bool is_read(const struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i]->state == FILE_ASKED)
			return false;
	return true;
}

static bool has_file(const struct scan *s, const struct probed_file *f)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i] == f)
			return true;
	return false;
}

static bool may_be_probed(const struct tracer *t, const struct probed_file *f)
{
	for (size_t i = 0; i < t->scans->list.len; i++) {
		const struct scan *s = t->scans->list.data[i];
		if (!s->hooked && has_file(s, f))
			return false;
	}
	return true;
}

void scan_probe_expected(struct tracer *t, struct probed_file *f)
{
	/* who maps it sees to it else; the first is held in any case, if only to be told of */
	if (f->state == FILE_HOOKED && !f->facts.hides_unwinder && may_be_probed(t, f))
		tracer_probe_file(t, f);
}

/* Where the exception guard could not be attached in one of its files, nothing of it is probed. */
static bool is_guarded(const struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i]->unguarded)
			return false;
	return true;
}

static void hook_files(struct tracer *t, struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i]->state == FILE_READ)
			tracer_hook_file(t, s->files.data[i]);
	s->hooked = true;
}

/* False when one has to wait for another process's hooks. */
static bool probe_files(struct tracer *t, struct scan *s)
{
	bool all = true;
	for (size_t i = 0; i < s->files.len; i++) {
		struct probed_file *f = s->files.data[i];
		if (f->state == FILE_HOOKED && f->facts.hides_unwinder)
			scan_refuse_hidden(t, f);
		else if (f->state == FILE_HOOKED &&
			 (!f->facts.plan.sites.len || may_be_probed(t, f)))
			tracer_probe_file(t, f);
		if (f->state == FILE_PROBED || f->state == FILE_REFUSED)
			scan_tell_known(t, f);
		all &= f->state != FILE_HOOKED;
	}
	return all;
}

static bool is_settled(const struct tracer *t, const struct scan *s)
{
	return !s->sequence || !t->unwinder || monotonic_ns() > s->until_ns ||
	       unwinder_settle(t->unwinder, s->pid, 0);
}

static void remember(struct tracer *t, const struct scan *s)
{
	mapped_files_t files = {0};
	for (size_t i = 0; i < s->files.len; i++) {
		struct probed_file *f = s->files.data[i];
		if (f->state == FILE_PROBED && !s->was_there &&
		    !targets_has(&t->targets, s->pid, f))
			t->places_mapped += f->places;
		*vec_push(&files) = f;
	}
	targets_set(&t->targets, &t->files, s->pid, &files);
}

/* Where stacks are of jobs alone, files that only others map would take memory for nothing. Whoever
 * was asked for makes traced calls, whatever is known of its files. */
static bool wants_stacks(const struct tracer *t, pid_t pid)
{
	uint64_t ignored;
	return !t->opts.jobs_alone || targets_probed(&t->targets, pid) ||
	       map64_get(&t->scans->asked, (uint64_t)pid, &ignored);
}

static void tell_unwinder(struct tracer *t, struct scan *s)
{
	if (!t->unwinder)
		return;
	if (wants_stacks(t, s->pid))
		unwinder_look(t->unwinder, s->pid, &s->maps);
	else
		unwinder_forget(t->unwinder, s->pid); /* it may have been one before */
}

/* Before the first call is seen: names are looked up by them. What an older scan of the process has
 * found, and had to wait for, is not the newest any more. */
static void tell(struct tracer *t, struct scan *s)
{
	for (size_t i = 0; i < t->scans->list.len && t->scans->list.data[i] != s; i++)
		t->scans->list.data[i]->outdated |= t->scans->list.data[i]->pid == s->pid;
	if (t->insider) /* also of one that is outdated: its process is held by it */
		proc_maps_copy(&s->kept, &s->maps);
	if (!s->outdated) {
		tell_maps(t, s);
		remember(t, s);
		tell_unwinder(t, s);
	}
	s->told = true;
	s->until_ns = monotonic_ns() + SETTLE_NS; /* that its files took to read is not of it */
}

static void scan_go_on(struct tracer *t, struct scan *s)
{
	if (!is_read(s))
		return;
	if (!s->hooked)
		hook_files(t, s);
	if (!s->told) {
		scan_exclude_unsafe(t, s);
		tell(t, s);
	}
	if (is_guarded(s) && !probe_files(t, s))
		return;
	if (t->insider && !s->written) {
		insider_probe(t, s);
		inside_settle(t);
	}
	s->written = true;
	s->done = is_settled(t, s);
	if (s->done && s->sequence)
		tracer_answer_maps(t, s->sequence);
}

/* While tasks are held nothing else runs before this, where that is allowed: they use their CPUs
 * until it is done. What is done so is bounded: no file is read here, no mappings. */
static bool run_first(void)
{
	struct sched_param first = {.sched_priority = 1};
	return !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static void run_as_others(void)
{
	struct sched_param none = {.sched_priority = 0};
	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
}

static bool holds_any(const struct scans *ss)
{
	for (size_t i = 0; i < ss->list.len; i++)
		if (ss->list.data[i]->sequence && !ss->list.data[i]->done)
			return true;
	return false;
}

void scans_run_early(void)
{
	run_as_others();
	setpriority(PRIO_PROCESS, 0, -20); /* of this thread; its children are as others */
}

/* ---- pace ---- */

/* A process could have others of its program looked at in its place. */
static uint64_t payer_of(const struct scans *ss, pid_t pid)
{
	uint64_t payer = (uint64_t)pid;
	map64_get(&ss->payer, (uint64_t)pid, &payer);
	return payer;
}

static uint64_t spent_on(const struct scans *ss, pid_t pid)
{
	uint64_t ns = 0;
	map64_get(&ss->spent_ns, payer_of(ss, pid), &ns);
	return ns;
}

/* Of this thread: that others run meanwhile is nobody's fault. */
static uint64_t own_cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return timespec_ns(&ts);
}

static void account(struct scans *ss, pid_t pid, uint64_t took_ns)
{
	uint64_t now_ns = monotonic_ns();
	if (now_ns - ss->second_ns > 1000000000ULL) {
		map64_free(&ss->spent_ns);
		ss->second_ns = now_ns;
	}
	map64_set(&ss->spent_ns, payer_of(ss, pid), spent_on(ss, pid) + took_ns);
}

static void look_later(struct scans *ss, pid_t pid, uint64_t at_ns)
{
	for (size_t i = 0; i < ss->later.len; i++)
		if (ss->later.data[i].pid == pid)
			return;
	*vec_push(&ss->later) = (struct later){pid, at_ns};
}

/* ---- begin and end ---- */

int scan_begin(struct tracer *t, pid_t pid, uint64_t sequence, struct err *e)
{
	uint64_t began_ns = own_cpu_ns();
	struct scan *s = xcalloc(1, sizeof(*s));
	*s = (struct scan){.pid = pid, .sequence = sequence, .seen_ns = realtime_ns()};
	int rc = proc_code_read("/proc", pid, &s->maps, e);
	if (rc) {
		map64_del(&t->scans->asked, (uint64_t)pid);
		free(s);
		return rc;
	}
	t->scans_begun++;
	map64_set(&t->scans->cost_ns, (uint64_t)pid, own_cpu_ns() - began_ns);
	scan_list_files(t, s);
	/* it brought a file, and waits for that; or for what is under way, where nobody makes us
	 * busy */
	if (sequence && (!is_read(s) || !t->scans->pressed_ns))
		tracer_grant(t, sequence, holds_granted_ns(t));
	*vec_push(&t->scans->list) = s;
	account(t->scans, pid, own_cpu_ns() - began_ns);
	return s->fresh;
}

void scans_press(struct tracer *t)
{
	t->scans->pressed_ns = monotonic_ns();
	t->bpf->bss->pressed = true;
}

static void end_press(struct tracer *t)
{
	if (!t->scans->pressed_ns || monotonic_ns() - t->scans->pressed_ns < PRESSED_NS)
		return;
	t->scans->pressed_ns = 0;
	t->bpf->bss->pressed = false;
}

void scan_held(struct tracer *t, pid_t pid, uint64_t sequence)
{
	struct err e;
	if (spent_on(t->scans, pid) > PACE_NS) {
		scans_press(t);
		look_later(t->scans, pid, monotonic_ns() + 1000000000ULL);
		if (sequence)
			tracer_refuse_maps(t, sequence);
	} else if (scan_begin(t, pid, sequence, &e) < 0 && sequence) {
		tracer_answer_maps(t, sequence); /* it has ended */
	}
}

/* How long a process that is not held is left to load more: the dearer a reading, the longer. */
static uint64_t together_ns(const struct scans *ss, pid_t pid)
{
	uint64_t cost_ns = 0;
	map64_get(&ss->cost_ns, (uint64_t)pid, &cost_ns);
	uint64_t ns = cost_ns < LATEST_NS / SPARE ? cost_ns * SPARE : LATEST_NS;
	return ns > TOGETHER_NS ? ns : TOGETHER_NS;
}

void scan_soon(struct tracer *t, pid_t pid)
{
	uint64_t wait_ns =
		spent_on(t->scans, pid) > PACE_NS ? 1000000000ULL : together_ns(t->scans, pid);
	look_later(t->scans, pid, monotonic_ns() + wait_ns);
}

void scan_asked(struct tracer *t, pid_t pid)
{
	if (t->opts.jobs_alone)
		map64_set(&t->scans->asked, (uint64_t)pid, 1);
	scan_soon(t, pid);
}

void scan_forked(struct tracer *t, pid_t parent, pid_t child)
{
	uint64_t cost_ns, asked;
	bool published = t->unwinder && unwinder_forked(t->unwinder, child);
	bool told = targets_forked(&t->targets, &t->files, parent, child);
	map64_set(&t->scans->payer, (uint64_t)child, payer_of(t->scans, parent));
	if (t->insider)
		inside_forked(t, parent, child);
	if (map64_get(&t->scans->cost_ns, (uint64_t)parent, &cost_ns))
		map64_set(&t->scans->cost_ns, (uint64_t)child, cost_ns);
	if (map64_get(&t->scans->asked, (uint64_t)parent, &asked))
		map64_set(&t->scans->asked, (uint64_t)child, asked);
	/* what is published was told before: names are found by that */
	if (!told || (t->unwinder && !published && wants_stacks(t, child)))
		scan_soon(t, child);
}

void scan_forget(struct tracer *t, pid_t pid)
{
	struct scans *ss = t->scans;
	for (size_t i = ss->later.len; i-- > 0;)
		if (ss->later.data[i].pid == pid)
			ss->later.data[i] = ss->later.data[--ss->later.len];
	for (size_t i = 0; i < ss->list.len; i++)
		ss->list.data[i]->done |= ss->list.data[i]->pid == pid;
	map64_del(&ss->cost_ns, (uint64_t)pid);
	map64_del(&ss->payer, (uint64_t)pid);
	map64_del(&ss->asked, (uint64_t)pid);
	targets_ended(&t->targets, &t->files, pid);
	if (t->insider)
		inside_forget(t, pid);
}

static void begin_due(struct tracer *t)
{
	struct scans *ss = t->scans;
	struct err gone;
	uint64_t now_ns = monotonic_ns();
	for (size_t i = ss->later.len; i-- > 0;) {
		struct later l = ss->later.data[i];
		if (now_ns < l.at_ns)
			continue;
		ss->later.data[i] = ss->later.data[--ss->later.len];
		scan_begin(t, l.pid, 0, &gone);
	}
}

static void drop_done(struct tracer *t)
{
	struct scans *ss = t->scans;
	size_t kept = 0;
	for (size_t i = 0; i < ss->list.len; i++) {
		if (ss->list.data[i]->done)
			scan_free(&t->files, ss->list.data[i]);
		else
			ss->list.data[kept++] = ss->list.data[i];
	}
	ss->list.len = kept;
}

static void set_ticks(struct scans *ss, bool on, bool at_once)
{
	struct itimerspec every = {.it_interval.tv_nsec = on ? TICK_NS : 0,
				   .it_value.tv_nsec = at_once ? 1
						       : on    ? TICK_NS
							       : 0};
	uint64_t expirations;
	(void)!read(ss->timer, &expirations, sizeof(expirations));
	if (ss->ticks != on || at_once)
		timerfd_settime(ss->timer, 0, &every, NULL);
	ss->ticks = on;
}

void scans_look_again(struct scans *ss)
{
	ss->again_until_ns = monotonic_ns() + AGAIN_NS;
}

void scans_go_on(struct tracer *t)
{
	struct scans *ss = t->scans;
	uint64_t times;
	if (t->unwinder)
		(void)!read(unwinder_fd(t->unwinder), &times, sizeof(times));
	reading_go_on(t);
	if (ss->under_way)
		return; /* a file is being taken off meanwhile: see detach_all */
	ss->under_way = true;
	begin_due(t);
	end_press(t);
	bool first = holds_any(ss) && run_first();
	for (size_t i = 0; i < ss->list.len; i++) /* grows meanwhile */
		if (!ss->list.data[i]->done)
			scan_go_on(t, ss->list.data[i]);
	if (first)
		run_as_others();
	drop_done(t);
	tracer_give_back(t);
	bool more = expected_go_on(t);
	ss->under_way = false;
	set_ticks(ss,
		  more || ss->list.len || ss->later.len || reading_is_busy(t->reading) ||
			  monotonic_ns() < ss->again_until_ns,
		  more);
}
