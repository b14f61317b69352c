/* budget_test.c - a budget by simulation: a job whose calls come as a test says, with probes that
 * cost what they cost, on as the budget says, a moment later.
 * links: session base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/budget.h"

#define ok(holds, ...)                                                                             \
	do {                                                                                       \
		if (!(holds))                                                                      \
			fail_msg(__VA_ARGS__);                                                     \
	} while (0)

#define TICK_S	 0.05
#define PROBES	 40
#define CALL_NS	 1200.0
#define WINDOW_S 10
#define TICKS	 16000 /* most of a run */

struct sim {
	struct budget b;
	double per_s[PROBES]; /* calls, while the job is not slowed */
	double own_per_s;     /* ns of cost that no probe saves */
	double raised_own_per_s,
		late_own_ns[3]; /* likewise while all is on, told two periods late */
	/* what eacgm takes: ns a second, a call, a burst; and once, in the next period */
	double fixed_own_per_s, own_call_ns, own_switch_ns, own_once_ns;
	double own_noise, own_vary; /* what stays varies by this share each five seconds; now */
	double noise;		    /* calls of a period vary by this share */
	double off_s;		    /* a burst that ends goes on costing for so long */
	bool held, raised;
	bool on;		/* bursts are */
	double on_s, longest_s; /* for how long; a burst of the run */
	double job_ns[TICKS], cost_ns[TICKS], own_ns[TICKS];
	size_t n;
	unsigned downs, ups;
	uint32_t random;
};

static double chance(struct sim *s)
{
	s->random = s->random * 1664525 + 1013904223;
	return (double)(s->random >> 8) / (1 << 24);
}

static void open_both(struct sim *s, double ratio, double own_limit, bool steady)
{
	*s = (struct sim){.off_s = 0.02, .own_vary = 1, .random = 7};
	budget_open(&s->b, ratio, own_limit, steady);
	for (size_t i = 0; i < PROBES; i++)
		*vec_push(&s->b.probes) =
			(struct budget_probe){.call_ns = CALL_NS,
					      .rank = i < 4	       ? BUDGET_FRAMES
						      : i < 30	       ? BUDGET_OPERATORS
						      : i < PROBES - 1 ? BUDGET_OTHERS
								       : BUDGET_STEPS};
}

static void open_as(struct sim *s, double ratio, bool steady)
{
	open_both(s, ratio, 1, steady);
}

static void sim_open(struct sim *s, double ratio)
{
	open_as(s, ratio, false);
}

/* Like a model: few functions make most of the calls. */
static void load(struct sim *s, double calls_per_s)
{
	double sum = 0;
	for (size_t i = 0; i < PROBES; i++)
		sum += 1.0 / (double)(1 + i % 10);
	for (size_t i = 0; i < PROBES; i++)
		s->per_s[i] = calls_per_s / sum / (double)(1 + i % 10);
}

/* A period of one CPU that is all the job's: what is recorded makes it slower. */
static void period(struct sim *s, double tail_s)
{
	double cost_ns = s->own_per_s * TICK_S, want_ns = 0;
	double vary = 1 + s->noise * (2 * chance(s) - 1);
	for (size_t i = 0; i < PROBES; i++) {
		struct budget_probe *p = &s->b.probes.data[i];
		double share = !p->in_bursts || s->on ? 1 : tail_s / TICK_S;
		p->calls = s->per_s[i] * vary * TICK_S * share;
		want_ns += p->calls * p->call_ns;
	}
	double slowed = 1 / (1 + want_ns / (TICK_S * 1e9));
	for (size_t i = 0; i < PROBES; i++)
		s->b.probes.data[i].calls *= slowed;
	cost_ns += want_ns * slowed + s->late_own_ns[0];
	s->late_own_ns[0] = s->late_own_ns[1];
	s->late_own_ns[1] = s->late_own_ns[2];
	s->late_own_ns[2] = s->on && s->raised ? s->raised_own_per_s * TICK_S : 0;
	if (s->own_noise > 0 && s->n % 100 == 0)
		s->own_vary = 1 + s->own_noise * (2 * chance(s) - 1);
	s->own_ns[s->n] = s->fixed_own_per_s * s->own_vary * TICK_S + s->own_once_ns;
	s->own_once_ns = 0;
	for (size_t i = 0; i < PROBES; i++)
		s->own_ns[s->n] += s->b.probes.data[i].calls * s->own_call_ns;
	s->own_ns[s->n] += tail_s > 0 ? s->own_switch_ns : 0;
	s->job_ns[s->n] = TICK_S * 1e9;
	s->cost_ns[s->n++] = cost_ns;
}

