/* memory_series.c - what session/live_gpu_memory.h knows, with the labels that counters of a
 * process on a GPU have. */
#include "serve/memory_series.h"

#include <stdio.h>

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

static const char *uuid_of(const struct live_series *s, uint32_t index)
{
	for (size_t i = 0; i < s->gpus.len; i++)
		if (s->gpus.data[i].parent < 0 && s->gpus.data[i].index == index)
			return s->gpus.data[i].uuid;
	return NULL;
}

static void write_process(const struct series_sink *x, const struct live_series *s,
			  const struct live_gpu_memory_process *p)
{
	char pid[16], gpu[16], instance[16];
	const struct live_process *of = live_series_process(s, p->pid);
	snprintf(pid, sizeof(pid), "%u", p->pid);
	snprintf(gpu, sizeof(gpu), "%u", p->gpu);
	snprintf(instance, sizeof(instance), "%d", p->instance);
	for (size_t i = 0; i < p->rows.len; i++) {
		const struct label labels[] = {
			{"gpu", p->on_several ? NULL : gpu},
			{"uuid", p->on_several ? NULL : uuid_of(s, p->gpu)},
			{"instance_id", !p->on_several && p->instance >= 0 ? instance : NULL},
			{"pid", pid},
			{"comm", of ? of->comm : NULL},
			{"owner", p->rows.data[i].owner},
		};
		series_sample(x, labels, LEN(labels), (double)p->rows.data[i].bytes);
	}
}

void memory_series_write(const struct series_sink *x, const struct live_series *s)
{
	series_family(
		x, "eacgm_gpu_process_memory_owned_bytes", FAMILY_GAUGE,
		"Device memory of a process by whose code asked for it; (not seen): contexts, "
		"code, and what was there before. Together they are what NVML says.");
	for (size_t i = 0; i < s->gpu_memory.processes.len; i++) {
		const struct live_gpu_memory_process *p = &s->gpu_memory.processes.data[i];
		if (p->told && p->told_ns + SERIES_OLD_NS >= s->now_ns)
			write_process(x, s, p);
	}
}
