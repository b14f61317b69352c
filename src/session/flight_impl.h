/* flight_impl.h - inside of the flight recorder; for the flight*.c files only. */
#pragma once

#include "base/map64.h"
#include "events/window.h"
#include "session/flight.h"

#define FLIGHT_WHY_BYTES 256
#define FLIGHT_ID	 "%016" PRIx64
#define FLIGHT_MARKS	 16 /* triggers of a file that have an event; all are counted */
#define FLIGHT_RECENT	 32 /* files that new triggers are held against */

struct flight_mark {
	uint64_t time_ns;
	bool is_again;
	char why[FLIGHT_WHY_BYTES];
};

/* What a file is to be of. */
struct flight_freeze {
	uint64_t id;	   /* 0: none */
	uint64_t number;   /* of its flight_recent */
	uint64_t triggers; /* that it is for */
	size_t nmarks;	   /* one at least: the first is what it is called by */
	struct flight_mark marks[FLIGHT_MARKS];
};

/* ---- flight_recent.c: which triggers make a file ---- */

enum flight_stage {
	FLIGHT_PENDING, /* rows still come */
	FLIGHT_COPIED,	/* is being written */
	FLIGHT_THERE,
	FLIGHT_FAILED, /* could not be written */
};

/* A file that there is lately, or is to be. */
struct flight_recent {
	uint64_t number; /* from 1 */
	enum flight_stage stage;
	char of[FLIGHT_OF_BYTES];
	uint64_t at_ns, from_ns, until_ns; /* its moment; what it has */
	char file[FLIGHT_NAME_BYTES];	   /* once it is there */
};

struct flight_recents {
	struct flight_recent list[FLIGHT_RECENT]; /* a ring, by number */
	uint64_t last;				  /* number, 0: there was none */
};

/* What becomes of a trigger; ret->taken is never set to what is not decided by others' times alone:
 * FLIGHT_OWN is to be added by who asks, FLIGHT_JOINS is to be marked in the file *ret_number. */
void flight_recents_judge(struct flight_recents *r, const struct flight_options *o,
			  uint64_t time_ns, const char *of, struct flight_verdict *ret,
			  uint64_t *ret_number);
/* Returns its number. */
uint64_t flight_recents_add(struct flight_recents *r, const struct flight_options *o,
			    uint64_t time_ns, const char *of);
/* Sets what a file has, where that is known. */
void flight_recents_span(const struct flight_recents *r, struct flight_found *file);
/* NULL: others came since. */
struct flight_recent *flight_recents_at(struct flight_recents *r, uint64_t number);

/* ---- flight_kept.c: what the window does not hold ---- */

/* What was lost of one cause, when it was noticed. */
struct flight_loss {
	uint64_t time_ns;
	uint32_t cause; /* string of the session; FLIGHT_OVERRUN */
	uint64_t count;
};
#define FLIGHT_OVERRUN UINT32_MAX /* what the queue to the looker had no room for */

/* How long a probe had been on, as it was told then. */
struct flight_coverage {
	uint64_t time_ns;
	struct m_coverage row;
};

struct flight_kept {
	struct row_vec rows[ROW_KINDS]; /* the latest of some kinds, with the session's strings */
	struct map64 lost;		/* cause << 32 | CPU -> so far */
	VEC(struct flight_loss) losses;
	VEC(struct flight_coverage) coverages; /* in order of time */
};

void flight_kept_take(struct flight_kept *k, const struct feed_batch *b);
void flight_kept_free(struct flight_kept *k);

/* ---- flight_copy.c ---- */

struct flight_span {
	uint64_t from_ns, until_ns;
	uint64_t since_ns; /* from when on it has all rows that came; not before from_ns */
	uint64_t whole_ns; /* likewise, and none was left out; not before that */
};

/* The rows of a span, and of the tables what these need, with numbers of its own: depends on
 * nothing else. rows: of the window, with the session's strings. */
struct row_window *flight_copy(const struct row_source *rows, const struct flight_kept *kept,
			       const struct flight_span *span, const struct flight_freeze *freeze);

/* ---- flight_file.c ---- */

/* Writes it into the folder. *ret_path is how the file is called, malloc'ed, also where it could
 * not be written. time_ns: CLOCK_REALTIME of the trigger; id: as in its freeze. */
int flight_file_write(const struct flight_options *o, struct row_window *rows, uint64_t time_ns,
		      uint64_t id, char **ret_path, struct err *e);
/* Takes away what is over the limits; newest: the path of a file that stays, or NULL. */
void flight_files_bound(const struct flight_options *o, const char *newest);
/* As flight_files and flight_files_open. */
size_t flight_files_list(const struct flight_options *o, struct flight_found *ret, size_t most);
int flight_file_read(const struct flight_options *o, const char *name, uint64_t *ret_bytes);