static void count_moves(struct sim *s, const bool *before)
{
	bool down = false, up = false;
	for (size_t i = 0; i < PROBES; i++) {
		down |= s->b.probes.data[i].in_bursts && !before[i];
		up |= !s->b.probes.data[i].in_bursts && before[i];
	}
	s->downs += down;
	s->ups += up;
}

static void run(struct sim *s, double seconds)
{
	double tail_s = 0;
	s->longest_s = 0;
	for (double t = 0; t < seconds && s->n < TICKS; t += TICK_S) {
		struct budget_order order;
		bool before[PROBES];
		for (size_t i = 0; i < PROBES; i++)
			before[i] = s->b.probes.data[i].in_bursts;
		period(s, tail_s);
		const struct budget_seen seen = {.seconds = TICK_S,
						 .burst_seconds = s->on ? TICK_S : 0,
						 .job_ns = s->job_ns[s->n - 1],
						 .cost_ns = s->cost_ns[s->n - 1],
						 .own_ns = s->own_ns[s->n - 1],
						 .switch_ns = tail_s > 0 ? s->own_switch_ns : 0,
						 .held = s->held,
						 .raised = s->raised};
		budget_step(&s->b, &seen, &order);
		tail_s = s->on && !order.bursts_on ? s->off_s : 0;
		s->on = order.bursts_on;
		s->on_s = s->on ? s->on_s + TICK_S : 0;
		s->longest_s = fmax(s->longest_s, s->on_s);
		count_moves(s, before);
	}
}

/* Of the last seconds. */
static double ratio_over(const struct sim *s, size_t end, double seconds)
{
	double job = 0, cost = 0;
	for (size_t n = 0; n < (size_t)lround(seconds / TICK_S) && n < end; n++) {
		job += s->job_ns[end - 1 - n];
		cost += s->cost_ns[end - 1 - n];
	}
	return cost / job;
}

/* The least and the most of any window of ten seconds that begins after from_s. */
static void windows(const struct sim *s, double from_s, double *least, double *most)
{
	*least = 1;
	*most = 0;
	for (size_t end = (size_t)lround((from_s + WINDOW_S) / TICK_S); end <= s->n; end++) {
		double ratio = ratio_over(s, end, WINDOW_S);
		*least = fmin(*least, ratio);
		*most = fmax(*most, ratio);
	}
}

static size_t in_bursts(const struct sim *s, enum budget_rank rank)
{
	size_t n = 0;
	for (size_t i = 0; i < PROBES; i++)
		n += s->b.probes.data[i].rank == rank && s->b.probes.data[i].in_bursts;
	return n;
}

static void nothing_to_do(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 5000);
	run(&s, 30);
	ok(!s.downs && !s.on, "what costs less than the budget stays on");
	ok(ratio_over(&s, s.n, 10) < 0.01, "and costs what it costs");
	budget_close(&s.b);
}

static void kept(double own_per_s, double noise, const char *what)
{
	struct sim s;
	double least, most;
	sim_open(&s, 0.02);
	s.own_per_s = own_per_s;
	s.noise = noise;
	load(&s, 500000);
	run(&s, 120);
	windows(&s, 20, &least, &most);
	ok(fabs(ratio_over(&s, s.n, 100) - 0.02) < 0.002, "2 %% is kept, %s: %.2f %%", what,
	   100 * ratio_over(&s, s.n, 100));
	ok(least > 0.012 && most < 0.028, "in any ten seconds, %s: %.2f to %.2f %%", what,
	   100 * least, 100 * most);
	ok(s.downs <= 3, "and it settles, %s: %u times turned down, %u up", what, s.downs, s.ups);
	budget_close(&s.b);
}

