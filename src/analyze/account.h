/* account.h - where the wall-clock time of each process's main thread went: what it ran, what it
 * waited for. Each instant has one owner, so that the shares are of a whole.
 *
 * From the totals of waits that the kernel side counts (wire/waits.h); what is not in them was
 * running. Waits that have rows are told further by who ended them and by the calls that they lie
 * in; running is split by the samples of the CPU clock, where there are any. Does no output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/summary.h"
#include "analyze/timeline.h"

enum account_owner {
	ACCOUNT_PYTHON,	   /* running: the interpreter, and Python's own types */
	ACCOUNT_IMPORT,	   /* running: importing Python modules */
	ACCOUNT_OPERATORS, /* running: PyTorch's libraries */
	ACCOUNT_NATIVE,	   /* running: other native code */
	ACCOUNT_KERNEL,	   /* running: the operating system */
	ACCOUNT_CPU,	   /* running: there are no samples that tell more */
	ACCOUNT_GPU,	   /* in calls that wait for the GPU, on the CPU or off */
	ACCOUNT_DATA,	   /* until a child process, or PyTorch's thread for data, had something */
	ACCOUNT_LOCK,
	ACCOUNT_DISK,
	ACCOUNT_NETWORK,
	ACCOUNT_PIPE,
	ACCOUNT_POLL, /* several files at once: events */
	ACCOUNT_SLEEP,
	ACCOUNT_CHILD,
	ACCOUNT_MEMORY,	  /* page faults that something had to be read for */
	ACCOUNT_RUNNABLE, /* could run, and had no CPU */
	ACCOUNT_HELD,	  /* by eacgm */
	ACCOUNT_STOPPED,
	ACCOUNT_OTHER,
	ACCOUNT_OWNERS,
};
#define ACCOUNT_RUNS (ACCOUNT_CPU + 1) /* owners before it run on the CPU */

struct account_thread {
	uint32_t thread; /* index into the thread table */
	uint32_t pid;
	const struct m_process *process; /* the last row of its number; NULL unknown */
	const char *program;		 /* what it runs: "train.py", "cc1plus" */
	uint64_t calls;			 /* traced, of all its process's threads */
	uint64_t since_ns, wall_ns;
	uint64_t ns[ACCOUNT_OWNERS]; /* together wall_ns */
	uint64_t run_ns;	     /* of these, running */
	uint64_t samples;
	/* Who ended most of its waits for locks, and how much of them; 0 = nobody that is known. */
	uint32_t unlocker_tid;
	uint64_t unlocker_ns;
	/* Which program had its CPU for most of the time in which it was preempted, of those that
	 * are known, and for how much. */
	uint32_t rival;	    /* string: what it calls itself; 0 = not known */
	uint32_t rival_pid; /* 0 = several processes */
	uint64_t rival_ns;
};

struct account {
	VEC(struct account_thread) threads; /* in order of process numbers */
	size_t main; /* index of the thread that tells most; SIZE_MAX where there are none */
};

/* The timeline and the summary are of the same source and complete. Without totals of waits the
 * account is empty. pid: only this process; 0 = all. */
void account_make(struct account *ret, const struct row_source *s, const struct timeline *t,
		  const struct summary *summary, uint32_t pid);
void account_free(struct account *a);

static inline const struct account_thread *account_main(const struct account *a)
{
	return a->main < a->threads.len ? &a->threads.data[a->main] : NULL;
}
