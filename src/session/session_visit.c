/* session_visit.c - brings the CUPTI shim into one process that runs. A thread of it that calls the
 * driver is held at the call's beginning, where it has no lock (src/probe/catch.c), stopped, and
 * made to start a thread that loads the shim (src/remote). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/attach_check.h"
#include "session/session_attach.h"
#include "collect/gpu_spans.h"
#include "session/bring.h"

#define INJECTION_ENV  "CUDA_INJECTION64_PATH="
#define LOOK_NS	       1000000L
#define GRAPH_WATCH_NS 1000000000ULL
#define LEAVE_NS       100000000L
#define LEAVE_STEPS    25 /* for the shim of a session that was killed */

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
		wait_ns(LEAVE_NS);
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
	int driver_fd; /* its file, as parsed; -1 = none */
	struct bring bring;
	struct guest *guest;
	struct graph_guard *graphs;
};

static int find_places(struct visit *v, struct err *e)
{
	int n = remote_find(v->candidate->pid, ATTACH_DRIVER, entries, ENTRIES, v->places,
			    &v->driver_fd, e);
	if (!n)
		return err_set(e, ENOENT, "its " ATTACH_DRIVER " has no entries to launch");
	v->bring.nplaces = n > 0 ? (size_t)n : 0;
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
		wait_ns(LOOK_NS);
	return graph_guard_saw(v->graphs) ? refuse_graphs(e) : 0;
}

/* The mover reads rings at the same time. */
static int adopt_ring(struct visit *v, struct err *e)
{
	struct session *s = v->a->session;
	pthread_mutex_lock(&s->timeline.lock);
	int rc = gpu_spans_adopt(s->timeline.rings, v->candidate->pid, guest_ring_fd(v->guest), e);
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
	int rc = bring_lock(&v->bring, e);
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
	rc = remote_prepare(&v->bring.remote, &request, e);
	/* its memory is open: should it become another program, that has none of the stub */
	if (!rc && !guest_fits(v->guest, v->candidate->pid, e))
		rc = -EPERM;
	char driver[32];
	snprintf(driver, sizeof(driver), "/proc/self/fd/%d", v->driver_fd);
	if (!rc)
		rc = bring_catch(&v->bring, v->a->session->tracer, driver, e);
	return rc;
}

/* From here on a launch of a graph is held, and CUPTI goes. */
static int redirect_guarded(void *ctx, struct remote_stop *stop, struct err *e)
{
	struct visit *v = ctx;
	if (!graph_guard_arm(v->graphs))
		return refuse_graphs(e);
	int rc = remote_redirect(v->bring.remote, stop, e);
	if (rc)
		graph_guard_disarm(v->graphs);
	return rc;
}

static bool stops(void *ctx)
{
	struct visit *v = ctx;
	return attacher_stops(v->a);
}

static int may(void *ctx, struct err *e)
{
	struct visit *v = ctx;
	return graph_guard_saw(v->graphs) ? refuse_graphs(e) : 0;
}

static void say_stop(struct visit *v)
{
	struct attacher *a = v->a;
	session_say(a->session, "GPU timeline: process %d stopped for %.2f ms, one thread of it",
		    v->candidate->pid, (double)v->bring.stopped_ns / 1e6);
	a->attached++;
	if (v->bring.stopped_ns > a->longest_stop_ns)
		a->longest_stop_ns = v->bring.stopped_ns;
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
	bring_close(&v->bring);
	if (v->driver_fd >= 0)
		close(v->driver_fd);
	struct attached given = {.pid = v->candidate->pid, .guest = v->guest, .guard = v->graphs};
	if (v->guest && !attached)
		drop_ring(v);
	if (attached)
		*vec_push(&v->a->list) = given;
	else
		attached_close(v->a, &given);
}

int attach_visit(struct attacher *a, struct candidate *c, struct err *e)
{
	struct visit v = {.a = a, .candidate = c, .driver_fd = -1};
	v.bring = (struct bring){.pid = c->pid,
				 .lock_fd = -1,
				 .slow = c->told,
				 .places = v.places,
				 .stops = stops,
				 .may = may,
				 .redirect = redirect_guarded,
				 .ctx = &v};
	pthread_mutex_lock(&a->session->bringing);
	int rc = prepare(&v, e);
	if (!rc)
		rc = bring_redirect_next(&v.bring, e);
	if (!rc)
		rc = bring_finish(&v.bring, e);
	if (!rc)
		say_stop(&v);
	a->stuck = v.bring.stuck;
	end_visit(&v, !rc);
	pthread_mutex_unlock(&a->session->bringing);
	return rc;
}
