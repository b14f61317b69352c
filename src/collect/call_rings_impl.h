/* call_rings_impl.h - what the parts of the reading side share: a folder's files, each with a slot
 * for each thread of its process. For call_rings.c, call_ring_files.c, call_ring_records.c,
 * call_ring_hists.c and call_ring_open.c alone. */
#pragma once

#include "base/map64.h"
#include "collect/call_hists.h"
#include "collect/call_rings.h"
#include "collect/call_settings.h"
#include "collect/gpu_folder.h"
#include "collect/gpu_tids.h"
#include "wire/hist.h"
#include "wire/ticks.h"

#define CHUNK_BYTES   (1u << 18)
#define PAIR_EVERY_NS 1000000000ULL
#define MAX_TID	      (1u << 22) /* PID_MAX_LIMIT of Linux */
#define FLAGS_TOLD                                                                                 \
	(CALL_NESTED | CALL_UNWOUND | CALL_ARG_FAULT | CALL_ARG_CUT | CALL_ERROR | CALL_NAMED)

/* What is before a slot's open calls. */
#define SLOT_HEAD offsetof(struct call_slot, open)

struct ring_file {
	int fd;
	int folder_fd;
	uint32_t pid;
	char name[32];
	uint64_t program; /* of those that its process executes, a later one's is larger */
	bool known;	  /* its header was read and holds */
	bool counted;
	uint32_t stack_shift; /* that it was told */
	uint64_t no_slot;
	uint32_t serial; /* of all files that there were */
	uint32_t python; /* enum call_python */
	uint32_t python_yields, python_late;
	struct gpu_tids tids;
	uint64_t tails[CALL_THREADS_MOST];
	struct call_slot_counts {
		uint64_t full, deep, elsewhere, unmatched, no_return, timed, timed_ticks, kept,
			uncounted;
	} counts[CALL_THREADS_MOST];
	uint64_t bad_records;
	uint64_t bad_hists; /* a bit for each slot whose histograms make no sense */
};

/* A folder with files. */
struct source {
	int fd;
	uid_t owner;
	pid_t pid, inner_pid; /* of whom it was made for, here and as it sees itself; 0: of many */
	bool dropped;
	int settings_fd;
	uint32_t files; /* that were opened */
};

struct call_rings {
	struct call_rings_events events;
	struct gpu_folder folder;
	VEC(struct source) sources;
	VEC(struct ring_file) files;
	struct call_settings *settings; /* as in all sources */
	uint64_t rate_ns;		/* when the rate was told last */
	struct call_hists hists;
	uint64_t opened_ns;
	struct call_rings_stats past; /* of files that have gone; calls of all */
	struct ticks_pair before, now;
	uint64_t looked_ns; /* for new files */
	uint64_t looks;	    /* how often */
	uint64_t upto_ns;   /* what ended before was written before the last look */
	uint8_t *chunk;
	bool stopped;
	uint32_t stack_shift;
	uint32_t serial;
	struct map64 pids;     /* of all files that there were */
	struct map64 children; /* of processes with a folder, and theirs -> whose folder it is */
	struct map64 programs; /* folder and pid -> the newest file's program */
};

/* ---- files: call_ring_files.c ---- */

/* Opens those that are new in a folder. */
void ring_files_find(struct call_rings *r, struct source *from);
/* False: it makes no sense, or is not there yet. */
bool ring_file_read_header(struct ring_file *f);
/* Whether its program has ended, or executes another one. */
bool ring_file_has_died(const struct call_rings *r, const struct ring_file *f);
/* A process that goes on keeps the file mapped: its memory is given back. */
void ring_file_empty(const struct ring_file *f);
/* Its process records nothing from here on. */
void ring_file_stop(const struct ring_file *f);
void ring_file_close(struct ring_file *f);

static inline off_t slot_offset(uint32_t i)
{
	return (off_t)(CALL_HEADER_BYTES + (uint64_t)i * CALL_SLOT_BYTES);
}

/* ---- records: call_ring_records.c ---- */

/* Empties the rings of all threads. */
void ring_file_drain(struct call_rings *r, struct ring_file *f);
/* When it was on CLOCK_MONOTONIC, of what the process wrote down as time. */
uint64_t ring_time_ns(const struct call_rings *r, const struct ring_file *f, uint64_t ticks);
/* The number by which a Python function of the process is told. */
uint64_t ring_code_id(const struct ring_file *f, uint32_t code);
/* The number of a slot's thread on the host; 0: none that can be. */
static inline uint32_t ring_tid(struct ring_file *f, uint32_t tid)
{
	return tid <= MAX_TID ? gpu_tids_host(&f->tids, tid) : 0;
}

/* ---- histograms: call_ring_hists.c ---- */

/* Adds those of a file. ended: they stay when the file goes. */
void ring_file_histograms(struct call_rings *r, struct ring_file *f, bool ended);

/* ---- open calls: call_ring_open.c ---- */

/* What was open when the process ended, or executed another program, has left by now. */
void ring_file_tell_left(struct call_rings *r, struct ring_file *f);
/* Those that are open now. */
void ring_file_tell_open(struct call_rings *r, struct ring_file *f);
