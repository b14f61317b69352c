/* session_budget.c - keeps the job's cost within the session's budget: measures what budget.h is to
 * be told, has the tracer do what it says, and notes in the recording what was turned down and for
 * how long each probe was on. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "events/kinds.h"
#include "session/session_impl.h"

#define LOOK_TICKS 2 /* while no burst is on, */
#define CALM_TICKS 4 /* likewise, of what is always on */
#define QUIET_NS   1000000000ULL
#define TELL_NS	   5000000000ULL
#define PIECE_NS   400000000ULL	 /* of a time in which all are on: a trace waits for the last */
#define START_NS   2000000000ULL /* what it takes eacgm to begin is paid once */
#define NAMES_MOST 5		 /* in a note */
#define SECOND_NS  1e9

bool session_has_budget(const struct session *s)
{
	return s->opts->budget > 0 || s->opts->own_budget > 0;
}

/* As budget.h has it. */
static double limit_of(double option)
{
	return option > 0 ? option : 1;
}

void session_budget_open(struct session *s)
{
	if (session_has_budget(s))
		budget_open(&s->budget.b, limit_of(s->opts->budget), limit_of(s->opts->own_budget),
			    s->opts->judged);
	s->budget.own_ns = (double)session_cpu_ns(s);
	s->budget.looked_ns = s->budget.told_ns = s->budget.whole_ns = monotonic_ns();
}

void session_set_budget(struct session *s, double budget, double own_budget)
{
	s->budget.b.ratio = limit_of(budget);
	s->budget.b.own_limit = limit_of(own_budget);
	s->budget.told_small = false;
}

void session_budget_close(struct session *s)
{
	budget_close(&s->budget.b);
	map64_free(&s->budget.cpu_of);
	vec_free(&s->budget.probes);
}

/* ---- what is measured ---- */

/* What the jobs used since the last look; of a process that ended, up to the last look. What else
 * runs on the host is nobody's budget. */
static double job_ns(struct session *s)
{
	double sum_ns = 0;
	for (size_t i = 0; i < s->live.len; i++) {
		uint64_t pid = (uint64_t)s->live.data[i], before = 0;
		uint64_t now = jobs_has(s, (pid_t)pid) ? process_cpu_ns((pid_t)pid) : 0;
		if (!now)
			continue;
		bool known = map64_get(&s->budget.cpu_of, pid, &before);
		map64_set(&s->budget.cpu_of, pid, now);
		if (known && now > before)
			sum_ns += (double)(now - before);
	}
	return sum_ns;
}

struct looking {
	struct session *s;
	const struct running_cost *cost;
	double entry_ns, stepped_ns, return_ns; /* a run of our program */
};

static double mean_ns(const struct tracer_spending *s)
{
	return s->runs ? s->ns / (double)s->runs : 0;
}

/* What a call costs the job, as running_cost.h reckons it. */
static double call_ns(const struct looking *l, const struct probe_load *load)
{
	const struct trap_costs *t = &l->s->call_costs.traps;
	double slowed = l->cost->slowed;
	double ns = load->stepped ? slowed * t->stepped_ns + l->stepped_ns
				  : slowed * t->entry_ns + l->entry_ns;
	if (load->returns)
		ns += slowed * t->return_ns + l->return_ns;
	return ns + ns * (1 - 1 / slowed);
}

static enum budget_rank rank_of(const struct session *s, const struct probe_load *load)
{
	unsigned traits = layer_traits(load->layer);
	const char *layer = catalog_layer_name(s->opts->catalog, load->layer);
	if (!strcmp(load->role, "backward"))
		return BUDGET_STEPS;
	if (!strcmp(layer, "python"))
		return BUDGET_FRAMES;
	return traits & LAYER_HAS_OPERATORS ? BUDGET_OPERATORS : BUDGET_OTHERS;
}

