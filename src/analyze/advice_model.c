/* advice_model.c - how long a step takes when something of it is changed: sums of a few numbers. */
#include <math.h>

#include "analyze/advice.h"

#define NEARLY	     1.03 /* of the shortest that a step can get */
#define WORKERS_MOST 64
#define ALONE	     0.9 /* what is less than that of the CPU time that was wanted had rivals */
#define SAVES_SHARE  0.02

static double longest(double a, double b, double c)
{
	return fmax(a, fmax(b, c));
}

double advice_rivals(double cpus, double run_ns, double ready_ns)
{
	double share = run_ns + ready_ns > 0 ? run_ns / (run_ns + ready_ns) : 1;
	return share < ALONE && share > 0 ? fmax(0, cpus / share - 1) : 0;
}

static double by_cpus(const struct advice_pace *p, uint32_t workers)
{
	double own = workers + 1.0, all = own + p->rivals;
	double had = all > p->cpus ? p->cpus * own / all : own;
	if (!p->rivals || had > p->cpus)
		had = p->cpus;
	return had > 0 ? (p->work_cpu_ns + p->batch_cpu_ns) / had : 0;
}

double advice_step_ns(const struct advice_pace *p)
{
	if (!p->workers)
		return p->work_ns + p->batch_ns;
	return longest(p->work_ns, p->batch_ns / p->workers, by_cpus(p, p->workers));
}

uint32_t advice_workers_for(const struct advice_pace *p)
{
	struct advice_pace then = *p;
	for (uint32_t n = 1; n < WORKERS_MOST; n++) {
		then.workers = n;
		double least = fmax(p->work_ns, by_cpus(p, n));
		if (advice_step_ns(&then) <= least * NEARLY)
			return n;
	}
	return WORKERS_MOST;
}

/* Against what the model says of how it was: what it leaves out is in both. */
static double saved(const struct advice_pace *p, const struct advice_pace *then)
{
	double was = advice_step_ns(p), is = advice_step_ns(then);
	double less = was > is ? was - is : 0;
	return was > 0 ? less * p->step_ns / was : 0;
}

double advice_saved_by_workers(const struct advice_pace *p, uint32_t workers)
{
	struct advice_pace then = *p;
	then.workers = workers;
	return saved(p, &then);
}

double advice_saved_by_batch(const struct advice_pace *p, double less_ns, double less_cpu_ns)
{
	struct advice_pace then = *p;
	double part = p->batch_cpu_ns > 0 ? fmin(1, less_cpu_ns / p->batch_cpu_ns) : 0;
	then.work_ns = fmax(0, p->work_ns - part * p->kept_ns);
	then.batch_ns = fmax(0, p->batch_ns - less_ns);
	then.batch_cpu_ns = fmax(0, p->batch_cpu_ns - less_cpu_ns);
	return saved(p, &then);
}

uint32_t advice_save_every(double step_ns, double save_ns, uint32_t steps)
{
	double every = step_ns > 0 ? save_ns / (SAVES_SHARE * step_ns) : 1;
	double digit = every > 1 ? pow(10, floor(log10(every))) : 1;
	every = ceil(every / digit) * digit;
	return every >= steps ? (steps ? steps : 1) : (uint32_t)every;
}
