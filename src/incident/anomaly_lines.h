/* anomaly_lines.h - which lines of Python ran while something was not normal: from the stacks of
 * a recording's samples. Reads through the recording's reader only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "events/visitor.h"
#include "incident/anomaly.h"

#define ANOMALY_LINES 5

struct anomaly_lines {
	/* To be filled in: where to look. */
	uint64_t start_ns, end_ns;
	uint32_t pid; /* 0 = all processes */
	/* The lines that took more time than they usually take, the most first. A line is the
	 * innermost of Python in a sample's stack, on the CPU or waiting, of threads that do work.
	 * Usual is in as long a time outside all of them. */
	struct anomaly_line lines[ANOMALY_LINES]; /* strings: the recording's */
	uint32_t lines_len;
};

/* For n times, which may overlap. Memory: a few numbers for each line that was met in each of the
 * n, and for each that was met outside of them. */
void anomaly_lines_find(struct anomaly_lines *all, size_t n, const struct row_source *r);
