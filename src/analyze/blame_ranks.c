/* blame_ranks.c - when a GPU waits in a collective for a rank that has not come yet: from when its
 * own kernel began until the last rank's did, by the collectives of all ranks (ranks.h). Only those
 * in which a rank was late by more than the noise, and only by times of devices. */
#include <stdlib.h>

#include "analyze/blame_impl.h"
#include "analyze/ranks.h"

static void add_late(struct blame_world *w, const struct rank_call *c, const struct rank_call *last)
{
	uint64_t thread;
	if (c->pid == last->pid || !c->timed || c->start_ns >= last->start_ns ||
	    !map64_get(&w->main_of, last->pid, &thread))
		return;
	*vec_push(&w->lates) = (struct blame_late){
		.pid = c->pid,
		.peer = (uint32_t)thread,
		.from_ns = c->start_ns,
		.to_ns = last->start_ns,
	};
}

static int by_start(const void *a, const void *b)
{
	const struct blame_late *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* Of those of a process at one time, in several communicators, the first has it. */
static void part_them(struct blame_world *w)
{
	size_t left = 0;
	for (size_t i = 0; i < w->lates.len; i++) {
		struct blame_late l = w->lates.data[i];
		const struct blame_late *before = left ? &w->lates.data[left - 1] : NULL;
		if (before && before->pid == l.pid && before->to_ns > l.from_ns)
			l.from_ns = before->to_ns;
		if (l.to_ns > l.from_ns)
			w->lates.data[left++] = l;
	}
	w->lates.len = left;
}

void blame_ranks_load(struct blame_world *w, const struct row_source *s, const struct timeline *t)
{
	struct collectives collectives;
	struct ranks ranks;
	if (!w->ranks.all.len)
		return;
	collectives_make(&collectives, t, 0);
	ranks_make(&ranks, s, &collectives);
	for (size_t i = 0; i < ranks.timings.len; i++) {
		const struct ranks_timing *timing = &ranks.timings.data[i];
		const struct rank_match *match = &ranks.matching.matches.data[i];
		if (timing->last == RANKS_NONE || !timing->late || !timing->on_device)
			continue;
		for (uint32_t k = 0; k < match->calls; k++) {
			uint32_t call = ranks.matching.matched.data[match->first + k];
			add_late(w, &ranks.calls.data[call], &ranks.calls.data[timing->last]);
		}
	}
	if (w->lates.len)
		qsort(w->lates.data, w->lates.len, sizeof(*w->lates.data), by_start);
	part_them(w);
	ranks_free(&ranks);
	collectives_free(&collectives);
}

const struct blame_late *blame_late_from(const struct blame_world *w, uint32_t pid, uint64_t ns)
{
	size_t low = 0, n = w->lates.len;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		const struct blame_late *l = &w->lates.data[middle];
		if (l->pid > pid || (l->pid == pid && l->to_ns > ns))
			n = middle;
		else
			low = middle + 1;
	}
	return low < w->lates.len && w->lates.data[low].pid == pid ? &w->lates.data[low] : NULL;
}
