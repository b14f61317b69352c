/* budget.c - an account, and who is on it. Measures nothing. */
#include "session/budget.h"

#include <math.h>
#include <stdlib.h>

#define BURST_S		0.05 /* a burst is on at least so long, */
#define TAIL_MOST_S	0.5  /* until it is gone */
#define REST_S		0.4  /* and off */
#define CREDIT_S	1    /* of what may be spent, at most on the account */
#define DEBT_S		5    /* likewise */
#define FORGET_S	10   /* what is longer ago is nobody's */
#define REPAY_S		5    /* in which debts are paid back */
#define TOO_MUCH	1.05 /* of what may be spent */
#define FILL		0.75 /* so much of it may be spent on what is always on, after a cut */
#define RETURN_TO	0.6  /* and when probes come back */
#define SECOND_NS	1e9
#define KEPT		0.1  /* also where what nobody can save is more than the budget */
#define OWN_LEAST	0.2  /* of eacgm's own, for calls and bursts, whatever the rest takes */
#define RETURN_RICH_TO	0.8  /* likewise, where bursts cannot spend what there is, */
#define RICH		0.5  /* so much of the credit */
#define LEAST		0.01 /* of it: what costs less is not worth a cut */
#define PATIENCE_S	2.0
#define PATIENCE_MOST_S 64
#define STEADY_S	300 /* the same of a steady one, when it has settled: */
#define STEADY_MOST_S	3600
#define YOUNG_S		15  /* after the first cut, or one after so long a time */
#define SETTLED_S	10  /* what has to go sooner after it came back came too early */
#define RISE		0.5 /* weights of what is new, of a period of 0.1 s */
#define BURST_FALL	0.7 /* of a burst */
#define FALL		0.2
#define SLOW		0.05
#define PERIOD_S	0.1
#define NONE_PER_S	1e-3 /* calls */
#define RAISE_MOST_S	10   /* a burst around what happens is on at most so long, */
#define RAISE_DEBT_S	30   /* and until so much of what may be spent is owed */
#define RAISE_APART_S	60   /* between the beginnings of two */
#define ECHO_S		0.5  /* what it cost is told so long after it, eacgm's own time above all */
#define PAY		0.5  /* of what is left over goes to what they cost */

void budget_open(struct budget *b, double ratio, double own_limit, bool steady)
{
	*b = (struct budget){.ratio = ratio,
			     .own_limit = own_limit,
			     .steady = steady,
			     .patience_s = PATIENCE_S,
			     .returned_s = -SETTLED_S,
			     .raised_s = -RAISE_APART_S,
			     .length_s = 2 * BURST_S};
	own_time_init(&b->own, steady ? OWN_JUDGED_NS : OWN_CALL_NS);
}

void budget_close(struct budget *b)
{
	vec_free(&b->probes);
}

/* ---- what is seen ---- */

static void follow(double *mean, double value, double weight, double seconds)
{
	*mean += (value - *mean) * (1 - pow(1 - weight, seconds / PERIOD_S));
}

static double call_ns(const struct budget *b, const struct budget_probe *p, enum budget_bound bound)
{
	return bound == BUDGET_OWN ? b->own.call_ns : p->call_ns;
}

static double cost_per_s(const struct budget *b, const struct budget_probe *p,
			 enum budget_bound bound)
{
	return p->per_s * call_ns(b, p, bound);
}

static void look_at_probe(struct budget *b, struct budget_probe *p, const struct budget_seen *seen)
{
	if (!p->in_bursts && !(p->calls > 0) && p->per_s < NONE_PER_S) { /* most of them */
		p->per_s = 0;
	} else if (!p->in_bursts) {
		double now = p->calls / seen->seconds;
		follow(&p->per_s, now, now > p->per_s ? RISE : FALL, seen->seconds);
	} else if (b->bursts_on) {
		p->burst_calls += p->calls;
	} else if (b->burst_s > 0) { /* it is over: what came since was while it went */
		double now = p->burst_calls / b->burst_s;
		p->per_s += (now - p->per_s) * (now > p->per_s ? RISE : BURST_FALL);
		p->burst_calls = 0;
	}
}

