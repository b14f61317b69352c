/* merge_metas.c - what a merged recording says of itself: sums and times of its sources, and where
 * they differ what each said. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "merge/merge_impl.h"

static const char *const sums[] = {
	"job_cpu_ns",  "collector_cpu_ns", "start_cpu_ns", "displacing_cpu_ns", "running_cpu_ns",
	"held_cpu_ns", "held_ns",	   "holds",	   "probe_hits",	"attach_sites"};
static const char *const times[] = {"start_monotonic_ns", "end_monotonic_ns", "start_realtime_ns"};

static bool one_of(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(key, list[i]))
			return true;
	return false;
}

static uint64_t number_of(const struct rec_tables *t, const char *key)
{
	const char *text = rec_meta(t, key);
	return text && isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : 0;
}

static void put_number(struct merge *m, const char *key, uint64_t value)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRIu64, value);
	rec_put_meta(m->w, key, text);
}

/* What a source counts of a sum; of one of before that has no such number, what a report of it
 * takes for it. */
static uint64_t part_of(const struct rec_tables *t, const char *key)
{
	if (!rec_meta(t, key) && !strcmp(key, "held_cpu_ns"))
		return number_of(t, "held_ns");
	if (!rec_meta(t, key) && !strcmp(key, "running_cpu_ns"))
		return number_of(t, "probe_hits") * number_of(t, "probe_ns_each");
	if (rec_meta(t, key) || strcmp(key, "displacing_cpu_ns") != 0)
		return number_of(t, key);
	uint64_t all = number_of(t, "collector_cpu_ns"), start = number_of(t, "start_cpu_ns");
	return all > start ? all - start : 0;
}

static void put_sums(struct merge *m)
{
	for (size_t k = 0; k < sizeof(sums) / sizeof(sums[0]); k++) {
		uint64_t sum = 0;
		bool known = false;
		for (size_t i = 0; i < m->inputs.len; i++) {
			sum += part_of(m->inputs.data[i].t, sums[k]);
			known |= rec_meta(m->inputs.data[i].t, sums[k]) != NULL;
		}
		if (known)
			put_number(m, sums[k], sum);
	}
}

/* A source that was not closed ends with its last row. */
static void put_times(struct merge *m)
{
	uint64_t first = UINT64_MAX, last = 0;
	char key[64];
	for (size_t i = 0; i < m->inputs.len; i++) {
		const struct merge_input *in = &m->inputs.data[i];
		uint64_t start = number_of(in->t, "start_monotonic_ns");
		uint64_t end = number_of(in->t, "end_monotonic_ns");
		start = merge_time(m, in, start);
		end = merge_time(m, in, end ? end : in->t->last_ns);
		snprintf(key, sizeof(key), "source_%zu_start_monotonic_ns", i);
		put_number(m, key, start);
		snprintf(key, sizeof(key), "source_%zu_end_monotonic_ns", i);
		put_number(m, key, end);
		first = start && start < first ? start : first;
		last = end > last ? end : last;
	}
	if (first == UINT64_MAX)
		return;
	put_number(m, "start_monotonic_ns", first);
	put_number(m, "end_monotonic_ns", last);
	if (m->inputs.data[0].realtime_known)
		put_number(m, "start_realtime_ns", first + (uint64_t)m->inputs.data[0].realtime_ns);
}

static void put_source_metas(struct merge *m, uint32_t source)
{
	const struct merge_input *in = &m->inputs.data[source];
	const struct rec_tables *reference = m->inputs.data[0].t;
	for (size_t i = 0; i < in->t->metas.len; i++) {
		const char *key = strtab_get(&in->t->strings, in->t->metas.data[i].key, NULL);
		const char *value = strtab_get(&in->t->strings, in->t->metas.data[i].value, NULL);
		const char *there = rec_meta(reference, key);
		if (one_of(key, times, sizeof(times) / sizeof(times[0])))
			continue;
		if (!source && !one_of(key, sums, sizeof(sums) / sizeof(sums[0])))
			rec_put_meta(m->w, key, value);
		if (!source || (there && !strcmp(there, value)))
			continue;
		char *own = xasprintf("source_%u_%s", source, key);
		rec_put_meta(m->w, own, value);
		free(own);
	}
}

void merge_put_metas(struct merge *m)
{
	for (uint32_t i = 0; i < m->inputs.len; i++)
		put_source_metas(m, i);
	put_sums(m);
	put_times(m);
}
