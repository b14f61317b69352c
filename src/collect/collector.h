/* collector.h - a source of counters that is asked at intervals.
 *
 * One file per source; a source tells values and knows nothing of where they go. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* A value now: of what ("pid 12"), which ("rss_bytes"), how much. */
typedef void (*collector_emit)(void *ctx, const char *entity, const char *name, double value);

struct collector;

struct collector_ops {
	const char *name; /* "procfs" */
	/* proc_root: "/proc" but for tests. *ret is freed by close. */
	int (*open)(struct collector **ret, const char *proc_root, struct err *e);
	/* Processes that are watched from now on, or no longer. */
	void (*add_pid)(struct collector *c, pid_t pid);
	void (*del_pid)(struct collector *c, pid_t pid);
	void (*sample)(struct collector *c, uint64_t now_ns, collector_emit emit, void *ctx);
	void (*close)(struct collector *c);
};

/* CPU time, memory, threads and context switches of processes (proc_pid_stat(5)). */
extern const struct collector_ops collector_procfs;

/* As its add_pid, of a process that begins now: it has used nothing so far, so nothing is read. */
void procfs_add_new(struct collector *c, pid_t pid);

/* CPU time that all watched processes have used while they were watched, in ns: also of
 * those that have ended, up to their last sample. */
uint64_t procfs_cpu_ns(const struct collector *c);
