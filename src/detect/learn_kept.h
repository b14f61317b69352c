/* learn_kept.h - a recording's events as windows took them in the first pass, for the passes after
 * it: without them each would read, sort and key all calls again.
 *
 * Some 7 bytes an event of a training. What goes beyond KEPT_BYTES_MOST, of all recordings
 * together, is let go, and such a recording is read again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "detect/windows.h"

#define KEPT_BYTES_MOST (1ULL << 30)

struct kept_chunk {
	uint8_t *bytes;
	uint32_t events;
};

/* Zeroed at its beginning. */
struct kept {
	VEC(struct kept_chunk) chunks; /* those that are full, and after kept_end all */
	struct buf open;
	uint32_t open_events, pid; /* of the chunk that is open; the last one's */
	uint64_t end_ns;	   /* the last one's */
	size_t bytes;
	bool whole; /* it has all that was added */
};

/* *all: bytes of all recordings, which the struct counts there. */
void kept_add(struct kept *k, uint64_t *all, const struct windows_input *in);
void kept_end(struct kept *k, uint64_t *all);
void kept_free(struct kept *k);

/* Hands them to windows_again in order. u: what they are judged by, which nothing may change
 * meanwhile: threads do it ahead; NULL: they are not judged. progress may be NULL. */
void kept_replay(const struct kept *k, const struct usual *u, struct windows *w,
		 void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx);
