/* session_attach.c - the thread that brings the CUPTI shim into processes that run already.
 *
 * One process after another. A thread of the process that calls the driver is held at the call's
 * beginning, where it has no lock (src/probe/catch.c), stopped, and made to start a thread that
 * loads the shim (src/remote). All ptrace(2) is this thread's. Whoever does not call the driver
 * for some seconds is told of and waited for. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "session/attach_check.h"
#include "session/session_graphs.h"
#include "session/session_impl.h"
#include "collect/gpu_folder.h"
#include "collect/gpu_guest.h"
#include "collect/gpu_spans.h"
#include "probe/catch.h"
#include "remote/remote.h"

#define DRIVER	       "libcuda.so"
#define INJECTION_ENV  "CUDA_INJECTION64_PATH="
#define SUBJECT	       "gpu timeline"
#define ROUND_NS       3000000000ULL /* a process has so long to call the driver */
#define LATE_NS	       40000000ULL   /* it is held for 50 ms: later it is anywhere */
#define POLL_NS	       50000L
#define POLL_LATE_NS   1000000L /* after the first round: the thread is stopped for longer */
#define GRAPH_WATCH_NS 1000000000ULL
#define LOAD_STEP_MS   100
#define LOAD_STEPS     100
#define LAST_STEPS     10
#define LEAVE_STEPS    25 /* of 100 ms, for the shim of a session that was killed */

/* At their entries the caller holds no lock of libc, the loader or CUDA. */
static const char *const entries[] = {"cuLaunchKernel",	     "cuLaunchKernel_ptsz",
				      "cuLaunchKernelEx",    "cuLaunchKernelEx_ptsz",
				      "cuStreamSynchronize", "cuStreamSynchronize_ptsz"};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

struct candidate {
	pid_t pid;
	bool told;  /* that it does not call the driver */
	bool child; /* of another: most are workers, which have the driver's library and no GPU */
};

/* A process that has the shim: what it was given. */
struct attached {
	pid_t pid;
	struct gpu_guest *guest;
	struct graph_guard *guard;
};

struct attacher {
	struct session *session;
	char shim[4096];
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	VEC(struct candidate) waiting; /* under lock */
	bool stop;		       /* under lock */
	pids_t seen;		       /* under lock: candidates that have not ended */
	bool saw_any;		       /* under lock */
	VEC(struct attached) list;
	bool stuck;	 /* a thread did not stop, and goes on when ours ends */
	bool at_work;	 /* under lock: at a process, the first time */
	size_t attached; /* all of them */
	uint64_t longest_stop_ns;
	struct graphs *graphs;
};

static bool stops(struct attacher *a)
{
	pthread_mutex_lock(&a->lock);
	bool stop = a->stop;
	pthread_mutex_unlock(&a->lock);
	return stop;
}

static void wait_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static void tell(struct attacher *a, pid_t pid, const char *text)
{
	char *reason = xasprintf("process %d: %s", pid, text);
	pipeline_note(a->session->pipeline, SUBJECT, reason);
	session_say(a->session, "GPU timeline: %s", reason);
	free(reason);
}

/* ---- whether a process may have it ---- */

static int check(struct attacher *a, pid_t pid, struct err *e)
{
	pid_t tracer = process_tracer(pid);
	if (tracer)
		return err_set(e, EBUSY, "process %d traces it", tracer);
	if (process_has_variable(pid, INJECTION_ENV))
		return err_set(e, EBUSY,
			       INJECTION_ENV " is in its environment, another tool uses CUPTI");
	for (int i = 0; i < LEAVE_STEPS && process_has_ring(pid) && !stops(a); i++)
		wait_ns(LOAD_STEP_MS * 1000000L);
	if (process_has_ring(pid))
		return err_set(e, EBUSY,
			       "another eacgm records its GPU timeline, or has left "
			       "its library there");
	return 0;
}

/* ---- one process ---- */

struct visit {
	struct attacher *a;
	struct candidate *candidate;
	struct remote_place places[ENTRIES];
	size_t nplaces;
	int driver_fd; /* its file, as parsed; -1 = none */
	int lock_fd;   /* -1 = none */
	struct gpu_guest *guest;
	struct remote *remote;
	struct catch *catch;
	struct graph_guard *graphs;
	uint64_t stopped_ns;
};

static int find_places(struct visit *v, struct err *e)
{
	int n = remote_find(v->candidate->pid, DRIVER, entries, ENTRIES, v->places, &v->driver_fd,
			    e);
	if (!n)
		return err_set(e, ENOENT, "its " DRIVER " has no entries to launch");
	v->nplaces = n > 0 ? (size_t)n : 0;
	return n < 0 ? n : 0;
}

static int refuse_graphs(struct err *e)
{
	return err_set(e, EBUSY,
		       "it uses CUDA graphs, whose next launch would crash if CUPTI came in now: "
		       "record it from its start, record --gpu-timeline -- CMD");
}

