/* sandbox.h - a process gives up, for good, what it does not need: capabilities, system calls, and
 * the way to get any of them back by execve(2).
 *
 * Capabilities and filters belong to a thread, and pass to the threads and processes that it makes:
 * a process enters its sandbox before it has a second thread. Entered again, a sandbox only takes
 * away more. Threads are not confined one from another, and what a process holds open it keeps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sandbox_capability {
	int number;	    /* CAP_BPF: linux/capability.h */
	const char *reason; /* what it is kept for, for people */
};

/* A system call; where mask is not 0, only with (argument arg & mask) == value. */
struct sandbox_call {
	int number; /* SYS_read: sys/syscall.h */
	unsigned arg;
	uint64_t mask, value;
};

enum sandbox_calls {
	SANDBOX_ALL_CALLS, /* no filter */
	SANDBOX_ONLY,	   /* those listed */
	SANDBOX_ALL_BUT,   /* those not listed */
};

struct sandbox {
	const struct sandbox_capability *capabilities; /* kept, as far as they are there */
	size_t capabilities_len;
	enum sandbox_calls rule;
	const struct sandbox_call *calls;
	size_t calls_len;
	bool kill;   /* a call that is refused ends the process; else it fails with EPERM */
	bool secret; /* no core, and no process without CAP_SYS_PTRACE looks into its memory */
};

/* -EBUSY: the process has several threads. After a failure it may have given up a part. */
int sandbox_enter(const struct sandbox *s, struct err *e);

/* This thread is without a capability that it has until it is raised again: to try what needs it.
 * -EPERM: it is not there. */
int sandbox_lower(int capability, bool lowered);

/* "sys_ptrace"; returns ret. */
#define SANDBOX_NAME_BYTES 32
const char *sandbox_capability_name(char ret[SANDBOX_NAME_BYTES], int capability);