static void order(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 12000);
	for (size_t i = 0; i < PROBES && s.b.probes.data[i].rank == BUDGET_FRAMES; i++)
		s.per_s[i] *= 10;
	run(&s, 10);
	ok(in_bursts(&s, BUDGET_FRAMES) && !in_bursts(&s, BUDGET_OPERATORS) &&
		   !in_bursts(&s, BUDGET_OTHERS),
	   "Python frames go first");
	load(&s, 60000);
	run(&s, 10);
	ok(in_bursts(&s, BUDGET_OPERATORS) && !in_bursts(&s, BUDGET_OTHERS), "then operators");
	ok(s.b.probes.data[10].in_bursts && !s.b.probes.data[19].in_bursts,
	   "the frequent ones of them");
	load(&s, 2000000);
	run(&s, 10);
	ok(in_bursts(&s, BUDGET_OTHERS), "then the others");
	budget_close(&s.b);
}

/* Whatever the figures say: what a call costs is reckoned, and may come to more than a job took. */
static void all_is_no_limit(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 2000000);
	run(&s, 10);
	ok(in_bursts(&s, BUDGET_OTHERS), "turned down");
	s.b.ratio = 1;
	run(&s, 70);
	ok(!in_bursts(&s, BUDGET_FRAMES) && !in_bursts(&s, BUDGET_OPERATORS) &&
		   !in_bursts(&s, BUDGET_OTHERS) && !in_bursts(&s, BUDGET_STEPS),
	   "all is on");
	budget_close(&s.b);
}

static void changes(void **state)
{
	(void)state;
	struct sim s;
	double least, most;
	sim_open(&s, 0.02);
	load(&s, 5000);
	run(&s, 20);
	load(&s, 500000);
	run(&s, 1);
	ok(in_bursts(&s, BUDGET_OPERATORS), "a hundredfold load is met within a second");
	double jump = ratio_over(&s, s.n, 1);
	run(&s, 19);
	load(&s, 5000);
	run(&s, 20);
	ok(!in_bursts(&s, BUDGET_FRAMES) && !in_bursts(&s, BUDGET_OPERATORS),
	   "when it has fallen all comes back in 20 s");
	load(&s, 500000);
	run(&s, 40);
	windows(&s, 10, &least, &most);
	ok(most < 0.028, "no ten seconds cost more than 2.8 %%: %.2f %%, the first second %.0f %%",
	   100 * most, 100 * jump);
	budget_close(&s.b);
}

/* A load that comes and goes faster than anybody could follow. */
static void flutters(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	for (int i = 0; i < 40; i++) {
		load(&s, i % 2 ? 500000 : 5000);
		run(&s, 4);
	}
	ok(s.ups <= 8, "what comes back too early waits longer: %u times in 160 s", s.ups);
	ok(ratio_over(&s, s.n, 80) < 0.022, "and the budget is kept: %.2f %%",
	   100 * ratio_over(&s, s.n, 80));
	budget_close(&s.b);
}

/* For who compares. */
static void is_steady(void **state)
{
	(void)state;
	struct sim s;
	open_as(&s, 0.02, true);
	load(&s, 500000);
	run(&s, 20);
	unsigned downs = s.downs;
	size_t before = in_bursts(&s, BUDGET_OPERATORS);
	ok(downs && before, "it is kept as any");
	load(&s, 5000);
	run(&s, 120);
	ok(!s.ups && in_bursts(&s, BUDGET_OPERATORS) == before,
	   "nothing comes back in two minutes");
	load(&s, 500000);
	run(&s, 40);
	ok(s.downs == downs, "so that what comes back to the load changes nothing");
	ok(ratio_over(&s, s.n, 30) < 0.022, "and the budget is kept: %.2f %%",
	   100 * ratio_over(&s, s.n, 30));
	budget_close(&s.b);
}

