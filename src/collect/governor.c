/* governor.c - a fair division of the budget (max-min): a question that demands less than an
 * equal share gets all that it wants, and what it leaves goes to the others. */
#include "collect/governor.h"

bool pace_due(struct pace *p, uint64_t now_ns, uint64_t early_ns)
{
	if (p->off)
		return false;
	uint64_t due_ns = p->last_ns + p->period_ns;
	if (p->last_ns && now_ns + early_ns < due_ns)
		return false;
	/* keep the beat, unless it was lost */
	bool beat = p->last_ns && now_ns < due_ns + p->period_ns;
	p->last_ns = beat ? due_ns : now_ns;
	return true;
}

static uint64_t middle(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t low = a < b ? a : b, high = a < b ? b : a;
	return c < low ? low : c > high ? high : c;
}

void pace_paid(struct pace *p, uint64_t cpu_ns, uint64_t wall_ns)
{
	double weight = p->cpu_ns == 0 ? 1 : 0.25;
	uint64_t usual_ns = middle(p->walls_ns[0], p->walls_ns[1], wall_ns);
	p->cpu_ns += ((double)cpu_ns - p->cpu_ns) * weight;
	p->wall_ns += ((double)usual_ns - p->wall_ns) * 0.25;
	p->walls_ns[0] = p->walls_ns[1];
	p->walls_ns[1] = wall_ns;
}

/* How many GPUs' budgets asking it once a nanosecond would take. */
static double cost(const struct pace *p)
{
	double cpu = p->cpu_ns / GOVERNOR_CPU_RATIO;
	double wall = p->wall_ns / GOVERNOR_WALL_RATIO;
	return cpu > wall ? cpu : wall;
}

static double demand(const struct pace *p)
{
	return p->off ? 0 : cost(p) / (double)p->wanted_ns;
}

/* The share above which demands are cut, given that those above `cut` take an equal part of
 * what the others leave. */
static double next_cut(struct pace *const *paces, size_t n, double budget, double cut)
{
	size_t above = 0;
	for (size_t i = 0; i < n; i++) {
		if (demand(paces[i]) > cut)
			above++;
		else
			budget -= demand(paces[i]);
	}
	return above ? budget / (double)above : cut;
}

double governor_plan(struct pace *const *paces, size_t n, double gpus)
{
	double sum = 0, largest = 1;
	for (size_t i = 0; i < n; i++)
		sum += demand(paces[i]);
	double cut = gpus / (double)(n ? n : 1);
	for (size_t i = 0; i < n && sum > gpus; i++) {
		double next = next_cut(paces, n, gpus, cut);
		if (next <= cut * 1.0001)
			break;
		cut = next;
	}
	for (size_t i = 0; i < n; i++) {
		struct pace *p = paces[i];
		p->period_ns = p->wanted_ns;
		if (sum <= gpus || demand(p) <= cut || p->off)
			continue;
		double period = cost(p) / cut;
		if (period > (double)GOVERNOR_MAX_PERIOD_NS)
			period = (double)GOVERNOR_MAX_PERIOD_NS;
		if (period > (double)p->wanted_ns)
			p->period_ns = (uint64_t)period;
		double factor = (double)p->period_ns / (double)p->wanted_ns;
		if (factor > largest)
			largest = factor;
	}
	return largest;
}
