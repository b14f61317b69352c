/* bring.c - the way of a library into a running process, in steps. */
#include "session/bring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define ROUND_NS     3000000000ULL /* a process has so long to come by */
#define LATE_NS	     40000000ULL   /* it is held for 50 ms: later it is anywhere */
#define POLL_NS	     50000L
#define POLL_LATE_NS 1000000L /* after the first round: the thread is stopped for longer */
#define LOAD_STEP_MS 100
#define LOAD_STEPS   100
#define LAST_STEPS   10
#define LEAVE_STEPS  25 /* of 100 ms, for another eacgm */
#define PLACES_MOST  8	/* of catch_open */

static void wait_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

int bring_lock(struct bring *b, struct err *e)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d", b->pid);
	b->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->lock_fd < 0)
		return err_set(e, ESRCH, "the process ended");
	for (int i = 0; i < LEAVE_STEPS && !b->stops(b->ctx); i++) {
		if (!flock(b->lock_fd, LOCK_EX | LOCK_NB))
			return 0;
		wait_ns(LOAD_STEP_MS * 1000000L);
	}
	return err_set(e, EBUSY, "another eacgm is about to bring a library into it");
}

int bring_catch(struct bring *b, struct tracer *t, const char *path, struct err *e)
{
	uint64_t offsets[PLACES_MOST];
	size_t n = b->nplaces < PLACES_MOST ? b->nplaces : PLACES_MOST;
	for (size_t i = 0; i < n; i++)
		offsets[i] = b->places[i].file_offset;
	return catch_open(&b->catch, t, path, offsets, n, e);
}

static void let_go(void *ctx)
{
	catch_let_go(ctx);
}

/* One that was held for too long has gone on, and may be waiting in the kernel: it is left alone,
 * for to be stopped would end its wait. */
static int redirect(struct bring *b, struct remote_stop *stop, uint64_t since_ns, struct err *e)
{
	if (monotonic_ns() - since_ns > LATE_NS)
		return err_set(e, EAGAIN, "the thread had gone on");
	int rc = b->redirect(b->ctx, stop, e);
	return rc == -ESRCH && !kill(b->pid, 0) ? -EAGAIN : rc; /* the thread alone */
}

int bring_redirect_next(struct bring *b, struct err *e)
{
	uint64_t since_ns, end_ns = monotonic_ns() + ROUND_NS;
	struct remote_stop stop = {
		.places = b->places, .nplaces = b->nplaces, .let_go = let_go, .ctx = b->catch};
	int rc = err_set(e, EAGAIN, "no thread of it came by in %llu s", ROUND_NS / 1000000000);
	catch_arm(b->catch, b->pid);
	while (rc == -EAGAIN && monotonic_ns() < end_ns && !b->stops(b->ctx)) {
		int refused = b->may ? b->may(b->ctx, e) : 0;
		if (refused) {
			rc = refused;
			break;
		}
		stop.tid = catch_poll(b->catch, &since_ns);
		if (!stop.tid) {
			wait_ns(b->slow ? POLL_LATE_NS : POLL_NS);
			continue;
		}
		rc = redirect(b, &stop, since_ns, e);
		b->stopped_ns += monotonic_ns() - since_ns;
		if (rc == -EAGAIN)
			catch_arm(b->catch, b->pid);
	}
	catch_let_go(b->catch);
	b->stuck = rc == -ETIMEDOUT;
	return rc;
}

/* The end of a recording waits a second for a library that is on its way. */
int bring_finish(struct bring *b, struct err *e)
{
	int rc = -ETIMEDOUT;
	for (int i = 0; i < LOAD_STEPS && rc == -ETIMEDOUT && (i < LAST_STEPS || !b->stops(b->ctx));
	     i++)
		rc = remote_finish(b->remote, LOAD_STEP_MS, e);
	return rc;
}

void bring_close(struct bring *b)
{
	if (b->catch)
		catch_close(b->catch);
	if (b->remote)
		remote_close(b->remote);
	if (b->lock_fd >= 0)
		close(b->lock_fd);
}
