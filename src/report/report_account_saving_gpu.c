/* report_account_saving_gpu.c - what GPUs would save: gaps by reason, copies, memory, precision,
 * collectives.
 *
 * By what CUPTI told of them. Their numbers are of the whole recording, so that none is taken for
 * more than the loop's share can be. */
#include <math.h>

#include "analyze/flops_peak.h"
#include "base/files.h"
#include "base/human.h"
#include "report/report_account.h"
#include "report/report_section.h"

#define GAPS_LEAST	 20 /* one part in so many of the loop */
#define COPIES_LEAST	 20
#define COLLECTIVE_LEAST 10
#define CHURN_LEAST	 20
#define FLOAT32_LEAST	 10
#define BUSY_LEAST	 0.8 /* of the loop: else what a kernel takes is not what the loop waits for */
#define PEAK_REACHED	 0.5 /* how much of what data sheets promise is predicted */
#define FASTER_MOST	 4.0
#define FASTER_LEAST	 1.2

/* The device of the main process that was idle longest; NULL: it has none. */
static const struct account_device *main_device(const struct account_state *s)
{
	const struct account_device *ret = NULL;
	for (size_t i = 0; i < s->devices.list.len; i++) {
		const struct account_device *d = &s->devices.list.data[i];
		if (d->pid == account_main(&s->account)->pid && (!ret || d->idle_ns > ret->idle_ns))
			ret = d;
	}
	return ret;
}

static const struct gap_device *gaps_of(const struct account_state *s,
					const struct account_device *d)
{
	const struct gpu_gaps *g = report_timeline_gaps(s->r);
	for (size_t i = 0; g && d && i < g->devices.len; i++)
		if (g->devices.data[i].pid == d->pid && g->devices.data[i].device == d->device)
			return &g->devices.data[i];
	return NULL;
}

static bool is_large(const struct account_state *s, double ns, unsigned part)
{
	return ns >= 1 && ns * part >= (double)account_subject(&s->account)->wall_ns;
}

static uint64_t in_gaps(const struct account_state *s, const struct account_device **ret_device,
			enum gap_reason reason, uint64_t *ret_count)
{
	const struct account_device *d = *ret_device = main_device(s);
	const struct gap_device *g = gaps_of(s, d);
	*ret_count = 0;
	for (size_t i = 0; g && i < g->gaps.len; i++)
		if (g->gaps.data[i].reason == reason) {
			*ret_count = g->gaps.data[i].count;
			return g->gaps.data[i].total_ns < d->idle_ns ? g->gaps.data[i].total_ns
								     : d->idle_ns;
		}
	return 0;
}

/* ", most at train.py:12 (step)" */
static void say_place(char *to, size_t size, const struct advice_place *at)
{
	*to = 0;
	if (at->line)
		snprintf(to, size, ", most at %s:%u (%s)", path_file_name(at->file), at->line,
			 at->function);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What is saved where the host waits for the GPU no more: it launches on while the GPU works, so
 * that the loop takes as long as the longer of the two, the host's own work or the GPU's. By that a
 * wait saves what it took, as far as the GPU's gaps go: behind it the host has to get ahead again,
 * and launches that are late meanwhile are no reason of their own. 0: GPUs hardly run dry for it.
 */
static uint64_t without_syncs(const struct account_state *s)
{
	const struct account_device *d;
	uint64_t n, dry_ns = in_gaps(s, &d, GAP_SYNC, &n), late_ns = in_gaps(s, &d, GAP_LAUNCH, &n);
	if (!is_large(s, (double)dry_ns, GAPS_LEAST))
		return 0;
	uint64_t waits_ns = account_subject(&s->account)->ns[ACCOUNT_GPU];
	/* Where no wait was recorded, only gaps. */
	return waits_ns ? less(less(waits_ns, dry_ns + late_ns), d->idle_ns) : dry_ns;
}

/* What is left of gaps when nothing waits any more. */
static uint64_t late_launches(const struct account_state *s, uint64_t late_ns, uint64_t idle_ns)
{
	uint64_t saved_ns = without_syncs(s);
	return less(late_ns, idle_ns > saved_ns ? idle_ns - saved_ns : 0);
}

/* The device never waits for a launch then. */
uint64_t account_launch_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret)
{
	const struct account_device *d;
	char time[HUMAN_BYTES], count[HUMAN_BYTES];
	uint64_t n, ns = in_gaps(s, &d, GAP_LAUNCH, &n);
	(void)th;
	uint64_t saving_ns = d ? late_launches(s, ns, d->idle_ns) : 0;
	if (!d || !is_large(s, (double)saving_ns, GAPS_LEAST))
		return 0;
	snprintf(ret->text, FINDING_BYTES,
		 "GPU %d of process %u had nothing to do for %s (%.0f %% of %s), in %s gaps, "
		 "because "
		 "the host launched its work too slowly.",
		 d->device, d->pid, human_ns(time, ns),
		 account_percent(ns, account_subject(&s->account)->wall_ns), account_whose(s),
		 human_count(count, n));
	ret->at_most = true;
	account_saves(s, ret, (double)saving_ns, true);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "launch less (torch.compile, CUDA graphs) or more at once (a larger batch)");
	return ns;
}

