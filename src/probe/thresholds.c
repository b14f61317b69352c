/* thresholds.c - a sum of histograms for each probe. A threshold is the upper edge of a bucket. */
#include "probe/thresholds.h"

#include <stdlib.h>

#include "base/buffer.h"

#define LEARN_AT_LEAST 100 /* calls of a probe before its threshold means anything */

struct threshold {
	uint64_t counts[HIST_BUCKETS];
	uint64_t total;
	uint64_t ns; /* that was told */
};

struct thresholds {
	struct threshold *of[MAX_PROBES];
};

struct thresholds *thresholds_new(void)
{
	return xcalloc(1, sizeof(struct thresholds));
}

void thresholds_free(struct thresholds *t)
{
	for (uint32_t i = 0; t && i < MAX_PROBES; i++)
		free(t->of[i]);
	free(t);
}

void thresholds_add(struct thresholds *t, const struct hist_key *key,
		    const struct hist_value *value)
{
	if (key->probe >= MAX_PROBES)
		return;
	struct threshold **at = &t->of[key->probe];
	if (!*at)
		*at = xcalloc(1, sizeof(**at));
	for (int i = 0; i < HIST_BUCKETS; i++)
		(*at)->counts[i] += value->buckets[i];
	(*at)->total += value->count;
}

/* In ns (wire/event.h). */
static uint64_t bucket_end_ns(int i)
{
	return (uint64_t)(4 + i % 4 + 1) << (HIST_MIN_SHIFT + i / 4 - 2);
}

static uint64_t quantile_of(const struct threshold *p, double quantile)
{
	uint64_t below = 0, want = (uint64_t)(quantile * (double)p->total);
	int i = 0;
	while (i < HIST_BUCKETS - 1 && (below += p->counts[i]) < want)
		i++;
	return bucket_end_ns(i);
}

void thresholds_learn(struct thresholds *t, double quantile,
		      void (*visit)(void *ctx, uint32_t probe, uint64_t ns), void *ctx)
{
	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		struct threshold *p = t->of[i];
		if (!p)
			continue;
		uint64_t ns = p->total >= LEARN_AT_LEAST ? quantile_of(p, quantile) : p->ns;
		if (ns != p->ns)
			visit(ctx, i, ns);
		*p = (struct threshold){.ns = ns};
	}
}
