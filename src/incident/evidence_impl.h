/* evidence_impl.h - what the files that gather evidence share: stretches, and the sums of what lies
 * in them. */
#pragma once

#include "incident/evidence.h"

/* A stretch of a process, and whose sums what lies in it adds to. */
struct place {
	uint64_t from_ns, to_ns;
	uint32_t sums; /* index */
};
typedef VEC(struct place) places_t;

struct call_sum {
	double n, ns;
	double own_ns, outer_n; /* of calls: by themselves; not within one of the same name */
};

typedef VEC(struct call_sum) call_sums_t;

/* Of a recording's probes or metrics few come: the place in sums of each that has, from 1 on. */
struct numbering {
	uint32_t *of; /* by row; 0: it did not */
	uint32_t len;
};

/* Of a question's slow stretches, or of usual ones. */
struct sums {
	call_sums_t calls;    /* by gathering's probes */
	call_sums_t counters; /* by its metrics: values, and their sum */
	struct call_sum kernels;
	double copied_ns, copied_bytes;	   /* between host and GPU */
	VEC(struct stall_growth) stalls;   /* ns alone */
	VEC(struct sender_growth) senders; /* likewise */
	VEC(struct disk_growth) disks;	   /* bytes alone */
	double length_ns;
};

struct last_value;
struct own_times;
struct recents;

/* The stretches of a process. Those of steps and those of plain time may overlap, so that each list
 * of usual stretches is a list here as well. */
struct track {
	uint32_t pid;
	const struct evidence_usual *usual;
	uint32_t usual_sums;
	places_t places; /* in order of time, none overlaps another */
};

struct gathering {
	const struct rec_tables *t;
	VEC(struct track) tracks;
	VEC(struct sums) sums;
	struct numbering probes, metrics;
	bool *asked;		 /* by thread: of a process with a track */
	struct last_value *last; /* by metric */
	struct own_times *own;
	struct recents *recents; /* by thread */
	uint32_t backward;	 /* string: the role of backward passes; 0: there are none */
};

/* evidence.c: the first place that ends after a time; and whose sums a time's are, or NULL. */
size_t evidence_place_after(const struct track *k, uint64_t ns);
struct sums *evidence_sums_at(struct gathering *g, const struct track *k, uint64_t ns);

/* The sum of a row, to be added to; and what it is, 0 where nothing was. */
struct call_sum *evidence_sum_at(call_sums_t *sums, struct numbering *n, uint32_t row);
struct call_sum evidence_sum_of(const call_sums_t *sums, const struct numbering *n, uint32_t row);

/* evidence_rows.c: all that is recorded, into the sums of the stretches that it lies in. */
void evidence_add_rows(struct gathering *g, const struct row_source *s, const struct timeline *t);

/* evidence_queue.c: what ran slower alike for it waited for room in the GPU's queue waits for the
 * GPU from then on, also in each of its n steps. After the blame and the calls are there. */
void evidence_full_queue(struct evidence *e, struct blame *each, size_t n);

/* evidence_own.c: what calls took by themselves, of n answers and their tracks and sums; a second
 * time through the calls where they grew. */
void evidence_add_own(struct evidence *ret, const uint32_t *track, const uint32_t *sums, size_t n,
		      struct gathering *g, const struct row_source *s);
