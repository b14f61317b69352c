/* session_jobs.c - which processes are jobs: those that have mapped a file that has probes. Where a
 * session is on every process, these alone have counters of their own: to read /proc for all of a
 * host several times a second would cost more than to trace its jobs.
 *
 * Files are told by the last part of their names, since containers have others before it. */
#include <string.h>

#include "session/session_impl.h"

#define FILES_MOST 4096
#define LOOK_TICKS 20

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool is_probed(const struct jobs *j, const char *path)
{
	const char *name = last_part(path);
	for (size_t i = 0; i < j->files.len; i++)
		if (!strcmp(j->files.data[i], name))
			return true;
	return false;
}

/* Processes that had it before it had probes are looked at again. */
void jobs_probe(struct session *s, const char *library)
{
	struct jobs *j = &s->jobs;
	if (!s->opts->jobs_alone || j->files.len >= FILES_MOST || is_probed(j, library))
		return;
	*vec_push(&j->files) = xstrdup(last_part(library));
	for (size_t i = 0; i < s->live.len; i++)
		jobs_maps(s, s->live.data[i]);
}

void jobs_maps(struct session *s, pid_t pid)
{
	struct jobs *j = &s->jobs;
	if (!s->opts->jobs_alone)
		return;
	for (size_t i = 0; i < j->changed.len; i++)
		if (j->changed.data[i] == pid)
			return;
	*vec_push(&j->changed) = pid;
}

static bool has_probes(const struct jobs *j, pid_t pid)
{
	proc_maps_t maps = {0};
	struct err gone;
	bool yes = false;
	if (!proc_code_read("/proc", pid, &maps, &gone))
		for (size_t i = 0; i < maps.len && !yes; i++)
			yes = maps.data[i].inode && is_probed(j, maps.data[i].path);
	proc_maps_free(&maps);
	return yes;
}

void jobs_look(struct session *s, unsigned tick)
{
	struct jobs *j = &s->jobs;
	uint64_t ignored;
	if (tick % LOOK_TICKS)
		return;
	for (size_t i = 0; j->files.len && i < j->changed.len; i++) {
		pid_t pid = j->changed.data[i];
		if (map64_get(&j->counted, (uint64_t)pid, &ignored) ||
		    !session_is_watched(s, pid) || rules_leave_alone(s, pid) || !has_probes(j, pid))
			continue;
		map64_set(&j->counted, (uint64_t)pid, 1);
		collectors_add_pid(s->collectors, pid, false);
	}
	j->changed.len = 0;
}

bool jobs_has(const struct session *s, pid_t pid)
{
	uint64_t ignored;
	return !s->opts->jobs_alone || map64_get(&s->jobs.counted, (uint64_t)pid, &ignored);
}

void jobs_gone(struct session *s, pid_t pid)
{
	map64_del(&s->jobs.counted, (uint64_t)pid);
}

void jobs_free(struct session *s)
{
	for (size_t i = 0; i < s->jobs.files.len; i++)
		free(s->jobs.files.data[i]);
	vec_free(&s->jobs.files);
	vec_free(&s->jobs.changed);
	map64_free(&s->jobs.counted);
}
