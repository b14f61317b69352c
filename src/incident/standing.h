/* standing.h - whether a job stands still: its processes train, make no calls any more, and their
 * loops' threads wait. The step that is stuck has not ended, so that a diagnosis finds no slow one.
 * Who does not wait for others is who they wait for. Does no I/O: what threads do is its caller's
 * to ask.
 *
 * Only processes that train are looked at: one that infers may wait for requests. */
#pragma once

#include "analyze/steps.h"
#include "incident/anomaly.h"
#include "incident/incident_row.h"
#include "wire/waits.h"

#define STANDING_APART_NS 500000000ULL /* between two times that a thread is seen, at least */

/* What a thread does now. */
struct thread_now {
	uint64_t time_ns;
	char state;		 /* of proc_pid_stat(5) */
	enum wait_reason reason; /* if it waits */
	uint64_t switches;	 /* how often it left a CPU so far */
	uint64_t cpu_ns; /* of its process and those that it has started, as far as they live */
};

/* A process that trains and has not ended. */
struct standing_process {
	uint32_t pid, parent_pid;
	uint32_t tid;		      /* of its loop's thread */
	uint32_t comm;		      /* string */
	int32_t rank;		      /* -1 unknown */
	uint32_t job;		      /* its place, or that of the first with its parent */
	uint64_t incident;	      /* of it then, or of a process with its parent; 0 none */
	uint64_t since_ns;	      /* its last call ended */
	uint64_t median_ns;	      /* of its steps, */
	uint64_t longest_ns;	      /* and of all of them */
	uint64_t usual_ns;	      /* the longest that is of no anomaly */
	size_t first_child, children; /* in standings.children: that have not ended */
	bool waits; /* its thread does not run, and has not since it was seen before */
	enum wait_reason reason;
};

struct standings {
	VEC(struct standing_process) processes;
	VEC(uint32_t) children; /* pids: what they have started, and what that has */
	uint64_t now_ns;	/* what ended before has come */
};

/* anomalies: those of the time, of other processes too. known: processes that stood still; of those
 * that have made no call since, what they did before may be gone. *ret points into nothing. */
struct standings_asked {
	const struct steps *steps;
	const struct anomaly *anomalies;
	size_t anomalies_len;
	const struct standing_process *known;
	size_t known_len;
	uint64_t now_ns; /* what ended before has come */
};
void standings_make(struct standings *ret, const struct row_source *s,
		    const struct standings_asked *asked);
void standings_free(struct standings *s);

/* Whether it may stand still soon: then its thread is to be seen, twice. */
bool standing_is_quiet(const struct standings *s, const struct standing_process *p);
/* before: as it was seen STANDING_APART_NS ago or earlier; NULL: it was not. */
void standing_saw(struct standing_process *p, const struct thread_now *before,
		  const struct thread_now *now);

#define STANDING_NONE UINT32_MAX
/* The job of an incident; STANDING_NONE: it is of none of these. */
uint32_t standings_job(const struct standings *s, uint64_t incident);

/* What stands still of a job. */
struct standing {
	VEC(const struct standing_process *) processes; /* by rank, then pid */
	/* Of them the one that waits for no other, if it is one alone; NULL: not known */
	const struct standing_process *culprit;
	bool waits_for_none; /* one of them, or more */
	uint64_t since_ns;   /* the first of them */
	uint64_t now_ns;
};

/* caused: a cause is known, so that long steps may be its: where all wait for others it has to be
 * longer than any so far.
 * Returns false where nothing is to be told. The caller frees what it returns in either case; it
 * points into s. */
bool standing_of(struct standing *ret, const struct standings *s, uint32_t job, bool caused);
void standing_free(struct standing *s);

/* Whose time it is: pid, if that is one of them but the culprit; else one is chosen. */
const struct standing_process *standing_victim(const struct standing *s, uint32_t pid);

/* Its row, but for id, told_ns, caused_ns and ended. victim_pid: as pid of standing_victim. */
void standing_to_row(struct m_incident *ret, struct incident_texts *ret_texts,
		     const struct standing *s, const struct rec_tables *t, uint32_t victim_pid);
