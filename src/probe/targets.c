/* targets.c - a list of files a process. */
#include "probe/targets.h"

#include <errno.h>
#include <signal.h>

static mapped_files_t *files_of(const struct targets *ts, pid_t pid)
{
	uint64_t list;
	return map64_get(&ts->by_pid, (uint64_t)pid, &list) ? (mapped_files_t *)list : NULL;
}

bool targets_known(const struct targets *ts, pid_t pid)
{
	return files_of(ts, pid) != NULL;
}

void targets_ended_unseen(const struct targets *ts, pids_t *ret)
{
	uint64_t pid, list;
	for (size_t at = 0; map64_next(&ts->by_pid, &at, &pid, &list);)
		if (kill((pid_t)pid, 0) && errno == ESRCH)
			*vec_push(ret) = (pid_t)pid;
}

bool targets_has(const struct targets *ts, pid_t pid, const struct probed_file *f)
{
	const mapped_files_t *list = files_of(ts, pid);
	for (size_t i = 0; list && i < list->len; i++)
		if (list->data[i] == f)
			return true;
	return false;
}

bool targets_probed(const struct targets *ts, pid_t pid)
{
	const mapped_files_t *list = files_of(ts, pid);
	for (size_t i = 0; list && i < list->len; i++)
		if (files_has_probes(list->data[i]))
			return true;
	return false;
}

void targets_ended(struct targets *ts, struct files *fs, pid_t pid)
{
	mapped_files_t *list = files_of(ts, pid);
	if (!list)
		return;
	for (size_t i = 0; i < list->len; i++)
		files_unuse(fs, list->data[i]);
	vec_free(list);
	free(list);
	map64_del(&ts->by_pid, (uint64_t)pid);
}

void targets_set(struct targets *ts, struct files *fs, pid_t pid, mapped_files_t *files)
{
	mapped_files_t *list = xcalloc(1, sizeof(*list));
	for (size_t i = 0; i < files->len; i++)
		files_use(fs, files->data[i]);
	targets_ended(ts, fs, pid); /* what it had */
	*list = *files;
	*files = (mapped_files_t){0};
	map64_set(&ts->by_pid, (uint64_t)pid, (uint64_t)list);
}

bool targets_forked(struct targets *ts, struct files *fs, pid_t parent, pid_t child)
{
	const mapped_files_t *of_parent = files_of(ts, parent);
	mapped_files_t copy = {0};
	if (!of_parent)
		return false;
	for (size_t i = 0; i < of_parent->len; i++)
		*vec_push(&copy) = of_parent->data[i];
	targets_set(ts, fs, child, &copy);
	return true;
}

void targets_free(struct targets *ts)
{
	size_t at = 0;
	uint64_t pid, list;
	while (map64_next(&ts->by_pid, &at, &pid, &list)) {
		vec_free((mapped_files_t *)list);
		free((mapped_files_t *)list);
	}
	map64_free(&ts->by_pid);
}
