/* ahead.c - threads that make things ahead.
 *
 * Each stream has a ring of slots, and each thing its slot by its number. A thread takes the next
 * thing that nobody has taken of a stream that has a free slot; so does the caller, where what it
 * waits for was not taken: without any thread all is made by the caller. Slots change hands under
 * the lock; what is in one is its taker's until it is ready, and the caller's from then on. */
#include "detect/ahead.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/thread.h"

#define SLOTS (AHEAD + 1) /* one is with the caller */

struct stream {
	size_t taken, asked; /* lock: things that were begun; that the caller has had */
	uint8_t *slots;
	bool ready[SLOTS]; /* lock */
};

struct ahead {
	struct ahead_options o;
	struct stream streams[AHEAD_STREAMS];
	pthread_t threads[AHEAD_THREADS];
	size_t threads_len;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* one is ready, a slot is free, or it is the end */
	bool ends;		/* lock */
};

/* With the lock: the stream that is the least far ahead of those that have something to take and
 * room for it; AHEAD_STREAMS: there is none. */
static size_t to_take(const struct ahead *a)
{
	size_t best = AHEAD_STREAMS, least = AHEAD;
	for (size_t i = 0; i < a->o.streams; i++) {
		const struct stream *t = &a->streams[i];
		if (t->taken == a->o.things[i] || t->taken - t->asked >= least)
			continue;
		best = i;
		least = t->taken - t->asked;
	}
	return best;
}

static void *slot_of(const struct ahead *a, size_t stream, size_t number)
{
	return a->streams[stream].slots + number % SLOTS * a->o.slot_bytes;
}

/* With the lock, which it gives away meanwhile. */
static void take(struct ahead *a, size_t stream)
{
	struct stream *t = &a->streams[stream];
	size_t number = t->taken++;
	pthread_mutex_unlock(&a->lock);
	a->o.make(a->o.ctx, stream, number, slot_of(a, stream, number));
	pthread_mutex_lock(&a->lock);
	t->ready[number % SLOTS] = true;
	pthread_cond_broadcast(&a->changed);
}

static void *make_ahead(void *ctx)
{
	struct ahead *a = ctx;
	pthread_mutex_lock(&a->lock);
	while (!a->ends) {
		size_t stream = to_take(a);
		if (stream < AHEAD_STREAMS)
			take(a, stream);
		else
			pthread_cond_wait(&a->changed, &a->lock);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

struct ahead *ahead_new(const struct ahead_options *o)
{
	struct ahead *a = xcalloc(1, sizeof(*a));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t things = 0, want = cpus > 1 ? (size_t)cpus - 1 : 0;
	a->o = *o;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	for (size_t i = 0; i < o->streams; i++) {
		a->streams[i].slots = xcalloc(SLOTS, o->slot_bytes);
		things += o->things[i];
	}
	want = want < AHEAD_THREADS ? want : AHEAD_THREADS;
	want = things > 1 ? want : 0; /* one is made as soon as a thread is */
	while (a->threads_len < want &&
	       !thread_start(&a->threads[a->threads_len], make_ahead, a, "eacgm-ahead"))
		a->threads_len++;
	return a;
}

const void *ahead_next(struct ahead *a, size_t stream)
{
	struct stream *t = &a->streams[stream];
	size_t number = t->asked;
	if (number == a->o.things[stream])
		return NULL;
	pthread_mutex_lock(&a->lock);
	if (t->taken == number)
		take(a, stream);
	while (!t->ready[number % SLOTS])
		pthread_cond_wait(&a->changed, &a->lock);
	t->ready[number % SLOTS] = false;
	t->asked++; /* the slot of the one before is free */
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return slot_of(a, stream, number);
}

void ahead_free(struct ahead *a)
{
	pthread_mutex_lock(&a->lock);
	a->ends = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	for (size_t i = 0; i < a->threads_len; i++)
		pthread_join(a->threads[i], NULL);
	for (size_t i = 0; i < a->o.streams; i++) {
		for (size_t k = 0; k < SLOTS; k++)
			a->o.slot_free(slot_of(a, i, k));
		free(a->streams[i].slots);
	}
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
