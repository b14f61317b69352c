/* session_visit.c - brings the CUPTI shim into one process that runs. A thread of it that calls the
 * driver is held at the call's beginning, where it has no lock (src/probe/catch.c), stopped, and
 * made to start a thread that loads the shim (src/remote). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/attach_check.h"
#include "session/session_attach.h"
#include "collect/gpu_spans.h"
#include "probe/catch.h"
#include "remote/remote.h"

#define INJECTION_ENV  "CUDA_INJECTION64_PATH="
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

static void wait_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
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
	for (int i = 0; i < LEAVE_STEPS && process_has_ring(pid) && !attacher_stops(a); i++)
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
	struct guest *guest;
	struct remote *remote;
	struct catch *catch;
	struct graph_guard *graphs;
	uint64_t stopped_ns;
};

static int find_places(struct visit *v, struct err *e)
{
	int n = remote_find(v->candidate->pid, ATTACH_DRIVER, entries, ENTRIES, v->places,
			    &v->driver_fd, e);
	if (!n)
		return err_set(e, ENOENT, "its " ATTACH_DRIVER " has no entries to launch");
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
	while (!graph_guard_saw(v->graphs) && monotonic_ns() < end_ns && !attacher_stops(v->a))
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
	for (int i = 0; i < LEAVE_STEPS && !attacher_stops(v->a); i++) {
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
	int rc = gpu_spans_adopt(s->timeline.rings, v->candidate->pid, guest_ring_fd(v->guest),
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
		rc = guest_open(&v->guest, v->candidate->pid, v->a->shim, GUEST_RING, e);
	if (!rc)
		rc = adopt_ring(v, e);
	if (rc)
		return rc;
	snprintf(argument, sizeof(argument), "%u %s", spans_options(v->a->session),
		 guest_ring(v->guest));
	struct remote_request request = {.pid = v->candidate->pid,
					 .library = guest_shim(v->guest),
					 .entry = GPU_ATTACH_ENTRY,
					 .argument = argument};
	rc = remote_prepare(&v->remote, &request, e);
	/* its memory is open: should it become another program, that has none of the stub */
	if (!rc && !guest_fits(v->guest, v->candidate->pid, e))
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
	while (rc == -EAGAIN && monotonic_ns() < end_ns && !attacher_stops(v->a)) {
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
	for (int i = 0;
	     i < LOAD_STEPS && rc == -ETIMEDOUT && (i < LAST_STEPS || !attacher_stops(v->a)); i++)
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

void attached_close(struct attacher *a, struct attached *given)
{
	if (given->guard)
		graphs_forget(a->graphs, given->guard);
	if (given->guest)
		guest_close(given->guest);
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
		attached_close(v->a, &given);
	if (v->lock_fd >= 0)
		close(v->lock_fd);
}

int attach_visit(struct attacher *a, struct candidate *c, struct err *e)
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
