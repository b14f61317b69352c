/* account_impl.h - what the files that make the account share. */
#pragma once

#include "analyze/account.h"
#include "base/map64.h"

struct sync_stretch {
	uint64_t start_ns, end_ns;
};

/* Samples of one thread by what was running. */
struct running {
	uint32_t samples[ACCOUNT_RUNS];
};

struct accounting {
	struct account *ret;
	const struct rec_tables *t;
	uint32_t pid;
	struct map64 place_of;	    /* thread -> index into ret->threads */
	struct map64 parent_of;	    /* pid -> pid */
	struct map64 thread_of_tid; /* tid -> thread */
	struct map64 unlocked;	    /* pid << 32 | tid that ended waits for locks -> ns */
	struct map64 rivals;	    /* index << 32 | name of who had its CPU -> ns */
	struct map64 rival_pids;    /* likewise -> pid, 0 = several */
	uint64_t *sync_off_ns;	    /* by index: off the CPU within calls that wait for the GPU */
	struct running *running;    /* likewise */
	/* of all those threads, by thread, then start; none overlaps another of its thread */
	VEC(struct sync_stretch) syncs;
	struct map64 syncs_of; /* thread -> first << 32 | number */
};

/* account_gpu.c: calls that wait for the GPU. */
void syncs_load(struct accounting *a, const struct timeline *t);
void syncs_free(struct accounting *a);
uint64_t syncs_within(const struct accounting *a, uint32_t thread, uint64_t from_ns,
		      uint64_t to_ns);
uint64_t syncs_total(const struct accounting *a, uint32_t thread);

/* account_samples.c: running, by samples. split: of ret->threads[i]. */
void account_read_samples(struct accounting *a, const struct row_source *s);
void account_split_running(struct accounting *a, size_t i);
