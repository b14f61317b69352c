/* merge_rows.c - the calls, samples, GPU spans and counters of a source, block by block. */
#include <errno.h>

#include "merge/merge_impl.h"

/* What an argument's value is in the output. */
static uint64_t argument(const struct merge_input *in, uint8_t type, uint64_t value)
{
	if (type == ARG_TYPE_STRING)
		return value <= UINT32_MAX ? merge_string(in, (uint32_t)value) : 0;
	if (type == ARG_TYPE_CODE) /* the writer has a row for what is none */
		return value < in->t->codes.len ? in->codes[value] : UINT64_MAX;
	return value;
}

/* Start and end are both taken over, so that what is inside another call stays so. */
static void renumber_call(const struct merge *m, const struct merge_input *in, struct m_call *c)
{
	const struct m_probe *p = &in->t->probes.data[c->probe];
	uint64_t end_ns = merge_time(m, in, c->start_ns + c->dur_ns);
	c->start_ns = merge_time(m, in, c->start_ns);
	c->dur_ns = end_ns > c->start_ns ? end_ns - c->start_ns : 0;
	for (unsigned k = 0; k < c->nargs; k++)
		c->args[k] =
			argument(in, k < p->nargs ? p->arg_types[k] : ARG_TYPE_U64, c->args[k]);
	c->stack = c->stack < in->t->stacks.len ? in->stacks[c->stack] : 0;
	c->probe = in->probes[c->probe];
	c->thread = in->threads[c->thread];
}

static int put_calls(struct merge *m, const struct merge_input *in, struct m_calls *rows, size_t b,
		     struct err *e)
{
	int rc = rec_read_calls(in->reader, b, rows, e);
	for (size_t i = 0; !rc && i < rows->len; i++)
		renumber_call(m, in, &rows->rows[i]);
	if (!rc)
		rec_put_calls(m->w, rows->rows, rows->len);
	return rc;
}

static int put_samples(struct merge *m, const struct merge_input *in, struct m_samples *rows,
		       size_t b, struct err *e)
{
	int rc = rec_read_samples(in->reader, b, rows, e);
	for (size_t i = 0; !rc && i < rows->len; i++) {
		struct m_sample *s = &rows->rows[i];
		s->time_ns = merge_time(m, in, s->time_ns);
		s->thread = in->threads[s->thread];
		s->stack = s->stack < in->t->stacks.len ? in->stacks[s->stack] : 0;
		s->waker = merge_string(in, s->waker);
		s->waker_tid = merge_pid(in, s->waker_tid);
		rec_put_sample(m->w, s);
	}
	return rc;
}

static int put_spans(struct merge *m, const struct merge_input *in, struct m_gpu_spans *rows,
		     size_t b, struct err *e)
{
	int rc = rec_read_gpu_spans(in->reader, b, rows, e);
	for (size_t i = 0; !rc && i < rows->len; i++) {
		struct m_gpu_span *s = &rows->rows[i];
		s->start_ns = merge_time(m, in, s->start_ns);
		s->end_ns = merge_time(m, in, s->end_ns);
		s->called_ns = merge_time(m, in, s->called_ns);
		s->called_tid = merge_pid(in, s->called_tid);
		s->pid = merge_pid(in, s->pid);
		s->name = merge_string(in, s->name);
		rec_put_gpu_span(m->w, s);
	}
	return rc;
}

static int put_counters(struct merge *m, const struct merge_input *in, struct m_counters *rows,
			size_t b, struct err *e)
{
	int rc = rec_read_counters(in->reader, b, rows, e);
	for (size_t i = 0; !rc && i < rows->len; i++) {
		struct m_counter *c = &rows->rows[i];
		c->time_ns = merge_time(m, in, c->time_ns);
		c->name = merge_string(in, c->name);
		c->entity = merge_entity(m, in, c->entity);
		rec_put_counter(m->w, c);
	}
	return rc;
}

/* After a block: what cannot be read is left out, what cannot be written ends the merge. */
static int end_block(struct merge *m, struct merge_input *in, int rc, const struct err *unread,
		     struct err *e)
{
	if (rc && !in->blocks_unread++)
		in->unread = *unread;
	m->blocks_done++;
	if (!merge_go_on(m))
		return err_set(e, ECANCELED, "interrupted: nothing was written");
	return rec_flush(m->w, e);
}

/* Goes through the blocks of a kind. */
#define EACH_BLOCK(m, in, count, put, rows, e)                                                     \
	({                                                                                         \
		int rc_ = 0;                                                                       \
		for (size_t b_ = 0; b_ < count((in)->reader) && !rc_; b_++) {                      \
			struct err unread_ = {0};                                                  \
			rc_ = end_block(m, in, put(m, in, rows, b_, &unread_), &unread_, e);       \
		}                                                                                  \
		rc_;                                                                               \
	})

int merge_put_rows(struct merge *m, uint32_t source, struct err *e)
{
	struct merge_input *in = &m->inputs.data[source];
	struct m_calls calls = {0};
	struct m_samples samples = {0};
	struct m_gpu_spans spans = {0};
	struct m_counters counters = {0};
	int rc = EACH_BLOCK(m, in, rec_call_blocks, put_calls, &calls, e);
	if (!rc)
		rc = EACH_BLOCK(m, in, rec_sample_blocks, put_samples, &samples, e);
	if (!rc)
		rc = EACH_BLOCK(m, in, rec_gpu_span_blocks, put_spans, &spans, e);
	if (!rc)
		rc = EACH_BLOCK(m, in, rec_counter_blocks, put_counters, &counters, e);
	m_calls_free(&calls);
	m_samples_free(&samples);
	m_gpu_spans_free(&spans);
	m_counters_free(&counters);
	return rc;
}
