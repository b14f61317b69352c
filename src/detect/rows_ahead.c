/* rows_ahead.c - blocks of rows, and their order. */
#include "detect/rows_ahead.h"

#include <stdbool.h>

#include "base/sort.h"
#include "detect/ahead.h"

/* What rows are sorted by. */
struct place {
	uint64_t time_ns;
	uint64_t then;
	uint32_t thread, row;
};

struct slot {
	struct ahead_block block;
	struct row_block rows;
	uint32_t *order;
	struct place *places;
	size_t cap; /* of order and places */
};

struct rows_ahead {
	const struct row_source *source;
	struct ahead *ahead;
	enum row_kind kinds[AHEAD_STREAMS]; /* by stream */
	struct ahead_options o;
};

/* ---- order ---- */

/* Of calls that end together the inner one ended first. */
static struct place place_of_call(const struct m_call *c)
{
	return (struct place){.time_ns = c->start_ns + c->dur_ns,
			      .then = UINT8_MAX - (uint64_t)c->depth,
			      .thread = c->thread};
}

static struct place place_of(enum row_kind kind, const struct row_block *rows, size_t i)
{
	const struct m_gpu_span *spans = rows->rows;
	const struct m_wait *waits = rows->rows;
	if (kind == ROW_CALL)
		return place_of_call((const struct m_call *)rows->rows + i);
	if (kind == ROW_WAIT)
		return (struct place){.time_ns = waits[i].end_ns};
	return (struct place){.time_ns = spans[i].start_ns, .then = spans[i].correlation};
}

/* then is of calls of one thread, or of what is of none. */
static int by_time(const void *a, const void *b, void *arg)
{
	const struct place *x = a, *y = b;
	(void)arg;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->then < y->then ? -1 : x->then > y->then;
}

static void reserve(struct slot *s, size_t n)
{
	if (n <= s->cap)
		return;
	free(s->order);
	free(s->places);
	s->order = xrealloc(NULL, n, sizeof(*s->order));
	s->places = xrealloc(NULL, n, sizeof(*s->places));
	s->cap = n;
}

/* Rows stay where they are: they are large, and nearly in order. */
static void sort_block(enum row_kind kind, struct slot *s)
{
	size_t n = s->rows.len;
	bool sorted = true;
	reserve(s, n);
	for (size_t i = 0; i < n; i++) {
		s->places[i] = place_of(kind, &s->rows, i);
		s->places[i].row = (uint32_t)i;
		sorted &= !i || by_time(&s->places[i - 1], &s->places[i], NULL) <= 0;
	}
	s->block = (struct ahead_block){.rows = s->rows.rows, .len = n};
	if (sorted)
		return;
	sort_runs(s->places, n, sizeof(*s->places), by_time, NULL);
	for (size_t i = 0; i < n; i++)
		s->order[i] = s->places[i].row;
	s->block.order = s->order;
}

static void read_block(void *ctx, size_t stream, size_t number, void *slot)
{
	const struct rows_ahead *a = ctx;
	struct slot *s = slot;
	if (a->source->read(a->source->ctx, a->kinds[stream], number, &s->rows, NULL))
		s->rows.len = 0;
	sort_block(a->kinds[stream], s);
}

static void slot_free(void *slot)
{
	struct slot *s = slot;
	row_block_free(&s->rows);
	free(s->order);
	free(s->places);
}

struct rows_ahead *rows_ahead_new(const struct row_source *r, uint32_t kinds)
{
	static const enum row_kind all[] = {ROW_CALL, ROW_GPU_SPAN, ROW_WAIT};
	struct rows_ahead *a = xcalloc(1, sizeof(*a));
	a->source = r;
	a->o = (struct ahead_options){.ctx = a,
				      .slot_bytes = sizeof(struct slot),
				      .make = read_block,
				      .slot_free = slot_free};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (kinds & 1u << all[i]) {
			a->o.things[a->o.streams] = r->blocks(r->ctx, all[i]);
			a->kinds[a->o.streams++] = all[i];
		}
	a->ahead = ahead_new(&a->o);
	return a;
}

const struct ahead_block *rows_ahead_next(struct rows_ahead *a, enum row_kind kind)
{
	for (size_t i = 0; i < a->o.streams; i++)
		if (a->kinds[i] == kind) {
			const struct slot *s = ahead_next(a->ahead, i);
			return s ? &s->block : NULL;
		}
	return NULL;
}

void rows_ahead_free(struct rows_ahead *a)
{
	ahead_free(a->ahead);
	free(a);
}
