/* bring.h - makes a thread of a running process load a library: one that enters a function is held
 * there (src/probe/catch.h), stopped, and made to start a thread that does (src/remote). What the
 * library is, and which functions, its users know: session_visit.c, session_calls.c. */
#pragma once

#include "probe/catch.h"
#include "remote/remote.h"

struct tracer;

struct bring {
	pid_t pid;
	int lock_fd; /* -1 = none */
	bool slow; /* nobody came by in a first round: less often is looked whether somebody does */
	const struct remote_place *places; /* where a thread may be stopped */
	size_t nplaces;
	struct remote *remote;
	struct catch *catch;
	uint64_t stopped_ns; /* one thread */
	bool stuck;	     /* a thread did not stop: it goes on when ours ends */
	/* Whether there is to be an end. */
	bool (*stops)(void *ctx);
	/* Before each look, NULL = nothing: an error ends it. */
	int (*may)(void *ctx, struct err *e);
	/* remote_redirect, or what has that in it. */
	int (*redirect)(void *ctx, struct remote_stop *stop, struct err *e);
	void *ctx;
};

/* One eacgm at a time: two would write their stubs to the same place. The lock goes with
 * bring_close. -EBUSY: another has it. */
int bring_lock(struct bring *b, struct err *e);

/* places are of the file that path opens. */
int bring_catch(struct bring *b, struct tracer *t, const char *path, struct err *e);

/* The thread that comes by next is redirected. -EAGAIN when none came in some seconds. */
int bring_redirect_next(struct bring *b, struct err *e);

/* Waits until the library's entry runs. */
int bring_finish(struct bring *b, struct err *e);

void bring_close(struct bring *b);
