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
#define KEPT		0.1  /* also where what nobody can save is more than the budget */
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

void budget_open(struct budget *b, double ratio, bool steady)
{
	*b = (struct budget){.ratio = ratio,
			     .steady = steady,
			     .patience_s = PATIENCE_S,
			     .returned_s = -SETTLED_S,
			     .raised_s = -RAISE_APART_S,
			     .length_s = 2 * BURST_S};
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

static double cost_per_s(const struct budget_probe *p)
{
	return p->per_s * p->call_ns;
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
	double tail_ns = 0;
	for (size_t i = 0; i < b->probes.len; i++)
		if (b->probes.data[i].in_bursts)
			tail_ns += b->probes.data[i].calls * b->probes.data[i].call_ns;
	return b->bursts_per_s > 0 ? fmin(tail_ns / b->bursts_per_s, TAIL_MOST_S) : 0;
}

static void end_burst(struct budget *b)
{
	if (b->bursts_on || !(b->burst_s > 0))
		return;
	if (!b->raised)
		b->length_s += (b->burst_s + tail_s(b) - b->length_s) * RISE;
	b->burst_s = 0;
}

static void sum_up(struct budget *b)
{
	b->always_per_s = b->bursts_per_s = 0;
	for (size_t i = 0; i < b->probes.len; i++) {
		const struct budget_probe *p = &b->probes.data[i];
		if (!p->fixed)
			*(p->in_bursts ? &b->bursts_per_s : &b->always_per_s) += cost_per_s(p);
	}
}

/* What recording costs is within the job's time: all of it is no limit, whatever the figures say.
 */
static bool is_limited(const struct budget *b)
{
	return b->ratio < 1;
}

static double may_spend(const struct budget *b)
{
	return is_limited(b) ? b->ratio * b->job_per_s : INFINITY;
}

/* Whether some of what a burst around what happened costs is in this period. */
static bool is_in_cost(const struct budget *b)
{
	return b->raised || b->seconds < b->echo_s;
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
		follow(&b->fixed_per_s, fmax(seen->cost_ns - calls_ns, 0) / seen->seconds, SLOW,
		       seen->seconds);
	b->seconds += seen->seconds;
	sum_up(b);
	end_burst(b);
}

/* ---- the account ---- */

static double burst_ns(const struct budget *b)
{
	return b->bursts_per_s * b->length_s;
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

static void book(struct budget *b, const struct budget_seen *seen)
{
	double most = fmax(may_spend(b) * CREDIT_S, burst_ns(b));
	double least = is_limited(b) ? -may_spend(b) * DEBT_S : 0;
	double kept = b->account_ns * exp(-seen->seconds / FORGET_S);
	double left = b->ratio * seen->job_ns - seen->cost_ns;
	double now = kept + left;
	now += is_in_cost(b) ? owe(b, now, kept) : -pay_back(b, now, left);
	b->account_ns = fmax(fmin(now, most), seen->held ? fmin(b->account_ns, 0) : least);
}

/* ---- who is in bursts ---- */

struct candidate {
	size_t probe;
	enum budget_rank rank;
	double per_s;
};
typedef VEC(struct candidate) candidates_t;

/* Whom to turn down first. */
static int compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->per_s < y->per_s || x->per_s > y->per_s)
		return x->per_s > y->per_s ? -1 : 1;
	return x->probe < y->probe ? -1 : x->probe > y->probe;
}

/* least: those that cost less are left out. */
static void list(const struct budget *b, bool in_bursts, double least, candidates_t *ret)
{
	for (size_t i = 0; i < b->probes.len; i++) {
		const struct budget_probe *p = &b->probes.data[i];
		if (!p->fixed && p->in_bursts == in_bursts && cost_per_s(p) >= least)
			*vec_push(ret) = (struct candidate){i, p->rank, cost_per_s(p)};
	}
	if (ret->len)
		qsort(ret->data, ret->len, sizeof(*ret->data), compare);
}

static void move(struct budget *b, const struct candidate *c, bool to_bursts)
{
	struct budget_probe *p = &b->probes.data[c->probe];
	p->in_bursts = to_bursts;
	p->burst_calls = 0;
	b->always_per_s += to_bursts ? -c->per_s : c->per_s;
	b->bursts_per_s += to_bursts ? c->per_s : -c->per_s;
}

static bool turn_down(struct budget *b)
{
	double may = may_spend(b), to_spend = may + fmin(b->account_ns, 0) / REPAY_S;
	double goal = fmax(FILL * to_spend - b->fixed_per_s, KEPT * may);
	bool moved = false;
	candidates_t all = {0};
	list(b, false, LEAST * may, &all);
	for (size_t i = 0; i < all.len && b->always_per_s > goal; i++) {
		move(b, &all.data[i], true);
		moved = true;
	}
	vec_free(&all);
	return moved;
}

static bool take_back(struct budget *b)
{
	double may = may_spend(b);
	bool rich = b->account_ns > RICH * may * CREDIT_S && b->account_ns > burst_ns(b);
	double goal = (rich ? RETURN_RICH_TO : RETURN_TO) * may - b->fixed_per_s;
	bool moved = false;
	candidates_t all = {0};
	list(b, true, 0, &all);
	for (size_t i = all.len; i-- > 0 && b->always_per_s + all.data[i].per_s <= goal;) {
		move(b, &all.data[i], false);
		moved = true;
	}
	vec_free(&all);
	return moved;
}

static bool costs_too_much(const struct budget *b, bool held)
{
	double may = may_spend(b), per_s = b->fixed_per_s + b->always_per_s;
	return (held ? b->account_ns <= 0 : b->account_ns < 0) &&
	       per_s > (held ? BUDGET_HELD : TOO_MUCH) * may;
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
	if (costs_too_much(b, held) && turn_down(b)) {
		bool early = b->seconds - b->returned_s < SETTLED_S;
		b->patience_s = early ? fmin(b->patience_s * 2, PATIENCE_MOST_S) : b->patience_s;
		if (!b->young_s || quiet_s > STEADY_S)
			b->young_s = b->seconds + YOUNG_S;
		b->moved_s = b->seconds;
		return true;
	}
	if (quiet_s > fmax(b->steady ? 2 * wait_s(b) : 0, PATIENCE_MOST_S))
		b->patience_s = PATIENCE_S;
	if (held || b->account_ns < 0 || b->bursts_on || quiet_s < wait_s(b) || !take_back(b))
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

/* A burst begins when half of it is there: the account is even on average. */
static bool burst(const struct budget *b)
{
	if (b->bursts_on)
		return b->burst_s < BURST_S;
	return b->rest_s >= REST_S && b->account_ns >= burst_ns(b) / 2 && b->account_ns > 0 &&
	       any_in_bursts(b);
}

/* All that are in bursts are on while this holds. The next time waits until half of what may be
 * owed is there: whatever happens how often, in the long run the budget is kept but for that. */
static bool is_raised(const struct budget *b, const struct budget_seen *seen)
{
	double since_s = b->seconds - b->raised_s, most_ns = RAISE_DEBT_S * may_spend(b);
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
		ret->cost_ratio = fmin((b->fixed_per_s + b->always_per_s) / job_per_s, 1);
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
