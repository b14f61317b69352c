/* peer_note.h - what one agent tells another when it froze a trace: as JSON, the body of POST
 * /freeze, and what the other answers. docs/api.yaml says what each key is.
 *
 * What comes from outside is not trusted: sizes are bounded, and what is not exactly a note is
 * none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define PEER_NOTE_COMMS 1024 /* communicators */
#define PEER_NOTE_HOST	256
#define PEER_NOTE_WHY	256
#define PEER_NOTE_BYTES 65536	       /* of its text */
#define PEER_LATE_NS	10000000000ULL /* a note that did not come by then is of no use */

struct peer_note {
	uint64_t id;		   /* of the freeze: all files of it have it; not 0 */
	char host[PEER_NOTE_HOST]; /* who froze; UTF-8 without controls */
	char why[PEER_NOTE_WHY];   /* likewise: one sentence */
	uint64_t realtime_ns;	   /* CLOCK_REALTIME of the sender: the moment that it is of */
	uint64_t age_ns;	   /* how long ago that was, when it was sent */
	uint64_t comms[PEER_NOTE_COMMS]; /* communicators' identities: live_comms.h; one at least */
	size_t ncomms;
};

/* Appends its text. */
void peer_note_write(struct buf *ret, const struct peer_note *n);
/* -EINVAL with a sentence. */
int peer_note_read(struct peer_note *ret, const char *text, size_t len, struct err *e);

/* When it was, by the reader's CLOCK_MONOTONIC, that shows monotonic_ns while its CLOCK_REALTIME
 * shows realtime_ns. By the clock of both hosts, where that fits with the note's age and being late
 * by PEER_LATE_NS at most; else their clocks differ, and it is by the age. */
uint64_t peer_note_moment(const struct peer_note *n, uint64_t monotonic_ns, uint64_t realtime_ns);

/* Appends an answer; why: a sentence. */
void peer_answer_write(struct buf *ret, uint64_t id, bool freezes, const char *why);
/* Whether an answer, of whatever bytes, says that it freezes. */
bool peer_answer_freezes(const void *text, size_t len);
