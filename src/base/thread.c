/* thread.c - a thread inherits what is blocked where it is made. */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/buffer.h"

struct named {
	void *(*run)(void *ctx);
	void *ctx;
	char name[16];
};

/* By itself: from outside a detached thread may be gone. */
static void *run_named(void *arg)
{
	struct named n = *(struct named *)arg;
	free(arg);
	prctl(PR_SET_NAME, n.name);
	return n.run(n.ctx);
}

int thread_start(pthread_t *ret, void *(*run)(void *ctx), void *ctx, const char *name)
{
	sigset_t all, before;
	struct named *n = xcalloc(1, sizeof(*n));
	*n = (struct named){.run = run, .ctx = ctx};
	snprintf(n->name, sizeof(n->name), "%s", name);
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = -pthread_create(ret, NULL, run_named, n);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		free(n);
	return rc;
}