static int look_for_graphs(struct visit *v, struct err *e)
{
	uint64_t end_ns = monotonic_ns() + GRAPH_WATCH_NS;
	while (!graph_guard_saw(v->graphs) && monotonic_ns() < end_ns && !stops(v->a))
		wait_ns(POLL_LATE_NS);
	return graph_guard_saw(v->graphs) ? refuse_graphs(e) : 0;
}

/* One eacgm at a time: two would write their stubs to the same place. The lock goes with us. */
static int lock_process(struct visit *v, struct err *e)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d", v->candidate->pid);
	v->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (v->lock_fd < 0)
		return err_set(e, ESRCH, "the process ended");
	for (int i = 0; i < LEAVE_STEPS && !stops(v->a); i++) {
		if (!flock(v->lock_fd, LOCK_EX | LOCK_NB))
			return 0;
		wait_ns(LOAD_STEP_MS * 1000000L);
	}
	return err_set(e, EBUSY, "another eacgm is about to record its GPU timeline");
}

/* The mover reads rings at the same time. */
static int adopt_ring(struct visit *v, struct err *e)
{
	struct session *s = v->a->session;
	pthread_mutex_lock(&s->timeline.lock);
	int rc = gpu_spans_adopt(s->timeline.rings, v->candidate->pid, gpu_guest_ring_fd(v->guest),
				 e);
	pthread_mutex_unlock(&s->timeline.lock);
	return rc;
}

static void drop_ring(struct visit *v)
{
	struct session *s = v->a->session;
	pthread_mutex_lock(&s->timeline.lock);
	gpu_spans_drop(s->timeline.rings, v->candidate->pid);
	pthread_mutex_unlock(&s->timeline.lock);
}

/* All that takes time, before anything is stopped. */
static int prepare(struct visit *v, struct err *e)
{
	char argument[4200];
	uint64_t offsets[ENTRIES];
	int rc = lock_process(v, e);
	if (!rc)
		rc = check(v->a, v->candidate->pid, e);
	if (!rc)
		rc = graphs_watch(v->a->graphs, &v->graphs, v->candidate->pid, e);
	if (!rc)
		rc = look_for_graphs(v, e);
	if (!rc)
		rc = find_places(v, e);
	if (!rc)
		rc = gpu_guest_open(&v->guest, v->candidate->pid, v->a->shim, e);
	if (!rc)
		rc = adopt_ring(v, e);
	if (rc)
		return rc;
	snprintf(argument, sizeof(argument), "%u %s", spans_options(v->a->session),
		 gpu_guest_ring(v->guest));
	struct remote_request request = {.pid = v->candidate->pid,
					 .library = gpu_guest_shim(v->guest),
					 .entry = GPU_ATTACH_ENTRY,
					 .argument = argument};
	rc = remote_prepare(&v->remote, &request, e);
	/* its memory is open: should it become another program, that has none of the stub */
	if (!rc && !gpu_guest_fits(v->guest, v->candidate->pid, e))
		rc = -EPERM;
	for (size_t i = 0; i < v->nplaces; i++)
		offsets[i] = v->places[i].file_offset;
	char driver[32];
	snprintf(driver, sizeof(driver), "/proc/self/fd/%d", v->driver_fd);
	if (!rc)
		rc = catch_open(&v->catch, v->a->session->tracer, driver, offsets, v->nplaces, e);
	return rc;
}

static void let_go(void *ctx)
{
	catch_let_go(ctx);
}

/* From here on a launch of a graph is held, and CUPTI goes. */
static int redirect_guarded(struct visit *v, struct remote_stop *stop, struct err *e)
{
	if (!graph_guard_arm(v->graphs))
		return refuse_graphs(e);
	int rc = remote_redirect(v->remote, stop, e);
	if (rc)
		graph_guard_disarm(v->graphs);
	return rc;
}

/* One that was held for too long has gone on, and may be waiting in the kernel: it is left alone,
 * for to be stopped would end its wait. */
static int redirect(struct visit *v, struct remote_stop *stop, uint64_t since_ns, struct err *e)
{
	if (monotonic_ns() - since_ns > LATE_NS)
		return err_set(e, EAGAIN, "the thread had gone on");
	int rc = redirect_guarded(v, stop, e);
	return rc == -ESRCH && !kill(v->candidate->pid, 0) ? -EAGAIN : rc; /* the thread alone */
}

