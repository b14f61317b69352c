/* flight.h - the trace of the moments before: holds the last rows of a session in memory, and when
 * it is told that something happened writes those around it into a recording like any other. One
 * who looks at a session's rows (session_live.h); where the session keeps no recording it needs
 * its live_texts. Decides nothing of what is worth a file. */
#pragma once

#include "base/output_file.h"
#include "session/session_live.h"

struct flight_options {
	const char *folder; /* where files go: made with mode 0700 if it is not there */
	struct output_owner owner;
	/* Of rows. From a trigger until its file is copied out twice as much, so that what comes
	 * after does not drive out what was before; while a file is written, a copy of its rows. */
	size_t window_bytes;
	/* In a file is what overlaps the time from before_ns before a trigger to after_ns after. It
	 * ends earlier where rows come so fast that they would drive out what was before. */
	uint64_t before_ns, after_ns;
	/* Of files in the folder that have names as ours, the oldest go; the new one never does.
	 * Age by the name's time. 0: no limit. */
	uint32_t most_files;
	uint64_t most_bytes, most_age_ns;
	/* Of the same there is a file each so many nanoseconds; so long, too, of whomever, as many
	 * files as may stay. */
	uint64_t least_apart_ns;
	/* From the thread that writes: a file is there, or could not be written, and why not. May
	 * be NULL. */
	void (*written)(void *ctx, const char *path, const char *why, const struct err *failed);
	/* After that of a file that is there, for each other trigger that it has an event of and
	 * that is not one again. May be NULL. */
	void (*joined)(void *ctx, const char *path, uint64_t time_ns, const char *why);
	void *ctx;
};

struct flight_stats {
	uint64_t triggers;
	uint64_t joined;   /* of these: lie in the time of another's file */
	uint64_t held_off; /* likewise: no file has them */
	uint64_t files;	   /* written whole */
	uint64_t failed;
};

/* Makes the folder where the one above it is there, and says why nothing can be written there. */
int flight_folder_make(const struct flight_options *o, struct err *e);

/* The options' strings live as long as it. */
struct flight *flight_new(const struct flight_options *o);
/* The thread that looks has ended. Waits for the file that is written; what flight_end did not
 * write is forgotten. */
void flight_free(struct flight *f);

/* For struct session_live. At the end what was triggered is written at once, with the seconds that
 * there are, and is on the disk on return. */
void flight_batch(void *flight, const struct session_view *v);
void flight_end(void *flight, const struct session_view *v);

#define FLIGHT_NAME_BYTES 64
#define FLIGHT_OF_BYTES	  96

struct flight_cause {
	uint64_t time_ns; /* CLOCK_MONOTONIC, 0 or what is to come = now */
	const char *why;  /* one sentence, of which some 200 bytes are kept */
	/* What files of several hosts that are of the same have in common, 0: nothing. It is in the
	 * file's name and in its meta frozen_id. Of several causes of one file the smallest is:
	 * hosts that told each other choose the same one. */
	uint64_t id;
	bool is_known;	/* others have the id already; else it is none unless a file comes of it */
	const char *of; /* whose it is: "job of pid 7", "gpu 0"; NULL: nobody's, which is one too */
	/* It was triggered before, with other words: a file that is still to be written has these,
	 * too. Nothing else comes of it, and it does not count. */
	bool is_again;
};

enum flight_taken {
	FLIGHT_OWN,	 /* a file comes of it */
	FLIGHT_JOINS,	 /* it lies in the time of another's file, which is not written yet */
	FLIGHT_LATE,	 /* likewise, which is, or is being written */
	FLIGHT_HELD_OFF, /* no file has it, and none comes of it */
};

enum flight_hold {
	FLIGHT_HOLD_SAME, /* one of the same is too near */
	FLIGHT_HOLD_MANY, /* another would drive out one that is as near */
	FLIGHT_HOLD_ROOM, /* too many are still to be written */
};

/* What became of a trigger. */
struct flight_verdict {
	enum flight_taken taken;
	uint64_t time_ns; /* its moment: CLOCK_MONOTONIC, as any below */
	/* FLIGHT_LATE: the file. FLIGHT_HOLD_SAME: the one that is too near. "": it has no name
	 * yet, or could not be written. */
	char file[FLIGHT_NAME_BYTES];
	/* Of FLIGHT_HELD_OFF: */
	enum flight_hold hold;
	uint64_t near_ns; /* FLIGHT_HOLD_SAME: the moment of that one */
	uint64_t next_ns; /* from this moment on it is not; 0: when one was written */
};

/* From any thread. Never waits for a disk. */
enum flight_taken flight_trigger(struct flight *f, const struct flight_cause *c,
				 struct flight_verdict *ret);

/* From any thread: until when, of CLOCK_MONOTONIC, files that are due take rows that are to come;
 * 0: none is due. */
uint64_t flight_until_ns(struct flight *f);

/* From any thread: before_ns, after_ns, most_files, most_bytes and most_age_ns are o's from now on.
 */
void flight_limit(struct flight *f, const struct flight_options *o);

/* A file in the folder with a name as ours have. */
struct flight_found {
	/* "freeze-20261126T193634Z-1.eacgm", with an id "freeze-...-1-00ab54a98ceb1f0a.eacgm" */
	char name[FLIGHT_NAME_BYTES];
	uint64_t time_ns; /* CLOCK_REALTIME, by its name: whole seconds */
	uint64_t bytes;
	/* What it has: CLOCK_MONOTONIC. 0: another run froze it, or 32 and more came since. */
	uint64_t from_ns, until_ns;
};

/* From any thread: those that there are, the newest first, of these so many; reads the folder.
 * Returns how many. */
size_t flight_files(struct flight *f, struct flight_found *ret, size_t most);
/* From any thread: opens one of them, to be read. A name is a whole one as above: what leads
 * elsewhere is none. Negative errno: there is none. */
int flight_files_open(const struct flight *f, const char *name, uint64_t *ret_bytes);
/* Where they are, as it was given. */
const char *flight_folder(const struct flight *f);

/* From any thread. */
void flight_stats(struct flight *f, struct flight_stats *ret);
