/* counters.h - what the counters of each metric come to. */
#pragma once

#include "base/buffer.h"
#include "events/visitor.h"

struct counter_sum {
	uint32_t metric;
	double mean, min, max, last;
	uint64_t samples;
	uint64_t last_ns;
};
typedef VEC(struct counter_sum) counter_sums_t;

/* Adds a value to a sum; of none before it is zeroed. */
void counter_sum_add(struct counter_sum *c, const struct m_counter *row);

/* Of each metric that a counter within [from_ns, to_ns) is of, in order of their numbers. */
void counter_sums_make(counter_sums_t *ret, const struct row_source *source, uint64_t from_ns,
		       uint64_t to_ns);
