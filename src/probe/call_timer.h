/* call_timer.h - a child of ours that calls functions in a tight loop when it is told to, and says
 * how much processor time a call took: by the quickest rounds of many short ones, so that other
 * work on the host matters little. Who has put probes on the functions sees what these cost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct call_timer {
	pid_t pid;
	int go, result;
};

/* What their first instruction is decides what a probe costs; each is its own, so that all can be
 * probed at once. */
enum timed_function {
	TIMED_PLAIN,
	TIMED_ENTRY,   /* the kernel emulates the instruction, as of the next but one */
	TIMED_STEPPED, /* it single-steps it */
	TIMED_SPAN,
	TIMED_MAPPING, /* no place for probes: maps the page of these functions, and unmaps it */
	TIMED_FUNCTIONS
};

int call_timer_start(struct call_timer *ret, struct err *e);
/* Nanoseconds of a call; negative when the child is gone. */
double call_timer_run(struct call_timer *c, enum timed_function f);
void call_timer_stop(struct call_timer *c);
/* Where in this executable a function is to be probed; false when that is not known. */
bool timed_function_offset(enum timed_function f, uint64_t *ret);
