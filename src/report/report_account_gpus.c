/* report_account_gpus.c - GPUs of the host that did nothing while the loop's GPU worked: those that
 * nobody uses, and those that processes hold. By NVML's counters of the whole recording. */
#include <math.h>
#include <string.h>

#include "base/human.h"
#include "report/report_account.h"

#define SAMPLES_LEAST 10 /* of a counter: fewer do not show that nothing ran */
#define BUSY_LEAST    0.8
#define GPUS_NAMED    8

struct others {
	uint32_t worked, free, held;
	double held_bytes;
	struct buf free_names, held_names; /* "1, 2" */
};

static const struct counter_sum *counter_of(const struct gpu_device *d, const char *name)
{
	for (size_t i = 0; i < d->counters.len; i++)
		if (!strcmp(d->counters.data[i].name, name))
			return &d->counters.data[i].sum;
	return NULL;
}

static void name_gpu(struct buf *to, uint32_t nth, uint32_t index)
{
	if (nth <= GPUS_NAMED)
		buf_printf(to, "%s%u", nth > 1 ? ", " : "", index);
	else if (nth == GPUS_NAMED + 1)
		buf_printf(to, " and others");
}

/* What is not known to have done nothing counts as one that worked. */
static void add_gpu(struct others *o, const struct gpu_device *d)
{
	const struct counter_sum *sm = counter_of(d, "sm_ratio");
	const struct counter_sum *processes = counter_of(d, "processes");
	const struct counter_sum *memory = counter_of(d, "memory_used_bytes");
	if (!sm || sm->samples < SAMPLES_LEAST || sm->max > 0 || !processes || !memory) {
		o->worked++;
	} else if (processes->max < 1) {
		name_gpu(&o->free_names, ++o->free, d->index);
	} else if (processes->min >= 1) { /* from beginning to end */
		name_gpu(&o->held_names, ++o->held, d->index);
		o->held_bytes += memory->min;
	} else {
		o->worked++;
	}
}

static bool find_others(struct others *ret, const struct account_state *s)
{
	for (size_t i = 0; i < s->r->gpu->devices.len; i++) {
		const struct gpu_device *d = &s->r->gpu->devices.data[i];
		if (!d->row || d->row->parent >= 0 || *d->host) /* parts; several hosts */
			return false;
		add_gpu(ret, d);
	}
	return ret->worked;
}

/* The main process has a GPU, and the loop waits for that. */
static bool waits_for_gpu(const struct account_state *s)
{
	for (size_t i = 0; i < s->devices.list.len; i++) {
		const struct account_device *d = &s->devices.list.data[i];
		if (d->pid == account_main(&s->account)->pid &&
		    (double)d->work_ns >= BUSY_LEAST * (double)d->span_ns)
			return true;
	}
	return false;
}

static void say(struct account_finding *ret, struct others *o)
{
	struct buf text = {0};
	char held[HUMAN_BYTES];
	buf_byte(&o->free_names, 0);
	buf_byte(&o->held_names, 0);
	if (o->free)
		buf_printf(&text, "GPU%s %s did nothing all the time, and no process was on %s.",
			   o->free > 1 ? "s" : "", (char *)o->free_names.data,
			   o->free > 1 ? "them" : "it");
	if (o->held)
		buf_printf(
			&text,
			"%sGPU%s %s did nothing all the time, and processes held %s of memory "
			"there: they keep others from using it, and nothing of this loop's time.",
			o->free ? " " : "", o->held > 1 ? "s" : "", (char *)o->held_names.data,
			human_bytes(held, (uint64_t)o->held_bytes));
	account_finding_put(ret, &text);
}

/* A loop that waits for its GPUs is shared by those that nobody uses as well, without loss. What is
 * held only stands out. */
uint64_t account_idle_gpu_finding(const struct account_state *s, const struct account_thread *th,
				  struct account_finding *ret)
{
	struct others o = {0};
	uint64_t cost_ns = 0;
	double all_ns = (double)account_subject(&s->account)->wall_ns;
	(void)th;
	if (s->devices.list.len && find_others(&o, s) && (o.held || (o.free && waits_for_gpu(s)))) {
		o.free = waits_for_gpu(s) ? o.free : 0;
		say(ret, &o);
		cost_ns = (uint64_t)all_ns;
	}
	if (cost_ns && o.free) {
		ret->at_most = true;
		account_saves(s, ret, all_ns * o.free / (o.free + o.worked), false);
		snprintf(ret->remedy, REMEDY_BYTES,
			 "where they are yours to use, train on them too (torchrun "
			 "--nproc-per-node=%u)",
			 o.free + o.worked);
	}
	buf_free(&o.free_names);
	buf_free(&o.held_names);
	return cost_ns;
}
