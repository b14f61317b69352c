/* proc_program.c - reads command lines of processes, and of their parents where those say more. */
#include "symbolize/proc_program.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/program_name.h"
#include "symbolize/proc_maps.h"

#define WORDS_MOST   32 /* of a command line: its script is one of the first */
#define PARENTS_MOST 4

/* A worker of workers of ... */
static char *script_at(const char *root, pid_t pid, int parents);

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);
	return len >= n && !strcmp(text + len - n, end);
}

/* "train.py, spawn worker": a forkserver's child has its command line as well. */
static char *script_of_worker(const char *root, pid_t pid, const char *what, int parents)
{
	pid_t parent = 0;
	if (parents == PARENTS_MOST || proc_parent(root, pid, &parent))
		return NULL;
	char *script = script_at(root, parent, parents + 1), *ret = NULL;
	if (script && ends_with(script, PROC_FORKSERVER))
		ret = xasprintf("%s worker", script);
	else if (script)
		ret = xasprintf("%s, %s", script, what);
	free(script);
	return ret;
}

static char *script_at(const char *root, pid_t pid, int parents)
{
	char path[256], text[4096], *words[WORDS_MOST + 1] = {NULL};
	size_t n = 0;
	snprintf(path, sizeof(path), "%s/%d/cmdline", root, pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = 0;
	for (char *at = text; at < text + len && n < WORDS_MOST; at += strlen(at) + 1)
		words[n++] = at;
	const char *what = program_worker_of(words);
	return what ? script_of_worker(root, pid, what, parents) : program_script_of(words);
}

char *proc_script(const char *root, pid_t pid)
{
	return script_at(root, pid, 0);
}

char *proc_program(const char *root, pid_t pid)
{
	char comm[16] = "", *script = proc_script(root, pid);
	if (script)
		return script;
	proc_comm(root, pid, pid, comm);
	return xstrdup(comm);
}
