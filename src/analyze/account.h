/* account.h - where the wall-clock time of each process's main thread went: what it ran, what it
 * waited for. Each instant has one owner, so that the shares are of a whole.
 *
 * From the totals of waits that the kernel side counts (wire/waits.h); what is not in them was
 * running. Waits that have rows are told further by who ended them and by the calls that they lie
 * in; running is split by the samples of the CPU clock, where there are any. Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/stretches.h"
#include "analyze/summary.h"
#include "analyze/timeline.h"

enum account_owner {
	ACCOUNT_PYTHON,	   /* running: the interpreter, and Python's own types */
	ACCOUNT_IMPORT,	   /* running: importing Python modules */
	ACCOUNT_COMPILE,   /* running: a compiler of PyTorch, Triton, JAX, numba or CUDA */
	ACCOUNT_OPERATORS, /* running: PyTorch's libraries */
	ACCOUNT_MPI,	   /* running: MPI's library, which polls for other ranks */
	ACCOUNT_NATIVE,	   /* running: other native code */
	ACCOUNT_KERNEL,	   /* running: the operating system */
	ACCOUNT_CPU,	   /* running: there are no samples that tell more */
	/* in calls that wait for the GPU, on the CPU or off, or in waits for threads that do */
	ACCOUNT_GPU,
	ACCOUNT_DATA,	   /* until a child process, or PyTorch's thread for data, had something */
	ACCOUNT_COMPILERS, /* while compilers ran that it or its children had started */
	ACCOUNT_LOCK,
	ACCOUNT_DISK,
	ACCOUNT_NETWORK,
	ACCOUNT_PIPE,
	ACCOUNT_POLL, /* several files at once: events */
	ACCOUNT_SLEEP,
	ACCOUNT_SIGNAL, /* until a signal comes */
	ACCOUNT_CHILD,
	ACCOUNT_MEMORY,	  /* page faults that something had to be read for */
	ACCOUNT_RUNNABLE, /* could run, and had no CPU */
	ACCOUNT_HELD,	  /* by eacgm */
	ACCOUNT_STOPPED,
	ACCOUNT_OTHER,
	ACCOUNT_OWNERS,
};
#define ACCOUNT_RUNS (ACCOUNT_CPU + 1) /* owners before it run on the CPU */

/* What another process is to a main thread's. */
enum account_kin {
	KIN_STRANGER, /* it was not recorded */
	KIN_JOB,      /* recorded as well */
	KIN_CHILD,    /* its child, or a child's child */
	KIN_SELF,     /* another thread of the process */
	KIN_RECORDER, /* eacgm, which started the command */
};

struct account_peer {
	uint32_t pid, tid; /* tid 0: a process, whatever its threads */
	const char *name;  /* of the thread, or what the process runs */
	enum account_kin kin;
	uint64_t ns;
};

/* What others do to a main thread. */
enum account_part {
	ACCOUNT_RIVALS,	   /* had its CPU while it could run */
	ACCOUNT_UNLOCKERS, /* threads of its process that ended its waits for locks */
	ACCOUNT_MAKERS,	   /* child processes that ended its waits for data */
	ACCOUNT_PARTS,
};

#define ACCOUNT_PEERS 3
struct account_peers {
	struct account_peer top[ACCOUNT_PEERS]; /* most first */
	uint32_t count;				/* of all */
	uint64_t ns;				/* likewise */
};

struct account_thread {
	uint32_t thread; /* index into the thread table */
	uint32_t pid;
	const struct m_process *process; /* the last row of its number; NULL unknown */
	bool before_exec; /* its process ran another program then, which is a later thread here */
	const char *program; /* what it runs: "train.py", "cc1plus" */
	uint64_t calls;	     /* traced, of all its process's threads */
	uint64_t since_ns, wall_ns;
	uint64_t ns[ACCOUNT_OWNERS]; /* together wall_ns */
	uint64_t run_ns;	     /* of these, running */
	uint64_t samples;
	uint64_t waits; /* of any length */
	uint32_t cpus;	/* that it may run on, as was told last; 0 unknown */
	struct account_peers peers[ACCOUNT_PARTS]; /* by the waits that have rows */
};

struct account_line {
	const char *function, *file; /* the file without its folder */
	uint32_t line;
	uint64_t ns; /* 0: none is known */
};

/* A thread that others waited for, and what it did in just that time. */
struct account_holder {
	uint32_t tid;
	const char *name;
	uint64_t wall_ns;	     /* of the waits that it ended */
	uint64_t ns[ACCOUNT_OWNERS]; /* together wall_ns */
	struct account_line in;	     /* the function in which it ran most of that */
};
#define ACCOUNT_HOLDERS 3

/* Where the main thread waited for locks, and where who released most of them was meanwhile. */
struct account_lock {
	bool has_waits; /* stacks of waits were recorded */
	uint64_t gil_ns;
	struct account_line waits, holds;
	struct account_line runs; /* the function that the latter began in */
	/* Who ended most of its waits; if that mostly waited for locks itself, who ended those. */
	struct account_holder holders[ACCOUNT_HOLDERS];
	uint32_t nholders;
};

/* Of a main thread with a loop: the time until it, the loop, and what came then. */
enum account_phase {
	ACCOUNT_BEFORE,
	ACCOUNT_LOOP,
	ACCOUNT_AFTER,
	ACCOUNT_PHASES,
};

struct account {
	VEC(struct account_thread) threads; /* in order of process numbers */
	size_t main; /* index of the thread that tells most; SIZE_MAX where there are none */
	bool has_loop;
	struct account_thread phases[ACCOUNT_PHASES]; /* that thread's, each by itself */
	/* By main thread: waits for the GPU that no call of its own tells. */
	struct stretches through;
	struct account_lock lock; /* of that thread in its loop, where it waits for locks at all */
};

/* The timeline and the summary are of the same source and complete. Without totals of waits the
 * account is empty. pid: only this process; 0 = all. */
void account_make(struct account *ret, const struct row_source *s, const struct timeline *t,
		  const struct summary *summary, uint32_t pid);
void account_free(struct account *a);

/* Where the main thread's time went before, within and after its loop. What has no rows of its own
 * (short waits) is taken for evenly spread over the time that rows leave, and stops by eacgm for
 * the time before the loop's; the shares of each phase are of a whole. */
void account_cut(struct account *a, const struct row_source *s, const struct timeline *t,
		 uint64_t from_ns, uint64_t to_ns);

/* Whose time a wait for a reason (enum wait_reason) is. */
enum account_owner account_owner_of(uint8_t reason);

/* What a process runs: its script, else what it calls itself. */
const char *account_program(const struct rec_tables *t, const struct m_process *p);

/* A program that compiles, assembles or links: "cc1plus", "ptxas". */
bool account_is_compiler(const char *program);

/* So many CPUs at once its cgroup may use; 0: as many as there are, or no number that can be. */
static inline double account_cpu_limit(const struct account_thread *th)
{
	double limit = th->process ? th->process->cpu_limit : 0;
	return limit > 0 && limit < 1e6 ? limit : 0;
}

/* The one that the account is about: with a loop, the main thread in that. */
static inline const struct account_thread *account_subject(const struct account *a)
{
	return a->has_loop		  ? &a->phases[ACCOUNT_LOOP]
	       : a->main < a->threads.len ? &a->threads.data[a->main]
					  : NULL;
}

static inline const struct account_thread *account_main(const struct account *a)
{
	return a->main < a->threads.len ? &a->threads.data[a->main] : NULL;
}
