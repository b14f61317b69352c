/* blame.h - whose each millisecond is by which a stretch of a thread's time is longer than usual.
 *
 * A stretch (a step, or the time of an incident) is walked along what its thread waited for: while
 * it ran its own code has the time; while it could run and had no CPU whoever had that; in a wait
 * that another thread of the job ended what that thread did meanwhile, and so on; in a call that
 * waits for the GPU the GPU. Each instant has one owner. What an owner has beyond its usual share
 * is its part of the excess; where others have less than usual, because they were waited for
 * anyway, the parts are made smaller alike, so that they add up to the excess.
 *
 * What another rank is waited for is put down to what that rank has beyond its own usual share in
 * those stretches: what it does at the moment may be usual, and only late.
 *
 * Running is told by samples, so its parts are of all stretches that are looked at together.
 * Docs: docs/developers/diagnosis.md. Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/timeline.h"
#include "base/buffer.h"
#include "events/visitor.h"

enum blame_kind {
	BLAME_RUNS,	   /* ran */
	BLAME_SPREAD,	   /* ran, and everything that it ran took longer alike */
	BLAME_COLLECTS,	   /* ran Python's collector of garbage */
	BLAME_COMPILES,	   /* ran a compiler, of what is to run next */
	BLAME_SAVES,	   /* wrote a checkpoint, in calls that do, on the CPU or off */
	BLAME_FAULTS,	   /* ran in the kernel, which gave it pages of memory, or took them back */
	BLAME_FILLS,	   /* ran in the kernel, which put pages of files into memory */
	BLAME_INTERRUPTED, /* its CPU did something for a device, or put off from one */
	BLAME_RECLAIMS,	   /* had to find or move memory before it got any */
	BLAME_RIVAL,	   /* could run; another's process had its CPU */
	BLAME_SIBLING,	   /* likewise; a process of the job */
	BLAME_NO_CPU,	   /* likewise; nobody was seen to have it */
	BLAME_GPU_WORKS,
	BLAME_RANKS,	/* the GPU did nothing but wait for other ranks */
	BLAME_GPU_IDLE, /* it had nothing of the job's to do */
	BLAME_GPU,	/* of which nothing more is known */
	BLAME_LOCK,
	BLAME_GIL,
	BLAME_DISK,  /* but for: */
	BLAME_WRITE, /* a write or its end */
	BLAME_NETWORK,
	BLAME_PIPE,
	BLAME_POLL,
	BLAME_SLEEP,
	BLAME_CHILD,
	BLAME_MEMORY, /* page faults that something had to be read for */
	BLAME_STOPPED,
	BLAME_SIGNAL,
	BLAME_HELD, /* by eacgm */
	BLAME_OTHER,
	BLAME_KINDS,
};

/* How the walk came from its thread to the owner: by the first wait on the way. */
enum blame_via {
	VIA_ITSELF,
	VIA_LOCK, /* another thread of the process released it */
	VIA_GIL,  /* likewise, Python's */
	VIA_DATA, /* a child process, or a child of one, had something for it */
	BLAME_VIAS,
};

#define BLAME_NO_FRAME UINT32_MAX

struct blame_owner {
	uint8_t kind, via;
	uint8_t pool; /* the time is of several threads alike, of which `thread` is the first */
	/* 0, or 1 + index into the thread table: the time of another rank's thread, which was
	 * waited for; how the walk went from there on is in via. */
	uint32_t peer;
	uint32_t thread; /* whose time it is: index into the thread table; UINT32_MAX: a rival's */
	uint32_t pid;	 /* of a rival, or who stopped it; else 0 */
	uint32_t name;	 /* string: what that calls itself */
	uint32_t frame;	 /* of what ran: the innermost of Python, else of all; or none */
	/* Of a rival, what it is of: strings, its cgroup and what the leader of its process group
	 * calls itself. 0 = not known. */
	uint32_t cgroup, leader, leader_pid;
};

struct blame_part {
	struct blame_owner owner;
	double ns;		   /* of the excess */
	double whole_ns, usual_ns; /* that it had, and has in as much work */
};

struct blame {
	VEC(struct blame_part) parts; /* most first */
	double whole_ns, usual_ns;    /* of the stretches; the excess is what lies between */
	double unexplained_ns;	      /* of it, in no part */
	/* Of the excess by which the job ran or waited less elsewhere: parts were made smaller by
	 * it. */
	double absorbed_ns;
};

/* A stretch of a thread's time. */
struct blame_span {
	uint32_t thread; /* index into the thread table */
	uint64_t from_ns, to_ns;
	double usual_ns; /* that as much work takes; of what is usual: its length */
};

struct blame_world; /* waits, samples and GPU work of a recording, to be asked */

/* t and s live as long as it. */
struct blame_world *blame_world_new(const struct row_source *s, const struct timeline *t);
void blame_world_free(struct blame_world *w);
/* From here on a wait is nobody's but its own: to see what following waits brings. */
void blame_world_forget_wakers(struct blame_world *w);

/* The thread of a process with the most samples within a time; UINT32_MAX: it has none. */
uint32_t blame_busiest(const struct blame_world *w, uint32_t pid, uint64_t from_ns, uint64_t to_ns);

/* The frame of the job's own Python code from which checkpoints were written most in n stretches,
 * by samples; of none in them, just before them: the wait for the disk may be of the step after.
 * BLAME_NO_FRAME: none. */
uint32_t blame_saving_frame(const struct blame_world *w, const struct blame_span *spans, size_t n);
/* That of Python that more than half of the collecting of garbage was in; or BLAME_NO_FRAME. */
uint32_t blame_collecting_frame(const struct blame_world *w, const struct blame_span *spans,
				size_t n);

/* Whose usual stretches of a thread were: made once for all that is compared with them. */
struct blame_usual;
struct blame_usual *blame_usual_new(const struct blame_world *w, const struct blame_span *spans,
				    size_t n);
void blame_usual_free(struct blame_usual *u);

/* Blames n slow stretches of the same thread: together into *ret, and where each is not NULL, one
 * by one. */
void blame_make(struct blame *ret, struct blame *each, const struct blame_world *w,
		const struct blame_span *slow, size_t n, struct blame_usual *usual);
void blame_free(struct blame *b);

/* A piece of a stretch, and whose it was. What ran is named by the sample that comes next, if one
 * comes soon enough to tell; else it has no frame. */
struct blame_piece {
	uint64_t from_ns, to_ns;
	struct blame_owner owner;
};

/* The walk itself, before it is summed up. */
struct blame_path {
	uint64_t least_ns; /* what is shorter is of a neighbour's piece */
	size_t most;	   /* pieces; what comes after them is only counted: */
	VEC(struct blame_piece) pieces;
	size_t left_out;
	uint64_t left_out_ns;
};

/* Adds the pieces of a stretch: in order, none overlaps another, and with what is left out their
 * lengths add up to its. */
void blame_path_add(struct blame_path *p, const struct blame_world *w, uint32_t thread,
		    uint64_t from_ns, uint64_t to_ns);
void blame_path_free(struct blame_path *p);

/* When the first and the last is known of a thread; the first after the last: nothing is. */
void blame_thread_times(const struct blame_world *w, uint32_t thread, uint64_t *ret_first_ns,
			uint64_t *ret_last_ns);

/* Whether a GPU's spans of the process were recorded. */
bool blame_knows_gpu(const struct blame_world *w, uint32_t pid);

/* A process's rank in its job; -1 unknown. */
int32_t blame_rank_of(const struct rec_tables *t, uint32_t pid);
