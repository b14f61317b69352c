/* session_feed.c - the queue between the thread that records and those that look at rows.
 *
 * A batch is in it until all readers have given it back. Where there is no room, the oldest rows go
 * that only who lags has not read; where nobody has read any, the new ones are left out. */
#include "session/session_feed.h"

#include <pthread.h>
#include <stdatomic.h>

#define HAND_ON_NS    20000000ULL /* each batch wakes the other thread */
#define HAND_ON_CALLS 8192
#define KEPT	      8		 /* empty batches, to be used again */
#define KEPT_BYTES    (4u << 20) /* room for bulk rows of all of these */
#define SMALL_BYTES   (64u << 10)

struct feed {
	size_t most_bytes;
	struct pipeline *pipeline;

	/* the recording thread's */
	struct feed_batch *filling;
	size_t filled_bytes; /* of bulk rows */
	uint64_t handed_ns;

	atomic_size_t queued_bytes;
	atomic_bool stuck;		    /* full, and of what waits nothing can be dropped */
	atomic_uint_least64_t new_overruns; /* of rows that came when it was: all readers' */

	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct feed_batch *first, **last; /* under lock, as all below */
	struct feed_reader {
		struct feed_batch *at; /* what it takes next; NULL: it has had all */
		uint64_t overruns;
		bool ended; /* nothing more comes for it */
	} readers[FEED_READERS_MOST];
	unsigned nreaders;
	struct feed_batch *spare;
	unsigned spares;
	size_t spare_bytes;
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

static size_t bulk_bytes(const struct feed_batch *b)
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
	b->unread = b->taken = 0;
	b->upto_ns = b->overruns = 0;
	b->strings.len = b->texts.len = b->threads_gone.len = b->metrics_gone.len = 0;
#define X(number, NAME, stem, members) b->members.len = 0;
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
	for (size_t kind = 0; kind < ROW_KINDS; kind++)
		b->numbers[kind].len = 0;
}

