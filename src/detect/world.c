/* world.c - waits for the world, of a thread and of a recording. */
#include "detect/world.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/stats.h"

#define SECOND_NS   1000000000ULL
#define SECONDS	    86400 /* of a recording that are looked at */
#define WORKS	    0.1	  /* share of the calls that a thread makes that does the work */
#define IRREGULAR   0.2	  /* between the seconds with the least and with the most, a tenth each */
#define SECONDS_FEW 10

bool world_may_be(const struct m_wait *w)
{
	bool why = w->reason == WAIT_NETWORK || w->reason == WAIT_POLL || w->reason == WAIT_SLEEP;
	return why && w->start_ns + w->runnable_ns < w->end_ns;
}

/* Once it could run, it was the host that let it wait. */
static uint64_t end_of(const struct m_wait *w)
{
	return w->end_ns - w->runnable_ns;
}

void world_add(struct world_waits *w, const struct m_wait *wait)
{
	uint64_t end = end_of(wait);
	w->last[w->at] = (struct world_wait){wait->start_ns, end};
	w->at = (w->at + 1) % WORLD_WAITS;
	w->total_ns += end - wait->start_ns;
}

uint64_t world_waited_ns(const struct world_waits *w, uint64_t before_ns, uint64_t call_start_ns)
{
	uint64_t since = w->total_ns - before_ns, within = 0;
	for (uint32_t i = 0; i < WORLD_WAITS && since; i++)
		if (w->last[i].start_ns >= call_start_ns)
			within += w->last[i].end_ns - w->last[i].start_ns;
	return since > within ? since - within : 0;
}

/* ---- of a recording ---- */

/* Seconds of one thread, and how much of each it waited for the world. */
struct seconds {
	uint32_t thread;
	VEC(double) share;
};

static struct seconds *of_thread(struct seconds *s, size_t n, uint32_t thread)
{
	for (size_t i = 0; i < n; i++)
		if (s[i].thread == thread)
			return &s[i];
	return NULL;
}

static void add_wait(struct seconds *s, const struct m_wait *w, uint64_t begin_ns)
{
	uint64_t end = end_of(w);
	for (uint64_t at = w->start_ns > begin_ns ? w->start_ns : begin_ns; at < end;) {
		uint64_t second = (at - begin_ns) / SECOND_NS;
		uint64_t next = begin_ns + (second + 1) * SECOND_NS, to = end < next ? end : next;
		if (second >= SECONDS)
			return;
		while (s->share.len <= second)
			*vec_push(&s->share) = 0;
		s->share.data[second] += (double)(to - at) / (double)SECOND_NS;
		at = to;
	}
}

static bool is_irregular(struct seconds *s, uint64_t seconds)
{
	while (s->share.len < seconds && s->share.len < SECONDS)
		*vec_push(&s->share) = 0;
	if (s->share.len < SECONDS_FEW)
		return false;
	stats_sort(s->share.data, s->share.len);
	size_t tenth = s->share.len / 10;
	return s->share.data[s->share.len - 1 - tenth] - s->share.data[tenth] >= IRREGULAR;
}

bool world_is_irregular(const struct row_source *r, const uint64_t *calls_of, size_t n,
			uint64_t begin_ns)
{
	struct m_waits rows = {0};
	uint64_t all = 0, last_ns = r->tables->last_ns;
	size_t len = 0;
	bool irregular = false;
	for (size_t i = 0; i < n; i++)
		all += calls_of[i];
	struct seconds *s = xcalloc((size_t)(1 / WORKS) + 1, sizeof(*s));
	for (size_t i = 0; i < n && all; i++)
		if ((double)calls_of[i] >= WORKS * (double)all)
			s[len++].thread = (uint32_t)i;
	for (size_t b = 0; b < source_wait_blocks(r); b++) {
		if (source_read_waits(r, b, &rows, NULL))
			continue;
		for (size_t i = 0; i < rows.len; i++) {
			struct seconds *of = of_thread(s, len, rows.rows[i].thread);
			if (of && world_may_be(&rows.rows[i]))
				add_wait(of, &rows.rows[i], begin_ns);
		}
	}
	for (size_t i = 0; i < len; i++) {
		uint64_t seconds = last_ns > begin_ns ? (last_ns - begin_ns) / SECOND_NS : 0;
		irregular |= is_irregular(&s[i], seconds);
		vec_free(&s[i].share);
	}
	free(s);
	m_waits_free(&rows);
	return irregular;
}
