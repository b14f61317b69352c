/* running_cost.c - adds up; measures nothing. */
#include "session/running_cost.h"

#include <math.h>

#define RUNS_TO_TELL 200 /* returns, from which on they tell how slow they are */
#define SLOWED_MOST  4
#define COLD	     2 /* times as long as in a tight loop: measured with programs that start others */

static double runs(const struct tracer_spending *spent, enum spending_kind kind)
{
	return (double)spent[kind].runs;
}

static double slowed_by(const struct tracer_spending *returns, const struct call_costs *costs)
{
	if (returns->runs < RUNS_TO_TELL || !(costs->return_ns > 0))
		return 1;
	return fmin(fmax(returns->ns / (double)returns->runs / costs->return_ns, 1), SLOWED_MOST);
}

/* ns: what something took that is so many times as slow as it could be. */
static double caches_part(double ns, double slowed)
{
	return ns * (1 - 1 / slowed);
}

static void add_calls(struct running_cost *c, const struct tracer_spending *spent,
		      const struct call_costs *costs)
{
	const struct trap_costs *t = &costs->traps;
	double programs_ns =
		spent[SPENT_CALLS].ns + spent[SPENT_STEPPED].ns + spent[SPENT_RETURNS].ns;
	double traps_ns = c->slowed * (runs(spent, SPENT_CALLS) * t->entry_ns +
				       runs(spent, SPENT_STEPPED) * t->stepped_ns +
				       runs(spent, SPENT_RETURNS) * t->return_ns);
	c->programs_ns += programs_ns;
	c->traps_ns += traps_ns;
	c->caches_ns += caches_part(programs_ns + traps_ns, c->slowed);
}

static void add_processes(struct running_cost *c, const struct tracer_spending *spent,
			  const struct call_costs *costs)
{
	double programs_ns = spent[SPENT_FORKS].ns + spent[SPENT_EXECS].ns + spent[SPENT_EXITS].ns +
			     spent[SPENT_LOADS].ns;
	double traps_ns = COLD * (runs(spent, SPENT_EXECS) * costs->traps.mapping_ns +
				  runs(spent, SPENT_LOADS) * costs->traps.entry_ns);
	c->programs_ns += programs_ns;
	c->traps_ns += traps_ns;
	c->caches_ns += caches_part(programs_ns + traps_ns, COLD);
	c->starts_ns += programs_ns + traps_ns + caches_part(programs_ns + traps_ns, COLD);
}

void running_cost_reckon(struct running_cost *ret, const struct tracer_spending spent[SPENT_KINDS],
			 uint64_t places, const struct call_costs *costs)
{
	*ret = (struct running_cost){.slowed = slowed_by(&spent[SPENT_RETURNS], costs)};
	add_calls(ret, spent, costs);
	add_processes(ret, spent, costs);
	double places_ns = COLD * (double)places * costs->traps.mapping_ns / MAPPING_PLACES;
	ret->traps_ns += places_ns;
	ret->starts_ns += places_ns;
	ret->programs_ns +=
		spent[SPENT_TICKS].ns + spent[SPENT_SWITCHES].ns + spent[SPENT_STALLS].ns;
	ret->sum_ns = ret->programs_ns + ret->traps_ns + ret->caches_ns;
}
