/* kinds.h - the list of row kinds: what there is, and what each field of a row means.
 *
 * Whatever can be done with every kind alike goes by this list: files (recording), merging, queues
 * and generic output. To add a kind: a struct m_STEM in rows.h, one line in one of the three
 * lists below, its fields in kinds.c. To add a field: the struct and a line in kinds.c. Both only
 * at the end of what there is: kinds' numbers and fields' names are those of files.
 *
 * X(number, NAME, stem, members): enum row_kind's ROW_NAME is number, and a row is a struct
 * m_STEM. Number 1 is the files' strings, 14 their end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events/rows.h"

/* Rows that have numbers, dense from 0, by which others refer to them. */
#define ROW_NUMBERED(X)                                                                            \
	X(3, THREAD, thread, threads)                                                              \
	X(2, PROBE, probe, probes)                                                                 \
	X(4, CODE, code, codes)                                                                    \
	X(19, FRAME, frame, frames)                                                                \
	X(20, STACK, stack, stacks)                                                                \
	X(25, METRIC, metric, metrics)

/* Other rows that are few enough to be held. */
#define ROW_LISTED(X)                                                                              \
	X(23, SOURCE, source, sources)                                                             \
	X(5, PROCESS, process, processes)                                                          \
	X(6, MAP, map, maps)                                                                       \
	X(8, NOTE, note, notes)                                                                    \
	X(9, WINDOW, window, windows)                                                              \
	X(10, LOSS, loss, losses)                                                                  \
	X(11, HIST, hist, hists)                                                                   \
	X(15, ENUM, enum, enums)                                                                   \
	X(16, GPU, gpu, gpus)                                                                      \
	X(17, COMM, comm, comms)                                                                   \
	X(24, CONNECTION, connection, connections)                                                 \
	X(18, EVENT, event, events)                                                                \
	X(26, ANOMALY, anomaly, anomalies)                                                         \
	X(28, WAIT_TOTAL, wait_total, wait_totals)                                                 \
	X(30, STALL_TOTAL, stall_total, stall_totals)                                              \
	X(32, INCIDENT, incident, incidents)                                                       \
	X(33, COVERAGE, coverage, coverages)

/* Rows that there may be millions of: they come in blocks. Calls, below, as well. */
#define ROW_SERIES(X)                                                                              \
	X(12, COUNTER, counter, counters)                                                          \
	X(21, SAMPLE, sample, samples)                                                             \
	X(22, GPU_SPAN, gpu_span, gpu_spans)                                                       \
	X(27, WAIT, wait, waits)                                                                   \
	X(29, STALL, stall, stalls)                                                                \
	X(31, DISK_IO, disk_io, disk_ios)

#define ROW_TABLES(X) X(7, META, meta, metas) ROW_NUMBERED(X) ROW_LISTED(X)
#define ROW_BULKS(X)  ROW_SERIES(X) X(13, CALL, call, calls)

enum row_kind {
#define X(number, NAME, stem, members) ROW_##NAME = (number),
	ROW_TABLES(X) ROW_BULKS(X)
#undef X
		ROW_KINDS = 64, /* numbers are smaller; those of bulk rows than 32 (visitor.h) */
};

/* How a field is stored. */
enum field_type {
	FIELD_U8 = 1,
	FIELD_U32 = 2,
	FIELD_U64 = 3,
	FIELD_I8 = 4,
	FIELD_I32 = 5,
	FIELD_I64 = 6,
	FIELD_F64 = 7,
	FIELD_BYTES = 8, /* of files alone: as many values as bytes */
};

/* What a column of its values is best written as (recording/format.h). */
enum field_coding {
	CODING_VARINT = 1,
	CODING_DELTA = 2, /* grows, or is near the value before */
	CODING_FIXED = 3,
};

enum field_meaning {
	MEANS_NUMBER,
	MEANS_STRING, /* a string's number */
	MEANS_ENTITY, /* likewise, of what something is of: "gpu 0", "pid 12" (base/entity.h) */
	MEANS_TIME,   /* ns of the recording's clock, 0 = none */
	MEANS_PID,    /* of a process or thread, 0 = none */
	/* numbers of rows of these kinds */
	MEANS_THREAD,
	MEANS_PROBE,
	MEANS_FRAME,
	MEANS_STACK,
	MEANS_METRIC,
	MEANS_VALUE, /* by the type of the probe's argument: its name_arg, or all of them */
};

struct row_field {
	const char *name;
	uint16_t offset; /* in the row */
	uint16_t count;	 /* values a row */
	uint8_t type;	 /* enum field_type */
	uint8_t coding;	 /* enum field_coding */
	uint8_t means;	 /* enum field_meaning */
	bool is_key;
};

/* What becomes of rows. */
enum row_keeping {
	ROWS_LISTED,  /* all stay, in order of writing */
	ROWS_INDEXED, /* they have numbers, dense from 0; a later one of its number replaces */
	ROWS_KEYED,   /* a later one of its key replaces, in the place of the first */
	ROWS_BULK,    /* all stay in blocks, until they are asked for */
};

struct row_kind_info {
	const char *id;	  /* of one, for programs: "gpu_span" */
	const char *name; /* for people: "GPU spans" */
	uint32_t row_bytes;
	uint8_t keeping;		/* enum row_keeping */
	uint32_t most_rows;		/* in a block of a file, 0 = as many as any */
	const struct row_field *fields; /* of calls not as files store them (recording/calls.h) */
	uint32_t nfields;
	size_t table; /* offset in struct rec_tables: of its rows, of bulk rows of their number */
	/* Bulk: offsets of the times between which a row lies, the same where it is a moment. */
	uint16_t first_ns, last_ns;
};

/* What there is to know of a kind, NULL where there is none of that number. */
const struct row_kind_info *row_kind_info(unsigned kind);

unsigned field_type_width(uint8_t type);

/* A field's k-th value, sign-extended, of a double its bits. */
uint64_t row_value(const struct row_field *f, const void *row, size_t k);
void row_set_value(const struct row_field *f, void *row, size_t k, uint64_t value);
/* The order of two rows of a kind by their keys; 0: they have the same. */
int row_compare_keys(const struct row_kind_info *k, const void *a, const void *b);
