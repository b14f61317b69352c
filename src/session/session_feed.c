/* session_feed.c - the queue between the thread that records and one that looks at rows. */
#include "session/session_feed.h"

#include <pthread.h>
#include <stdatomic.h>

#define HAND_ON_NS    20000000ULL /* each batch wakes the other thread */
#define HAND_ON_CALLS 8192
#define KEPT	      8		 /* empty batches, to be used again */
#define KEPT_BYTES    (4u << 20) /* room for calls of all of these */
#define SMALL_BYTES   (64u << 10)

struct feed {
	size_t most_bytes;
	struct pipeline *pipeline;

	/* the recording thread's */
	struct feed_batch *filling;
	size_t filled_bytes; /* of bulk rows */
	uint64_t handed_ns;

	atomic_size_t queued_bytes;
	atomic_uint_fast64_t overruns;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct feed_batch *first, **last; /* under lock, as all below */
	struct feed_batch *spare;
	unsigned spares;
	size_t spare_bytes;
	bool ended;
};

const struct row_vec *feed_rows(const struct feed_batch *b, enum row_kind kind)
{
	switch (kind) {
#define X(number, NAME, stem, members)                                                             \
	case ROW_##NAME:                                                                           \
		return (const struct row_vec *)&b->members;
		ROW_TABLES(X)
		ROW_BULKS(X)
#undef X
	default:
		return NULL;
	}
}

static bool is_bulk(enum row_kind kind)
{
	return row_kind_info(kind)->keeping == ROWS_BULK;
}

static size_t bulk_bytes(struct feed_batch *b)
{
	size_t bytes = 0;
#define X(number, NAME, stem, members) bytes += b->members.len * sizeof(*b->members.data);
	ROW_BULKS(X)
#undef X
	return bytes;
}

static void batch_free(struct feed_batch *b)
{
	if (!b)
		return;
	vec_free(&b->strings);
	buf_free(&b->texts);
#define X(number, NAME, stem, members) vec_free(&b->members);
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
	for (size_t kind = 0; kind < ROW_KINDS; kind++)
		vec_free(&b->numbers[kind]);
	vec_free(&b->threads_gone);
	vec_free(&b->metrics_gone);
	free(b);
}

static void batch_empty(struct feed_batch *b)
{
	b->next = NULL;
	b->upto_ns = b->overruns = 0;
	b->strings.len = b->texts.len = b->threads_gone.len = b->metrics_gone.len = 0;
#define X(number, NAME, stem, members) b->members.len = 0;
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
	for (size_t kind = 0; kind < ROW_KINDS; kind++)
		b->numbers[kind].len = 0;
}

struct feed *feed_new(size_t most_bytes)
{
	struct feed *f = xcalloc(1, sizeof(*f));
	f->most_bytes = most_bytes;
	f->filling = xcalloc(1, sizeof(*f->filling));
	f->last = &f->first;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->wake, NULL);
	return f;
}

static void list_free(struct feed_batch *b)
{
	while (b) {
		struct feed_batch *next = b->next;
		batch_free(b);
		b = next;
	}
}

void feed_free(struct feed *f)
{
	if (!f)
		return;
	list_free(f->first);
	list_free(f->spare);
	batch_free(f->filling);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->wake);
	free(f);
}

/* ---- the recording thread's ---- */

/* Whether so many bulk rows of a size have a place; if not they are counted. */
static bool has_room(struct feed *f, size_t n, size_t size)
{
	size_t bytes = n * size;
	if (atomic_load_explicit(&f->queued_bytes, memory_order_relaxed) + f->filled_bytes + bytes >
	    f->most_bytes) {
		atomic_fetch_add_explicit(&f->overruns, n, memory_order_relaxed);
		f->filling->overruns += n;
		return false;
	}
	f->filled_bytes += bytes;
	return true;
}

static void on_string(void *ctx, uint32_t number, const char *text)
{
	struct feed *f = ctx;
	struct feed_batch *b = f->filling;
	*vec_push(&b->strings) = (struct feed_string){number, (uint32_t)b->texts.len};
	buf_add(&b->texts, text, strlen(text) + 1);
}

