/* call_rings.h - the calls that probes inside of traced processes tell, and those of Python
 * functions, which interpreters tell (inject/calls).
 *
 * Makes a folder in which each such process has a file (wire/call_ring.h), and empties the rings in
 * it. Knows nothing of recordings. Nothing that a process writes is trusted: what makes no sense is
 * counted, and costs that thread's calls alone.
 *
 * One thread at a time: all functions but call_rings_folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "wire/call_ring.h"

struct call_rings;

struct call_text {
	const char *bytes;
	size_t len;
};

struct call_rings_events {
	/* A call that has returned; or, from call_rings_open_calls, one that has not (CALL_OPEN).
	 * mark: of its stack (struct rec_mark), 0 = it was not taken. */
	void (*on_call)(void *ctx, const struct rec_call *call, uint32_t mark);
	/* A Python function, which calls with probe CALL_PYTHON have as their argument; of a
	 * thread's first calls it may come after them. id: not 0, and nobody's else. Texts are of a
	 * process: any bytes. */
	void (*on_code)(void *ctx, uint64_t id, const struct call_text *name,
			const struct call_text *file, uint32_t line);
	/* All calls of the process that ended before have come. */
	void (*on_upto)(void *ctx, uint32_t pid, uint64_t ns);
	void *ctx;
};

/* Makes a folder in parent ("/dev/shm"), for processes of this user. */
int call_rings_open(struct call_rings **ret, const char *parent, uid_t uid, gid_t gid,
		    const struct call_rings_events *events, struct err *e);

/* A folder besides: that of a user's process, in which only it makes files, or children that it
 * forks. inner_pid: its number in its own PID namespace. */
int call_rings_add(struct call_rings *r, int folder_fd, uid_t uid, pid_t pid, pid_t inner_pid,
		   struct err *e);
/* A process has forked: of the children of one that has a folder files in that are taken. */
void call_rings_forked(struct call_rings *r, pid_t parent, pid_t child);
/* The process has ended, or tells no more: with the next drain its folder is forgotten. */
void call_rings_drop(struct call_rings *r, pid_t pid);

/* For CALL_RINGS_ENV; valid until the end. */
const char *call_rings_folder(const struct call_rings *r);

/* Looks for new files and empties all rings; those of processes that have ended go. How many calls
 * came. */
size_t call_rings_drain(struct call_rings *r);

/* As tracer_set_stack_shift; takes effect with the next drain. */
void call_rings_set_stack_shift(struct call_rings *r, unsigned shift);

/* What processes have counted so far, in layers that are not recorded in full: of those that live,
 * and of those that have ended. */
void call_rings_histograms(struct call_rings *r,
			   void (*visit)(void *ctx, const struct hist_key *key,
					 const struct hist_value *value),
			   void *ctx);

/* As tracer_set_threshold, of calls that are told here. */
void call_rings_set_threshold(struct call_rings *r, uint32_t probe, uint64_t ns);

/* Calls that begin from here on are not recorded, until it says otherwise. */
void call_rings_set_rests(struct call_rings *r, bool rests);

/* Processes record nothing from here on. */
void call_rings_stop(struct call_rings *r);

/* The calls that are open now. */
void call_rings_open_calls(struct call_rings *r);

/* Whether the process had a file. */
bool call_rings_knew(const struct call_rings *r, pid_t pid);

struct call_rings_stats {
	uint64_t calls;	    /* that were recorded */
	uint64_t counted;   /* in histograms, as these were last asked for, */
	uint64_t kept;	    /* and recorded all the same; */
	uint64_t uncounted; /* for which there was no histogram */
	uint64_t processes; /* that had a file */
	uint64_t full;	    /* calls for which a ring had no room, */
	uint64_t deep;	    /* too many were open, */
	uint64_t elsewhere; /* or that were made on another stack or amid our own work */
	uint64_t unmatched; /* returns of what was not open */
	uint64_t no_return; /* calls with an upper bound as duration: they are recorded */
	uint64_t slotless;  /* calls of threads that found no ring */
	uint64_t bad_records;
	uint64_t python_calls;	     /* of these calls */
	uint64_t python_processes;   /* whose interpreter tells, */
	uint64_t python_failed;	     /* or will not */
	uint64_t python_late;	     /* threads of C code that it met late */
	uint64_t python_yields;	     /* a profiler of the job's own came or went */
	uint64_t timed, timed_ticks; /* calls that were timed, and what they took of the job */
};
void call_rings_stats(const struct call_rings *r, struct call_rings_stats *ret);

/* What a call takes of the job's time, as the processes measure it; 0: not known. */
double call_rings_cost_ns(const struct call_rings *r, const struct call_rings_stats *st);

/* Removes the folder. */
void call_rings_close(struct call_rings *r);
