/* session_bursts.c - --burst: calls are recorded in one period of so many. Its edges are exact: a
 * flag that holds at once. Links go behind the end of a burst, and come again ahead of the next, so
 * that calls cost nothing in between; where that is too short for it they stay. */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/session_impl.h"

/* Taking all places off and putting them on cost a job as much as the traps of a quarter of a
 * second that record nothing, or more: docs/developers/probing.md. */
#define KEPT_NS	 250000000ULL
#define SPARE_NS 2000000ULL /* a thread has its turn late */
#define AGAIN_NS 1000000ULL /* what was to be there by now is not */

static uint64_t off_ns(const struct session *s)
{
	return s->opts->burst_period_ns - s->opts->burst_on_ns;
}

static void visit_open(void *ctx, const struct rec_call *c)
{
	pipeline_open_call(ctx, c);
}

/* Half as long again as the last time, and no more than half of the time between bursts. */
static uint64_t ahead_ns(const struct session *s)
{
	uint64_t ns = tracer_places_on_ns(s->tracer) * 3 / 2 + SPARE_NS;
	return ns < off_ns(s) / 2 ? ns : off_ns(s) / 2;
}

static void count_switch(struct session_clock *c, uint64_t began_ns)
{
	uint64_t took_ns = monotonic_ns() - began_ns;
	c->switches++;
	c->switching_ns += took_ns;
	if (took_ns > c->longest_switch_ns)
		c->longest_switch_ns = took_ns;
}

static void end_burst(struct session *s, uint64_t now_ns)
{
	struct session_clock *c = &s->clock;
	struct err e = {0};
	inside_rest(s, true);
	tracer_calls_off(s->tracer, visit_open, s->pipeline, &e);
	spans_pause(s, true);
	pipeline_window(s->pipeline, c->switched_ns, now_ns);
	c->probes_on = false;
	c->switched_ns = now_ns;
	count_switch(c, now_ns);
}

static void begin_burst(struct session *s, uint64_t now_ns)
{
	struct session_clock *c = &s->clock;
	tracer_calls_on(s->tracer);
	c->probes_on = true;
	c->switched_ns = monotonic_ns(); /* calls before it are in no window */
	inside_rest(s, false);
	spans_pause(s, false);
	count_switch(c, now_ns);
}

/* When there is something to do next. */
static uint64_t rest_go_on(struct session *s, uint64_t now_ns)
{
	struct session_clock *c = &s->clock;
	uint64_t due_ns = c->switched_ns + off_ns(s), ahead = due_ns - ahead_ns(s);
	bool settled = tracer_places_settled(s->tracer);
	if (c->places_on && now_ns < ahead && off_ns(s) >= KEPT_NS) {
		c->places_on = !tracer_places_off(s->tracer);
		return now_ns + AGAIN_NS;
	}
	if (!c->places_on) {
		c->places_on = now_ns >= ahead && tracer_places_on(s->tracer);
		return now_ns < ahead ? ahead : now_ns + AGAIN_NS;
	}
	if (now_ns < due_ns)
		return due_ns;
	if (!settled)
		return now_ns + AGAIN_NS;
	begin_burst(s, now_ns);
	return c->switched_ns + s->opts->burst_on_ns;
}

static uint64_t go_on(struct session *s, uint64_t now_ns)
{
	struct session_clock *c = &s->clock;
	uint64_t end_ns = c->switched_ns + s->opts->burst_on_ns;
	if (!c->probes_on)
		return rest_go_on(s, now_ns);
	if (now_ns < end_ns)
		return end_ns;
	end_burst(s, now_ns);
	return now_ns;
}

static void set_timer(const struct session_clock *c, uint64_t at_ns)
{
	struct itimerspec at = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000ULL),
					     .tv_nsec = (long)(at_ns % 1000000000ULL)}};
	timerfd_settime(c->burst_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

int bursts_open(struct session *s, struct err *e)
{
	struct session_clock *c = &s->clock;
	c->places_on = true;
	if (!s->opts->burst_on_ns)
		return 0;
	c->burst_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (c->burst_fd < 0)
		return err_set(e, errno, "cannot make a timer for bursts: %s", strerror(errno));
	set_timer(c, c->switched_ns + s->opts->burst_on_ns);
	return 0;
}

void bursts_begin(struct session *s)
{
	struct session_clock *c = &s->clock;
	c->switched_ns = monotonic_ns();
	if (c->burst_fd >= 0)
		set_timer(c, c->switched_ns + s->opts->burst_on_ns);
}

void bursts_close(struct session *s)
{
	if (s->clock.burst_fd >= 0)
		close(s->clock.burst_fd);
	s->clock.burst_fd = -1;
}

void bursts_go_on(struct session *s)
{
	uint64_t expirations;
	if (s->opts->burst_on_ns &&
	    read(s->clock.burst_fd, &expirations, sizeof(expirations)) == sizeof(expirations))
		set_timer(&s->clock, go_on(s, monotonic_ns()));
}

void bursts_end(struct session *s)
{
	const struct session_clock *c = &s->clock;
	if (s->opts->burst_on_ns && c->probes_on)
		pipeline_window(s->pipeline, c->switched_ns, monotonic_ns());
}
