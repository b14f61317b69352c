/* launch.h - starts the traced command, but not before the tracer is ready. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/error.h"
#include "session/command_user.h"

struct launch {
	pid_t pid;
	int gate;   /* written to: go */
	int report; /* read from: errno of a failed exec */
	int pidfd;  /* readable when the command has ended; -1 where pidfd_open is missing */
	char path[PATH_MAX]; /* the executable, as its user finds it */
};

/* Forks a child that becomes the user, finds the command as execvp(3) would, and waits at the gate.
 * It has the privileges and limits that this process has now, whatever becomes of them, but of its
 * descriptors none that exec(3) would close. environment: "NAME=VALUE" that it has besides, up to a
 * NULL. */
int launch_prepare(struct launch *l, char **argv, const struct command_user *user,
		   char *const *environment, struct err *e);

/* Opens the gate; fails with the reason when the command cannot be executed. */
int launch_go(struct launch *l, const char *cmd, const struct command_user *user, struct err *e);

/* The exit status as a shell would give it, from wait(2)'s status. */
int launch_exit_status(int wait_status);

/* A child that was let go goes on. */
void launch_close(struct launch *l);

/* Ends a child that still waits at the gate. */
void launch_cancel(struct launch *l);