static void is_held(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 12000);
	run(&s, 10);
	unsigned downs = s.downs, ups = s.ups;
	s.held = true;
	load(&s, 40000); /* some 5 % */
	run(&s, 10);
	load(&s, 1000);
	run(&s, 20);
	ok(s.downs == downs && s.ups == ups, "what is on stays so while it is held");
	load(&s, 2000000);
	run(&s, 10);
	ok(s.downs > downs, "but where it costs several times as much");
	budget_close(&s.b);
}

/* What was turned down is on for as long as it is wanted. */
static void is_raised(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 70000); /* some 8 % */
	run(&s, 20);
	unsigned downs = s.downs, ups = s.ups;
	size_t down = in_bursts(&s, BUDGET_OPERATORS);
	ok(down && s.longest_s < 0.5, "some are on in bursts, of %.2f s", s.longest_s);
	s.raised = true;
	run(&s, 5);
	ok(s.longest_s > 4.8, "all are on: for %.2f of 5 s", s.longest_s);
	s.raised = false;
	run(&s, 160);
	ok(s.longest_s < 0.5, "then in bursts, that are no longer than before: %.2f s",
	   s.longest_s);
	ok(s.downs == downs && s.ups == ups && in_bursts(&s, BUDGET_OPERATORS) == down,
	   "nobody is moved for it, nor to pay it");
	ok(fabs(ratio_over(&s, s.n, 165) - 0.02) < 0.0005, "and it is paid: %.3f %%",
	   100 * ratio_over(&s, s.n, 165));
	budget_close(&s.b);
}

/* eacgm takes much by itself meanwhile, which is told late: nobody is turned down for that. */
static void what_it_takes_itself_while_raised_stays_on_no_probe(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 70000);
	run(&s, 20);
	unsigned downs = s.downs;
	size_t down = in_bursts(&s, BUDGET_OPERATORS);
	s.raised_own_per_s = 1e9 * 0.1;
	s.raised = true;
	run(&s, 5);
	s.raised = false;
	run(&s, 20);
	ok(s.downs == downs && in_bursts(&s, BUDGET_OPERATORS) == down,
	   "nobody is turned down: %u, %u before", s.downs, downs);
	ok(s.b.of[BUDGET_JOBS].fixed_per_s < 1e9 * 0.001,
	   "nor is it taken for what stays: %.4f of a core", s.b.of[BUDGET_JOBS].fixed_per_s / 1e9);
	budget_close(&s.b);
}

static void is_raised_for_ten_seconds_at_most(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 50000); /* some 6 % */
	run(&s, 20);
	s.raised = true;
	run(&s, 59);
	ok(fabs(s.longest_s - 10) < 0.3, "for %.2f s", s.longest_s);
	budget_close(&s.b);
}

static void is_raised_once_a_minute(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 50000);
	run(&s, 20);
	s.raised = true;
	run(&s, 1);
	ok(s.longest_s > 0.9, "all are on: for %.2f s", s.longest_s);
	s.raised = false;
	run(&s, 5);
	s.raised = true;
	run(&s, 53);
	ok(s.longest_s < 0.5, "not again within a minute: %.2f s", s.longest_s);
	run(&s, 5);
	ok(s.longest_s > 1, "then again: %.2f s", s.longest_s);
	budget_close(&s.b);
}

/* Where all cost nearly twenty times the budget, and something happens all the time. */
static void is_raised_as_it_can_be_paid(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 500000);
	run(&s, 20);
	s.raised = true;
	run(&s, 5);
	double cost_s = ratio_over(&s, s.n, 5) * 5 / 0.02;
	ok(s.longest_s > 1 && s.longest_s < 3, "all are on for %.2f s", s.longest_s);
	ok(cost_s > 25 && cost_s < 40, "until that has cost 30 s of it: %.1f s", cost_s);
	run(&s, 54);
	ok(s.longest_s < 0.5, "not again within a minute: %.2f s", s.longest_s);
	run(&s, 700);
	ok(s.longest_s > 0.5, "then again, when half is paid");
	ok(ratio_over(&s, s.n, 759) < 0.021, "the budget is kept: %.2f %%",
	   100 * ratio_over(&s, s.n, 759));
	budget_close(&s.b);
}