uint64_t account_sync_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret)
{
	const struct account_device *d;
	const struct advice_place *at = &s->advice.syncs;
	char time[HUMAN_BYTES], count[HUMAN_BYTES], where[FINDING_BYTES / 2];
	uint64_t n, ns = in_gaps(s, &d, GAP_SYNC, &n);
	(void)th;
	if (!is_large(s, (double)ns, GAPS_LEAST))
		return 0;
	ret->place = *at;
	say_place(where, sizeof(where), at);
	snprintf(ret->text, FINDING_BYTES,
		 "GPU %d of process %u ran dry for %s (%.0f %% of %s), in %s gaps, because the "
		 "host had "
		 "waited for it%s.",
		 d->device, d->pid, human_ns(time, ns),
		 account_percent(ns, account_subject(&s->account)->wall_ns), account_whose(s),
		 human_count(count, n), where);
	ret->at_most = true;
	account_saves(s, ret, (double)without_syncs(s), true);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "read values of the GPU (.item(), .cpu(), print) less often, and steps later");
	return ns;
}

/* Numbers of the whole recording, no more than the loop has time. */
static uint64_t at_most_loop(const struct account_state *s, uint64_t ns)
{
	uint64_t most = account_subject(&s->account)->wall_ns;
	return ns < most ? ns : most;
}

/* Of the main process: the loop does not wait for what others copy. */
static uint64_t copies_alone_ns(const struct account_state *s, uint64_t *ret_bytes)
{
	struct gpu_transfers own;
	uint64_t ns = 0;
	*ret_bytes = 0;
	if (!main_device(s) || !s->r->timeline)
		return 0;
	gpu_transfers_make(&own, s->r->timeline, account_main(&s->account)->pid);
	for (size_t i = 0; i < own.rows.len; i++) {
		const struct transfer_row *t = &own.rows.data[i];
		if (t->set ||
		    (t->source_kind != MEMORY_PAGEABLE && t->destination_kind != MEMORY_PAGEABLE))
			continue;
		ns += t->total_ns - t->overlapped_ns;
		*ret_bytes += t->bytes;
	}
	gpu_transfers_free(&own);
	return at_most_loop(s, ns);
}

/* Copies to and from pageable memory run beside kernels then. */
uint64_t account_copies_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret)
{
	char time[HUMAN_BYTES], bytes[HUMAN_BYTES], where[FINDING_BYTES / 2];
	uint64_t size, ns = copies_alone_ns(s, &size);
	(void)th;
	if (!is_large(s, (double)ns, COPIES_LEAST))
		return 0;
	ret->place = s->advice.copies;
	say_place(where, sizeof(where), &ret->place);
	snprintf(
		ret->text, FINDING_BYTES,
		"Copies of %s between GPUs and pageable memory took %s (%.0f %% of %s) in which no "
		"kernel ran%s.",
		human_bytes(bytes, size), human_ns(time, ns),
		account_percent(ns, account_subject(&s->account)->wall_ns), account_whose(s),
		where);
	ret->at_most = true;
	account_saves(s, ret, (double)ns, false);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "pin_memory=True in the DataLoader, and .to(device, non_blocking=True)");
	return ns;
}

