/* as_user.h - does a piece of work with no more rights on files than a user has.
 *
 * What a process can mount, rename and link in its own view of the file system it can swap at any
 * time: whoever works there with rights that the process lacks may be led anywhere. The work runs
 * in a thread of its own, which has the user's ids for files, no groups and no capabilities, and
 * which ends with it: nothing has to be put back. Signals and ptrace(2) see eacgm's own ids. */
#pragma once

#include <sys/types.h>

struct fs_user {
	uid_t uid;
	gid_t gid;
};

/* Returns what work returned. -ETIMEDOUT when it took longer than five seconds (a file system of
 * the user's may answer to nothing): then ctx is no longer the caller's, and once work has ended
 * after all `drop` is called with it, in the same thread; at the program's end it may never be. */
int as_user(const struct fs_user *user, int (*work)(void *ctx), void *ctx, void (*drop)(void *ctx));
