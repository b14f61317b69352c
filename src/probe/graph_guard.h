/* graph_guard.h - watches what a process does with CUDA graphs, and holds it where one that it has
 * would be launched beside a CUPTI that came in later: the kernel's end of bpf/graph_guard.h. One
 * thread opens, arms and closes; another may look and let go meanwhile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/tracer.h"

struct graph_guard;

/* Places of one file, by offset, at most 8 of each kind. */
struct graph_places {
	const char *path; /* as it opens */
	const uint64_t *makers;
	size_t nmakers;
	const uint64_t *users; /* that launch, upload or change a graph */
	size_t nusers;
};

/* Hooks the places and watches the process. -ENOTSUP on kernels without sleepable uprobes, -ENOSPC
 * where too many processes are watched. */
int graph_guard_open(struct graph_guard **ret, struct tracer *t, pid_t pid,
		     const struct graph_places *places, struct err *e);

/* Whether the process has come by since it was opened, or disarmed. */
bool graph_guard_saw(const struct graph_guard *g);

/* From here on the first use of a graph is held, for 5 s at most, unless one was made before it.
 * False where the process has come by already: nothing is held. */
bool graph_guard_arm(struct graph_guard *g);

/* It is watched again; a thread that was held counts as seen. */
void graph_guard_disarm(struct graph_guard *g);

/* Whether a thread is held. */
bool graph_guard_holds(const struct graph_guard *g);

/* Nobody is held from here on. */
void graph_guard_let_go(struct graph_guard *g);

void graph_guard_close(struct graph_guard *g);
