/* gpu_tids.c - reads NSpid of a process's threads. */
#include "collect/gpu_tids.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "symbolize/proc_maps.h"

void gpu_tids_open(struct gpu_tids *ret, pid_t pid)
{
	struct stat ours, theirs;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	*ret = (struct gpu_tids){.pid = pid};
	ret->elsewhere = !stat(path, &theirs) && !stat("/proc/self/ns/pid", &ours) &&
			 theirs.st_ino != ours.st_ino;
}

void gpu_tids_free(struct gpu_tids *t)
{
	map64_free(&t->host_of);
}

/* The last number is that of the innermost namespace. */
static bool read_inner(pid_t pid, pid_t tid, uint32_t *ret)
{
	char path[64], line[256];
	const char *last = NULL;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	FILE *f = fopen(path, "re");
	while (f && !last && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6))
			last = strrchr(line, '\t');
	if (f)
		fclose(f);
	return last && sscanf(last, "%u", ret) == 1;
}

static void look(struct gpu_tids *t)
{
	pids_t threads = {0};
	uint32_t inner;
	t->looked = true;
	proc_threads("/proc", t->pid, &threads);
	for (size_t i = 0; i < threads.len; i++)
		if (read_inner(t->pid, threads.data[i], &inner))
			map64_set(&t->host_of, inner, (uint32_t)threads.data[i]);
	vec_free(&threads);
}

uint32_t gpu_tids_host(struct gpu_tids *t, uint32_t tid)
{
	uint64_t host;
	if (!t->elsewhere)
		return tid;
	if (!t->looked && !map64_get(&t->host_of, tid, &host))
		look(t);
	return map64_get(&t->host_of, tid, &host) ? (uint32_t)host : tid;
}
