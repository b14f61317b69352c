/* counters.c - sums counters up by metric. */
#include "analyze/counters.h"

void counter_sum_add(struct counter_sum *c, const struct m_counter *row)
{
	if (!c->samples++)
		c->min = c->max = row->value;
	c->mean += (row->value - c->mean) / (double)c->samples;
	if (row->value < c->min)
		c->min = row->value;
	if (row->value > c->max)
		c->max = row->value;
	if (row->time_ns < c->last_ns)
		return;
	c->last = row->value;
	c->last_ns = row->time_ns;
}

struct adder {
	counter_sums_t *sums; /* by metric */
	uint64_t from_ns, to_ns;
};

static void add_rows(void *ctx, const struct visited_rows *rows)
{
	const struct adder *a = ctx;
	const struct m_counter *counters = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (counters[i].time_ns >= a->from_ns && counters[i].time_ns < a->to_ns)
			counter_sum_add(&a->sums->data[counters[i].metric], &counters[i]);
}

void counter_sums_make(counter_sums_t *ret, const struct row_source *source, uint64_t from_ns,
		       uint64_t to_ns)
{
	struct adder a = {ret, from_ns, to_ns};
	size_t n = source->tables->metrics.len, left = 0;
	vec_reserve(ret, n + 1);
	memset(ret->data, 0, (n + 1) * sizeof(*ret->data));
	rows_read(source, ROW_COUNTER, add_rows, &a); /* means are summed in their order */
	for (uint32_t i = 0; i < n; i++) {
		if (!ret->data[i].samples)
			continue;
		ret->data[left] = ret->data[i];
		ret->data[left++].metric = i;
	}
	ret->len = left;
}
