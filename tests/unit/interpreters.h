/* interpreters.h - runs a script in every CPython installed here, for tests that compare with
 * what an interpreter says itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpreter_files.h"

/* Prints PY_VERSION_HEX on a line of its own; ends where the version is not supported. */
#define SAY_VERSION                                                                                \
	"import sys\n"                                                                             \
	"print(sys.hexversion, flush=True)\n"                                                      \
	"if not 0x3080000 <= sys.hexversion < 0x30f0000:\n"                                        \
	"    sys.exit()\n"

struct interpreter {
	const char *path;
	pid_t pid;
	uint32_t version; /* PY_VERSION_HEX */
	FILE *out;
	int stdin_fd;
};

/* The script begins with SAY_VERSION. False when the program is no CPython 3.8 to 3.14. */
static inline bool interpreter_start(struct interpreter *ret, const char *path, const char *script)
{
	int in[2], out[2];
	char line[32];

	if (pipe(in) || pipe(out))
		return false;
	*ret = (struct interpreter){.path = path, .pid = fork(), .stdin_fd = in[1]};
	if (ret->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		execl(path, path, "-I", "-W", "ignore", "-c", script, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	ret->out = fdopen(out[0], "r");
	if (!ret->out || !fgets(line, sizeof(line), ret->out))
		return false;
	ret->version = strtoul(line, NULL, 10);
	return ret->version >= 0x03080000 && ret->version < 0x030f0000;
}

static inline void interpreter_stop(struct interpreter *i)
{
	close(i->stdin_fd);
	if (i->out)
		fclose(i->out);
	if (i->pid > 0)
		waitpid(i->pid, NULL, 0);
}

/* Calls check for every interpreter; returns how many there were. */
static inline int interpreters_each(const char *script, void (*check)(struct interpreter *i))
{
	glob_t found = interpreter_files();
	int checked = 0;

	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct interpreter one = {0};

		if (access(found.gl_pathv[i], X_OK) == 0 &&
		    interpreter_start(&one, found.gl_pathv[i], script)) {
			check(&one);
			checked++;
		}
		interpreter_stop(&one);
	}
	globfree(&found);
	return checked;
}
