/* line_times.h - how long lines of Python took lately and how long they usually take, as samples
 * come. What is not sampled is not known. Memory: one entry for each line of each process, at most
 * LINE_TIMES_MOST of them, and the samples of the last two minutes. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/names.h"
#include "incident/anomaly.h"

#define LINE_TIMES_MOST	   (1u << 14)
#define LINE_TIMES_SAMPLES (1u << 20)	  /* lately; of more the older half goes */
#define LINE_TIMES_NS	   60000000000ULL /* that is known second by second */

struct line_times {
	struct map64 at; /* by process and line: place in totals, from 0 */
	VEC(struct line_total {
		uint32_t pid;
		struct detect_line line; /* its strings outlive this */
		double ns;
	})
	totals;
	VEC(struct line_sample {
		uint64_t time_ns;
		uint32_t total; /* its place */
		bool called;
		double ns;
	})
	recent;		    /* in about the order of their times */
	struct map64 since; /* of each process: its first sample */
	uint64_t last_ns;   /* of all */
};
void line_times_free(struct line_times *l);
/* A sample that stands for weight_ns up to time_ns. line's strings outlive l. */
void line_times_add(struct line_times *l, uint32_t pid, const struct detect_line *line,
		    uint64_t time_ns, uint64_t weight_ns);
/* The line of the process that took most beyond what is usual between start_ns and end_ns, of which
 * the last LINE_TIMES_NS are looked at. Usual is what it took before, since the process's first
 * sample; where that is shorter than what is looked at, in all other time. false: there is none, or
 * that is shorter too. */
bool line_times_most(const struct line_times *l, uint32_t pid, uint64_t start_ns, uint64_t end_ns,
		     struct anomaly_line *ret);
/* The process has ended. */
void line_times_forget(struct line_times *l, uint32_t pid);
