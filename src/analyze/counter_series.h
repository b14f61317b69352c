/* counter_series.h - counters over a span of time, in so many buckets of the same length: for who
 * draws them. Memory is bounded by the numbers that are asked for, however many rows there are. */
#pragma once

#include "base/buffer.h"
#include "events/visitor.h"

struct counter_bucket {
	double mean, max;
	uint32_t samples; /* 0: the rest means nothing */
};

struct counter_serie {
	uint32_t metric;
	uint64_t samples;		/* of all its buckets */
	struct counter_bucket *buckets; /* as many as there are */
};

struct counter_series {
	VEC(struct counter_serie) list; /* in order of their metrics' numbers */
	uint64_t from_ns, bucket_ns;
	uint32_t buckets;
	size_t left_out; /* metrics with values that found no room */
};

struct counter_series_options {
	uint64_t from_ns, to_ns; /* [from, to) */
	uint32_t buckets;
	size_t most; /* metrics: the first by rank, then by their number */
	/* The smaller, the earlier; negative: not at all. NULL: all alike. */
	int (*rank)(void *ctx, const struct m_metric *m);
	void *ctx;
};

void counter_series_make(struct counter_series *ret, const struct row_source *source,
			 const struct counter_series_options *o);
void counter_series_free(struct counter_series *s);