/* What came while the burst went costs as if it had lasted longer. */
static double tail_s(const struct budget *b)
{
	double tail_ns = 0, per_s = b->of[BUDGET_JOBS].bursts_per_s;
	for (size_t i = 0; i < b->probes.len; i++)
		if (b->probes.data[i].in_bursts)
			tail_ns += b->probes.data[i].calls * b->probes.data[i].call_ns;
	return per_s > 0 ? fmin(tail_ns / per_s, TAIL_MOST_S) : 0;
}

static void end_burst(struct budget *b)
{
	if (b->bursts_on || !(b->burst_s > 0))
		return;
	if (!b->raised) {
		b->length_s += (b->burst_s + tail_s(b) - b->length_s) * RISE;
		b->switch_ns += (b->switching_ns - b->switch_ns) * (b->switch_ns > 0 ? RISE : 1);
	}
	b->burst_s = b->switching_ns = 0;
}

static void sum_up(struct budget *b)
{
	for (enum budget_bound k = 0; k < BUDGET_BOUNDS; k++) {
		struct budget_account *a = &b->of[k];
		a->always_per_s = a->bursts_per_s = 0;
		for (size_t i = 0; i < b->probes.len; i++) {
			const struct budget_probe *p = &b->probes.data[i];
			if (!p->fixed)
				*(p->in_bursts ? &a->bursts_per_s : &a->always_per_s) +=
					cost_per_s(b, p, k);
		}
	}
}

/* What recording costs is within the job's time: all of it is no limit, whatever the figures say.
 */
static bool is_limited(const struct budget *b, enum budget_bound bound)
{
	if (bound == BUDGET_OWN)
		return b->own_limit < 1 && own_time_known(&b->own);
	return b->ratio < 1;
}

/* ns a second */
static double limit_of(const struct budget *b, enum budget_bound bound)
{
	if (!is_limited(b, bound))
		return INFINITY;
	return bound == BUDGET_OWN ? b->own_limit * SECOND_NS : b->ratio * b->job_per_s;
}

static double may_spend(const struct budget *b, enum budget_bound bound)
{
	double limit = limit_of(b, bound);
	if (bound == BUDGET_OWN && isfinite(limit))
		return fmax(limit, b->of[bound].fixed_per_s + OWN_LEAST * limit);
	return limit;
}

bool budget_own_is_too_small(const struct budget *b)
{
	return own_time_settled(&b->own) && b->own_limit < 1 &&
	       b->own.fixed_per_s > b->own_limit * SECOND_NS;
}

/* Whether some of what a burst around what happened costs is in this period. */
static bool is_in_cost(const struct budget *b)
{
	return b->raised || b->seconds < b->echo_s;
}

/* Of calls of all probes, also of those that cannot be turned down. */
static void look_at_own(struct budget *b, const struct budget_seen *seen)
{
	double calls = 0;
	for (size_t i = 0; i < b->probes.len; i++)
		calls += b->probes.data[i].calls;
	b->switching_ns += seen->switch_ns;
	if (is_in_cost(b))
		own_time_skip(&b->own);
	else
		own_time_add(&b->own, seen->seconds, fmax(seen->own_ns - seen->switch_ns, 0),
			     calls);
	b->of[BUDGET_OWN].fixed_per_s = b->own.fixed_per_s;
}

static void look(struct budget *b, const struct budget_seen *seen)
{
	double calls_ns = 0;
	for (size_t i = 0; i < b->probes.len; i++) {
		struct budget_probe *p = &b->probes.data[i];
		look_at_probe(b, p, seen);
		if (!p->fixed)
			calls_ns += p->calls * p->call_ns;
	}
	/* at first the mean of all so far: a job that has only begun has used little; what eacgm
	 * itself takes to begin is no cost that stays */
	double share = seen->seconds / (b->seconds + seen->seconds);
	double slow = 1 - pow(1 - SLOW, seen->seconds / PERIOD_S);
	b->job_per_s += (seen->job_ns / seen->seconds - b->job_per_s) * fmax(share, slow);
	if (!is_in_cost(b)) /* eacgm has more to do while all is on */
		follow(&b->of[BUDGET_JOBS].fixed_per_s,
		       fmax(seen->cost_ns - calls_ns, 0) / seen->seconds, SLOW, seen->seconds);
	look_at_own(b, seen);
	b->seconds += seen->seconds;
	sum_up(b);
	end_burst(b);
}

