/* learn_sample.c - stretches of recordings, and the blocks that reach into them. */
#include "detect/learn_sample.h"

#include <math.h>

#define STRETCH_NS   30000000000ULL	/* about: long enough for steps, short enough to be many */
#define FIRST_BLOCKS 2			/* are read in any case: the work begins there */
#define GOLDEN	     0.6180339887498949 /* multiples of it, less whole ones, are spread evenly */

/* ---- the source ---- */

static size_t sampled_blocks(const void *ctx, enum row_kind kind)
{
	const struct sample *s = ctx;
	if (kind == ROW_CALL)
		return s->calls.len;
	return kind == ROW_GPU_SPAN ? s->gpu_spans.len : s->of->blocks(s->of->ctx, kind);
}

static int sampled_read(const void *ctx, enum row_kind kind, size_t block, struct row_block *ret,
			struct err *e)
{
	const struct sample *s = ctx;
	if (kind == ROW_CALL)
		block = s->calls.data[block];
	else if (kind == ROW_GPU_SPAN)
		block = s->gpu_spans.data[block];
	return s->of->read(s->of->ctx, kind, block, ret, e);
}

static bool reaches_in(const struct sample *s, enum row_kind kind, size_t block)
{
	uint64_t first, last;
	s->of->times(s->of->ctx, kind, block, &first, &last);
	for (size_t i = 0; i < s->stretches.len; i++)
		if (first < s->stretches.data[i].to_ns && last >= s->stretches.data[i].from_ns)
			return true;
	return false;
}

static void choose_blocks(struct sample *s)
{
	for (size_t i = 0; i < source_call_blocks(s->of); i++)
		if (reaches_in(s, ROW_CALL, i))
			*vec_push(&s->calls) = i;
	for (size_t i = 0; i < source_gpu_span_blocks(s->of); i++)
		if (reaches_in(s, ROW_GPU_SPAN, i))
			*vec_push(&s->gpu_spans) = i;
	for (size_t i = 0; i < s->stretches.len; i++)
		*vec_push(&s->windows) = (struct m_window){.start_ns = s->stretches.data[i].from_ns,
							   .end_ns = s->stretches.data[i].to_ns};
	s->tables = *s->of->tables;
	s->tables.windows.data = s->windows.data;
	s->tables.windows.len = s->windows.len;
	s->source = (struct row_source){
		.ctx = s, .tables = &s->tables, .blocks = sampled_blocks, .read = sampled_read};
}

/* ---- stretches ---- */

/* In whole windows; what overlaps the one before is joined with it. */
static void add_stretch(struct sample *s, uint64_t from_ns, uint64_t to_ns, uint64_t window_ns)
{
	from_ns -= from_ns % window_ns;
	to_ns = to_ns > UINT64_MAX - window_ns ? UINT64_MAX : to_ns + window_ns - to_ns % window_ns;
	if (s->stretches.len) {
		struct sample_stretch *last = &s->stretches.data[s->stretches.len - 1];
		if (from_ns <= last->to_ns) {
			last->to_ns = to_ns > last->to_ns ? to_ns : last->to_ns;
			return;
		}
	}
	*vec_push(&s->stretches) = (struct sample_stretch){from_ns, to_ns};
}

/* Each of so many parts of the time has one, at another place of each: what a job does now and
 * then, or at one time of each launch, is met as often as it is. number: the recording's. */
static void choose_stretches(struct sample *s, size_t number, double share, uint64_t window_ns)
{
	uint64_t from_ns, first_to_ns, ignored, to_ns = s->of->tables->last_ns;
	size_t blocks = source_call_blocks(s->of);
	size_t second = FIRST_BLOCKS < blocks ? FIRST_BLOCKS - 1 : blocks - 1;
	s->of->times(s->of->ctx, ROW_CALL, 0, &from_ns, &ignored);
	s->of->times(s->of->ctx, ROW_CALL, second, &ignored, &first_to_ns);
	add_stretch(s, from_ns, first_to_ns, window_ns);
	if (to_ns <= from_ns)
		return;
	double all = (double)(to_ns - from_ns);
	size_t n = (size_t)(share * all / (double)STRETCH_NS + 0.5);
	n = n < blocks ? n : blocks; /* times are what a file says */
	n = n ? n : 1;
	double part = all / (double)n, learned = share * part;
	for (size_t i = 0; i < n; i++) {
		double place = fmod((double)(number + i + 1) * GOLDEN, 1);
		double begin = part * (double)i + (part - learned) * place;
		add_stretch(s, from_ns + (uint64_t)begin, from_ns + (uint64_t)(begin + learned),
			    window_ns);
	}
}

static bool may_sample(const struct row_source *r)
{
	return r->times && source_call_blocks(r) > FIRST_BLOCKS && !r->tables->windows.len;
}

static double events_of(const struct row_source *r)
{
	return (double)r->tables->calls + (double)r->tables->gpu_spans;
}

void learn_sample_make(struct sample *ret, const struct row_source *const *recordings, size_t n,
		       uint64_t window_ns, uint64_t events)
{
	double all = 0, room = (double)(events ? events : SAMPLE_EVENTS);
	for (size_t i = 0; i < n; i++)
		all += events_of(recordings[i]);
	for (size_t i = 0; i < n; i++) {
		struct sample *s = &ret[i];
		*s = (struct sample){.source = *recordings[i], .of = recordings[i]};
		if (all <= room || !may_sample(recordings[i]))
			continue;
		choose_stretches(s, i, room / all, window_ns);
		choose_blocks(s);
	}
}

void learn_sample_free(struct sample *s)
{
	vec_free(&s->stretches);
	vec_free(&s->calls);
	vec_free(&s->gpu_spans);
	vec_free(&s->windows);
}

/* ---- asking ---- */

/* The first that is not over at the time. */
static size_t stretch_at(const struct sample *s, uint64_t time_ns)
{
	size_t low = 0, high = s->stretches.len;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (s->stretches.data[middle].to_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool learn_sample_has(const struct sample *s, uint64_t time_ns)
{
	size_t i = stretch_at(s, time_ns);
	return !s->stretches.len ||
	       (i < s->stretches.len && s->stretches.data[i].from_ns <= time_ns);
}

size_t learn_sample_part(const struct sample *s, uint64_t time_ns)
{
	size_t i = stretch_at(s, time_ns);
	if (!i)
		return 0;
	uint64_t before = s->stretches.data[i - 1].to_ns;
	return i == s->stretches.len ||
			       time_ns < before + (s->stretches.data[i].from_ns - before) / 2
		       ? i - 1
		       : i;
}

double learn_sample_whole_seconds(const struct sample *s, uint64_t begin_ns)
{
	uint64_t last = s->of->tables->last_ns;
	return last > begin_ns ? (double)(last - begin_ns) / 1e9 : 0;
}

double learn_sample_seconds(const struct sample *s, uint64_t begin_ns)
{
	uint64_t last = s->of->tables->last_ns, sum = 0;
	for (size_t i = 0; i < s->stretches.len; i++) {
		uint64_t from = s->stretches.data[i].from_ns, to = s->stretches.data[i].to_ns;
		from = from > begin_ns ? from : begin_ns;
		to = to < last ? to : last;
		sum += to > from ? to - from : 0;
	}
	return s->stretches.len ? (double)sum / 1e9 : learn_sample_whole_seconds(s, begin_ns);
}
