/* launch.h - starts the traced command, but not before the tracer is ready. */
#pragma once

#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

/* What the command is to find as it was, whatever eacgm sets for itself. */
struct launch_limits {
	struct rlimit files, memlock;
};
void launch_save_limits(struct launch_limits *ret);

struct launch {
	pid_t pid;
	int gate;   /* written to: go */
	int report; /* read from: errno of a failed exec */
	int pidfd;  /* readable when the command has ended; -1 where pidfd_open is missing */
};

/* Finds the command as execvp(3) would; the path of the executable. */
int launch_find(const char *cmd, char *ret, size_t size, struct err *e);

/* Forks a child that waits at the gate. */
int launch_prepare(struct launch *l, char **argv, const struct launch_limits *limits,
		   struct err *e);

/* Opens the gate; fails with the reason when the command cannot be executed. */
int launch_go(struct launch *l, const char *cmd, struct err *e);

/* The exit status as a shell would give it, from wait(2)'s status. */
int launch_exit_status(int wait_status);

/* Ends a child that still waits at the gate. */
void launch_cancel(struct launch *l);