static void look_at_load(void *ctx, uint32_t probe, const struct probe_load *load)
{
	const struct looking *l = ctx;
	struct session_budget *b = &l->s->budget;
	while (b->b.probes.len <= probe) {
		*vec_push(&b->b.probes) = (struct budget_probe){.rank = BUDGET_OTHERS};
		*vec_push(&b->probes) = (struct budgeted_probe){.since_ns = monotonic_ns()};
	}
	struct budget_probe *p = &b->b.probes.data[probe];
	struct budgeted_probe *known = &b->probes.data[probe];
	p->calls = (double)(load->hits - known->hits);
	p->call_ns = call_ns(l, load);
	p->rank = rank_of(l->s, load);
	p->fixed = load->fixed;
	known->hits = load->hits;
	known->name = load->name;
}

static double cost_so_far_ns(struct session *s, struct looking *l, struct running_cost *cost)
{
	struct tracer_spending spent[SPENT_KINDS];
	session_running_cost(s, spent, cost);
	*l = (struct looking){.s = s,
			      .cost = cost,
			      .entry_ns = mean_ns(&spent[SPENT_CALLS]),
			      .stepped_ns = mean_ns(&spent[SPENT_STEPPED]),
			      .return_ns = mean_ns(&spent[SPENT_RETURNS])};
	return cost->sum_ns - cost->starts_ns;
}

/* What eacgm itself took from the job: its time where no CPU was idle, by the job's share of all
 * CPUs. */
static double displaced_ns(struct session *s, const struct budget_seen *seen)
{
	struct session_budget *b = &s->budget;
	double now_ns = (double)s->clock.cost.displacing_ns;
	double cores = seen->job_ns / SECOND_NS / seen->seconds;
	double share = fmin(cores / (double)sysconf(_SC_NPROCESSORS_ONLN), 1);
	double took_ns = (now_ns - b->displacing_ns) * share;
	b->displacing_ns = now_ns;
	if (monotonic_ns() - s->clock.follow_ns < START_NS)
		return 0;
	return took_ns;
}

/* What eacgm used since the last look: all of its threads and processes. */
static void measure_own(struct session *s, struct budget_seen *ret)
{
	struct session_budget *b = &s->budget;
	double now_ns = (double)session_cpu_ns(s),
	       switch_ns = (double)tracer_bursts_cpu_ns(s->tracer);
	ret->own_ns = fmax(now_ns - b->own_ns, 0);
	ret->switch_ns = switch_ns - b->switch_ns;
	b->own_ns = now_ns;
	b->switch_ns = switch_ns;
}

static void measure(struct session *s, struct budget_seen *ret)
{
	struct session_budget *b = &s->budget;
	struct running_cost cost;
	struct looking l;
	uint64_t now_ns = monotonic_ns();
	double cost_ns = cost_so_far_ns(s, &l, &cost);
	*ret = (struct budget_seen){
		.seconds = (double)(now_ns - b->looked_ns) / SECOND_NS,
		.job_ns = job_ns(s),
		.cost_ns = fmax(cost_ns - b->cost_ns, 0),
		.held = now_ns < atomic_load(&s->held_until_ns),
		.raised = now_ns < atomic_load(&s->raised_until_ns),
	};
	if (b->bursts_on)
		ret->burst_seconds =
			((double)now_ns - fmax((double)b->burst_began_ns, (double)b->looked_ns)) /
			SECOND_NS;
	ret->cost_ns += displaced_ns(s, ret);
	measure_own(s, ret);
	tracer_loads(s->tracer, look_at_load, &l);
	b->looked_ns = now_ns;
	b->cost_ns = cost_ns;
	b->spent_ns += ret->cost_ns;
	b->job_ns += ret->job_ns;
}

/* ---- how long probes were on ---- */

static bool is_on(const struct session_budget *b, size_t probe)
{
	return !b->probes.data[probe].moved || b->bursts_on;
}

