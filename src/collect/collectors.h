/* collectors.h - runs collectors: opens those that are wanted, reads each at its period, and hands
 * on what comes. Slow ones have a thread each; a driver that hangs in one holds up nobody else. */
#pragma once

#include <stddef.h>

#include "collect/collector.h"

struct collectors;

struct collectors_options {
	const struct collector *const *list; /* collector_registry; of the test's making */
	size_t len;
	uint32_t layers;	  /* bits of enum layer: those that are traced */
	struct collect_env env;	  /* but gpu_places */
	struct collect_sink sink; /* called by several threads */
	uint64_t patience_ns;	  /* for a slow one's last answer */
};

/* What cannot be opened is noted where it matters; there is no failure. */
struct collectors *collectors_open(const struct collectors_options *o);

/* All on the thread that opened them. */
void collectors_add_pid(struct collectors *c, pid_t pid, bool is_new);
void collectors_del_pid(struct collectors *c, pid_t pid);
/* A record of the kernel's, to the collector of its kind. */
void collectors_take_record(struct collectors *c, const void *record);
/* Now and then, some times in the shortest period: reads those that are due, but slow ones. */
void collectors_tick(struct collectors *c, uint64_t now_ns);
/* CPU time of the watched processes. */
uint64_t collectors_cpu_ns(const struct collectors *c);
/* Reads all for the last time; whoever does not answer is noted, and tells nothing any more. */
void collectors_stop(struct collectors *c);
/* Stops them where that was not done. */
void collectors_close(struct collectors *c);
