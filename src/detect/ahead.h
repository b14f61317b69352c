/* ahead.h - numbered things that are made in order, by threads, while the caller is busy with those
 * before: blocks that are read, events that are judged.
 *
 * There may be several streams of things, which share the threads. Things of a stream need nothing
 * of each other; they are handed out in order of their numbers. Memory: AHEAD things of each
 * stream, and the one that was handed out last. */
#pragma once

#include <stddef.h>

#define AHEAD	      4 /* things of a stream that are made before they are asked for */
#define AHEAD_STREAMS 3 /* at most */
#define AHEAD_THREADS 3 /* at most; one CPU is the caller's */

struct ahead_options {
	void *ctx;
	size_t streams;
	size_t things[AHEAD_STREAMS]; /* how many there are of each */
	/* Where one is made in, again and again: zeroed at first. */
	size_t slot_bytes;
	/* On any thread. */
	void (*make)(void *ctx, size_t stream, size_t number, void *slot);
	void (*slot_free)(void *slot); /* what it holds */
};

struct ahead;
struct ahead *ahead_new(const struct ahead_options *o);
/* The stream's next, until the one after it is asked for. NULL: there are no more. */
const void *ahead_next(struct ahead *a, size_t stream);
/* Not all need to have been asked for. */
void ahead_free(struct ahead *a);