/* Before something changes. */
static void count_time(struct session *s, uint64_t now_ns)
{
	struct session_budget *b = &s->budget;
	for (size_t i = 0; i < b->probes.len; i++) {
		struct budgeted_probe *p = &b->probes.data[i];
		*(is_on(b, i) ? &p->on_ns : &p->off_ns) += now_ns - p->since_ns;
		p->since_ns = now_ns;
	}
}

/* Of probes that were off at times, or are to be. */
static void tell_times(struct session *s)
{
	struct session_budget *b = &s->budget;
	count_time(s, monotonic_ns());
	for (uint32_t i = 0; i < b->probes.len; i++) {
		const struct budgeted_probe *p = &b->probes.data[i];
		const struct m_coverage row = {.probe = i,
					       .on_ns = p->on_ns,
					       .off_ns = p->off_ns,
					       .changes = p->changes,
					       .in_bursts = p->moved,
					       .for_own = b->b.probes.data[i].bound == BUDGET_OWN};
		if (p->off_ns || p->moved)
			pipeline_row(s->pipeline, ROW_COVERAGE, &row, NULL, 0);
	}
}

/* ---- what is said of it ---- */

static double ratio_of(double part_ns, double job_ns)
{
	return job_ns > 0 ? part_ns / job_ns : 0;
}

/* Whether it moves, and so: into bursts for that bound, or out of them. */
static bool is_moving(const struct session_budget *b, size_t probe, bool down,
		      enum budget_bound bound)
{
	const struct budget_probe *p = &b->b.probes.data[probe];
	return p->in_bursts != b->probes.data[probe].moved && p->in_bursts == down &&
	       (!down || p->bound == bound);
}

static double job_cost(const struct session_budget *b, size_t probe)
{
	return b->b.probes.data[probe].per_s * b->b.probes.data[probe].call_ns;
}

/* The dearest of those that move. */
static void name_dearest(struct session_budget *b, struct buf *text, size_t moved, bool down,
			 enum budget_bound bound)
{
	VEC(bool) left = {0};
	for (size_t i = 0; i < b->b.probes.len; i++)
		*vec_push(&left) = is_moving(b, i, down, bound);
	for (size_t n = 0; n < moved && n < NAMES_MOST; n++) {
		size_t best = SIZE_MAX;
		for (size_t i = 0; i < left.len; i++)
			if (left.data[i] &&
			    (best == SIZE_MAX || job_cost(b, i) > job_cost(b, best)))
				best = i;
		if (best == SIZE_MAX)
			break;
		left.data[best] = false;
		buf_printf(text, "%s %s (%.0f/s, %.2f us each)", n ? "," : ":",
			   b->probes.data[best].name, b->b.probes.data[best].per_s,
			   b->b.probes.data[best].call_ns / 1e3);
	}
	if (moved > NAMES_MOST)
		buf_printf(text, " and %zu more", moved - NAMES_MOST);
	vec_free(&left);
}

static void say_and_note(struct session *s, struct buf *text)
{
	buf_byte(text, 0);
	pipeline_note(s->pipeline, "budget", (const char *)text->data);
	session_say(s, "budget: %s", (const char *)text->data);
	buf_free(text);
}

static void put_why(const struct session_budget *b, struct buf *text, enum budget_bound bound,
		    const struct budget_order *order)
{
	if (bound == BUDGET_OWN)
		buf_printf(text, "eacgm itself took %.2f %% of a core (own budget: %.3g %%)",
			   100 * order->own_cores, 100 * b->b.own_limit);
	else
		buf_printf(text, "recording cost %.1f %% (budget: %.3g %%)",
			   100 * order->cost_ratio, 100 * b->b.ratio);
}

