/* command_user.h - the user that a command runs as: who called eacgm through sudo, doas or pkexec,
 * or who -u names. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct command_user {
	bool changes; /* the command runs as this user; else as eacgm does, and the rest is empty */
	uid_t uid;
	gid_t gid;
	char *name, *home, *shell;
	gid_t *groups; /* gid too */
	int groups_len;
};

/* wanted: a name or a number; NULL: who called. free is due in any case. */
int command_user_find(struct command_user *ret, const char *wanted, struct err *e);
void command_user_free(struct command_user *u);

/* Makes this process, which has one thread, run as that user, with the environment that sudo
 * changed as the user has it. 0, or a negative errno. */
int command_user_become(const struct command_user *u);
