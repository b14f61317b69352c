/* session_follow.c - what a session does by its clock, from the moment that all is attached until
 * one of its ends. */
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/session_impl.h"

#define TICK_NS	    50000000L
#define COST_TICKS  4
#define CALM_TICKS  4  /* what has a number of ticks of its own is done at their multiples */
#define QUIET_COST  20 /* ticks: all CPUs' counts are read for it */
#define SWEEP_TICKS 20
#define OPEN_TICKS  20

uint64_t session_cpu_ns(const struct session *s)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return timespec_ns(&ts) + tracer_helpers_cpu_ns(s->tracer);
}

static void post_open_call(void *ctx, const struct rec_call *c)
{
	pipeline_open_call(ctx, c);
}

static void post_open_wait(void *ctx, const struct rec_sample *sample)
{
	pipeline_open_wait(ctx, sample);
}

bool session_records_calls(const struct session_options *o, unsigned layer_traits)
{
	uint32_t wanted = o->layers & layers_with(layer_traits);
	for (unsigned i = 0; i < LAYERS_MAX; i++)
		if (wanted & 1u << i && o->mode[i] != MODE_TRACE)
			return false;
	return wanted;
}

/* The first end stays. */
static void end_for(struct session *s, enum session_end why)
{
	if (!s->end)
		s->end = why;
}

static void check_duration(struct session *s, uint64_t now_ns)
{
	struct session_clock *c = &s->clock;
	/* where CUPTI is on its way into the processes that were there, it waits for it */
	c->timeline_came |= !attacher_at_work(s);
	if (!c->timeline_came)
		c->follow_ns = now_ns;
	if (s->opts->duration_ns && now_ns - c->follow_ns >= s->opts->duration_ns)
		end_for(s, SESSION_TIME_OVER);
}

static void check_guard(struct session *s)
{
	if (s->guard_failed || tracer_guard_works(s->tracer))
		return;
	s->guard_failed = true;
	end_for(s, SESSION_GUARD_FAILED);
	pipeline_note(s->pipeline, "eacgm-guard",
		      "ended or failed: recording stopped, to keep the job from harm");
}

void session_running_cost(const struct session *s, struct tracer_spending spent[SPENT_KINDS],
			  struct running_cost *ret)
{
	struct tracer_stats stats;
	tracer_spendings(s->tracer, spent);
	tracer_stats(s->tracer, &stats);
	running_cost_reckon(ret, spent, stats.places_mapped, &s->call_costs);
	double inside_ns = (double)atomic_load(&s->inside.cost_ns);
	ret->programs_ns += inside_ns;
	ret->sum_ns += inside_ns;
}

static void look_at_cost(struct session *s)
{
	struct tracer_spending spent[SPENT_KINDS];
	struct running_cost cost;
	own_cost_look(&s->clock.cost, session_cpu_ns(s));
	session_running_cost(s, spent, &cost);
	atomic_store(&s->running_cost_ns, (uint64_t)cost.sum_ns);
	struct tracer_holds holds;
	tracer_holds(s->tracer, &holds);
	atomic_store(&s->holds, holds.count);
	atomic_store(&s->held_ns, holds.held_ns);
}

static void tick_collectors(struct session *s, unsigned tick, uint64_t now_ns)
{
	if (tick % (s->budget.quiet ? QUIET_COST : COST_TICKS) == 0)
		look_at_cost(s);
	jobs_look(s, tick);
	collectors_tick(s->collectors, now_ns);
	if (tick % OPEN_TICKS == 0)
		hang_watch_tick(s);
}

void follow_pace(struct session *s, bool burst)
{
	struct session_clock *c = &s->clock;
	c->stride = s->opts->always_on && !burst ? CALM_TICKS : 1;
	struct timespec every = {.tv_nsec = TICK_NS * c->stride};
	struct itimerspec pace = {.it_interval = every, .it_value = every};
	if (c->timer_fd >= 0)
		timerfd_settime(c->timer_fd, 0, &pace, NULL);
}

void follow_tick(struct session *s)
{
	unsigned stride = s->clock.stride;
	unsigned tick = s->clock.tick = (s->clock.tick / stride + 1) * stride;
	session_budget_tick(s, tick);
	if (s->opts->always_on && tick % CALM_TICKS)
		return;
	uint64_t now_ns = monotonic_ns();
	tick_collectors(s, tick, now_ns);
	spans_switch_probes(s);
	calls_look(s, tick);
	check_duration(s, now_ns);
	if (atomic_load(&s->mover.failed))
		end_for(s, SESSION_CANNOT_WRITE);
	if (tick % SWEEP_TICKS == 0) {
		targets_sweep(s);
		tracer_close_unused(s->tracer, !s->opts->output);
		silence_look(s);
	}
	check_guard(s);
}

/* ---- a session's turn ---- */

size_t session_fds(const struct session *s, struct pollfd ret[SESSION_FDS])
{
	size_t n = 0;
	ret[n++] = (struct pollfd){.fd = tracer_control_fd(s->tracer), .events = POLLIN};
	ret[n++] = (struct pollfd){.fd = s->clock.timer_fd, .events = POLLIN};
	if (s->clock.burst_fd >= 0)
		ret[n++] = (struct pollfd){.fd = s->clock.burst_fd, .events = POLLIN};
	if (s->command.launch.pid && !s->command.ended)
		ret[n++] = (struct pollfd){.fd = s->command.launch.pidfd, .events = POLLIN};
	return n;
}

static bool nobody_lives(const struct session *s)
{
	return !s->live.len && !s->opts->target->all && !s->opts->target->cgroup_id;
}

/* A command may leave children behind: they are part of the job. */
static bool job_has_ended(const struct session *s)
{
	return s->had_targets && nobody_lives(s) && (!s->command.launch.pid || s->command.ended);
}

void session_service(struct session *s)
{
	uint64_t expirations;
	bursts_go_on(s);
	tracer_control(s->tracer);
	if (read(s->clock.timer_fd, &expirations, sizeof(expirations)) == sizeof(expirations))
		follow_tick(s);
	command_reap(s);
	if (job_has_ended(s))
		end_for(s, SESSION_JOB_ENDED);
	if (atomic_load(&s->stop_asked))
		end_for(s, SESSION_STOPPED);
}

enum session_end session_ended(const struct session *s)
{
	return s->end;
}

void session_stop(struct session *s)
{
	atomic_store(&s->stop_asked, true);
}

/* ---- beginning and end ---- */

void follow_begin(struct session *s)
{
	struct session_clock *c = &s->clock;
	c->follow_ns = monotonic_ns();
	c->start_cpu_ns = session_cpu_ns(s);
	own_cost_begin(&c->cost, c->start_cpu_ns);
	session_budget_open(s);
}

void follow_end(struct session *s)
{
	struct err e = {0};
	tracer_freeze(s->tracer);
	s->end_ns = monotonic_ns();
	if (nobody_lives(s))
		tracer_detach(s->tracer);
	attacher_stop(s);
	calls_stop(s);
	bursts_end(s);
	if (tracer_open_calls(s->tracer, post_open_call, s->pipeline, &e))
		pipeline_note(s->pipeline, "open calls", e.msg);
	if (tracer_open_waits(s->tracer, post_open_wait, s->pipeline, &e))
		pipeline_note(s->pipeline, "open waits", e.msg);
	if (tracer_end_waits(s->tracer, &e))
		pipeline_note(s->pipeline, "waits", e.msg);
	collect_stop(s);
	metas_note_missing(s);
	session_budget_end(s);
	metas_end(s);
	mover_stop(s);
	inside_metas(s);
	calls_leave(s);
	silence_end(s);
}
