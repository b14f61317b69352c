/* gpu_spans.h - what the GPU did, as the CUPTI shims in traced processes tell it.
 *
 * Makes a folder in which each process with a shim has a ring (wire/gpu_ring.h), and empties
 * the rings. It knows nothing of recordings. Nothing that a process writes is trusted: what
 * makes no sense is counted, and costs that process's spans alone.
 *
 * One thread at a time: all functions but gpu_spans_folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "wire/gpu_ring.h"

struct gpu_spans;

struct gpu_spans_events {
	/* A name is met; the number that is returned comes with its spans. Not terminated. */
	uint32_t (*on_name)(void *ctx, const char *text, size_t len);
	/* span->name is not that number: it is the ring's own. */
	void (*on_span)(void *ctx, uint32_t pid, const struct gpu_ring_span *span, uint32_t name);
	/* What a process tells beside spans (bits of enum gpu_ring_tells) has grown. */
	void (*on_tells)(void *ctx, uint32_t pid, uint32_t tells);
	/* A call that started work. */
	void (*on_call)(void *ctx, uint32_t pid, const struct gpu_ring_call *call);
	/* An operator's or node's name is met (enum gpu_ring_operator_kind). The number that is
	 * returned comes with its rows; 0: nothing more is wanted of it. */
	uint32_t (*on_op_name)(void *ctx, uint32_t kind, const char *text, size_t len);
	void (*on_op)(void *ctx, uint32_t pid, const struct gpu_ring_op *op, uint32_t name);
	void (*on_launch)(void *ctx, uint32_t pid, const struct gpu_ring_launch *launch);
	/* All operators and launches of the process that ended before have come. */
	void (*on_ops_upto)(void *ctx, uint32_t pid, uint64_t ns);
	/* One sentence about a process. */
	void (*on_note)(void *ctx, uint32_t pid, const char *text);
	void *ctx;
};

/* Removes what sessions that were killed left in parent ("/dev/shm"), and makes a folder there,
 * which a child of this process may write to. */
int gpu_spans_open(struct gpu_spans **ret, const char *parent,
		   const struct gpu_spans_events *events, struct err *e);

/* The folder is for processes of this user from now on, before there are any. */
int gpu_spans_give(struct gpu_spans *s, uid_t uid, gid_t gid, struct err *e);

/* For GPU_RINGS_ENV; valid until the end. */
const char *gpu_spans_folder(const struct gpu_spans *s);

/* Empties the ring of a process that was given one (guest.h) too; drop: unless it was used. */
int gpu_spans_adopt(struct gpu_spans *s, pid_t pid, int ring_fd, struct err *e);
void gpu_spans_drop(struct gpu_spans *s, pid_t pid);

/* Looks for new rings and empties all. Rings of processes that have ended go. */
void gpu_spans_drain(struct gpu_spans *s);

/* Asks all processes, later ones too, to record nothing until it is called again; takes effect
 * with the next drain, and in the processes within 0.1 s. */
void gpu_spans_pause(struct gpu_spans *s, bool pause);

/* Asks all processes to end their part. */
void gpu_spans_stop(struct gpu_spans *s);

/* The same of one process alone, whose ring was adopted. */
void gpu_spans_stop_process(struct gpu_spans *s, pid_t pid);

/* The state that a process's ring was in at the last look: enum gpu_ring_state. One that has no
 * ring has ended. */
unsigned gpu_spans_state(const struct gpu_spans *s, pid_t pid);

/* Processes that may still hand over something. */
size_t gpu_spans_active(const struct gpu_spans *s);

struct gpu_spans_stats {
	uint64_t spans;
	uint64_t calls;
	uint64_t ops;
	uint64_t rings;	     /* processes that had one */
	uint64_t ring_full;  /* spans that found no room in a ring */
	uint64_t calls_full; /* likewise calls */
	uint64_t ops_lost;   /* and operators */
	uint64_t dropped;    /* by CUPTI */
	uint64_t untimed;    /* without times, by CUPTI: also what was not complete at the end */
	uint64_t bad_records;
};
void gpu_spans_stats(const struct gpu_spans *s, struct gpu_spans_stats *ret);

/* Removes the folder. */
void gpu_spans_close(struct gpu_spans *s);
