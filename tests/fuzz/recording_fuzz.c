/* recording_fuzz.c - hostile recordings.
 *
 * What the input looks like is in recording_input.h. Whatever is read must keep what
 * recording.h promises.
 *
 * links: base recording */
#include "recording_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tables(const struct rec_tables *t)
{
	size_t nstrings = strtab_len(&t->strings);
	for (uint32_t i = 0; i < nstrings; i++)
		check(strtab_get(&t->strings, i, NULL) != NULL);
	for (size_t i = 0; i < t->probes.len; i++) {
		const struct m_probe *p = &t->probes.data[i];
		check(p->layer < nstrings && p->name < nstrings && p->nargs <= MODEL_MAX_ARGS);
		check(p->name_arg >= -1 && p->name_arg < (p->nargs ? p->nargs : 1));
		check(p->has_return <= p->nargs);
	}
	for (size_t i = 0; i < t->hists.len; i++)
		check(t->hists.data[i].probe < t->probes.len);
	for (size_t i = 0; i < t->codes.len; i++)
		check(t->codes.data[i].name < nstrings && t->codes.data[i].file < nstrings);
	for (size_t i = 0; i < t->maps.len; i++)
		check(t->maps.data[i].path < nstrings && t->maps.data[i].build_id < nstrings);
	for (size_t i = 0; i < t->frames.len; i++)
		check(t->frames.data[i].name < nstrings && t->frames.data[i].library < nstrings);
	check(t->stacks.len && !t->stacks.data[0].parent && !t->stacks.data[0].frame);
	for (size_t i = 1; i < t->stacks.len; i++)
		check(t->stacks.data[i].parent < i && t->stacks.data[i].frame < t->frames.len);
	check((t->damaged_at != 0) == (t->damage[0] != 0));
	rec_meta(t, "host");
}

static void check_call(const struct rec_tables *t, const struct m_call *c)
{
	check(c->probe < t->probes.len && c->thread < t->threads.len);
	check(c->nargs <= MODEL_MAX_ARGS && c->stack < t->stacks.len);
	const struct m_probe *p = &t->probes.data[c->probe];
	for (unsigned k = 0; k < c->nargs && k < p->nargs; k++) {
		check(p->arg_types[k] != ARG_TYPE_STRING || c->args[k] < strtab_len(&t->strings));
		check(p->arg_types[k] != ARG_TYPE_CODE || c->args[k] < t->codes.len);
	}
}

static void check_samples(const struct rec_reader *r)
{
	const struct rec_tables *t = rec_tables(r);
	struct m_samples samples = {0};
	struct m_gpu_spans spans = {0};
	struct err e;
	for (size_t b = 0; b < rec_sample_blocks(r); b++)
		if (!rec_read_samples(r, b, &samples, &e))
			for (size_t i = 0; i < samples.len; i++) {
				const struct m_sample *s = &samples.rows[i];
				check(s->thread < t->threads.len && s->stack < t->stacks.len);
				check(s->reason < WAIT_REASONS);
				check(s->waker < strtab_len(&t->strings));
			}
	for (size_t b = 0; b < rec_gpu_span_blocks(r); b++)
		if (!rec_read_gpu_spans(r, b, &spans, &e))
			for (size_t i = 0; i < spans.len; i++) {
				check(spans.rows[i].name < strtab_len(&t->strings));
				check(spans.rows[i].start_ns <= spans.rows[i].end_ns);
			}
	m_samples_free(&samples);
	m_gpu_spans_free(&spans);
}

static void check_recording(const char *path)
{
	struct rec_reader *r;
	struct err e = {0};
	struct m_calls calls = {0};
	struct m_counters counters = {0};
	if (rec_open(&r, path, &e)) {
		check(e.msg[0] != 0);
		return;
	}
	const struct rec_tables *t = rec_tables(r);
	check_tables(t);
	for (size_t b = 0; b < rec_call_blocks(r); b++) {
		int rc = rec_read_calls(r, b, &calls, &e);
		check(!rc || !calls.len);
		for (size_t i = 0; i < calls.len; i++)
			check_call(t, &calls.rows[i]);
	}
	for (size_t b = 0; b < rec_counter_blocks(r); b++)
		if (!rec_read_counters(r, b, &counters, &e))
			for (size_t i = 0; i < counters.len; i++)
				check(counters.rows[i].metric < t->metrics.len);
	check_samples(r);
	m_calls_free(&calls);
	m_counters_free(&counters);
	rec_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_recording(data, size, check_recording);
	return 0;
}
