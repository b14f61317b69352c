/* blame_impl.h - what the files that make blame share. */
#pragma once

#include "analyze/blame.h"
#include "analyze/stretches.h"

/* A wait as the walk needs it: who ended it is a thread of the job, or nobody. */
struct blame_wait {
	uint64_t start_ns, woken_ns, end_ns;
	uint32_t thread, waker; /* index into the thread table; UINT32_MAX: nobody known */
	uint32_t rival_pid, rival, rival_cgroup, rival_leader_pid, rival_leader;
	uint32_t frame; /* that waited, where stacks of waits were recorded; or none */
	uint8_t reason;
	bool writes;	 /* to a disk */
	bool for_gil;	 /* it is taken to be for the interpreter's lock */
	bool restarted;	 /* it goes on after a signal: restart_syscall(2) */
	bool by_unknown; /* somebody ended it of whom nothing is recorded */
};

struct blame_sample {
	uint64_t time_ns, weight_ns;
	uint32_t thread;
	uint32_t frame;
	uint32_t own; /* the innermost frame of the job's own Python code; or none */
	uint8_t kind; /* BLAME_RUNS, BLAME_COMPILES, BLAME_SAVES, BLAME_FAULTS, BLAME_FILLS */
	uint8_t runs; /* enum account_owner: what of the thread's time it is of */
	bool loads;   /* within PyTorch's loader of data */
	bool fills;   /* the kernel puts pages of files into memory */
};

/* A GPU of a process waits in a collective for the last rank. */
struct blame_late {
	uint32_t pid;
	uint32_t peer; /* that rank's first thread: index into the thread table */
	uint64_t from_ns, to_ns;
};

struct blame_world {
	const struct rec_tables *t;
	VEC(struct blame_wait) waits;	       /* by thread, then start */
	VEC(struct blame_sample) samples;      /* by thread, then time */
	VEC(uint32_t) python;		       /* threads that were seen in Python */
	struct map64 waits_of, samples_of;     /* thread -> first << 32 | number */
	struct stretches syncs;		       /* by thread: calls that wait for the GPU, */
	struct stretches collects, saves;      /* that collect garbage, that write a checkpoint */
	struct stretches interrupts, reclaims; /* likewise: what the kernel did instead */
	struct stretches works, ranks; /* by process: kernels that work; collectives alone */
	VEC(struct blame_late) lates;  /* by process, then start; none overlaps another of its */
	struct map64 job;	       /* processes that are recorded */
	struct map64 parent_of;	       /* pid -> pid */
	struct map64 main_of;	       /* pid -> its first thread */
	struct map64 on_gpu;	       /* processes with spans */
	struct map64 compilers;	       /* processes whose program is one */
	struct map64 compiler_names;   /* of their threads: how many << 32 | the first */
	VEC(uint32_t) pools;	       /* of each thread: the first of its pool, or NO_POOL */
};

/* Whether the thread is of a pool: of those that a process has many of under one name. Which of
 * them has something to do is chance, and each has too few samples to be compared with what it
 * usually does. *ret_first: the first of these. */
bool blame_is_of_pool(const struct blame_world *w, uint32_t thread, uint32_t *ret_first);

/* Whether the thread is a compiler's that the job has started; then the owner is set to be one: of
 * all compilers of its name. */
bool blame_is_compiler(const struct blame_world *w, uint32_t thread, struct blame_owner *ret);

const struct blame_wait *blame_waits_of(const struct blame_world *w, uint32_t thread,
					size_t *ret_n);
const struct blame_sample *blame_samples_of(const struct blame_world *w, uint32_t thread,
					    size_t *ret_n);
/* The first thread of the process that a thread is of; where nothing is known of it, that one. */
uint32_t blame_main_thread(const struct blame_world *w, uint32_t thread);
/* blame_stacks.c: the frame that a stack is of: the innermost of Python; else the innermost that
 * has a name and is not the C library's; else the innermost that has a name. */
uint32_t blame_frame_of_stack(const struct rec_tables *t, uint32_t stack);
/* Whether a function of Python writes a checkpoint; strings' numbers. */
bool blame_is_save(const struct rec_tables *t, uint32_t function, uint32_t in_file);
/* What samples of a stack have in common; the rest is 0. */
struct blame_sample blame_sample_of_stack(const struct rec_tables *t, uint32_t stack);
/* blame_waits.c: of waits that a stop cut nobody is who ended them, but for another process; to be
 * called first. */
void blame_waits_cut(struct blame_world *w);

/* blame_waits.c: looks at all waits, by what ran meanwhile: to be called when waits and samples are
 * in their order and found by thread. */
void blame_waits_know(struct blame_world *w);
/* How long a thread ran within a time, by its samples. */
uint64_t blame_ran_ns(const struct blame_world *w, uint32_t thread, uint64_t from_ns,
		      uint64_t to_ns);
/* blame_ranks.c: who came late to collectives. */
void blame_ranks_load(struct blame_world *w, const struct row_source *s, const struct timeline *t);
/* The first of a process that ends after a time, which the process's others follow; or NULL. */
const struct blame_late *blame_late_from(const struct blame_world *w, uint32_t pid, uint64_t ns);
/* The first of n that is not before a time. */
size_t blame_sample_from(const struct blame_sample *s, size_t n, uint64_t ns);

/* How the walk came to an owner, as that has it. */
struct blame_way {
	uint32_t peer;
	uint8_t via;
};

/* A stretch in which a thread ran, and how the walk came there. */
struct blame_run {
	uint32_t thread, owner; /* who has its time: the same, or the first of its pool */
	struct blame_way way;
	uint64_t from_ns, to_ns;
};

/* Where what the walk finds goes: in order of time and without gaps, but that what the GPU did in a
 * wait is summed up unless in_order. */
struct blame_found {
	void *ctx;
	bool in_order;
	void (*owns)(void *ctx, const struct blame_owner *owner, uint64_t ns);
	void (*runs)(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
		     uint64_t to_ns);
};

/* blame_walk.c: whose each instant of the thread's time is. */
void blame_walk(const struct blame_world *w, uint32_t thread, uint64_t from_ns, uint64_t to_ns,
		const struct blame_found *found);