/* The thread that comes by next is redirected. -EAGAIN when none came in time. */
static int redirect_next(struct visit *v, struct err *e)
{
	uint64_t since_ns, end_ns = monotonic_ns() + ROUND_NS;
	struct remote_stop stop = {
		.places = v->places, .nplaces = v->nplaces, .let_go = let_go, .ctx = v->catch};
	int rc = -EAGAIN;
	catch_arm(v->catch, v->candidate->pid);
	while (rc == -EAGAIN && monotonic_ns() < end_ns && !stops(v->a)) {
		if (graph_guard_saw(v->graphs)) {
			rc = refuse_graphs(e);
			break;
		}
		stop.tid = catch_poll(v->catch, &since_ns);
		if (!stop.tid) {
			wait_ns(v->candidate->told ? POLL_LATE_NS : POLL_NS);
			continue;
		}
		rc = redirect(v, &stop, since_ns, e);
		v->stopped_ns += monotonic_ns() - since_ns;
		if (rc == -EAGAIN)
			catch_arm(v->catch, v->candidate->pid);
	}
	catch_let_go(v->catch);
	v->a->stuck = rc == -ETIMEDOUT;
	return rc;
}

/* The end of a recording waits a second for a shim that is on its way, and tells it to end: alone
 * it would be there for a moment, and nobody would hold launches of graphs. */
static int finish(struct visit *v, struct err *e)
{
	int rc = -ETIMEDOUT;
	for (int i = 0; i < LOAD_STEPS && rc == -ETIMEDOUT && (i < LAST_STEPS || !stops(v->a)); i++)
		rc = remote_finish(v->remote, LOAD_STEP_MS, e);
	return rc;
}

static void say_stop(struct visit *v)
{
	struct attacher *a = v->a;
	session_say(a->session, "GPU timeline: process %d stopped for %.2f ms, one thread of it",
		    v->candidate->pid, (double)v->stopped_ns / 1e6);
	a->attached++;
	if (v->stopped_ns > a->longest_stop_ns)
		a->longest_stop_ns = v->stopped_ns;
}

static void take_back(struct attacher *a, struct attached *given)
{
	if (given->guard)
		graphs_forget(a->graphs, given->guard);
	if (given->guest)
		gpu_guest_close(given->guest);
}

/* A process that has ended leaves its ring, 8 MiB, and its hooks. */
static void forget_ended(struct attacher *a)
{
	for (size_t i = a->list.len; i-- > 0;) {
		struct attached *given = &a->list.data[i];
		if (!kill(given->pid, 0) || errno != ESRCH)
			continue;
		take_back(a, given);
		*given = a->list.data[--a->list.len];
	}
}

static void end_visit(struct visit *v, bool attached)
{
	if (v->catch)
		catch_close(v->catch);
	if (v->driver_fd >= 0)
		close(v->driver_fd);
	if (v->remote)
		remote_close(v->remote);
	struct attached given = {.pid = v->candidate->pid, .guest = v->guest, .guard = v->graphs};
	if (v->guest && !attached)
		drop_ring(v);
	if (attached)
		*vec_push(&v->a->list) = given;
	else
		take_back(v->a, &given);
	if (v->lock_fd >= 0)
		close(v->lock_fd);
}

/* -EAGAIN: to be tried again. */
static int visit(struct attacher *a, struct candidate *c, struct err *e)
{
	struct visit v = {.a = a, .candidate = c, .lock_fd = -1, .driver_fd = -1};
	int rc = prepare(&v, e);
	if (!rc)
		rc = redirect_next(&v, e);
	if (!rc)
		rc = finish(&v, e);
	if (!rc)
		say_stop(&v);
	end_visit(&v, !rc);
	return rc;
}

/* ---- the thread ---- */

/* Whose turn comes first: a visit to one that does not call the driver takes seconds. */
static int order_of(const struct candidate *c)
{
	return c->told ? 2 : c->child;
}

/* Of those whose turn is the same the first. There is one. */
static size_t pick(const struct attacher *a)
{
	size_t best = 0;
	for (size_t i = 1; i < a->waiting.len; i++)
		if (order_of(&a->waiting.data[i]) < order_of(&a->waiting.data[best]))
			best = i;
	return best;
}

/* False when there is to be an end. */
static bool next_candidate(struct attacher *a, struct candidate *ret)
{
	pthread_mutex_lock(&a->lock);
	while (!a->stop && !a->waiting.len)
		pthread_cond_wait(&a->wake, &a->lock);
	bool more = !a->stop;
	if (more) {
		size_t i = pick(a);
		*ret = a->waiting.data[i];
		a->at_work = !ret->told;
		memmove(&a->waiting.data[i], &a->waiting.data[i + 1],
			(--a->waiting.len - i) * sizeof(*a->waiting.data));
	}
	pthread_mutex_unlock(&a->lock);
	return more;
}

static bool was_seen(const struct attacher *a, pid_t pid)
{
	for (size_t i = 0; i < a->seen.len; i++)
		if (a->seen.data[i] == pid)
			return true;
	return false;
}

