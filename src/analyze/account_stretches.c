/* account_gpu.c - the calls of main threads that wait for the GPU, as stretches of time. */
#include <stdlib.h>

#include "analyze/account_impl.h"

struct loaded {
	struct sync_stretch at;
	uint32_t thread;
};

static int compare_loaded(const void *a, const void *b)
{
	const struct loaded *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->at.start_ns < y->at.start_ns ? -1 : x->at.start_ns > y->at.start_ns;
}

/* Calls within others are part of them. */
static void add_stretch(struct accounting *a, const struct loaded *l)
{
	uint64_t place = (uint64_t)a->syncs.len << 32;
	map64_get(&a->syncs_of, l->thread, &place);
	struct sync_stretch *last = (uint32_t)place ? &a->syncs.data[a->syncs.len - 1] : NULL;
	if (last && l->at.start_ns <= last->end_ns) {
		last->end_ns = l->at.end_ns > last->end_ns ? l->at.end_ns : last->end_ns;
		return;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room has data */
	*vec_push(&a->syncs) = l->at;
	map64_set(&a->syncs_of, l->thread, place + 1);
}

void syncs_load(struct accounting *a, const struct timeline *t)
{
	VEC(struct loaded) all = {0};
	for (size_t i = 0; i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		uint64_t unused;
		if (timeline_call_waits(t, k) && map64_get(&a->place_of, k->thread, &unused))
			*vec_push(&all) = (struct loaded){{c->start_ns, c->end_ns}, k->thread};
	}
	if (all.len)
		qsort(all.data, all.len, sizeof(*all.data), compare_loaded);
	for (size_t i = 0; i < all.len; i++)
		add_stretch(a, &all.data[i]);
	vec_free(&all);
}

void syncs_free(struct accounting *a)
{
	vec_free(&a->syncs);
	map64_free(&a->syncs_of);
}

static size_t syncs_of(const struct accounting *a, uint32_t thread, const struct sync_stretch **ret)
{
	uint64_t place;
	if (!map64_get(&a->syncs_of, thread, &place))
		return 0;
	*ret = a->syncs.data + (place >> 32);
	return (uint32_t)place;
}

/* The first that ends after a time. */
static size_t first_after(const struct sync_stretch *s, size_t n, uint64_t ns)
{
	size_t low = 0;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (s[middle].end_ns > ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint64_t syncs_within(const struct accounting *a, uint32_t thread, uint64_t from_ns, uint64_t to_ns)
{
	const struct sync_stretch *s = NULL;
	size_t n = syncs_of(a, thread, &s);
	uint64_t ns = 0;
	for (size_t i = first_after(s, n, from_ns); i < n && s[i].start_ns < to_ns; i++) {
		uint64_t start = s[i].start_ns > from_ns ? s[i].start_ns : from_ns;
		uint64_t end = s[i].end_ns < to_ns ? s[i].end_ns : to_ns;
		ns += end - start;
	}
	return ns;
}
