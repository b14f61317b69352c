/* outlet.h - lines and screens for a reader who may stand still: what it does not take waits in
 * bounded memory, and nobody waits for it longer than told. It does not print by itself, starts no
 * thread, and leaves the descriptor's flags alone: others may write to the same pipe. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

struct outlet {
	int fd; /* to write to: an open file of its own where that can be had, then without waiting
		 */
	bool own; /* it is closed with the outlet */
	size_t most_bytes;
	pthread_mutex_t lock; /* of what follows */
	struct buf waiting;
	size_t done;   /* bytes of waiting that were taken */
	uint64_t lost; /* texts that found no room, and whole lines that were dropped at the end */
	int error;     /* negative errno: nobody reads any more, or the disk is full */
};

/* fd stays the caller's. most_bytes: what may wait; a text that is larger is never taken. */
void outlet_open(struct outlet *o, int fd, size_t most_bytes);

/* From any thread. Takes all of the text or, where there is no room, counts it as lost; writes what
 * is taken at once. 0, or negative errno when nobody reads any more. */
int outlet_put(struct outlet *o, const char *text, size_t len);

/* The line "eacgm: SENTENCE", clean for a terminal (human.h); likewise. */
int outlet_say(struct outlet *o, const char *sentence);

/* Writes what waits, until all is written or so long; 0 does not wait. 0, -ETIMEDOUT, or as
 * above. */
int outlet_flush(struct outlet *o, uint64_t most_ns);

/* Whether all that was put was written, or is lost. */
bool outlet_is_idle(struct outlet *o);

/* Ends it: waits so long at most for what waits to be taken. Returns the lines that were lost. */
uint64_t outlet_close(struct outlet *o, uint64_t most_ns);