static void nothing_to_raise(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 5000);
	run(&s, 20);
	s.raised = true;
	run(&s, 10);
	ok(!s.longest_s && !s.downs, "what is on is on");
	load(&s, 50000);
	run(&s, 20);
	ok(s.longest_s > 9, "and no time was spent: %.2f s", s.longest_s);
	budget_close(&s.b);
}

static void odd(void **state)
{
	(void)state;
	struct sim s;
	struct budget_order o;
	sim_open(&s, 0.02);
	budget_step(&s.b, &(struct budget_seen){0}, &o);
	ok(!o.moved && !o.bursts_on, "no time, nothing to do");
	for (int i = 0; i < 100; i++)
		budget_step(&s.b, &(struct budget_seen){.seconds = 0.1}, &o);
	ok(!o.moved && !o.bursts_on && isfinite(s.b.of[BUDGET_JOBS].account_ns),
	   "a job that sleeps");
	s.own_per_s = 1e8;
	load(&s, 500000);
	run(&s, 10);
	size_t always = 0;
	for (size_t i = 0; i < PROBES; i++)
		always += !s.b.probes.data[i].in_bursts;
	ok(!s.on && always < PROBES, "where nothing can save enough, next to nothing stays on");
	s.own_per_s = 0;
	run(&s, 40);
	ok(s.n && fabs(ratio_over(&s, s.n, 10) - 0.02) < 0.006, "until it can: %.2f %%",
	   100 * ratio_over(&s, s.n, 10));
	budget_close(&s.b);
}

static void fixed(void **state)
{
	(void)state;
	struct sim s;
	sim_open(&s, 0.02);
	load(&s, 500000);
	for (size_t i = 0; i < PROBES; i += 2)
		s.b.probes.data[i].fixed = true;
	run(&s, 5);
	bool any = false;
	for (size_t i = 0; i < PROBES; i += 2)
		any |= s.b.probes.data[i].in_bursts;
	ok(!any, "what cannot be turned down is not");
	budget_close(&s.b);
}

/* ---- what eacgm itself takes ---- */

/* Of a core, in the last seconds. */
static double own_over(const struct sim *s, double seconds)
{
	double sum = 0;
	size_t n = (size_t)lround(seconds / TICK_S);
	for (size_t i = 0; i < n; i++)
		sum += s->own_ns[s->n - 1 - i];
	return sum / 1e9 / seconds;
}

static size_t for_bound(const struct sim *s, enum budget_bound bound)
{
	size_t n = 0;
	for (size_t i = 0; i < PROBES; i++)
		n += s->b.probes.data[i].in_bursts && s->b.probes.data[i].bound == bound;
	return n;
}

/* Rings, rates and a detector beside launches; 0.25 % of a core whatever is called. */
static void open_own(struct sim *s, double ratio, double own_limit)
{
	open_both(s, ratio, own_limit, false);
	s->fixed_own_per_s = 2.5e6;
	s->own_call_ns = 1000;
	s->own_switch_ns = 3e5;
	s->noise = 0.3;
}

static void own_is_kept_of(double call_ns)
{
	struct sim s;
	open_own(&s, 1, 0.005);
	s.own_call_ns = call_ns;
	load(&s, 80000);
	run(&s, 100);
	unsigned downs = s.downs, ups = s.ups;
	run(&s, 200);
	ok(for_bound(&s, BUDGET_OWN) && !for_bound(&s, BUDGET_JOBS), "by it alone, of %.0f ns",
	   call_ns);
	ok(own_over(&s, 200) < 0.0053 && own_over(&s, 200) > 0.0042, "is kept, of %.0f ns: %.3f %%",
	   call_ns, 100 * own_over(&s, 200));
	ok(fabs(s.b.own.call_ns / call_ns - 1) < 0.25 && fabs(s.b.own.fixed_per_s - 2.5e6) < 3e5,
	   "of a call it takes %.0f ns, not %.0f; %.2f %% stay", call_ns, s.b.own.call_ns,
	   s.b.own.fixed_per_s / 1e7);
	ok(downs <= 5 && s.downs - downs <= 1 && s.ups - ups <= 1,
	   "it settles: %u down, %u up; then %u and %u", downs, ups, s.downs - downs, s.ups - ups);
	budget_close(&s.b);
}

