/* as_user.c - a thread that becomes a user, by the system calls that change one thread alone. */
#include "base/as_user.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/thread.h"

#define PATIENCE_S 5

struct errand {
	struct fs_user user;
	int (*work)(void *ctx);
	void *ctx;
	void (*drop)(void *ctx);
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool done, left; /* under lock; left: the caller waits no longer */
	int rc;
};

/* glibc's setgroups(2) is for all threads, and it has no capset(2). To ask for the id -1 changes
 * nothing and tells what it is. */
static bool become(const struct fs_user *u)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	static const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
	if (syscall(SYS_setgroups, 0, NULL))
		return false;
	setfsgid(u->gid);
	setfsuid(u->uid);
	return (gid_t)setfsgid((gid_t)-1) == u->gid && (uid_t)setfsuid((uid_t)-1) == u->uid &&
	       !syscall(SYS_capset, &header, none);
}

static void free_errand(struct errand *e)
{
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->wake);
	free(e);
}

static void *run(void *arg)
{
	struct errand *e = arg;
	int rc = become(&e->user) ? e->work(e->ctx) : -EPERM;
	pthread_mutex_lock(&e->lock);
	bool left = e->left;
	e->rc = rc;
	e->done = true;
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->lock);
	if (left) {
		e->drop(e->ctx);
		free_errand(e);
	}
	return NULL;
}

static int start_detached(struct errand *e)
{
	pthread_t thread;
	int rc = thread_start(&thread, run, e, "eacgm-as-user");
	if (!rc)
		pthread_detach(thread);
	return rc;
}

/* False when it was not done in time, and is the thread's from now on. */
static bool wait_for(struct errand *e)
{
	struct timespec until;
	int rc = 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&e->lock);
	while (!e->done && !rc)
		rc = pthread_cond_clockwait(&e->wake, &e->lock, CLOCK_MONOTONIC, &until);
	bool done = e->done;
	e->left = !done;
	pthread_mutex_unlock(&e->lock);
	return done;
}

int as_user(const struct fs_user *user, int (*work)(void *ctx), void *ctx, void (*drop)(void *ctx))
{
	struct errand *e = xcalloc(1, sizeof(*e));
	e->user = *user;
	e->work = work;
	e->ctx = ctx;
	e->drop = drop;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->wake, NULL);
	int rc = start_detached(e);
	if (!rc && !wait_for(e))
		return -ETIMEDOUT;
	if (!rc) /* there is one meaning of -ETIMEDOUT */
		rc = e->rc == -ETIMEDOUT ? -EIO : e->rc;
	free_errand(e);
	return rc;
}