/* The driver's calls take no time then. */
uint64_t account_churn_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret)
{
	const struct advice_churn *c = &s->advice.churn;
	char time[HUMAN_BYTES], count[HUMAN_BYTES], where[FINDING_BYTES / 2];
	(void)th;
	if (!main_device(s) || !is_large(s, c->ns, CHURN_LEAST))
		return 0;
	ret->place = c->at;
	say_place(where, sizeof(where), &c->at);
	snprintf(ret->text, FINDING_BYTES,
		 "The driver got and gave back memory in %s calls, in which the GPU had nothing to "
		 "do for %s (%.0f %% of %s)%s.",
		 human_count(count, c->count), human_ns(time, (uint64_t)c->ns),
		 account_percent((uint64_t)c->ns, account_subject(&s->account)->wall_ns),
		 account_whose(s), where);
	account_saves(s, ret, c->ns, true);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "keep memory (no torch.cuda.empty_cache() in the loop); where sizes change, "
		 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
	return (uint64_t)c->ns;
}

/* How many times as fast products are with TF32, by half of what the data sheets promise; of
 * different GPUs the least. 0: not known. */
static double faster_by_tf32(const struct account_state *s)
{
	double ret = 0;
	for (size_t i = 0; i < s->r->gpu->devices.len; i++) {
		const struct m_gpu *gpu = s->r->gpu->devices.data[i].row;
		const char *name = gpu ? strtab_get(&s->r->tables->strings, gpu->name, NULL) : "";
		double plain = flops_peak(name, FORMAT_F32), tensor = flops_peak(name, FORMAT_TF32);
		double faster = plain > 0 ? tensor / plain * PEAK_REACHED : 0;
		if (!i || faster < ret)
			ret = faster;
	}
	return fmin(ret, FASTER_MOST);
}

/* These kernels are so many times as fast then, and the GPU is what the loop waits for. */
uint64_t account_precision_finding(const struct account_state *s, const struct account_thread *th,
				   struct account_finding *ret)
{
	const struct advice_float32 *f = &s->advice.float32;
	const struct account_device *d = main_device(s);
	double faster = faster_by_tf32(s);
	char time[HUMAN_BYTES], count[HUMAN_BYTES], where[FINDING_BYTES / 2];
	(void)th;
	if (!d || (double)d->work_ns < BUSY_LEAST * (double)d->span_ns || faster < FASTER_LEAST ||
	    !is_large(s, f->ns, FLOAT32_LEAST))
		return 0;
	ret->place = f->at;
	say_place(where, sizeof(where), &f->at);
	snprintf(ret->text, FINDING_BYTES,
		 "GPU %d of process %u multiplied matrices in float32, without its tensor cores, "
		 "for %s (%.0f %% of %s), in %s kernels%s.",
		 d->device, d->pid, human_ns(time, (uint64_t)f->ns),
		 account_percent((uint64_t)f->ns, account_subject(&s->account)->wall_ns),
		 account_whose(s), human_count(count, f->count), where);
	account_saves(s, ret, f->ns * (1 - 1 / faster), false);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "torch.set_float32_matmul_precision(\"high\"), or autocast to bfloat16, where "
		 "results stay good enough");
	return (uint64_t)f->ns;
}

/* Collectives run beside other kernels then. */
uint64_t account_exposed_finding(const struct account_state *s, const struct account_thread *th,
				 struct account_finding *ret)
{
	const struct account_device *d = main_device(s);
	const struct gap_device *g = gaps_of(s, d);
	uint64_t ns = g ? at_most_loop(s, g->exposed_ns) : 0;
	char time[HUMAN_BYTES];
	(void)th;
	if (!g || !is_large(s, (double)ns, COLLECTIVE_LEAST))
		return 0;
	snprintf(ret->text, FINDING_BYTES,
		 "GPU %d of process %u ran NCCL alone for %s (%.0f %% of %s): nothing was computed "
		 "meanwhile.",
		 d->device, d->pid, human_ns(time, ns),
		 account_percent(ns, account_subject(&s->account)->wall_ns), account_whose(s));
	ret->at_most = true;
	account_saves(s, ret, (double)ns, false);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "overlap it with backward (DistributedDataParallel's buckets), or send less "
		 "(no_sync() "
		 "over several batches)");
	return ns;
}