static void on_rows(void *ctx, enum row_kind kind, uint32_t number, const void *rows, size_t n)
{
	struct feed *f = ctx;
	struct feed_batch *b = f->filling;
	const struct row_kind_info *k = row_kind_info(kind);
	if (is_bulk(kind) && !has_room(f, n, k->row_bytes))
		return;
	memcpy(row_vec_add((struct row_vec *)feed_rows(b, kind), k->row_bytes, n), rows,
	       n * k->row_bytes);
	for (size_t i = 0; i < n && k->keeping == ROWS_INDEXED; i++)
		*vec_push(&b->numbers[kind]) = number + (uint32_t)i;
}

static void on_row_gone(void *ctx, enum row_kind kind, uint32_t number)
{
	struct feed *f = ctx;
	if (kind == ROW_THREAD)
		*vec_push(&f->filling->threads_gone) = number;
	else if (kind == ROW_METRIC)
		*vec_push(&f->filling->metrics_gone) = number;
}

void feed_listen(struct feed *f, struct pipeline *p)
{
	f->pipeline = p;
	pipeline_listen(p, &(struct event_listener){.ctx = f,
						    .string = on_string,
						    .rows = on_rows,
						    .row_gone = on_row_gone});
}

static size_t room_of(const struct feed_batch *b)
{
	return b->calls.cap * sizeof(*b->calls.data);
}

static struct feed_batch *spare_batch(struct feed *f)
{
	struct feed_batch *b = f->spare;
	if (!b)
		return xcalloc(1, sizeof(*b));
	f->spare = b->next;
	f->spares--;
	f->spare_bytes -= room_of(b);
	b->next = NULL;
	return b;
}

static void hand_on(struct feed *f, bool last)
{
	atomic_fetch_add_explicit(&f->queued_bytes, f->filled_bytes, memory_order_relaxed);
	f->filled_bytes = 0;
	pthread_mutex_lock(&f->lock);
	*f->last = f->filling;
	f->last = &f->filling->next;
	f->filling = spare_batch(f);
	f->ended |= last;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
}

void feed_pass(struct feed *f, uint64_t begin_ns)
{
	if (begin_ns - f->handed_ns < HAND_ON_NS && f->filling->calls.len < HAND_ON_CALLS)
		return;
	f->handed_ns = begin_ns;
	f->filling->upto_ns = begin_ns;
	hand_on(f, false);
}

void feed_end(struct feed *f)
{
	pipeline_unlisten(f->pipeline, f); /* it may outlive the feed */
	hand_on(f, true);
}

/* ---- the other thread's ---- */

struct feed_batch *feed_take(struct feed *f)
{
	pthread_mutex_lock(&f->lock);
	while (!f->first && !f->ended)
		pthread_cond_wait(&f->wake, &f->lock);
	struct feed_batch *b = f->first;
	if (b) {
		f->first = b->next;
		if (!f->first)
			f->last = &f->first;
		b->next = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	return b;
}

/* Not those that are larger than is usual: they come of a pause, and would stay. */
static bool is_worth_keeping(const struct feed_batch *b)
{
	size_t room = room_of(b);
	return room <= SMALL_BYTES || (room <= KEPT_BYTES && b->calls.len >= b->calls.cap / 4);
}

void feed_give_back(struct feed *f, struct feed_batch *b)
{
	atomic_fetch_sub_explicit(&f->queued_bytes, bulk_bytes(b), memory_order_relaxed);
	bool keep = is_worth_keeping(b);
	batch_empty(b);
	pthread_mutex_lock(&f->lock);
	if (keep && f->spares < KEPT && f->spare_bytes + room_of(b) <= KEPT_BYTES) {
		b->next = f->spare;
		f->spare = b;
		f->spares++;
		f->spare_bytes += room_of(b);
		b = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	batch_free(b);
}

uint64_t feed_overruns(const struct feed *f)
{
	return atomic_load_explicit(&f->overruns, memory_order_relaxed);
}
