/* blame_split.h - what a thread ran in its time beyond the usual, by samples. */
#pragma once

#include "analyze/blame_impl.h"

/* What a thread's samples have of a time: weights, by what ran. */
struct blame_line {
	uint32_t frame;
	uint8_t kind;
	double ns, n; /* n: samples */
};

struct blame_lines {
	struct map64 place_of; /* kind << 32 | frame -> index */
	VEC(struct blame_line) all;
	double ns, n; /* together */
};

/* Of those of len stretches that have the owner's thread and way. */
void blame_lines_read(struct blame_lines *ret, const struct blame_world *w,
		      const struct blame_owner *of, const struct blame_run *runs, size_t len);
void blame_lines_free(struct blame_lines *l);

struct blame_split_part {
	struct blame_owner owner;
	double ratio; /* of the excess */
	double whole_ns, usual_ns;
};

/* Ratios add up to 1, or to 0 where the thread has no samples. */
struct blame_split {
	VEC(struct blame_split_part) parts;
};

/* of: a thread that ran, and how the walk came there. It ran so long in slow stretches, and so long
 * in as much usual work. */
void blame_split_make(struct blame_split *ret, const struct blame_owner *of,
		      const struct blame_lines *slow, double slow_ns,
		      const struct blame_lines *usual, double usual_ns);
void blame_split_free(struct blame_split *s);