static void own_is_kept(void **state)
{
	(void)state;
	own_is_kept_of(1000);
	own_is_kept_of(400);
	own_is_kept_of(150);
	own_is_kept_of(3000);
}

/* As beside a detector, where what stays is more than what calls take when they are turned down. */
static void noise_of(double fixed_per_s, double noise, double call_ns)
{
	struct sim s;
	open_own(&s, 1, 0.005);
	s.fixed_own_per_s = fixed_per_s;
	s.own_call_ns = call_ns;
	s.own_noise = noise;
	load(&s, 80000);
	run(&s, 60);
	for (int i = 0; i < 120; i++) {
		double share = s.b.own.call_ns / call_ns;
		run(&s, 5);
		ok(share > 0.7 && share < 1.4, "a call takes %.2f of what it does", share);
	}
	budget_close(&s.b);
}

static void noise_says_nothing_of_a_call(void **state)
{
	(void)state;
	noise_of(5e6, 0.25, 1000);
	noise_of(3e6, 0.5, 400);
}

static void own_is_kept_beside_the_jobs(void **state)
{
	(void)state;
	struct sim s;
	open_own(&s, 0.02, 0.5);
	load(&s, 80000);
	run(&s, 120);
	ok(for_bound(&s, BUDGET_JOBS) && !for_bound(&s, BUDGET_OWN), "the jobs' holds them");
	ok(fabs(ratio_over(&s, s.n, 80) - 0.02) < 0.002, "2 %% are kept: %.2f %%",
	   100 * ratio_over(&s, s.n, 80));
	budget_close(&s.b);
	open_own(&s, 0.02, 0.005);
	load(&s, 80000);
	run(&s, 300);
	ok(for_bound(&s, BUDGET_JOBS) && for_bound(&s, BUDGET_OWN),
	   "the jobs' first, then its own: %zu and %zu", for_bound(&s, BUDGET_JOBS),
	   for_bound(&s, BUDGET_OWN));
	ok(ratio_over(&s, s.n, 200) < 0.021 && own_over(&s, 200) < 0.0053,
	   "both are kept: %.2f and %.3f %%", 100 * ratio_over(&s, s.n, 200),
	   100 * own_over(&s, 200));
	budget_close(&s.b);
}

static void what_stays_is_more_than_its_own(void **state)
{
	(void)state;
	struct sim s;
	open_own(&s, 1, 0.005);
	s.fixed_own_per_s = 1.3e7;
	load(&s, 80000);
	run(&s, 50);
	ok(!budget_own_is_too_small(&s.b), "that is not said of the first minute");
	run(&s, 250);
	ok(budget_own_is_too_small(&s.b), "then it is");
	size_t always = 0;
	double seen = 0;
	for (size_t i = 0; i < PROBES; i++)
		always += !s.b.probes.data[i].in_bursts;
	ok(always, "some are on all the time");
	seen = (own_over(&s, 200) - 0.013) / 0.005;
	ok(seen > 0.1 && seen < 0.3, "what goes with calls takes %.2f of the limit", seen);
	budget_close(&s.b);
}

