/* hists.c - what hist_count of bpf/calls.h does in the kernel: a bucket of the call's histogram,
 * which is the thread's own (wire/call_ring.h). A thread alone counts in it: no atomic operation
 * but a store, and eacgm adds up.
 *
 * Histograms are found by a hash of what they are of, and come one behind the other. Compiled as
 * calls.c is: what lies in the file may be anything, and leads to nothing outside of it. */
#include "hists.h"

#include <stddef.h>

#include "wire/hist.h"

/* Pages of the file that have blocks behind them come so many histograms at once. */
#define STEP	 512
#define LOOK_FOR 1024 /* places; a table that is half full has runs of a few */
_Static_assert(CALL_HISTS_MOST % STEP == 0, "whole steps");

const struct call_settings *calls_settings;

static uint64_t to_ns(const struct call_thread *t, uint64_t ticks)
{
	if ((int64_t)ticks < 0) /* processors' counters may differ by a few */
		return 0;
	uint64_t rate = calls_settings->rate;
	return t->header->counted ? (uint64_t)((unsigned __int128)ticks * rate >> 32) : ticks;
}

static struct call_hist *hist_at(const struct call_thread *t, uint32_t i)
{
	return (struct call_hist *)(t->hists + CALL_HISTS_INDEX) + (i & (CALL_HISTS_MOST - 1));
}

static struct call_hist *add(struct call_thread *t, uint16_t *place, uint32_t probe, uint64_t name)
{
	struct call_slot *s = t->slot;
	uint32_t i = s->hists;
	if (i >= CALL_HISTS_MOST)
		return NULL;
	if (i >= t->hists_room && !calls_more_hists(t, i / STEP * STEP, STEP))
		return NULL;
	struct call_hist *h = hist_at(t, i);
	h->probe = probe;
	h->name = name;
	__atomic_store_n(&s->hists, i + 1, __ATOMIC_RELEASE);
	*place = (uint16_t)(i + 1);
	return h;
}

static struct call_hist *find(struct call_thread *t, uint32_t probe, uint64_t name)
{
	uint64_t hash = (name ^ (uint64_t)probe << 40 ^ probe) * 0x9e3779b97f4a7c15ULL;
	for (uint64_t i = hash >> 40, end = i + LOOK_FOR; i < end; i++) {
		uint16_t *place = &t->hists[i & (CALL_HISTS_INDEX - 1)];
		if (!*place)
			return add(t, place, probe, name);
		struct call_hist *h = hist_at(t, *place - 1U);
		if (h->probe == probe && h->name == name)
			return h;
	}
	return NULL;
}

uint64_t hists_count(struct call_thread *t, const struct call_open *o, uint64_t ticks)
{
	uint64_t ns = to_ns(t, ticks);
	struct call_hist *h = NULL;
	if (t->hists_room || calls_more_hists(t, 0, STEP))
		h = find(t, o->probe, o->flags & CALL_NAMED ? o->args[0] : 0);
	if (!h) {
		__atomic_store_n(&t->slot->uncounted, t->slot->uncounted + 1, __ATOMIC_RELAXED);
		return ns;
	}
	struct hist_value *v = &h->value;
	v->buckets[hist_bucket(ns) & (HIST_BUCKETS - 1)]++;
	v->total_ns += ns;
	v->errors += !!(o->flags & CALL_ERROR);
	v->nested += !!(o->flags & CALL_NESTED);
	if (ns > v->max_ns)
		v->max_ns = ns;
	__atomic_store_n(&v->count, v->count + 1, __ATOMIC_RELEASE);
	return ns;
}
