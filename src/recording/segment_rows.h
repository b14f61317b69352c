/* segment_rows.h - the rows that each segment of a recording has to begin with, for segments.c. */
#pragma once

#include "base/map64.h"
#include "events/tables.h"
#include "recording/recording.h"

struct segment_rows {
	struct row_vec kept[ROW_KINDS]; /* tables; of rows with numbers, by number */
	struct row_vec past[ROW_KINDS]; /* totals, as they were when the segment began */
	struct map64 of_key[ROW_KINDS]; /* hash of a row's key -> its place in kept */
	uint32_t next[ROW_KINDS];	/* the writer's next number */
};

/* Puts a string so that it has this number. */
void segment_rows_string(struct rec_writer *w, uint32_t number, const char *text);

/* Writes rows as a listener hears of them, and keeps those that are to be written again. */
void segment_rows_put(struct segment_rows *s, struct rec_writer *w, enum row_kind kind,
		      uint32_t number, const void *rows, size_t n);

/* From here on rows go to `next`: it is given the strings of `last` and the rows that are kept. */
void segment_rows_repeat(struct segment_rows *s, const struct rec_writer *last,
			 struct rec_writer *next);

void segment_rows_free(struct segment_rows *s);
