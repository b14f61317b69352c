/* blame_split.h - what a thread ran in its time beyond the usual, by samples. */
#pragma once

#include "analyze/blame_impl.h"

struct blame_runs {
	const struct blame_run *all; /* of all threads */
	size_t len;
	double ns; /* of the thread that is asked for; of as much work */
};

struct blame_split_part {
	struct blame_owner owner;
	double ratio; /* of the excess */
	double whole_ns, usual_ns;
};

/* Ratios add up to 1, or to 0 where the thread has no samples. */
struct blame_split {
	VEC(struct blame_split_part) parts;
};

/* of: a thread that ran, and how the walk came there. */
void blame_split_make(struct blame_split *ret, const struct blame_world *w,
		      const struct blame_owner *of, const struct blame_runs *slow,
		      const struct blame_runs *usual);
void blame_split_free(struct blame_split *s);
