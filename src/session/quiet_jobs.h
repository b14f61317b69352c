/* quiet_jobs.h - which processes have called operators and do so no more, and when they are to be
 * looked at for that: whether their job stands still takes their steps (incident/standing.h), which
 * are dear to find. For the thread that looks at rows. */
#pragma once

#include "base/map64.h"
#include "session/session_live.h"

struct quiet_process {
	uint32_t pid;
	uint64_t calls;
	uint64_t last_ns;	  /* its last operator ended */
	uint64_t quiet_ns;	  /* that it was looked at for: last_ns as it was then; 0: none */
	uint64_t due_ns, wait_ns; /* the next look, and from then to the one after */
	uint64_t rest_ns;	  /* none before */
};

struct quiet_jobs {
	VEC(struct quiet_process) processes;
	struct map64 of_pid;   /* -> place */
	VEC(uint8_t) of_probe; /* enum, by number: whether it is an operator */
};

void quiet_jobs_free(struct quiet_jobs *q);
void quiet_jobs_take(struct quiet_jobs *q, const struct session_view *v);
/* Whether one is to be looked at. */
bool quiet_jobs_due(const struct quiet_jobs *q, uint64_t now_ns);
/* All that are due were. trains: whether a process is one that may stand still; those that are not
 * are left alone until they are quiet once more. */
void quiet_jobs_looked(struct quiet_jobs *q, uint64_t now_ns,
		       bool (*trains)(const void *ctx, uint32_t pid), const void *ctx);
/* When its last operator ended; 0: there was none, or the process has ended. */
uint64_t quiet_jobs_last_ns(const struct quiet_jobs *q, uint32_t pid);
