/* job_rules.h - rules by job: what of a process is traced, by its command line, its control group
 * and its user; and which processes are under which rule. Of rules that fit, the first holds. Knows
 * no tracer; reads /proc of the processes and nothing else. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map64.h"

#define JOB_RULES_MOST	    64
#define JOB_RULE_GLOB_BYTES 128	       /* of a glob, with its end */
#define JOB_LEFT_ALONE	    UINT32_MAX /* all layers */

/* Globs are fnmatch(3)'s, of which '*' takes slashes too; "": any. All that are given have to fit.
 */
struct job_rule {
	char command[JOB_RULE_GLOB_BYTES]; /* of all its words, a space between each two */
	char cgroup[JOB_RULE_GLOB_BYTES];  /* of a path of /proc/PID/cgroup */
	bool by_user;
	uid_t user;	   /* that it runs as */
	uint32_t left_out; /* layers, a bit for each */
};

/* Zeroed but for the list, whose rules do not change while a session has them. */
struct job_rules {
	struct job_rule list[JOB_RULES_MOST];
	size_t len;
	pthread_mutex_t lock; /* of the next */
	struct map64
		rule_of; /* process -> place in the list + 1; those under no rule are not in it */
	struct map64 against;	      /* process that is traced against its rule -> likewise */
	size_t under[JOB_RULES_MOST]; /* so many processes each */
	uint64_t failures;	      /* so many were traced against their rule, each once */
};

void job_rules_init(struct job_rules *r);
void job_rules_free(struct job_rules *r);

struct job_facts {
	char *command; /* of a worker of Python's multiprocessing its parent's */
	char *cgroups; /* /proc/PID/cgroup */
	uid_t user;
};

/* root: "/proc" but for tests. What cannot be read is "", and a user that none is. job_facts_free
 * is due. */
void job_facts_read(struct job_facts *ret, const char *root, pid_t pid);
void job_facts_free(struct job_facts *f);

/* The number of the first rule that fits, from 1; 0: none does. */
size_t job_rules_match(const struct job_rules *r, const struct job_facts *f);

/* All from any thread. The process is under this rule from now on, 0: under none; it is not traced
 * against one any more. */
void job_rules_put(struct job_rules *r, pid_t pid, size_t rule);
/* The number of the rule that it is under, 0: none. */
size_t job_rules_of(struct job_rules *r, pid_t pid);
/* How many processes are under the rule of this number. */
size_t job_rules_count(struct job_rules *r, size_t rule);
/* The process is traced against this rule, from 1, and is under none. How many such processes there
 * have been with it; 0: it was one already. */
uint64_t job_rules_failed(struct job_rules *r, pid_t pid, size_t rule);
/* The number of the rule that it is under, or is traced against; 0: none. */
size_t job_rules_meant(struct job_rules *r, pid_t pid);
/* How many processes have been traced against their rule, each once. */
uint64_t job_rules_failures(struct job_rules *r);
