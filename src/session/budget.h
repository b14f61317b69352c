/* budget.h - keeps what recording costs a job within a share of its processor time, and what eacgm
 * itself takes within a share of a core, by deciding which probes are on all the time and which in
 * bursts alone. It is told what was seen in each
 * period and says what is to be done next: no clock, no kernel, no recording.
 *
 * What a job may be charged is put to an account as the job runs, what it was charged is taken from
 * it. Probes for which there is not enough go to bursts, in this order: Python frames, operators,
 * all others, and what tells steps apart; of each the dearest first, since each of its calls tells
 * least. All that are in bursts are on together, so that what nests stays together, and whenever
 * the account has enough for one. When all cost less, probes come back in the opposite order, and
 * wait longer each time that it proves too early. A steady budget has them wait for minutes once
 * it has settled: each change is one for who compares what is seen with what was seen before.
 *
 * There is an account for each of the two bounds, and both have to be kept. What eacgm takes is not
 * put on its account as it is measured, but as own_time.h reckons it from the last minute: so it
 * bounds nothing in the first seconds, and nobody is turned down for a process whose libraries are
 * read. Where what stays is nearly all of that bound, or more, calls have a fifth of it beside.
 *
 * Around what happens all that are in bursts are on at once, in one burst of seconds. What that
 * costs beyond the budget is owed on an account of its own, of which nothing is forgotten and which
 * bounds such bursts: half of what bursts could have pays it, and nothing is turned down for it. Of
 * eacgm's own time none of it is put on its account: a minute has ten seconds of it at most.
 *
 * Not the GPU telemetry's governor (src/collect/governor.h), which spaces questions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "session/own_time.h"

#define BUDGET_HELD 4

enum budget_bound {
	BUDGET_JOBS, /* the jobs' processor time */
	BUDGET_OWN,  /* eacgm's own */
	BUDGET_BOUNDS,
};

enum budget_rank {
	BUDGET_FRAMES,
	BUDGET_OPERATORS,
	BUDGET_OTHERS,
	BUDGET_STEPS, /* what tells steps apart: a call or two of each */
};

struct budget_probe {
	/* the caller's, before each step */
	double calls;	/* in the period */
	double call_ns; /* that each took of the job */
	enum budget_rank rank;
	bool fixed; /* it cannot be turned down */
	/* the budget's */
	bool in_bursts;
	enum budget_bound bound; /* that it went to bursts for, last */
	double per_s;		 /* while it was on */
	double burst_calls;
};

struct budget_seen {
	bool held; /* what is on stays so, without debts, while it costs up to BUDGET_HELD times */
	bool raised;	      /* something happened: all that are in bursts are to be on */
	double seconds;	      /* the period's */
	double burst_seconds; /* of it, in which bursts were on */
	double job_ns;	      /* of processor time, all costs included */
	double cost_ns;	      /* of it for recording, calls included */
	double own_ns;	      /* of processor time of eacgm, all of it */
	double switch_ns;     /* of it: putting bursts on, and taking them off */
};

struct budget_order {
	bool moved; /* some probes' in_bursts changed: bursts are off before it is done */
	bool bursts_on;
	bool raised;	   /* they are on because of what happened */
	double cost_ratio; /* of the job's time, with what was always on until now; smoothed */
	double own_cores;  /* that eacgm takes, likewise; 0: not known */
};

struct budget_account {
	double account_ns;
	double fixed_per_s;		   /* what no probe could save, ns */
	double always_per_s, bursts_per_s; /* of probes that are always on; of others while on */
};

struct budget {
	double ratio;	  /* the budget: 0.02; 1: there is no limit */
	double own_limit; /* cores that eacgm itself may take: 0.005; likewise */
	bool steady;
	VEC(struct budget_probe) probes;
	/* the rest is the budget's own */
	struct budget_account of[BUDGET_BOUNDS];
	struct own_time own;
	double job_per_s;		/* of processor time, ns */
	double seconds;			/* so far */
	double moved_s, returned_s;	/* when probes moved last; came back */
	double patience_s;		/* until they may come back */
	double young_s;			/* a steady one is as others until then */
	double burst_s, rest_s;		/* how long bursts have been on; off */
	double length_s;		/* that a burst is to be paid for */
	double switch_ns, switching_ns; /* of eacgm's time, a burst to put on and off; this one */
	bool bursts_on;
	bool raised;	 /* the burst is one around what happened, until it is gone */
	double raised_s; /* when the last of them began */
	double echo_s;	 /* until then some of what it cost is still to come */
	double owed_ns;	 /* what they cost beyond the budget, as far as it is not paid */
};

/* ratio, own_limit: above 0, at most 1, which is no limit. */
void budget_open(struct budget *b, double ratio, double own_limit, bool steady);
/* Whether what eacgm takes with no call at all is more than it may take, by a whole minute. */
bool budget_own_is_too_small(const struct budget *b);
/* After the caller has put into probes what the period brought, new ones at the end. */
void budget_step(struct budget *b, const struct budget_seen *seen, struct budget_order *ret);
void budget_close(struct budget *b);
