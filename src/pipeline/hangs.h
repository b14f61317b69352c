/* hangs.h - watches collectives while they are recorded: which ranks of a communicator have
 * entered how many, so that one that never comes is named while the others wait.
 *
 * Ranks of one communicator are those with the same hash, so it takes communicators whose making
 * was seen, and ranks that are traced by this eacgm. Every rank has to enter the same collectives
 * in the same order (NCCL's rule): one that has entered fewer than another is late, and when
 * nobody has entered anything for HANG_QUIET_NS that is told, once. Likewise, at once, when two
 * ranks enter different functions or sizes as their n-th. Knows no clock: its caller gives times.
 *
 * A communicator whose ranks are level is never told, however long it is quiet. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "events/rows.h"

#define HANG_QUIET_NS	   5000000000ULL
#define HANG_ASK_NS	   2000000000ULL /* quiet for so long: calls that are open matter */
#define HANG_MISMATCHES	   4		 /* told of one communicator; each brings more */
#define HANG_WINDOW	   1024		 /* collectives that ranks may be apart to be compared */
#define HANG_RANKS_NAMED   64
#define HANG_SENTENCE_SIZE 1024

enum hang_kind {
	HANG_STUCK,    /* ranks: those that have not come */
	HANG_RESUMED,  /* those came after all */
	HANG_MISMATCH, /* ranks: the one that differs from another before it */
};

struct hang {
	enum hang_kind kind;
	uint64_t time_ns;
	const char *sentence;	  /* "communicator 0x1f (4 ranks): no progress for 5 s; ..." */
	const char *const *ranks; /* "rank 1", or "process 4242" where its rank is unknown */
	unsigned nranks;	  /* at most HANG_RANKS_NAMED */
};

struct hangs;

struct hangs *hangs_new(void (*tell)(void *ctx, const struct hang *hang), void *ctx);
void hangs_free(struct hangs *h);

/* A rank's communicator is there, or more is known of it. Of one without a hash nothing is kept. */
void hangs_member(struct hangs *h, const struct m_comm *comm);
/* It was destroyed by its rank; a process has ended, or runs another program now. */
void hangs_destroyed(struct hangs *h, const struct m_comm *comm);
void hangs_ended(struct hangs *h, uint32_t pid);

struct hang_call {
	const char *function; /* is not copied */
	uint64_t sequence;    /* the communicator's count in its process, from 0 */
	uint64_t bytes;
	uint64_t time_ns;
};
void hangs_entered(struct hangs *h, const struct m_comm *comm, const struct hang_call *call);

/* To be called a few times a second, once all that has happened was told. */
void hangs_check(struct hangs *h, uint64_t now_ns);

/* As of the last check: a communicator is quiet, so that it matters which collectives are open. */
bool hangs_asks(const struct hangs *h);
