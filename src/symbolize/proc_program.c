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
#define LINE_BYTES   4096

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

struct line {
	char text[LINE_BYTES];
	size_t len;
	char *words[WORDS_MOST + 1]; /* the first of them */
};

static void read_line(struct line *ret, const char *root, pid_t pid)
{
	char path[256];
	size_t n = 0;
	snprintf(path, sizeof(path), "%s/%d/cmdline", root, pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, ret->text, sizeof(ret->text) - 1);
	if (fd >= 0)
		close(fd);
	ret->len = len > 0 ? (size_t)len : 0;
	ret->text[ret->len] = 0;
	for (char *at = ret->text; at < ret->text + ret->len && n < WORDS_MOST;
	     at += strlen(at) + 1)
		ret->words[n++] = at;
	ret->words[n] = NULL;
}

static char *script_at(const char *root, pid_t pid, int parents)
{
	struct line l;
	read_line(&l, root, pid);
	char *const *words = l.words;
	const char *what = program_worker_of(words);
	return what ? script_of_worker(root, pid, what, parents) : program_script_of(words);
}

char *proc_script(const char *root, pid_t pid)
{
	return script_at(root, pid, 0);
}

char *proc_command_line(const char *root, pid_t pid)
{
	struct line l;
	read_line(&l, root, pid);
	for (int i = 0; i < PARENTS_MOST && program_worker_of(l.words); i++) {
		if (proc_parent(root, pid, &pid))
			break;
		read_line(&l, root, pid);
	}
	while (l.len && !l.text[l.len - 1])
		l.len--;
	for (size_t i = 0; i < l.len; i++)
		l.text[i] = l.text[i] ? l.text[i] : ' ';
	return xstrdup(l.text);
}

char *proc_program(const char *root, pid_t pid)
{
	char comm[16] = "", *script = proc_script(root, pid);
	if (script)
		return script;
	proc_comm(root, pid, pid, comm);
	return xstrdup(comm);
}