/* ---- the account ---- */

static double burst_ns(const struct budget *b, enum budget_bound bound)
{
	return b->of[bound].bursts_per_s * b->length_s + (bound == BUDGET_OWN ? b->switch_ns : 0);
}

/* The account does not sink by a burst around what happened. Returns what it did not pay. */
static double owe(struct budget *b, double now, double kept)
{
	double ret = fmax(fmin(kept, 0) - now, 0);
	b->owed_ns += ret;
	return ret;
}

/* Bursts wait for it, what is always on does not: nothing is turned down by what is owed. Returns
 * what was paid. left: of the period. */
static double pay_back(struct budget *b, double now, double left)
{
	double ret = fmax(fmin(fmin(b->owed_ns, PAY * left), now), 0);
	b->owed_ns -= ret;
	return ret;
}

static void put(struct budget *b, enum budget_bound bound, double now, bool held)
{
	struct budget_account *a = &b->of[bound];
	double may = may_spend(b, bound);
	double most = fmax(may * CREDIT_S, burst_ns(b, bound));
	double least = is_limited(b, bound) ? -may * DEBT_S : 0;
	a->account_ns = fmax(fmin(now, most), held ? fmin(a->account_ns, 0) : least);
}

/* What stays has its part of each period, whenever it is taken. Calls of all probes. */
static void book_own(struct budget *b, const struct budget_seen *seen)
{
	struct budget_account *a = &b->of[BUDGET_OWN];
	double took_ns = a->fixed_per_s * seen->seconds + seen->switch_ns;
	for (size_t i = 0; i < b->probes.len; i++)
		took_ns += b->probes.data[i].calls * b->own.call_ns;
	if (!is_limited(b, BUDGET_OWN))
		a->account_ns = 0;
	else if (!is_in_cost(b))
		put(b, BUDGET_OWN,
		    a->account_ns + may_spend(b, BUDGET_OWN) * seen->seconds - took_ns, seen->held);
}

static void book(struct budget *b, const struct budget_seen *seen)
{
	double kept = b->of[BUDGET_JOBS].account_ns * exp(-seen->seconds / FORGET_S);
	double left = b->ratio * seen->job_ns - seen->cost_ns;
	double now = kept + left;
	now += is_in_cost(b) ? owe(b, now, kept) : -pay_back(b, now, left);
	put(b, BUDGET_JOBS, now, seen->held);
	book_own(b, seen);
}

/* ---- who is in bursts ---- */

struct candidate {
	size_t probe;
	enum budget_rank rank;
	double per_s[BUDGET_BOUNDS];
};
typedef VEC(struct candidate) candidates_t;

/* Whom to turn down first. */
static int compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	double dx = x->per_s[BUDGET_JOBS], dy = y->per_s[BUDGET_JOBS];
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (dx < dy || dx > dy)
		return dx > dy ? -1 : 1;
	return x->probe < y->probe ? -1 : x->probe > y->probe;
}

static void list(const struct budget *b, bool in_bursts, candidates_t *ret)
{
	for (size_t i = 0; i < b->probes.len; i++) {
		const struct budget_probe *p = &b->probes.data[i];
		if (!p->fixed && p->in_bursts == in_bursts)
			*vec_push(ret) = (struct candidate){
				i,
				p->rank,
				{cost_per_s(b, p, BUDGET_JOBS), cost_per_s(b, p, BUDGET_OWN)}};
	}
	if (ret->len)
		qsort(ret->data, ret->len, sizeof(*ret->data), compare);
}

