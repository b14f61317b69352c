/* rows_ahead.c - threads that read and sort blocks ahead.
 *
 * Each kind has a ring of slots, and each block its slot by its number. A thread takes the next
 * block that nobody has taken of a kind whose slot is free; so does the caller, where the block
 * that it waits for was not taken: without any thread all is read by the caller. Slots change hands
 * under the lock; what is in one is its taker's until it is ready, and the caller's from then on.
 */
#include "detect/rows_ahead.h"

#include <pthread.h>
#include <unistd.h>

#include "base/sort.h"
#include "base/thread.h"

#define SLOTS (ROWS_AHEAD + 1) /* one is with the caller */

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
	bool ready; /* lock */
};

struct stream {
	enum row_kind kind;
	size_t blocks;
	size_t taken, asked; /* lock: blocks that were begun; that the caller has had */
	struct slot slots[SLOTS];
};

#define STREAMS_MOST 3

struct rows_ahead {
	const struct row_source *source;
	struct stream streams[STREAMS_MOST];
	size_t streams_len;
	pthread_t threads[ROWS_AHEAD_THREADS];
	size_t threads_len;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a block is ready, a slot is free, or it is the end */
	bool ends;		/* lock */
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

static void read_block(const struct rows_ahead *a, struct stream *t, size_t number)
{
	struct slot *s = &t->slots[number % SLOTS];
	if (a->source->read(a->source->ctx, t->kind, number, &s->rows, NULL))
		s->rows.len = 0;
	sort_block(t->kind, s);
}

/* ---- threads; with the lock ---- */

/* The stream that is the least far ahead of those that have a block to take and room for it; NULL:
 * there is none. */
static struct stream *to_take(struct rows_ahead *a)
{
	struct stream *best = NULL;
	for (size_t i = 0; i < a->streams_len; i++) {
		struct stream *t = &a->streams[i];
		size_t ahead = t->taken - t->asked;
		if (t->taken < t->blocks && ahead < ROWS_AHEAD &&
		    (!best || ahead < best->taken - best->asked))
			best = t;
	}
	return best;
}

static void take(struct rows_ahead *a, struct stream *t)
{
	size_t number = t->taken++;
	pthread_mutex_unlock(&a->lock);
	read_block(a, t, number);
	pthread_mutex_lock(&a->lock);
	t->slots[number % SLOTS].ready = true;
	pthread_cond_broadcast(&a->changed);
}

static void *read_ahead(void *ctx)
{
	struct rows_ahead *a = ctx;
	pthread_mutex_lock(&a->lock);
	while (!a->ends) {
		struct stream *t = to_take(a);
		if (t)
			take(a, t);
		else
			pthread_cond_wait(&a->changed, &a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* ---- the caller ---- */

struct rows_ahead *rows_ahead_new(const struct row_source *r, uint32_t kinds)
{
	static const enum row_kind all[STREAMS_MOST] = {ROW_CALL, ROW_GPU_SPAN, ROW_WAIT};
	struct rows_ahead *a = xcalloc(1, sizeof(*a));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t blocks = 0;
	a->source = r;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	for (size_t i = 0; i < STREAMS_MOST; i++)
		if (kinds & 1u << all[i]) {
			size_t n = r->blocks(r->ctx, all[i]);
			a->streams[a->streams_len++] = (struct stream){.kind = all[i], .blocks = n};
			blocks += n;
		}
	/* One block is as soon read as a thread is made. */
	size_t want = cpus > 1 && blocks > 1 ? (size_t)cpus - 1 : 0;
	want = want < ROWS_AHEAD_THREADS ? want : ROWS_AHEAD_THREADS;
	while (a->threads_len < want && !thread_start(&a->threads[a->threads_len], read_ahead, a))
		a->threads_len++;
	return a;
}

static struct stream *stream_of(struct rows_ahead *a, enum row_kind kind)
{
	for (size_t i = 0; i < a->streams_len; i++)
		if (a->streams[i].kind == kind)
			return &a->streams[i];
	return NULL;
}

const struct ahead_block *rows_ahead_next(struct rows_ahead *a, enum row_kind kind)
{
	struct stream *t = stream_of(a, kind);
	if (!t || t->asked == t->blocks)
		return NULL;
	pthread_mutex_lock(&a->lock);
	size_t number = t->asked;
	struct slot *s = &t->slots[number % SLOTS];
	if (t->taken == number)
		take(a, t);
	while (!s->ready)
		pthread_cond_wait(&a->changed, &a->lock);
	s->ready = false;
	t->asked++; /* the slot of the block before is free */
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return &s->block;
}

void rows_ahead_free(struct rows_ahead *a)
{
	pthread_mutex_lock(&a->lock);
	a->ends = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	for (size_t i = 0; i < a->threads_len; i++)
		pthread_join(a->threads[i], NULL);
	for (size_t i = 0; i < a->streams_len; i++)
		for (size_t k = 0; k < SLOTS; k++) {
			row_block_free(&a->streams[i].slots[k].rows);
			free(a->streams[i].slots[k].order);
			free(a->streams[i].slots[k].places);
		}
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
