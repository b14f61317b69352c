/* session_host.h - hosts a session for a command: signals, memory, environment, privileges. */
#pragma once

#include <signal.h>
#include <stdatomic.h>

#include "session/session.h"

/* What a command wants to be asked or told, each NULL: nothing. On the thread that runs the
 * session. */
struct session_host_hooks {
	void *ctx;
	void (*attached)(void *ctx, const struct session_attached *a);
	void (*ends)(void *ctx); /* its end has begun */
	bool (*hangup)(
		void *ctx); /* SIGHUP: whether the session ends; it does where this is NULL */
};

struct session_host {
	struct session *session;
	struct session_options options; /* as given, and what the environment says */
	int signal_fd;
	sigset_t before;		 /* the signals that were blocked */
	struct session_host_hooks hooks; /* set after session_host_open */
	int interrupts;			 /* Ctrl-C, where there is a command */
	uint64_t interrupted_ns;
	uint64_t trimmed_ns; /* when memory was given back last */
};

/* Forks what is forked and gives up the privileges that a session does not need: to be called while
 * there is one thread. opts say what the session says. On failure there is nothing to close. */
int session_host_open(struct session_host *h, const struct session_options *opts, struct err *e);

/* Until the session ends by itself, SIGINT, SIGTERM or SIGHUP come, or *stop (NULL: none) becomes
 * true. Closes the host in any case. */
int session_host_run(struct session_host *h, const atomic_bool *stop, struct session_result *ret,
		     struct err *e);

/* One that was not run. */
void session_host_close(struct session_host *h);

/* SIGINT, SIGTERM and SIGHUP are for the session alone: no thread that is made from here on ends by
 * them. before: what was blocked. */
void session_host_block_signals(sigset_t *before);