static void move(struct budget *b, const struct candidate *c, bool to_bursts)
{
	struct budget_probe *p = &b->probes.data[c->probe];
	p->in_bursts = to_bursts;
	p->burst_calls = 0;
	for (enum budget_bound k = 0; k < BUDGET_BOUNDS; k++) {
		b->of[k].always_per_s += to_bursts ? -c->per_s[k] : c->per_s[k];
		b->of[k].bursts_per_s += to_bursts ? c->per_s[k] : -c->per_s[k];
	}
}

/* By what is on all the time. */
static double spent_per_s(const struct budget *b, enum budget_bound bound)
{
	return b->of[bound].fixed_per_s + b->of[bound].always_per_s;
}

/* So much of the limit is more than what may be spent, where what stays leaves it little. */
static bool costs_too_much(const struct budget *b, enum budget_bound bound, bool held)
{
	double account_ns = b->of[bound].account_ns;
	double over = ((held ? BUDGET_HELD : TOO_MUCH) - 1) * limit_of(b, bound);
	return (held ? account_ns <= 0 : account_ns < 0) &&
	       spent_per_s(b, bound) > may_spend(b, bound) + over;
}

/* What may be on all the time, so that it is so much of what is spent. What eacgm takes whatever
 * is called leaves little of its own bound often enough: there it is a part of what is left. */
static double goal(const struct budget *b, enum budget_bound bound, double part, double spend)
{
	double fixed = b->of[bound].fixed_per_s;
	return bound == BUDGET_OWN ? part * (spend - fixed) : part * spend - fixed;
}

/* Of one that costs too much. */
static double goal_down(const struct budget *b, enum budget_bound bound)
{
	double spend = may_spend(b, bound) + fmin(b->of[bound].account_ns, 0) / REPAY_S;
	return fmax(goal(b, bound, FILL, spend), KEPT * limit_of(b, bound));
}

/* What costs too much by both is the jobs'. */
static bool turn_down_for(struct budget *b, enum budget_bound bound)
{
	double most = goal_down(b, bound), least = LEAST * limit_of(b, bound);
	bool moved = false;
	candidates_t all = {0};
	list(b, false, &all);
	for (size_t i = 0; i < all.len && b->of[bound].always_per_s > most; i++) {
		if (all.data[i].per_s[bound] < least)
			continue;
		move(b, &all.data[i], true);
		b->probes.data[all.data[i].probe].bound = bound;
		moved = true;
	}
	vec_free(&all);
	return moved;
}

static bool turn_down(struct budget *b, bool held)
{
	bool moved = false;
	for (enum budget_bound k = 0; k < BUDGET_BOUNDS; k++)
		if (costs_too_much(b, k, held))
			moved |= turn_down_for(b, k);
	return moved;
}

static double goal_up(const struct budget *b, enum budget_bound bound)
{
	double may = may_spend(b, bound), account_ns = b->of[bound].account_ns;
	bool rich = account_ns > RICH * may * CREDIT_S && account_ns > burst_ns(b, bound);
	return goal(b, bound, rich ? RETURN_RICH_TO : RETURN_TO, may);
}

static bool fits(const struct budget *b, const struct candidate *c,
		 const double goals[BUDGET_BOUNDS])
{
	for (enum budget_bound k = 0; k < BUDGET_BOUNDS; k++)
		if (b->of[k].always_per_s + c->per_s[k] > goals[k])
			return false;
	return true;
}

static bool take_back(struct budget *b)
{
	double goals[BUDGET_BOUNDS] = {goal_up(b, BUDGET_JOBS), goal_up(b, BUDGET_OWN)};
	bool moved = false;
	candidates_t all = {0};
	list(b, true, &all);
	for (size_t i = all.len; i-- > 0 && fits(b, &all.data[i], goals);) {
		move(b, &all.data[i], false);
		moved = true;
	}
	vec_free(&all);
	return moved;
}

/* A bound that there is not has no debts. */
static bool has_debts(const struct budget *b)
{
	return b->of[BUDGET_JOBS].account_ns < 0 || b->of[BUDGET_OWN].account_ns < 0;
}

