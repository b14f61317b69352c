/* counter_series.c - chooses metrics in one pass over the counters, fills their buckets in another.
 */
#include "analyze/counter_series.h"

#define NO_PLACE UINT32_MAX

struct chooser {
	const struct counter_series_options *o;
	uint64_t *samples; /* by metric */
};

static bool is_within(const struct counter_series_options *o, uint64_t time_ns)
{
	return time_ns >= o->from_ns && time_ns < o->to_ns;
}

static void count_rows(void *ctx, const struct visited_rows *rows)
{
	const struct chooser *c = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		c->samples[counters[i].metric] += is_within(c->o, counters[i].time_ns);
}

struct ranked {
	int rank;
	uint32_t metric;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->metric < y->metric ? -1 : x->metric > y->metric;
}

/* Of each metric its place in the list, or NO_PLACE; free it. */
static uint32_t *choose(struct counter_series *s, const struct row_source *source,
			const struct counter_series_options *o, const uint64_t *samples)
{
	size_t n = source->tables->metrics.len;
	uint32_t *places = xcalloc(n + 1, sizeof(*places));
	VEC(struct ranked) found = {0};
	for (uint32_t i = 0; i < n; i++) {
		const struct m_metric *m = &source->tables->metrics.data[i];
		int rank = o->rank ? o->rank(o->ctx, m) : 0;
		places[i] = NO_PLACE;
		if (samples[i] && rank >= 0)
			*vec_push(&found) = (struct ranked){rank, i};
	}
	if (found.len)
		qsort(found.data, found.len, sizeof(*found.data), compare_ranked);
	size_t kept = found.len < o->most ? found.len : o->most;
	s->left_out = found.len - kept;
	for (size_t i = 0; i < kept; i++)
		places[found.data[i].metric] = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (places[i] == NO_PLACE)
			continue;
		places[i] = (uint32_t)s->list.len;
		*vec_push(&s->list) = (struct counter_serie){
			i, samples[i], xcalloc(o->buckets, sizeof(struct counter_bucket))};
	}
	vec_free(&found);
	return places;
}

struct filler {
	struct counter_series *series;
	const struct counter_series_options *o;
	const uint32_t *places;
};

static void add_value(struct counter_bucket *b, double value)
{
	if (!b->samples++ || value > b->max)
		b->max = value;
	b->mean += (value - b->mean) / b->samples;
}

static void fill_rows(void *ctx, const struct visited_rows *rows)
{
	const struct filler *f = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		uint32_t place = f->places[counters[i].metric];
		if (place == NO_PLACE || !is_within(f->o, counters[i].time_ns))
			continue;
		uint64_t at = (counters[i].time_ns - f->o->from_ns) / f->series->bucket_ns;
		if (at < f->series->buckets)
			add_value(&f->series->list.data[place].buckets[at], counters[i].value);
	}
}

void counter_series_make(struct counter_series *ret, const struct row_source *source,
			 const struct counter_series_options *o)
{
	*ret = (struct counter_series){.from_ns = o->from_ns, .buckets = o->buckets};
	uint64_t span_ns = o->to_ns > o->from_ns ? o->to_ns - o->from_ns : 0;
	ret->bucket_ns = (span_ns + o->buckets - 1) / o->buckets;
	if (!ret->bucket_ns)
		return;
	struct chooser chooser = {o, xcalloc(source->tables->metrics.len + 1, sizeof(uint64_t))};
	rows_read(source, ROW_COUNTER, count_rows, &chooser);
	uint32_t *places = choose(ret, source, o, chooser.samples);
	struct filler filler = {ret, o, places};
	if (ret->list.len)
		rows_read(source, ROW_COUNTER, fill_rows, &filler); /* means in their order */
	free(places);
	free(chooser.samples);
}

void counter_series_free(struct counter_series *s)
{
	for (size_t i = 0; i < s->list.len; i++)
		free(s->list.data[i].buckets);
	vec_free(&s->list);
}
