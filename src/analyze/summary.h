/* summary.h - the numbers of a report: where the time of a recording went.
 *
 * Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "events/visitor.h"

struct summary_options {
	uint32_t pid;		    /* only this process; 0 = all */
	struct visit_options visit; /* of summary_make */
};

/* One function, all processes together. Instants are calls without a duration: they are
 * in calls and in nothing that is about time. Open calls count with their time so far,
 * calls left by an exception with the time until that was seen. */
struct summary_function {
	const char *layer;
	char *name;	  /* "aten::linear", "forward (/job/model.py:12)" */
	const char *file; /* of Python code, else "" */
	uint32_t line;
	uint64_t calls;
	uint64_t errors;   /* failed by their return value, or left by an exception */
	uint64_t nested;   /* made inside another call of their layer */
	uint64_t instants; /* of calls: those without a duration */
	uint64_t open;	   /* of calls: had not returned */
	uint64_t unwound;  /* of calls: left without returning */
	uint64_t total_ns; /* of calls inside others of the function nothing, where self_known */
	uint64_t self_ns;  /* of all calls without the traced calls inside; see self_known */
	uint64_t mean_ns;
	uint64_t p50_ns;
	uint64_t p99_ns;
	uint64_t max_ns;
	bool from_histogram; /* at least in part from kernel histograms: quantiles are coarser */
	bool self_known;     /* false when calls were counted without being recorded, or not seen */
	double on_ratio; /* of the time in which a probe of it was on, 1: always. Else there were
			  * more calls, of all that is counted here */
};

struct summary_process {
	const struct m_process *row;
	uint64_t calls;
	uint64_t threads;
};

struct summary_open_call {
	char *name;
	const char *layer;
	uint32_t pid;
	uint32_t tid;
	uint64_t start_ns;
	uint64_t dur_ns;
};

struct summary {
	VEC(struct summary_function) functions; /* by total time, longest first */
	VEC(struct summary_process) processes;
	VEC(struct summary_open_call) open_calls; /* the longest, at most 1,000 */
	uint64_t open_calls_total;
	uint64_t first_ns; /* start of the first and end of the last call; 0 without calls */
	uint64_t last_ns;
	uint64_t blocks_unread; /* call blocks that could not be decoded */
	struct err unread;	/* why the first of them could not */
};

/* Sums up a recording. What it returns points into the source's tables. *ret is made when the
 * visitor ends. */
struct row_visitor *summary_visitor(struct summary *ret, const struct row_source *s,
				    const struct summary_options *options);
void summary_make(struct summary *ret, const struct row_source *s,
		  const struct summary_options *options);
void summary_free(struct summary *s);
