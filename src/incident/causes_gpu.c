/* causes_gpu.c - the rules for causes that lie in GPUs and the way to them: PCIe, errors, others on
 * the GPU, its clocks, and a GPU that is slow for no reason that is seen. */
#include "incident/causes_gpu.h"

#include <math.h>
#include <string.h>

#include "base/entity.h"
#include "incident/causes_calls.h"
#include "incident/causes_impl.h"
#include "incident/causes_owners.h"

#define LINK_MORE 1.25 /* times what usually goes over it: others use it */
/* Bytes a second more than usual, both ways together: a sixteenth of what PCIe 5.0 carries one way
 * with 16 lanes, an eighth of 4.0. Less is what a log or a checkpoint of anybody's takes. */
#define LINK_LEAST 4e9

static bool copies(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"copy", "copy_htod", "copy_dtoh", NULL};
	return causes_has_role(e, c, roles);
}

/* What its own copies had of that a second; 0: there is no timeline. */
static struct net_rate own_rate(const struct evidence *e)
{
	return (struct net_rate){
		e->blame.whole_ns > 0 ? e->copied_bytes / e->blame.whole_ns * 1e9 : 0,
		e->blame.usual_ns > 0 ? e->usual_copied_bytes / e->blame.usual_ns * 1e9 : 0};
}

/* Comparisons with NaN are false. */
bool causes_link_is_shared(const struct evidence *e)
{
	const struct counter_change *others = evidence_counter(e, ENTITY_GPU, "other_processes");
	struct net_rate link = evidence_link_rate(e), own = own_rate(e);
	double now = link.now - own.now, usual = fmax(0, link.usual - own.usual);
	return others && others->mean > 0 && now > LINK_MORE * usual && now - usual > LINK_LEAST &&
	       link.now > LINK_MORE * link.usual;
}

/* What copies took beyond as much usual copying, on the GPU's side; 0: there is no timeline. */
static double spans_longer(const struct evidence *e)
{
	return e->copied_bytes > 0 && e->usual_copied_bytes > 0
		       ? e->copied_ns - e->copied_bytes * e->usual_copied_ns / e->usual_copied_bytes
		       : 0;
}

/* What the calls took by themselves beyond as many usual ones, of functions that copy: one of the
 * runtime's has one of the driver's within. */
double causes_copy_calls_longer(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (!copies(e, c) || c->n < 1 || c->usual_n <= 0)
			continue;
		ns += c->outer_n > 0 && c->usual_outer_n > 0
			      ? c->own_ns - c->outer_n * c->usual_own_ns / c->usual_outer_n
			      : c->ns - c->n * c->usual_ns / c->usual_n;
	}
	return fmax(0, ns);
}

static bool runs_line(const struct blame_owner *o)
{
	return owner_is_line(o) && o->kind == BLAME_RUNS;
}

/* Of lines no more than the calls took: they hand over copies, which the driver makes on the CPU.
 */
double causes_pcie(const struct evidence *e)
{
	double calls = causes_copy_calls_longer(e), longer = fmax(spans_longer(e), calls);
	double waits = fmin(longer, causes_part_sum(e, owner_is_gpu));
	double lines = causes_link_is_shared(e) ? fmin(calls, causes_part_sum(e, runs_line)) : 0;
	return fmax(0, fmin(longer, waits + lines));
}

/* Each kernel took longer, the GPU's time is waited for. */
static double kernels_slower(const struct evidence *e)
{
	if (e->usual_kernels_n < 1 || e->kernels_n < 1)
		return 0;
	double mean = e->kernels_ns / e->kernels_n;
	double usual = e->usual_kernels_ns / e->usual_kernels_n;
	double longer = e->kernels_n * (mean - usual);
	return longer > 0 ? fmin(longer, causes_part_sum(e, owner_is_gpu)) : 0;
}

static double foreign_gpu(const struct evidence *e)
{
	return fmax(causes_counter_more(e, ENTITY_GPU, "other_sm_ratio"),
		    causes_counter_more(e, ENTITY_GPU, "other_processes"));
}

/* What its driver tells of, in words of nvml_events.c. */
const struct m_event *causes_gpu_event(const struct evidence *e)
{
	static const char *const names[] = {"xid", "ecc_double_bit", "poison_fatal",
					    "gpu_unavailable"};
	const struct m_event *ret = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !ret; i++)
		ret = evidence_event(e, names[i]);
	return ret;
}

double causes_gpu_error(const struct evidence *e)
{
	return causes_gpu_event(e)
		       ? causes_part_sum(e, owner_is_gpu) + causes_part_sum(e, owner_is_ranks)
		       : 0;
}

double causes_gpu_contention(const struct evidence *e)
{
	double waits = causes_part_sum(e, owner_is_gpu_work);
	double copied = causes_link_is_shared(e) ? fmin(waits, causes_pcie(e)) : 0;
	return foreign_gpu(e) > 0.02 ? fmax(kernels_slower(e), waits - copied) : 0;
}

double causes_gpu_clock(const struct evidence *e)
{
	const struct counter_change *c = evidence_counter(e, ENTITY_GPU, "sm_clock_mhz");
	if (!c || isnan(c->usual) || c->mean > 0.9 * c->usual)
		return 0;
	return fmax(kernels_slower(e), causes_part_sum(e, owner_is_gpu_work));
}

double causes_gpu_slow(const struct evidence *e)
{
	return GENERAL * fmax(kernels_slower(e), causes_part_sum(e, owner_is_gpu_work));
}
