/* nvml_others.c - which processes that are not watched came to a GPU and which went, each once,
 * with their names, so that one who takes its time from a job can be named. How much they use
 * together is told by nvml_processes.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/other_process.h"
#include "collect/nvml_impl.h"

/* A GPU that more share is nobody's in particular. */
#define OTHERS_MOST 64
#define NAME_BYTES  64

/* "" where it cannot be seen: it has ended, or is in another process-id namespace. */
static void name_of(char ret[NAME_BYTES], const struct nvml *c, uint32_t pid)
{
	char *path = xasprintf("%s/%u/comm", c->env->proc_root, pid);
	FILE *f = fopen(path, "re");
	free(path);
	ret[0] = 0;
	if (!f)
		return;
	if (!fgets(ret, NAME_BYTES, f))
		ret[0] = 0;
	ret[strcspn(ret, "\n")] = 0;
	fclose(f);
}

static void tell_other(struct nvml *c, const struct device *d, uint32_t pid, const char *event,
		       const char *text)
{
	struct entity of = entity_of(d, pid);
	sink_event(c->sink, c->now_ns, &of, event, text);
}

static bool has(const struct device *d, uint32_t pid)
{
	for (size_t i = 0; i < d->others.len; i++)
		if (d->others.data[i] == pid)
			return true;
	return false;
}

static bool is_among(const uint32_t *pids, size_t n, uint32_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

void tell_others(struct nvml *c, struct device *d, const uint32_t *pids, size_t n)
{
	for (size_t i = d->others.len; i-- > 0;) {
		uint32_t pid = d->others.data[i];
		if (is_among(pids, n, pid))
			continue;
		tell_other(c, d, pid, OTHER_PROCESS_ENDS, "");
		d->others.data[i] = d->others.data[--d->others.len];
	}
	for (size_t i = 0; i < n && d->others.len < OTHERS_MOST; i++) {
		char name[NAME_BYTES];
		if (!pids[i] || has(d, pids[i]))
			continue;
		name_of(name, c, pids[i]);
		tell_other(c, d, pids[i], OTHER_PROCESS_BEGINS, name);
		*vec_push(&d->others) = pids[i];
	}
}
