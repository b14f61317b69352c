/* governor.h - how often each of many questions may be asked within a budget of time.
 *
 * A question has a period at which it is wanted and a cost that is measured whenever it is
 * asked. Cheap questions keep their period; what is left of the budget is shared equally among
 * the dear ones, whose periods are stretched to fit. Pure arithmetic: it reads no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Per GPU. CPU time is what the host pays. Time that a call takes without computing is time in
 * the driver, where it may hold up the job's own calls. */
#define GOVERNOR_CPU_RATIO  0.004 /* of a core; a fifth below the promised 0.5 % */
#define GOVERNOR_WALL_RATIO 0.03

/* Nothing is asked less often than that because of its cost. */
#define GOVERNOR_MAX_PERIOD_NS 60000000000ULL

struct pace {
	uint64_t wanted_ns; /* the period at which it is wanted */
	uint64_t period_ns; /* the period that the budget allows: set by governor_plan */
	uint64_t last_ns;   /* when it was last due; 0: never asked */
	double cpu_ns;	    /* what asking it costs: a sliding mean */
	double wall_ns;
	uint64_t walls_ns[2]; /* what the last two took */
	bool off;	      /* not asked at all */
};

/* Whether it is to be asked now. early_ns: how far before its time it may be, so that a caller's
 * jitter does not halve a rate. Notes now as its last time when so. */
bool pace_due(struct pace *p, uint64_t now_ns, uint64_t early_ns);

/* Notes what asking took. A single long call counts as CPU time alone: long by the clock is also
 * one during which another thread ran. */
void pace_paid(struct pace *p, uint64_t cpu_ns, uint64_t wall_ns);

/* Sets the periods of n paces for `gpus` budgets together. Returns the largest factor by which
 * one was stretched, 1 for none. */
double governor_plan(struct pace *const *paces, size_t n, double gpus);
