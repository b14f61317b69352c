/* live_samples.h - the samples of a session by pieces of some seconds, and of which processes they
 * are: for who makes call trees of them while it goes on. For the thread that looks at rows. Memory
 * is bounded: what a piece has too much of goes, the oldest first. */
#pragma once

#include "session/session_live.h"

#define SAMPLES_PROCESSES 64 /* that have samples in a piece; those of others are left out */

struct live_samples_piece {
	const struct row_source *rows;
	const uint32_t *pids;
	size_t npids;
	uint64_t from_ns, until_ns; /* CLOCK_MONOTONIC */
	/* What flame_make counts from: the window has its last block of rows still. */
	uint64_t from_in_ns;
	uint64_t left_out; /* samples of this piece whose processes found no room */
};

struct live_samples;
/* each_ns: how long a piece is. */
struct live_samples *live_samples_new(uint64_t each_ns);
void live_samples_free(struct live_samples *s);

/* A batch, with all of them in their order. Whether its time is over: then the piece is taken,
 * and live_samples_next is due. */
bool live_samples_take(struct live_samples *s, const struct session_view *v, uint64_t now_ns);
/* Valid until the next batch. */
struct live_samples_piece live_samples_piece(struct live_samples *s, uint64_t now_ns);
/* Names stay. */
void live_samples_next(struct live_samples *s, uint64_t now_ns);