/* How long nothing has to have moved. */
static double wait_s(const struct budget *b)
{
	if (!b->steady || b->seconds < b->young_s)
		return b->patience_s;
	return fmin(b->patience_s * (STEADY_S / PATIENCE_S), STEADY_MOST_S);
}

static bool decide(struct budget *b, bool held)
{
	double quiet_s = b->seconds - b->moved_s;
	if (turn_down(b, held)) {
		bool early = b->seconds - b->returned_s < SETTLED_S;
		b->patience_s = early ? fmin(b->patience_s * 2, PATIENCE_MOST_S) : b->patience_s;
		if (!b->young_s || quiet_s > STEADY_S)
			b->young_s = b->seconds + YOUNG_S;
		b->moved_s = b->seconds;
		return true;
	}
	if (quiet_s > fmax(b->steady ? 2 * wait_s(b) : 0, PATIENCE_MOST_S))
		b->patience_s = PATIENCE_S;
	if (held || has_debts(b) || b->bursts_on || quiet_s < wait_s(b) || !take_back(b))
		return false;
	b->moved_s = b->returned_s = b->seconds;
	return true;
}

/* ---- bursts ---- */

static bool any_in_bursts(const struct budget *b)
{
	for (size_t i = 0; i < b->probes.len; i++)
		if (b->probes.data[i].in_bursts)
			return true;
	return false;
}

static bool pays_burst(const struct budget *b, enum budget_bound bound)
{
	double account_ns = b->of[bound].account_ns;
	return !is_limited(b, bound) || (account_ns >= burst_ns(b, bound) / 2 && account_ns > 0);
}

/* A burst begins when half of it is there: the account is even on average. */
static bool burst(const struct budget *b)
{
	if (b->bursts_on)
		return b->burst_s < BURST_S;
	return b->rest_s >= REST_S && pays_burst(b, BUDGET_JOBS) && pays_burst(b, BUDGET_OWN) &&
	       any_in_bursts(b);
}

/* All that are in bursts are on while this holds. The next time waits until half of what may be
 * owed is there: whatever happens how often, in the long run the budget is kept but for that. */
static bool is_raised(const struct budget *b, const struct budget_seen *seen)
{
	double since_s = b->seconds - b->raised_s,
	       most_ns = RAISE_DEBT_S * may_spend(b, BUDGET_JOBS);
	if (!seen->raised || !any_in_bursts(b))
		return false;
	if (b->raised)
		return since_s < RAISE_MOST_S && b->owed_ns <= most_ns;
	return since_s >= RAISE_APART_S && b->owed_ns <= most_ns / 2;
}

void budget_step(struct budget *b, const struct budget_seen *seen, struct budget_order *ret)
{
	*ret = (struct budget_order){.bursts_on = b->bursts_on};
	if (!(seen->seconds > 0))
		return;
	b->burst_s += seen->burst_seconds;
	b->rest_s += b->bursts_on ? 0 : seen->seconds;
	look(b, seen);
	book(b, seen);
	/* of one that has just begun the mean is too small */
	double job_per_s = fmax(b->job_per_s, seen->job_ns / seen->seconds);
	if (job_per_s > 0)
		ret->cost_ratio = fmin(spent_per_s(b, BUDGET_JOBS) / job_per_s, 1);
	if (own_time_known(&b->own))
		ret->own_cores = spent_per_s(b, BUDGET_OWN) / SECOND_NS;
	b->raised &= b->bursts_on; /* else what came since was while it went */
	ret->raised = is_raised(b, seen);
	if (ret->raised && !b->raised)
		b->raised_s = b->seconds;
	b->raised |= ret->raised;
	if (b->raised)
		b->echo_s = b->seconds + ECHO_S;
	ret->moved = !is_in_cost(b) && decide(b, seen->held);
	bool on = ret->raised || (!ret->moved && burst(b));
	if (b->bursts_on && !on)
		b->rest_s = 0;
	b->bursts_on = ret->bursts_on = on;
}
