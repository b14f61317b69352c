/* flame_samples.c - CPU time and waiting: rows of the recording's samples. */
#include <errno.h>
#include <stdio.h>

#include "analyze/flame_impl.h"

/* "[gil]", and below it who woke the thread. */
static void reason_leaves(struct flame_job *job, const struct m_sample *s,
			  uint32_t leaf[FLAME_LEAVES])
{
	static const char *const reasons[] = WAIT_REASON_NAMES;
	leaf[0] = flame_other_frame(job, "[%s]", reasons[s->reason]);
	if (job->o->wakers && s->waker)
		leaf[1] = flame_other_frame(job, "woken by %s",
					    strtab_get(&job->t->strings, s->waker, NULL));
}

static void take_sample(struct flame_job *job, const struct m_sample *s)
{
	struct flame_row row = {
		.pid = job->t->threads.data[s->thread].pid,
		.thread = s->thread,
		.stack = s->stack,
		.weight = (int64_t)s->weight_ns,
	};
	if (!flame_in_time(job, s->time_ns))
		return;
	if (s->kind == SAMPLE_OFFCPU)
		reason_leaves(job, s, row.leaf);
	uint32_t number = flame_add(job, row);
	if (job->o->moments && number != FLAME_NO_ROW)
		*vec_push(&job->moments) =
			(struct flame_sample){s->time_ns, row.weight, number, s->thread};
}

struct sample_visit {
	struct flame_job *job;
	uint8_t kind; /* enum sample_kind */
	uint64_t of_kind;
};

static void visit_samples(void *ctx, const struct visited_rows *rows)
{
	struct sample_visit *v = ctx;
	const struct m_sample *samples = rows->rows;
	const struct visit_options *o = &v->job->o->visit;
	for (size_t i = 0; i < rows->len; i++) {
		if (samples[i].kind != v->kind)
			continue;
		v->of_kind++;
		take_sample(v->job, &samples[i]);
	}
	if (o->progress)
		o->progress(o->progress_ctx, rows->block,
			    v->job->source->blocks(v->job->source->ctx, ROW_SAMPLE));
}

int flame_samples(struct flame_job *job, struct err *e)
{
	bool off = job->o->kind == FLAME_OFFCPU;
	struct sample_visit v = {.job = job, .kind = off ? SAMPLE_OFFCPU : SAMPLE_CPU};
	rows_read(job->source, ROW_SAMPLE, visit_samples, &v);
	job->tree->unit = "ns";
	uint64_t hz = flame_meta_number(job->t, "sample_hz");
	if (!off && hz)
		job->tree->period_ns = 1000000000 / hz;
	if (!v.of_kind)
		return err_set(e, ENODATA,
			       off ? "the recording has no waits: record with '--profile offcpu'"
				   : "the recording has no CPU samples: record with "
				     "'--profile cpu'");
	return 0;
}
