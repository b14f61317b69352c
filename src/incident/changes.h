/* changes.h - what a process does that is not its usual work, and no fault: another batch, another
 * phase, a checkpoint. Each is told once, when it has gone on for CHANGE_WINDOWS, and counted from
 * then on. What it is, the detector's excuses have found; here is only when to tell. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "incident/pieces.h"

#define CHANGE_WINDOWS 2  /* that say the same, before it is told; a checkpoint is told at once */
#define CHANGE_APART   3  /* windows of usual work that end it */
#define CHANGE_SPANS   64 /* whose times are kept: the first */

enum change_kind {
	CHANGE_NONE,
	CHANGE_SAVES, /* a checkpoint is saved */
	CHANGE_SIZES, /* calls have sizes that are not known */
	CHANGE_WORK,  /* most of it is work that is not known, or of a kind that came since */
};

struct change {
	uint32_t pid;
	enum change_kind kind;
	uint32_t regime; /* of CHANGE_WORK: its kind, 0 of no one kind */
	uint64_t start_ns,
		last_ns;	 /* of its first time: the beginning; of all: the end of the last */
	uint64_t times, windows; /* it came so often, and had so many */
	struct piece spans[CHANGE_SPANS];
	char what[96]; /* "its calls have sizes that were not seen before" */
};

/* One process. */
struct changing {
	uint32_t pid;
	enum change_kind kind; /* of what goes on */
	uint32_t regime, windows, quiet;
	uint64_t start_ns;
	bool counted;
};

/* Zeroed at its beginning, but for tell. */
struct changes {
	void (*tell)(void *ctx, const struct change *c); /* NULL: nobody is told */
	void *ctx;
	VEC(struct changing) now;
	VEC(struct change) list; /* that were told */
};

void changes_free(struct changes *all);
/* What a window of the process is, in order of time. */
void changes_window(struct changes *all, uint32_t pid, uint64_t start_ns, uint64_t end_ns,
		    enum change_kind kind, uint32_t regime);
/* "other work, pid 4242: a checkpoint is saved (by itself no anomaly)" */
#define CHANGE_LINE_BYTES 160
const char *change_line(char ret[static CHANGE_LINE_BYTES], const struct change *c);
/* A process that has gone: its number may be another's. */
void changes_forget(struct changes *all, uint32_t pid);
