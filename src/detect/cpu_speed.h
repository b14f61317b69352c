/* cpu_speed.h - how fast the CPUs of processes were, and what of a pace's ups and downs that is.
 *
 * Where another machine has the other hyperthread of a core all code goes on more slowly, for
 * seconds, on shared hosts all the time. The counter fixed_work_ns of a process says how long the
 * same instructions took on its CPUs (bpf/fixed_work.h), w. Of the windows of a launch that were
 * learned from,
 *
 *   ln pace = a - slope * ln w + rest
 *
 * by least squares without those farthest off, and a pace is told without it:
 *
 *   ln pace + slope * ln (w / work_ns)
 *
 * slope is about 1 for a job that runs Python, and 0 for one that waits for its GPU: then, or where
 * it cannot be told from 0, nothing is corrected. No I/O. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map64.h"
#include "detect/model.h"
#include "detect/names.h"

#define CPU_WORK_NS   500000000ULL /* values come so often */
#define CPU_PART_MOST 1.0	   /* of ln pace: no CPU is slowed by more */

struct cpu_work {
	uint64_t time_ns; /* of its end */
	double ns;
};
struct cpu_works {
	uint32_t pid;
	size_t first; /* those before are no longer asked for */
	VEC(struct cpu_work) list;
};
/* Zeroed at its beginning. */
struct cpu_speed {
	VEC(struct cpu_works) processes;
	struct map64 place_of; /* pid -> index */
	uint64_t swept_ns;
};
void cpu_speed_free(struct cpu_speed *s);

/* Takes a counter if it is one. keep_ns: what is older than that when another comes goes, and so do
 * processes that have told nothing for as long; 0: all stays. */
void cpu_speed_counter(struct cpu_speed *s, const struct detect_names *names,
		       const struct m_counter *c, uint64_t keep_ns);
/* Likewise, of what was read. */
void cpu_speed_add(struct cpu_speed *s, uint32_t pid, uint64_t time_ns, double ns,
		   uint64_t keep_ns);
/* The mean in a stretch of time, of at least half of it; 0: not known. */
double cpu_speed_work_ns(const struct cpu_speed *s, uint32_t pid, uint64_t from_ns, uint64_t to_ns);
void cpu_speed_forget(struct cpu_speed *s, uint32_t pid);

/* A window's pace, and w; 0: either is not known. */
struct cpu_window {
	uint32_t recording, pid;
	double pace, work_ns;
};
/* Sets work_ns and cpu_slope: the second 0 where there are too few windows, or it says too little.
 * Windows are in the order of recording and pid. */
void cpu_speed_learn(struct model_clock *ret, const struct cpu_window *windows, size_t n);
/* What is added to ln pace for that; 0: it is not known, or says nothing of the pace. */
double cpu_speed_part(const struct model_clock *c, double work_ns);