/* Unless it has ended meanwhile. */
static void try_later(struct attacher *a, struct candidate *c)
{
	if (!c->told)
		tell(a, c->pid,
		     "not recorded so far: no thread of it called the driver to launch or wait in "
		     "3 s; its timeline begins when one does");
	c->told = true;
	pthread_mutex_lock(&a->lock);
	if (was_seen(a, c->pid))
		*vec_push(&a->waiting) = *c;
	pthread_mutex_unlock(&a->lock);
}

static void tell_too_short(struct attacher *a, const struct candidate *c)
{
	if (!c->told)
		tell(a, c->pid, "not recorded: the recording ended before the shim was in");
}

static void *attach(void *arg)
{
	struct attacher *a = arg;
	struct candidate c;
	setpriority(PRIO_PROCESS, 0, -10); /* somebody's thread may wait for this one */
	while (!a->stuck && next_candidate(a, &c)) {
		struct err e = {0};
		forget_ended(a);
		int rc = visit(a, &c, &e);
		if (stops(a) && (rc == -EAGAIN || rc == -ETIMEDOUT))
			tell_too_short(a, &c);
		else if (rc == -EAGAIN)
			try_later(a, &c);
		else if (rc && rc != -ESRCH && err_wrap(&e, rc, "not recorded"))
			tell(a, c.pid, e.msg);
		pthread_mutex_lock(&a->lock);
		a->at_work = false;
		pthread_mutex_unlock(&a->lock);
	}
	return NULL;
}

/* ---- the session's ---- */

void attacher_open(struct session *s, const char *shim)
{
	struct attacher *a = xcalloc(1, sizeof(*a));
	a->session = s;
	snprintf(a->shim, sizeof(a->shim), "%s", shim);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	gpu_guest_clean_up();
	a->graphs = graphs_open(s);
	s->timeline.attacher = a;
}

bool attacher_at_work(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (!a || !a->runs || a->stuck)
		return false;
	pthread_mutex_lock(&a->lock);
	bool at_work = a->at_work;
	for (size_t i = 0; i < a->waiting.len; i++)
		at_work |= !a->waiting.data[i].told;
	pthread_mutex_unlock(&a->lock);
	return at_work;
}

void attacher_start(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (a)
		a->runs = !thread_start(&a->thread, attach, a);
}

static bool uses_driver(const proc_maps_t *maps)
{
	for (size_t i = 0; i < maps->len; i++) {
		const char *slash = strrchr(maps->data[i].path, '/');
		if (slash && !strncmp(slash + 1, DRIVER, strlen(DRIVER)))
			return true;
	}
	return false;
}

void attacher_saw(struct session *s, pid_t pid, const proc_maps_t *maps)
{
	struct attacher *a = s->timeline.attacher;
	if (!a || !uses_driver(maps))
		return;
	pthread_mutex_lock(&a->lock);
	if (!was_seen(a, pid)) {
		*vec_push(&a->seen) = pid;
		a->saw_any = true;
		*vec_push(&a->waiting) =
			(struct candidate){.pid = pid, .child = was_seen(a, process_parent(pid))};
		pthread_cond_signal(&a->wake);
	}
	pthread_mutex_unlock(&a->lock);
}

void attacher_gone(struct session *s, pid_t pid)
{
	struct attacher *a = s->timeline.attacher;
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	for (size_t i = a->seen.len; i-- > 0;)
		if (a->seen.data[i] == pid)
			a->seen.data[i] = a->seen.data[--a->seen.len];
	for (size_t i = a->waiting.len; i-- > 0;)
		if (a->waiting.data[i].pid == pid)
			memmove(&a->waiting.data[i], &a->waiting.data[i + 1],
				(--a->waiting.len - i) * sizeof(*a->waiting.data));
	pthread_mutex_unlock(&a->lock);
}

void attacher_look(struct session *s)
{
	if (s->timeline.attacher)
		graphs_look(s->timeline.attacher->graphs);
}

void attacher_stop(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (!a || !a->runs)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	a->runs = false;
	for (size_t i = 0; i < a->waiting.len; i++)
		tell_too_short(a, &a->waiting.data[i]);
	pipeline_meta(s->pipeline, "gpu_attached", "%zu", a->attached);
	if (a->attached)
		pipeline_meta(s->pipeline, "gpu_attach_stop_ms", "%.2f",
			      (double)a->longest_stop_ns / 1e6);
	if (!a->saw_any)
		pipeline_note(s->pipeline, SUBJECT,
			      "not recorded: no traced process has loaded " DRIVER);
}

void attacher_close(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (!a)
		return;
	graphs_let_go(a->graphs);
	for (size_t i = 0; i < a->list.len; i++)
		take_back(a, &a->list.data[i]);
	vec_free(&a->list);
	graphs_close(a->graphs);
	vec_free(&a->waiting);
	vec_free(&a->seen);
	free(a);
	s->timeline.attacher = NULL;
}