static void note_moved(struct session *s, const struct budget_order *order, bool down,
		       enum budget_bound bound)
{
	struct session_budget *b = &s->budget;
	struct buf text = {0};
	size_t moved = 0;
	for (size_t i = 0; i < b->probes.len; i++)
		moved += is_moving(b, i, down, bound);
	if (!moved)
		return;
	buf_printf(&text, "%.1f s: %s %zu function%s, as ",
		   (double)(monotonic_ns() - s->start_ns) / SECOND_NS,
		   down ? "on in bursts from now on" : "on all the time again", moved,
		   moved == 1 ? "" : "s");
	put_why(b, &text, bound, order);
	name_dearest(b, &text, moved, down, bound);
	say_and_note(s, &text);
}

/* What comes back does so by both bounds: told is the one that there is, the jobs' first. */
static void note_moves(struct session *s, const struct budget_order *order)
{
	note_moved(s, order, true, BUDGET_JOBS);
	note_moved(s, order, true, BUDGET_OWN);
	note_moved(s, order, false, s->budget.b.ratio < 1 ? BUDGET_JOBS : BUDGET_OWN);
}

/* Once for a limit: what can be done does not change. */
static void note_small(struct session *s)
{
	struct session_budget *b = &s->budget;
	struct buf text = {0};
	if (b->told_small || !budget_own_is_too_small(&b->b))
		return;
	b->told_small = true;
	buf_printf(
		&text,
		"%.1f s: eacgm itself takes %.2f %% of a core without any call, more than its own "
		"budget of %.3g %%: calls have a fifth of that beside",
		(double)(monotonic_ns() - s->start_ns) / SECOND_NS,
		100 * b->b.own.fixed_per_s / SECOND_NS, 100 * b->b.own_limit);
	say_and_note(s, &text);
}

static void tell_own(struct session *s, double used)
{
	const struct budget *b = &s->budget.b;
	bool known = own_time_known(&b->own);
	pthread_mutex_lock(&s->budget.told_lock);
	s->budget.told_own = (struct own_budget_view){
		.limit = b->own_limit < 1 ? b->own_limit : 0,
		.used = known ? used : NAN,
		.fixed = known ? b->own.fixed_per_s / SECOND_NS : NAN,
		.call_s = known ? b->own.call_ns / SECOND_NS : NAN,
	};
	pthread_mutex_unlock(&s->budget.told_lock);
}

void session_budget_own(struct session *s, struct own_budget_view *ret)
{
	pthread_mutex_lock(&s->budget.told_lock);
	*ret = s->budget.told_own;
	pthread_mutex_unlock(&s->budget.told_lock);
}

/* Where a time begins or ends in which all are on around what happened. Returns whether. */
static bool note_raised(struct session *s, bool raised)
{
	struct session_budget *b = &s->budget;
	struct buf text = {0};
	uint64_t now_ns = monotonic_ns();
	if (raised == b->raised)
		return false;
	b->raised = raised;
	buf_printf(&text, "%.1f s: ", (double)(now_ns - s->start_ns) / SECOND_NS);
	if (raised) {
		buf_printf(&text,
			   "all functions are traced for some seconds: a file is being frozen");
		b->raised_ns = now_ns;
	} else {
		buf_printf(&text, "in bursts again after %.1f s%s",
			   (double)(now_ns - b->raised_ns) / SECOND_NS,
			   b->b.owed_ns > 0 ? ", which fewer bursts pay for" : "");
	}
	say_and_note(s, &text);
	return true;
}

/* ---- when all were on ---- */

/* As with --burst: who looks for what goes on over many functions keeps to these periods. A long
 * one comes in pieces, for who does not wait for its end. */
static void end_whole(struct session *s, uint64_t now_ns)
{
	if (s->budget.whole_ns)
		pipeline_window(s->pipeline, s->budget.whole_ns, now_ns);
	s->budget.whole_ns = 0;
}

static void tell_whole(struct session *s)
{
	uint64_t now_ns = monotonic_ns();
	if (!s->budget.any_moved || now_ns - s->budget.whole_ns < PIECE_NS || !s->budget.whole_ns)
		return;
	end_whole(s, now_ns);
	s->budget.whole_ns = now_ns;
}