static void own_load_changes(void **state)
{
	(void)state;
	struct sim s;
	open_own(&s, 1, 0.005);
	s.fixed_own_per_s = 4e6;
	s.own_call_ns = 600;
	load(&s, 800);
	run(&s, 60);
	ok(!s.downs, "what it takes of a few calls is nothing");
	load(&s, 80000);
	run(&s, 2);
	ok(for_bound(&s, BUDGET_OWN), "a hundredfold load is met in two seconds");
	run(&s, 118);
	ok(own_over(&s, 60) < 0.0055, "and kept: %.3f %%", 100 * own_over(&s, 60));
	load(&s, 800);
	run(&s, 90);
	ok(!for_bound(&s, BUDGET_OWN), "when it has fallen all comes back");
	budget_close(&s.b);
}

/* Each of them takes seconds of a core, of which no call is to blame. */
static void processes_begin(void **state)
{
	(void)state;
	struct sim s;
	open_own(&s, 1, 0.005);
	s.own_call_ns = 400;
	load(&s, 3000);
	run(&s, 30);
	for (int i = 0; i < 10; i++) {
		s.own_once_ns = 2e9;
		run(&s, 25);
	}
	ok(!s.downs, "nobody is turned down for that: %u", s.downs);
	budget_close(&s.b);
}

static void own_is_not_for_what_is_raised(void **state)
{
	(void)state;
	struct sim s;
	open_own(&s, 1, 0.005);
	load(&s, 80000);
	run(&s, 120);
	unsigned downs = s.downs, ups = s.ups;
	s.raised = true;
	for (int i = 0; i < 10; i++) {
		s.own_once_ns = 1e9 * 0.3; /* a file is written */
		run(&s, 1);
		ok(!i || s.longest_s > i, "all are on for ten seconds");
	}
	s.own_once_ns = 0;
	run(&s, 1);
	s.raised = false;
	run(&s, 9);
	ok(s.longest_s > 0 && s.longest_s < 0.5, "what it took is not owed: %.2f", s.longest_s);
	run(&s, 10);
	ok(s.b.own.fixed_per_s < 2.7e6 && s.b.own.call_ns < 1300,
	   "nor does it stay: %.2f %%, %.0f ns", s.b.own.fixed_per_s / 1e7, s.b.own.call_ns);
	run(&s, 60);
	ok(s.downs == downs && s.ups == ups, "nobody is moved for it: %u and %u", s.downs - downs,
	   s.ups - ups);
	ok(own_over(&s, 55) < 0.0055, "then it is kept: %.3f %%", 100 * own_over(&s, 55));
	s.held = true;
	load(&s, 120000);
	run(&s, 30);
	ok(s.downs == downs && s.ups == ups, "nor while it is held");
	budget_close(&s.b);
}

static void evenly(void **state)
{
	(void)state;
	kept(0, 0, "evenly");
}

static void with_noise(void **state)
{
	(void)state;
	kept(0, 0.5, "with noise");
}

static void with_costs_that_stay(void **state)
{
	(void)state;
	kept(8e6, 0.2, "with costs that stay");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_do),
		cmocka_unit_test(evenly),
		cmocka_unit_test(with_noise),
		cmocka_unit_test(with_costs_that_stay),
		cmocka_unit_test(order),
		cmocka_unit_test(all_is_no_limit),
		cmocka_unit_test(changes),
		cmocka_unit_test(flutters),
		cmocka_unit_test(odd),
		cmocka_unit_test(fixed),
		cmocka_unit_test(is_steady),
		cmocka_unit_test(is_held),
		cmocka_unit_test(is_raised),
		cmocka_unit_test(what_it_takes_itself_while_raised_stays_on_no_probe),
		cmocka_unit_test(is_raised_as_it_can_be_paid),
		cmocka_unit_test(nothing_to_raise),
		cmocka_unit_test(is_raised_for_ten_seconds_at_most),
		cmocka_unit_test(is_raised_once_a_minute),
		cmocka_unit_test(own_is_kept),
		cmocka_unit_test(noise_says_nothing_of_a_call),
		cmocka_unit_test(own_is_kept_beside_the_jobs),
		cmocka_unit_test(what_stays_is_more_than_its_own),
		cmocka_unit_test(own_load_changes),
		cmocka_unit_test(processes_begin),
		cmocka_unit_test(own_is_not_for_what_is_raised),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
