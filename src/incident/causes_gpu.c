/* causes_gpu.c - the rules for causes that lie in GPUs and the way to them: PCIe, errors, others on
 * the GPU, its clocks, and a GPU that is slow for no reason that is seen. */
#include "incident/causes_gpu.h"

#include <math.h>
#include <string.h>

#include "base/entity.h"
#include "incident/causes_calls.h"
#include "incident/causes_impl.h"
#include "incident/causes_owners.h"

#define LINK_MORE  1.25 /* times what usually goes over it: others use it */
#define LINK_LEAST 1e9	/* bytes a second in both directions; less is no reason to wait */

static bool copies(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"copy", "copy_htod", "copy_dtoh", NULL};
	return causes_has_role(e, c, roles);
}

/* What went over the link, bytes a second, in both directions: in the incident's time and usually.
 */
static struct net_rate link_rate(const struct evidence *e)
{
	static const char *const names[] = {"pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"};
	struct net_rate ret = {0, 0};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct counter_change *c = evidence_counter(e, ENTITY_GPU, names[i]);
		ret.now += c ? c->mean : NAN;
		ret.usual += c ? c->usual : NAN;
	}
	return ret;
}

bool causes_link_is_shared(const struct evidence *e)
{
	struct net_rate r = link_rate(e); /* NaN compares as false */
	return r.now > LINK_LEAST && r.now > LINK_MORE * r.usual;
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
static double calls_longer(const struct evidence *e)
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
	return ns;
}

double causes_copied_longer(const struct evidence *e)
{
	return fmax(0, fmax(spans_longer(e), calls_longer(e)));
}

/* Lines that hand over copies wait in them where the driver makes them on the CPU. */
double causes_pcie(const struct evidence *e)
{
	double longer = causes_copied_longer(e);
	double waits = causes_part_sum(e, owner_is_gpu) +
		       (causes_link_is_shared(e) ? causes_part_sum(e, owner_is_line) : 0);
	return longer > 0 ? fmin(longer, waits) : 0;
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
	double copies = causes_link_is_shared(e) ? fmin(waits, causes_pcie(e)) : 0;
	return foreign_gpu(e) > 0.02 ? fmax(kernels_slower(e), waits - copies) : 0;
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
