/* causes.h - why an incident's time was longer: a list of causes, each with what speaks for it.
 *
 * A cause explains so many ns of the excess, by the evidence; the one that explains most is told.
 * docs/causes.md has a block for each, with what was printed of it where a case was recorded. To
 * add one: a line in CAUSES, its rule in causes.c, its words in cause_words.c, its block, its fault
 * in lab/faults. No I/O. */
#pragma once

#include "incident/evidence.h"

#define CAUSES(X)                                                                                  \
	X(UNKNOWN, unknown)                                                                        \
	X(CPU_CONTENTION, cpu_contention)                                                          \
	X(CPU_THROTTLE, cpu_throttle)                                                              \
	X(CPU_STOLEN, cpu_stolen)                                                                  \
	X(INTERRUPTS, interrupts)                                                                  \
	X(MEMORY_RECLAIM, memory_reclaim)                                                          \
	X(MEM_BANDWIDTH, mem_bandwidth)                                                            \
	X(DISK, disk)                                                                              \
	X(DATA_LOADER, data_loader)                                                                \
	X(CHECKPOINT, checkpoint)                                                                  \
	X(PYTHON_GC, python_gc)                                                                    \
	X(PYTHON_GIL, python_gil)                                                                  \
	X(LOCK, lock)                                                                              \
	X(SLOW_CODE, slow_code)                                                                    \
	X(LAUNCH_BOUND, launch_bound)                                                              \
	X(EXCESS_SYNC, excess_sync)                                                                \
	X(ALLOC_CHURN, alloc_churn)                                                                \
	X(PCIE, pcie)                                                                              \
	X(GPU_ERROR, gpu_error)                                                                    \
	X(GPU_CONTENTION, gpu_contention)                                                          \
	X(GPU_CLOCK, gpu_clock)                                                                    \
	X(GPU_SLOW, gpu_slow)                                                                      \
	X(NETWORK, network)                                                                        \
	X(NET_BANDWIDTH, net_bandwidth)                                                            \
	X(NET_LOSS, net_loss)                                                                      \
	X(NET_FOREIGN, net_foreign)                                                                \
	X(HANG, hang)                                                                              \
	X(STRAGGLER, straggler)                                                                    \
	X(STOPPED, stopped)                                                                        \
	X(OTHER_WORK, other_work)                                                                  \
	X(SLOW_CALL, slow_call)                                                                    \
	X(NUMA, numa)                                                                              \
	X(CPU_SLOW, cpu_slow)                                                                      \
	X(COMPILATION, compilation)

enum cause {
#define X(NAME, name) CAUSE_##NAME,
	CAUSES(X)
#undef X
		CAUSE_COUNT,
};

/* "cpu_contention": for programs, and what the laboratory calls its fault. */
const char *cause_id(enum cause c);
/* "CPU contention": for people. */
const char *cause_title(enum cause c);
/* What to do, a sentence. */
const char *cause_advice(enum cause c);
struct cause_found;
const char *cause_found_advice(const struct cause_found *f);

enum culprit_kind {
	CULPRIT_NONE,
	CULPRIT_PROCESS, /* another's, or of the job; it, or those that it leads */
	CULPRIT_CGROUP,	 /* its limit, or its processes */
	CULPRIT_LINE,	 /* of Python, or a function */
	CULPRIT_GPU,
	CULPRIT_HOST,	   /* of other virtual machines */
	CULPRIT_INTERRUPT, /* a line, or a softirq, by its name; pid, if it is for packets of a
			      process */
	CULPRIT_DISK,	   /* by its name; pid, if it is another's process that uses it most */
	CULPRIT_INTERFACE, /* of the network, by its name */
	CULPRIT_CALL,	   /* a traced function, by its name; and the line that calls it */
	CULPRIT_RANK,	   /* another process of the job, which was waited for */
};

struct culprit {
	enum culprit_kind kind;
	uint32_t pid;
	uint32_t name;	 /* string: of a process, or of a function */
	int32_t rank;	 /* of CULPRIT_RANK; -1 unknown */
	uint32_t frame;	 /* or BLAME_NO_FRAME */
	uint32_t metric; /* of a GPU or a cgroup; UINT32_MAX none */
	uint32_t device; /* string: of an interrupt, a disk or an interface */
	uint32_t cgroup; /* string: that a process is in, or of CULPRIT_CGROUP; 0 not known */
	bool leads;	 /* not the process itself, but those of its process group; in the job's own
			    group, those that it started */
};

#define CAUSE_TEXTS 4
struct cause_found {
	enum cause cause, runner_up; /* of the latter UNKNOWN: nothing else explains any of it */
	double explained_ns, runner_up_ns;
	double confidence; /* 0 to 1 */
	struct culprit culprit;
	enum cause why; /* of a straggler that is known: why that rank was late, */
	struct culprit why_culprit;
	char *evidence[CAUSE_TEXTS]; /* sentences, malloc'ed */
	size_t evidence_len;
	char *against; /* what speaks against the runner-up, or NULL */
};

/* The ns of the excess that each cause explains, 0 where it explains too little. */
void cause_explains(double ret[CAUSE_COUNT], const struct evidence *e);
/* The one that explains most, in words. */
void cause_find(struct cause_found *ret, const struct evidence *e);
/* What was found is too little of what was lost to be its cause: it stays as what comes next. ns.
 */
void cause_withdraw(struct cause_found *ret, double found_ns, double lost_ns);
void cause_free(struct cause_found *c);