struct feed *feed_new(size_t most_bytes, unsigned readers)
{
	struct feed *f = xcalloc(1, sizeof(*f));
	f->most_bytes = most_bytes;
	f->nreaders = readers;
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

static uint8_t bit_of(unsigned reader)
{
	return (uint8_t)(1u << reader);
}

static uint8_t all_readers(const struct feed *f)
{
	return (uint8_t)((1u << f->nreaders) - 1);
}

static uint64_t bulk_rows(const struct feed_batch *b)
{
	uint64_t rows = 0;
#define X(number, NAME, stem, members) rows += b->members.len;
	ROW_BULKS(X)
#undef X
	return rows;
}

static void count_overruns(struct feed *f, uint8_t readers, uint64_t n)
{
	for (unsigned i = 0; i < f->nreaders; i++)
		if (readers & bit_of(i))
			f->readers[i].overruns += n;
}

/* The lock is held. Those who have not read a batch do without its bulk. */
static void drop_bulk(struct feed *f, struct feed_batch *b)
{
	uint64_t rows = bulk_rows(b);
	atomic_fetch_sub_explicit(&f->queued_bytes, bulk_bytes(b), memory_order_relaxed);
	b->overruns += rows;
	count_overruns(f, b->unread, rows);
#define X(number, NAME, stem, members) vec_free(&b->members);
	ROW_BULKS(X)
#undef X
}

static bool is_full(const struct feed *f, size_t bytes)
{
	return atomic_load_explicit(&f->queued_bytes, memory_order_relaxed) + f->filled_bytes +
		       bytes >
	       f->most_bytes;
}

/* The lock is held. What somebody has read and nobody reads now. */
static void drop_lagging(struct feed *f, size_t bytes)
{
	for (struct feed_batch *b = f->first; b && is_full(f, bytes); b = b->next)
		if (b->unread != all_readers(f) && !b->taken)
			drop_bulk(f, b);
}

/* What one alone has read is gone. Of others the queue is gone through once: until a batch is given
 * back nothing more can be dropped. */
static bool make_room(struct feed *f, size_t bytes)
{
	if (f->nreaders == 1 || atomic_load_explicit(&f->stuck, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&f->lock);
	drop_lagging(f, bytes);
	bool ret = !is_full(f, bytes);
	atomic_store_explicit(&f->stuck, !ret, memory_order_relaxed);
	pthread_mutex_unlock(&f->lock);
	return ret;
}

/* Whether so many bulk rows of a size have a place; if not they are counted. */
static bool has_room(struct feed *f, size_t n, size_t size)
{
	size_t bytes = n * size;
	if (is_full(f, bytes) && !make_room(f, bytes)) {
		f->filling->overruns += n;
		atomic_fetch_add_explicit(&f->new_overruns, n, memory_order_relaxed);
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
	row_vec_append((struct row_vec *)feed_rows(b, kind), k->row_bytes, rows, n);
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

/* That its bulk rows have, or had. */
static size_t room_of(const struct feed_batch *b)
{
	size_t bytes = 0;
#define X(number, NAME, stem, members) bytes += b->members.cap * sizeof(*b->members.data);
	ROW_BULKS(X)
#undef X
	return bytes;
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

/* Where much waits, it has the room that it needs: rows have up to twice that while they come. */
static void fit(struct feed *f)
{
	struct feed_batch *b = f->filling;
	if (atomic_load_explicit(&f->queued_bytes, memory_order_relaxed) <= f->most_bytes / 4)
		return;
#define X(number, NAME, stem, members) vec_fit(&b->members);
	ROW_BULKS(X)
#undef X
}

static void hand_on(struct feed *f)
{
	atomic_fetch_add_explicit(&f->queued_bytes, f->filled_bytes, memory_order_relaxed);
	f->filled_bytes = 0;
	fit(f);
	f->filling->unread = all_readers(f);
	pthread_mutex_lock(&f->lock);
	*f->last = f->filling;
	f->last = &f->filling->next;
	for (unsigned i = 0; i < f->nreaders; i++)
		if (!f->readers[i].at)
			f->readers[i].at = f->filling;
	f->filling = spare_batch(f);
	pthread_cond_broadcast(&f->wake);
	pthread_mutex_unlock(&f->lock);
}

void feed_pass(struct feed *f, uint64_t begin_ns)
{
	if (begin_ns - f->handed_ns < HAND_ON_NS && f->filling->calls.len < HAND_ON_CALLS)
		return;
	f->handed_ns = begin_ns;
	f->filling->upto_ns = begin_ns;
	hand_on(f);
}

void feed_end(struct feed *f)
{
	pipeline_unlisten(f->pipeline, f); /* it may outlive the feed */
	hand_on(f);
}

void feed_end_of(struct feed *f, unsigned reader)
{
	pthread_mutex_lock(&f->lock);
	f->readers[reader].ended = true;
	pthread_cond_broadcast(&f->wake);
	pthread_mutex_unlock(&f->lock);
}

/* ---- the readers' threads ---- */

const struct feed_batch *feed_take(struct feed *f, unsigned reader)
{
	struct feed_reader *r = &f->readers[reader];
	pthread_mutex_lock(&f->lock);
	while (!r->at && !r->ended)
		pthread_cond_wait(&f->wake, &f->lock);
	struct feed_batch *b = r->at;
	if (b) {
		b->taken |= bit_of(reader);
		r->at = b->next;
	}
	pthread_mutex_unlock(&f->lock);
	return b;
}

/* Not those that are larger than is usual: they come of a pause, and would stay. */
static bool is_worth_keeping(const struct feed_batch *b)
{
	size_t room = room_of(b);
	return room <= SMALL_BYTES || (room <= KEPT_BYTES && bulk_bytes(b) >= room / 4);
}

/* The lock is held. Returns what is to be freed, or NULL. */
static struct feed_batch *keep_or_not(struct feed *f, struct feed_batch *b)
{
	bool keep = is_worth_keeping(b);
	atomic_fetch_sub_explicit(&f->queued_bytes, bulk_bytes(b), memory_order_relaxed);
	batch_empty(b);
	if (!keep || f->spares == KEPT || f->spare_bytes + room_of(b) > KEPT_BYTES)
		return b;
	b->next = f->spare;
	f->spare = b;
	f->spares++;
	f->spare_bytes += room_of(b);
	return NULL;
}

void feed_give_back(struct feed *f, unsigned reader, const struct feed_batch *given)
{
	struct feed_batch *gone = NULL;
	pthread_mutex_lock(&f->lock);
	/* the oldest that this one has not given back: each takes them in their order */
	struct feed_batch *b = f->first;
	while (b != given)
		b = b->next;
	b->unread &= (uint8_t)~bit_of(reader);
	b->taken &= (uint8_t)~bit_of(reader);
	atomic_store_explicit(&f->stuck, false, memory_order_relaxed);
	if (b == f->first && !b->unread) {
		f->first = b->next;
		if (!f->first)
			f->last = &f->first;
		gone = keep_or_not(f, b);
	}
	pthread_mutex_unlock(&f->lock);
	batch_free(gone);
}

uint64_t feed_overruns(struct feed *f, unsigned reader)
{
	pthread_mutex_lock(&f->lock);
	uint64_t ret = f->readers[reader].overruns;
	pthread_mutex_unlock(&f->lock);
	return ret + atomic_load_explicit(&f->new_overruns, memory_order_relaxed);
}
