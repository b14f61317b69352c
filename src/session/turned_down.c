/* turned_down.c - a flag for each probe, by the rows of m_coverage. */
#include "session/turned_down.h"

#include <string.h>

#define PROBES_MOST (1u << 20)
#define GONE_NS	    500000000ULL /* what was raised is off by then */

static void fit(struct turned_down *t, uint32_t probe)
{
	while (t->probes.len <= probe)
		*vec_push(&t->probes) = false;
}

bool turned_down_take(struct turned_down *t, const struct feed_batch *b)
{
	bool changed = false;
	for (size_t i = 0; i < b->coverages.len; i++) {
		const struct m_coverage *row = &b->coverages.data[i];
		if (row->probe >= PROBES_MOST)
			continue;
		fit(t, row->probe);
		bool down = row->in_bursts, was = t->probes.data[row->probe];
		t->probes.data[row->probe] = down;
		t->len = t->len + down - was;
		changed |= down != was;
	}
	return changed;
}

const struct feed_batch *turned_down_without(struct turned_down *t, const struct feed_batch *b)
{
	t->batch = *b;
	t->batch.coverages.len = t->batch.windows.len = 0;
	if (!t->len)
		return &t->batch;
	t->calls.len = 0;
	for (size_t i = 0; i < b->calls.len; i++)
		if (!turned_down_has(t, b->calls.data[i].probe))
			*vec_push(&t->calls) = b->calls.data[i];
	memcpy(&t->batch.calls, &t->calls, sizeof(t->calls));
	return &t->batch;
}

bool turned_down_was_raised(const struct session_view *v, uint64_t since_ns)
{
	uint64_t raised_ns = v->raised_ns ? atomic_load(v->raised_ns) : 0;
	return raised_ns && since_ns <= raised_ns + GONE_NS;
}

void turned_down_free(struct turned_down *t)
{
	vec_free(&t->probes);
	vec_free(&t->calls);
}
