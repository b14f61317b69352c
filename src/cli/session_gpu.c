/* session_gpu.c - the thread that asks the GPUs at 10 Hz, beside a recording.
 *
 * Opening NVML can take a second and single questions tens of milliseconds: neither may hold
 * up the loop that follows processes. What is asked how often is the collector's affair. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/session_impl.h"
#include "collect/nvml.h"

#define PERIOD_NS 100000000L

static bool parse_bus(const char *text, struct seen_gpu *ret)
{
	return sscanf(text, "%x:%x:%x", &ret->domain, &ret->bus, &ret->device) == 3;
}

static void remember(struct session *s, const struct gpu_info *info)
{
	struct seen_gpu gpu = {.index = info->index};
	if (info->parent >= 0 || !parse_bus(info->bus_id, &gpu))
		return;
	pthread_mutex_lock(&s->gpu_lock);
	*vec_push(&s->gpus) = gpu;
	pthread_mutex_unlock(&s->gpu_lock);
}

void gpus_xid(struct session *s, const struct rec_xid *xid)
{
	char entity[48], text[320], bus[sizeof(xid->bus) + 1] = "";
	struct seen_gpu at = {0};
	memcpy(bus, xid->bus, sizeof(xid->bus));
	bool known = parse_bus(bus, &at);
	snprintf(entity, sizeof(entity), "gpu at %s", bus);
	pthread_mutex_lock(&s->gpu_lock);
	for (size_t i = 0; i < s->gpus.len && known; i++) { /* a GPU that came back: the last */
		const struct seen_gpu *g = &s->gpus.data[i];
		if (g->domain == at.domain && g->bus == at.bus && g->device == at.device)
			snprintf(entity, sizeof(entity), "gpu %u", g->index);
	}
	pthread_mutex_unlock(&s->gpu_lock);
	snprintf(text, sizeof(text), "%u: %.*s", xid->code, (int)sizeof(xid->text), xid->text);
	pipeline_event(s->pipeline, xid->time_ns, entity, "xid", text);
}

static void on_gpu(void *ctx, const struct gpu_info *info, bool present)
{
	struct session *s = ctx;
	uint64_t now_ns = session_now_ns();
	struct pipeline_gpu gpu = {
		.row = {.index = info->index,
			.parent = info->parent,
			.memory_bytes = info->memory_bytes,
			.power_limit_w = info->power_limit_w,
			.seen_ns = now_ns,
			.gone_ns = present ? 0 : now_ns},
		.uuid = info->uuid,
		.name = info->name,
		.bus_id = info->bus_id,
		.driver = info->driver,
	};
	pipeline_gpu(s->pipeline, &gpu);
	if (present)
		remember(s, info);
}

/* Where the kernel's tracepoint tells of Xid errors, with time and text, NVML need not. */
static void on_event(void *ctx, uint64_t time_ns, uint32_t gpu_index, const char *name,
		     const char *text)
{
	struct session *s = ctx;
	char entity[32];
	if (!strcmp(name, "xid") && tracer_sees_xid(s->tracer))
		return;
	snprintf(entity, sizeof(entity), "gpu %u", gpu_index);
	pipeline_event(s->pipeline, time_ns, entity, name, text);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	struct session *s = ctx;
	pipeline_note(s->pipeline, subject, reason);
}

static void emit(void *ctx, const char *entity, const char *name, double value)
{
	struct session *s = ctx;
	pipeline_counter(s->pipeline, s->gpu_sample_ns, entity, name, value);
}

static bool open_collector(struct session *s)
{
	struct nvml_events events = {.ctx = s, .gpu = on_gpu, .event = on_event, .note = on_note};
	struct collector *c = NULL;
	struct err e = {0};
	if (nvml_open(&c, getenv("EACGM_NVML"), &events, &e)) {
		/* a host without GPUs is not worth a word, unless GPUs were asked for */
		if (s->opts->frequent && s->opts->layers != ~0u)
			pipeline_note(s->pipeline, "gpu", e.msg);
		return false;
	}
	pthread_mutex_lock(&s->gpu_lock);
	for (size_t i = 0; i < s->gpu_pids.len; i++)
		collector_nvml.add_pid(c, s->gpu_pids.data[i]);
	s->gpu = c;
	pthread_mutex_unlock(&s->gpu_lock);
	return true;
}

static void *ask(void *arg)
{
	struct session *s = arg;
	if (!open_collector(s))
		return NULL;
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	while (!atomic_load(&s->stop_gpu)) {
		s->gpu_sample_ns = session_now_ns();
		collector_nvml.sample(s->gpu, s->gpu_sample_ns, emit, s);
		next.tv_nsec += PERIOD_NS;
		if (next.tv_nsec >= 1000000000L) {
			next.tv_nsec -= 1000000000L;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	s->gpu_sample_ns = session_now_ns();
	collector_nvml.sample(s->gpu, s->gpu_sample_ns, emit, s);
	return NULL;
}

void gpus_start(struct session *s)
{
	pthread_mutex_init(&s->gpu_lock, NULL);
	if (s->opts->layers & 1u << LAYER_GPU)
		s->gpus_asked = !pthread_create(&s->gpu_thread, NULL, ask, s);
}

void gpus_stop(struct session *s)
{
	if (!s->gpus_asked)
		return;
	atomic_store(&s->stop_gpu, true);
	pthread_join(s->gpu_thread, NULL);
	s->gpus_asked = false;
	if (s->gpu)
		collector_nvml.close(s->gpu);
	s->gpu = NULL;
	vec_free(&s->gpu_pids);
	vec_free(&s->gpus);
}

void gpus_watch_pid(struct session *s, pid_t pid, bool watched)
{
	if (!s->gpus_asked)
		return;
	pthread_mutex_lock(&s->gpu_lock);
	if (!s->gpu && watched)
		*vec_push(&s->gpu_pids) = pid;
	else if (s->gpu && watched)
		collector_nvml.add_pid(s->gpu, pid);
	else if (s->gpu)
		collector_nvml.del_pid(s->gpu, pid);
	pthread_mutex_unlock(&s->gpu_lock);
}
