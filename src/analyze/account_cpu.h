/* account_cpu.h - who used the CPUs: programs with all their threads, and beside its main thread
 * those of one process. From the totals of waits: what is in none of them was running. Does no
 * output. */
#pragma once

#include "analyze/account.h"

struct account_user {
	const char *name;
	uint32_t id;	/* of the first process, or of the busiest thread */
	uint32_t count; /* processes or threads */
	uint32_t busy;	/* of them threads that ran a tenth or more of what the busiest did */
	uint64_t run_ns, most_ns;
};

struct account_users {
	VEC(struct account_user) programs; /* most first */
	VEC(struct account_user) threads;  /* of the process, by name; not its main thread */
	uint64_t run_ns;		   /* of all programs */
};

/* pid: whose threads. */
void account_users_make(struct account_users *ret, const struct rec_tables *t, uint32_t pid);
void account_users_free(struct account_users *u);
