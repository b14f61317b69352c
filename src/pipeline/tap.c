/* tap.c - rows on their way into the recording: to the writer first, then to who listens. */
#include "pipeline/tap.h"

#include "pipeline/pipeline_impl.h"

void pipeline_set_tap(struct pipeline *p, const struct pipeline_tap *tap)
{
	p->tap = *tap;
}

uint32_t pipeline_strings(const struct pipeline *p)
{
	return rec_string_count(p->writer);
}

const char *pipeline_string_text(const struct pipeline *p, uint32_t number)
{
	return rec_string_get(p->writer, number);
}

uint32_t tap_probe(struct pipeline *p, const struct m_probe *row)
{
	uint32_t number = rec_add_probe(p->writer, row);
	if (p->tap.probe)
		p->tap.probe(p->tap.ctx, number, row);
	return number;
}

uint32_t tap_thread(struct pipeline *p, const struct m_thread *row)
{
	uint32_t index = rec_add_thread(p->writer, row);
	if (p->tap.thread)
		p->tap.thread(p->tap.ctx, index, row);
	return index;
}

uint32_t tap_code(struct pipeline *p, const struct m_code *row)
{
	uint32_t number = rec_add_code(p->writer, row);
	if (p->tap.code)
		p->tap.code(p->tap.ctx, number, row);
	return number;
}

void tap_thread_gone(struct pipeline *p, uint32_t index)
{
	if (p->tap.thread_gone)
		p->tap.thread_gone(p->tap.ctx, index);
}

void tap_name(struct pipeline *p, uint32_t number, const char *text)
{
	if (p->tap.name)
		p->tap.name(p->tap.ctx, number, text);
}

void tap_name_gone(struct pipeline *p, uint32_t number)
{
	if (p->tap.name_gone)
		p->tap.name_gone(p->tap.ctx, number);
}

void tap_process(struct pipeline *p, const struct m_process *row)
{
	rec_put_process(p->writer, row);
	if (p->tap.process)
		p->tap.process(p->tap.ctx, row);
}

void tap_comm(struct pipeline *p, const struct m_comm *row)
{
	rec_put_comm(p->writer, row);
	if (p->tap.comm)
		p->tap.comm(p->tap.ctx, row);
}

void tap_gpu(struct pipeline *p, const struct m_gpu *row)
{
	rec_put_gpu(p->writer, row);
	if (p->tap.gpu)
		p->tap.gpu(p->tap.ctx, row);
}

void tap_loss(struct pipeline *p, const struct m_loss *row)
{
	rec_put_loss(p->writer, row);
	if (p->tap.loss)
		p->tap.loss(p->tap.ctx, row);
}

void tap_calls(struct pipeline *p, const struct m_call *rows, size_t n)
{
	rec_put_calls(p->writer, rows, n);
	if (p->tap.calls && n)
		p->tap.calls(p->tap.ctx, rows, n);
}

void tap_gpu_span(struct pipeline *p, const struct m_gpu_span *row)
{
	rec_put_gpu_span(p->writer, row);
	if (p->tap.gpu_span)
		p->tap.gpu_span(p->tap.ctx, row);
}

void tap_counter(struct pipeline *p, const struct m_counter *row)
{
	rec_put_counter(p->writer, row);
	if (p->tap.counter)
		p->tap.counter(p->tap.ctx, row);
}

void tap_sample(struct pipeline *p, const struct m_sample *row)
{
	rec_put_sample(p->writer, row);
	if (p->tap.sample)
		p->tap.sample(p->tap.ctx, row);
}
