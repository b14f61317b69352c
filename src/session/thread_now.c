/* thread_now.c - reads proc_pid_status(5) and proc_pid_syscall(5) of a thread, and proc_pid_stat(5)
 * of processes. */
#include "session/thread_now.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_of(const char *proc, pid_t pid, pid_t tid, const char *name)
{
	char *path = xasprintf("%s/%d/task/%d/%s", proc, pid, tid, name);
	FILE *f = fopen(path, "re");
	free(path);
	return f;
}

/* What a system call has open that it is about. */
static enum wait_reason reason_of_file(const char *proc, pid_t pid, unsigned long fd)
{
	char *path = xasprintf("%s/%d/fd/%lu", proc, pid, fd), to[256];
	ssize_t n = readlink(path, to, sizeof(to) - 1);
	free(path);
	to[n > 0 ? n : 0] = 0;
	if (!strncmp(to, "socket:", 7))
		return WAIT_NETWORK;
	if (!strncmp(to, "pipe:", 5))
		return WAIT_PIPE;
	if (!strncmp(to, "/dev/nvidia", 11))
		return WAIT_GPU;
	return to[0] == '/' && strncmp(to, "/dev/", 5) != 0 ? WAIT_DISK : WAIT_OTHER;
}

/* "230 0x0 0x0 ...": its number and arguments; "-1 ..." amid none. */
static enum wait_reason reason_now(const char *proc, pid_t pid, pid_t tid, char state)
{
	long number = -1;
	unsigned long first = 0;
	FILE *f = open_of(proc, pid, tid, "syscall");
	int n = f ? fscanf(f, "%ld %lx", &number, &first) : 0;
	if (f)
		fclose(f);
	enum wait_reason other = state == 'D' ? WAIT_DISK : WAIT_OTHER;
	if (n < 2 || number < 0 || number >= WAIT_SYSCALLS)
		return other;
	unsigned reason = wait_of_syscall[number];
	if (reason == WAIT_BY_FILE)
		reason = reason_of_file(proc, pid, first);
	return reason == WAIT_OTHER ? other : (enum wait_reason)reason;
}

/* All threads'. A process may call itself anything: its name ends with the last ')'. */
static uint64_t cpu_of(const char *proc, uint32_t pid)
{
	char text[1024];
	unsigned long long user = 0, system = 0;
	char *path = xasprintf("%s/%u/stat", proc, pid);
	FILE *f = fopen(path, "re");
	free(path);
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	const char *end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			   &system) != 2)
		return 0;
	return (user + system) * 1000000000ULL / (unsigned long long)sysconf(_SC_CLK_TCK);
}

int thread_now_read(struct thread_now *ret, const char *proc, const struct standing_process *p,
		    const uint32_t *children)
{
	char line[256];
	unsigned long long switches;
	pid_t pid = (pid_t)p->pid, tid = (pid_t)p->tid;
	*ret = (struct thread_now){.time_ns = monotonic_ns()};
	FILE *f = open_of(proc, pid, tid, "status");
	if (!f)
		return -ENOENT;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "State: %c", &ret->state) == 1)
			continue;
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &switches) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %llu", &switches) == 1)
			ret->switches += switches;
	}
	fclose(f);
	if (!ret->state)
		return -ENOENT;
	ret->reason = reason_now(proc, pid, tid, ret->state);
	ret->cpu_ns = cpu_of(proc, p->pid);
	for (size_t i = 0; i < p->children; i++)
		ret->cpu_ns += cpu_of(proc, children[p->first_child + i]);
	return 0;
}
