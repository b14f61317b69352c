/* store_read.h - what a store tells of a stretch of days, as JSON that a page can draw: the rollup
 * is chosen by how long the stretch is, and of each thing come some hundreds of points.
 * docs/api.yaml says what each key is.
 *
 * Each question opens the file to be read alone, and sees it as it was at that moment; whoever
 * writes it is never waited for, nor waits. Memory is bounded by the constants below. From any
 * thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/calltree.h"
#include "base/error.h"

#define STORE_READ_ROWS                                                                            \
	1200		      /* by time, of each thing, where there is a rollup that has no more  \
			       */
#define STORE_READ_POINTS 480 /* that are told of each */
#define STORE_READ_SERIES 64  /* in an answer */
#define STORE_READ_JOBS	  1024
#define STORE_READ_TOLD	  200 /* incidents, and events */

enum store_topic {
	STORE_JOBS,   /* processes that lived then, and the steps of all of them */
	STORE_STEPS,  /* of one process, and what they were made of */
	STORE_SERIES, /* counters: of a process, or else of a kind of thing */
	STORE_CPU,    /* where the processor time of one process went */
	STORE_TOLD,   /* incidents and events */
};

struct store_question {
	enum store_topic topic;
	int64_t from_s, to_s;  /* of the Unix epoch */
	int64_t process;       /* its number in the store; 0: of none */
	int kind;	       /* enum entity_kind, where it is of no process */
	int64_t after;	       /* so many series are left out at first */
	struct calltree *tree; /* of STORE_CPU: empty at first; its call tree, the caller's */
	uint64_t until_ns;     /* of CLOCK_MONOTONIC: it takes no longer */
};

/* *ret is the caller's. -EINVAL: that is no stretch of time; -ENOENT: there is no such process;
 * -ETIME: it would take longer; -EIO: the file cannot be read, or is damaged. */
int store_read(json_t **ret, const char *path, const struct store_question *q, struct err *e);