static bool any_in_bursts(const struct session_budget *b)
{
	for (size_t i = 0; i < b->probes.len; i++)
		if (b->probes.data[i].moved)
			return true;
	return false;
}

/* ---- what is done ---- */

static void switch_bursts(struct session *s, bool on)
{
	struct session_budget *b = &s->budget;
	struct err e = {0};
	if (on == b->bursts_on)
		return;
	if (!on) { /* from here on none of its calls is recorded */
		count_time(s, monotonic_ns());
		end_whole(s, monotonic_ns());
	}
	if (tracer_burst(s->tracer, on, &e))
		pipeline_note(s->pipeline, "budget", e.msg);
	if (on) {
		b->burst_began_ns = monotonic_ns();
		count_time(s, b->burst_began_ns);
		b->whole_ns = b->burst_began_ns;
	}
	b->bursts_on = on;
	follow_pace(s, on);
}

static void move_probes(struct session *s)
{
	struct session_budget *b = &s->budget;
	struct err e = {0};
	bool *in_bursts = xcalloc(b->probes.len + 1, sizeof(*in_bursts));
	count_time(s, monotonic_ns());
	end_whole(s, monotonic_ns());
	b->any_moved = true;
	for (size_t i = 0; i < b->probes.len; i++) {
		in_bursts[i] = b->b.probes.data[i].in_bursts;
		b->probes.data[i].changes += in_bursts[i] != b->probes.data[i].moved;
		b->probes.data[i].moved = in_bursts[i];
	}
	if (tracer_set_bursts(s->tracer, in_bursts, b->probes.len, &e))
		pipeline_note(s->pipeline, "budget", e.msg);
	free(in_bursts);
	if (!any_in_bursts(b))
		b->whole_ns = monotonic_ns();
}

/* Nothing was called since the last look, which was not long ago. */
static bool is_quiet(struct session *s)
{
	struct session_budget *b = &s->budget;
	struct tracer_spending spent[SPENT_KINDS];
	tracer_spendings(s->tracer, spent);
	uint64_t calls = spent[SPENT_CALLS].runs + spent[SPENT_STEPPED].runs;
	bool same = calls == b->calls;
	b->calls = calls;
	return same && monotonic_ns() - b->looked_ns < QUIET_NS;
}

void session_budget_tick(struct session *s, unsigned tick)
{
	struct session_budget *b = &s->budget;
	struct budget_seen seen;
	struct budget_order order;
	unsigned look = s->opts->always_on ? CALM_TICKS : LOOK_TICKS;
	if (!session_has_budget(s) || (tick % look && !b->bursts_on))
		return;
	bool raised = monotonic_ns() < atomic_load(&s->raised_until_ns);
	b->quiet = s->opts->always_on && !b->bursts_on && !raised && is_quiet(s);
	if (b->quiet)
		return;
	measure(s, &seen);
	budget_step(&b->b, &seen, &order);
	if (order.raised)
		atomic_store(&s->raised_ns, b->looked_ns);
	if (!order.bursts_on)
		switch_bursts(s, false);
	if (order.moved) {
		note_moves(s, &order);
		move_probes(s);
	}
	if (order.bursts_on)
		switch_bursts(s, true);
	tell_whole(s);
	tell_own(s, order.own_cores);
	note_small(s);
	if (note_raised(s, order.raised) || order.moved || b->looked_ns - b->told_ns > TELL_NS) {
		b->told_ns = b->looked_ns;
		tell_times(s);
	}
}

void session_budget_end(struct session *s)
{
	struct session_budget *b = &s->budget;
	if (!session_has_budget(s))
		return;
	tell_times(s);
	if (s->budget.any_moved)
		end_whole(s, monotonic_ns());
	if (!(s->opts->budget > 0))
		return;
	pipeline_meta(s->pipeline, "budget_ratio", "%.6g", s->budget.b.ratio);
	pipeline_meta(s->pipeline, "budget_cost_ratio", "%.6g", ratio_of(b->spent_ns, b->job_ns));
}
