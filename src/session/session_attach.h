/* session_attach.h - the insides of what brings the CUPTI shim into processes, shared by its thread
 * (session_attach.c) and what it does with one process (session_visit.c). */
#pragma once

#include "session/session_graphs.h"
#include "session/session_impl.h"
#include "collect/guest.h"

#define ATTACH_DRIVER "libcuda.so"

struct candidate {
	pid_t pid;
	bool told;  /* that it does not call the driver */
	bool child; /* of another: most are workers, which have the driver's library and no GPU */
};

/* A process that has the shim: what it was given. */
struct attached {
	pid_t pid;
	struct guest *guest;
	struct graph_guard *guard;
};

struct attacher {
	struct session *session;
	char shim[4096];
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	VEC(struct candidate) waiting; /* under lock */
	bool stop;		       /* under lock */
	pids_t seen;		       /* under lock: candidates that have not ended */
	bool saw_any;		       /* under lock */
	VEC(struct attached) list;
	bool stuck;	 /* a thread did not stop, and goes on when ours ends */
	bool at_work;	 /* under lock: at a process, the first time */
	size_t attached; /* all of them */
	uint64_t longest_stop_ns;
	struct graphs *graphs;
};

bool attacher_stops(struct attacher *a);

/* -EAGAIN: to be tried again. */
int attach_visit(struct attacher *a, struct candidate *c, struct err *e);

/* What a process was given goes. */
void attached_close(struct attacher *a, struct attached *given);
