/* segments.h - a recording in pieces, for what runs for days: NAME.000001.eacgm and so on, each
 * readable alone, of which the oldest go.
 *
 * Rows come as to any listener; what they refer to is kept, and written again at the beginning of
 * each segment, so that numbers mean the same in all of them. Losses and histograms, which are
 * totals in rows, are those of the segment, but for the longest call of a histogram; notes, windows
 * and events are in the segment of their time alone. Segments of that name that lie there already
 * are the oldest. What was flushed survives a crash, as of any recording. */
#pragma once

#include "events/listener.h"
#include "recording/recording.h"

/* 0: no limit. The limits of all segments are never passed but by one flush's rows, for which room
 * is kept by the largest one so far. */
struct segments_limits {
	uint64_t segment_ns, segment_bytes; /* the next begins; one of them is needed */
	uint64_t most_bytes, most_age_ns;   /* age: since a segment's end */
	uint32_t most_count;		    /* from 2 on */
};

struct segments;

/* path: NAME, or NAME.eacgm. There are no files under their names before segments_name. */
int segments_open(struct segments **ret, const char *path, const struct output_owner *owner,
		  const struct segments_limits *limits, struct err *e);

/* Who is to hear of the rows; valid until the end. */
struct event_listener segments_listener(struct segments *s);

/* Writes what is pending, begins the next segment where it is time, removes those that are over. 1:
 * a segment began; 0; or errors as of rec_flush. */
int segments_flush(struct segments *s, struct err *e);
int segments_name(struct segments *s, struct err *e);

/* Sends what was flushed to the disk, from any one other thread. */
void segments_sync(struct segments *s);

/* The number in the name of the one that is written; of the thread that flushes. */
uint32_t segments_number(const struct segments *s);

/* Of all segments, also those that are gone. */
void segments_stats(const struct segments *s, struct rec_writer_stats *ret);

/* Nothing comes in any more. */
int segments_finish(struct segments *s, struct err *e);
/* Nobody syncs any more. */
void segments_free(struct segments *s);
