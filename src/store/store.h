/* store.h - what an agent knew, kept in a database of SQLite for days. Whoever looks at a session's
 * rows hands over what is known; one thread of the store's writes it each second, so that
 * nobody waits for a disk. Where it cannot be written, that is said once, and it is tried again;
 * what does not fit into memory meanwhile is lost. */
#pragma once

#include "base/error.h"
#include "incident/incident_row.h"
#include "store/store_rollup.h"

#define STORE_BATCHES 120   /* that wait to be written: two minutes, */
#define STORE_ROWS    65536 /* or so many rows */

struct store_options {
	const char *path; /* made with mode 0600 if it is not there */
	uint64_t keep_s;  /* of rows of a minute, incidents, events */
	uint64_t most_bytes;
	/* From the thread that writes; what there is to say. */
	void (*say)(void *ctx, const char *sentence);
	void *ctx;
};

struct store;
/* Fails with a sentence where the file is no store, a newer one, or another agent's for more than a
 * second; what may pass (a full disk) is said, and tried again. The options' strings live as long
 * as it. */
int store_open(struct store **ret, const struct store_options *o, struct err *e);
/* Its thread: when those that fork have forked. */
int store_start(struct store *s, struct err *e);
/* Writes what there is, with what was seen since the last batch where seen is given. */
void store_close(struct store *s, const struct store_seen *seen);

/* Of what is known, from one thread; now_ns: of CLOCK_MONOTONIC. Does nothing but once a second. */
void store_tick(struct store *s, const struct store_seen *seen, uint64_t now_ns);

/* From any thread: the options' limits are these from now on. */
void store_limit(struct store *s, uint64_t keep_s, uint64_t most_bytes);

/* From any thread. time_ns: of CLOCK_MONOTONIC, 0: now. */
void store_event(struct store *s, uint64_t time_ns, const char *entity, const char *name,
		 const char *text);
void store_incident(struct store *s, const struct incident_said *told);
/* Where a process's time went since its last tree. The tree's frames, and their names, are the
 * store's from here on. */
void store_tree(struct store *s, struct store_tree tree);
