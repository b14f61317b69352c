/* session_graphs.h - CUDA graphs of processes into which CUPTI comes while they run: see
 * docs/developers/gpu-timeline.md. */
#pragma once

#include "session/session_impl.h"
#include "probe/graph_guard.h"

struct graphs;

struct graphs *graphs_open(struct session *s);

/* -EBUSY with a sentence where PyTorch says that the process has made graphs; else its uses of
 * graphs are noted from here on (graph_guard_saw), until graphs_forget or the end. */
int graphs_watch(struct graphs *g, struct graph_guard **ret, pid_t pid, struct err *e);

/* Closes the guard. */
void graphs_forget(struct graphs *g, struct graph_guard *guard);

/* Where a thread is held because it would launch a graph, its process's CUPTI is asked to go;
 * where it has gone, the thread goes on. Of any one thread, every 20 ms or so. */
void graphs_look(struct graphs *g);

/* Nobody is held from here on: CUPTI has gone everywhere, or is not waited for any more. */
void graphs_let_go(struct graphs *g);

void graphs_close(struct graphs *g);
