/* session_gpu.c - the thread that asks the GPUs at 10 Hz, beside a recording.
 *
 * Opening NVML can take a second and single questions tens of milliseconds: neither may hold
 * up the loop that follows processes. What is asked how often is the collector's affair. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "session/session_impl.h"
#include "collect/nvml.h"

#define PERIOD_NS  100000000L
#define PATIENCE_S 2 /* for a question to be answered, at the end */

static bool parse_bus(const char *text, struct seen_gpu *ret)
{
	return sscanf(text, "%x:%x:%x", &ret->domain, &ret->bus, &ret->device) == 3;
}

static void remember(struct session *s, const struct gpu_info *info)
{
	struct seen_gpu gpu = {.index = info->index};
	if (info->parent < 0 && parse_bus(info->bus_id, &gpu))
		*vec_push(&s->gpus) = gpu;
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

/* A driver that hangs keeps this thread in a question after the session's end: what it then
 * learns goes nowhere. True with the lock held, until told(). */
static bool may_tell(struct session *s)
{
	pthread_mutex_lock(&s->gpu_lock);
	if (!s->gpu_abandoned)
		return true;
	pthread_mutex_unlock(&s->gpu_lock);
	return false;
}

static void told(struct session *s)
{
	pthread_mutex_unlock(&s->gpu_lock);
}

static void on_gpu(void *ctx, const struct gpu_info *info, bool present)
{
	struct session *s = ctx;
	/* of the sample that noticed it: its counters have that time */
	uint64_t now_ns = s->gpu_sample_ns ? s->gpu_sample_ns : monotonic_ns();
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
	if (!may_tell(s))
		return;
	pipeline_gpu(s->pipeline, &gpu);
	s->saw_gpu = true;
	if (present)
		remember(s, info);
	told(s);
}

/* Where the kernel's tracepoint tells of Xid errors, with time and text, NVML need not. */
static void on_event(void *ctx, uint64_t time_ns, uint32_t gpu_index, const char *name,
		     const char *text)
{
	struct session *s = ctx;
	char entity[32];
	if (!strcmp(name, "xid") && s->xid_traced)
		return;
	snprintf(entity, sizeof(entity), "gpu %u", gpu_index);
	if (!may_tell(s))
		return;
	pipeline_event(s->pipeline, time_ns, entity, name, text);
	told(s);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	struct session *s = ctx;
	if (!may_tell(s))
		return;
	pipeline_note(s->pipeline, subject, reason);
	told(s);
}

static void emit(void *ctx, const char *entity, const char *name, double value)
{
	struct session *s = ctx;
	if (!may_tell(s))
		return;
	pipeline_counter(s->pipeline, s->gpu_sample_ns, entity, name, value);
	told(s);
}

static bool open_collector(struct session *s)
{
	struct nvml_events events = {.ctx = s, .gpu = on_gpu, .event = on_event, .note = on_note};
	struct collector *c = NULL;
	struct err e = {0};
	if (nvml_open(&c, s->opts->nvml_path, &events, &e)) {
		/* a host without GPUs is not worth a word, unless GPUs were asked for */
		if (s->opts->frequent && s->opts->layers != ~0u)
			on_note(s, "gpu", e.msg);
		return false;
	}
	pthread_mutex_lock(&s->gpu_lock);
	for (size_t i = 0; i < s->gpu_pids.len; i++)
		collector_nvml.add_pid(c, s->gpu_pids.data[i]);
	s->gpu = c;
	pthread_mutex_unlock(&s->gpu_lock);
	return true;
}

/* Until the time, or until the session ends: true. */
static bool wait_until(struct session *s, const struct timespec *when)
{
	pthread_mutex_lock(&s->gpu_lock);
	while (!s->stop_gpu &&
	       !pthread_cond_clockwait(&s->gpu_wake, &s->gpu_lock, CLOCK_MONOTONIC, when))
		;
	bool stop = s->stop_gpu;
	pthread_mutex_unlock(&s->gpu_lock);
	return stop;
}

static void sample(struct session *s)
{
	s->gpu_sample_ns = monotonic_ns();
	collector_nvml.sample(s->gpu, s->gpu_sample_ns, emit, s);
}

static void *ask(void *arg)
{
	struct session *s = arg;
	if (!open_collector(s))
		return NULL;
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	do {
		sample(s);
		next.tv_nsec += PERIOD_NS;
		if (next.tv_nsec >= 1000000000L) {
			next.tv_nsec -= 1000000000L;
			next.tv_sec++;
		}
	} while (!wait_until(s, &next));
	sample(s);
	pthread_mutex_lock(&s->gpu_lock);
	struct collector *c = s->gpu;
	s->gpu = NULL;
	pthread_mutex_unlock(&s->gpu_lock);
	collector_nvml.close(c);
	return NULL;
}

void gpus_start(struct session *s)
{
	pthread_mutex_init(&s->gpu_lock, NULL);
	pthread_cond_init(&s->gpu_wake, NULL);
	if (!(s->opts->layers & layers_with(LAYER_HAS_GPUS)))
		return;
	tracer_watch_xid(s->tracer);
	s->xid_traced = tracer_sees_xid(s->tracer);
	s->gpus_asked = !thread_start(&s->gpu_thread, ask, s);
}

void gpus_stop(struct session *s)
{
	if (!s->gpus_asked)
		return;
	s->gpus_asked = false;
	tracer_unwatch_xid(s->tracer);
	pthread_mutex_lock(&s->gpu_lock);
	s->stop_gpu = true;
	pthread_cond_signal(&s->gpu_wake);
	pthread_mutex_unlock(&s->gpu_lock);
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_S;
	if (!pthread_clockjoin_np(s->gpu_thread, NULL, CLOCK_MONOTONIC, &until)) {
		vec_free(&s->gpu_pids);
		vec_free(&s->gpus);
		return;
	}
	pthread_detach(s->gpu_thread);
	pthread_mutex_lock(&s->gpu_lock);
	s->gpu_abandoned = true;
	pthread_mutex_unlock(&s->gpu_lock);
	pipeline_note(s->pipeline, "gpu", "NVML did not answer at the end: telemetry is cut short");
}

void gpus_watch_pid(struct session *s, pid_t pid, bool watched)
{
	if (!s->gpus_asked)
		return;
	pthread_mutex_lock(&s->gpu_lock);
	if (s->gpu && watched)
		collector_nvml.add_pid(s->gpu, pid);
	else if (s->gpu)
		collector_nvml.del_pid(s->gpu, pid);
	else if (watched)
		*vec_push(&s->gpu_pids) = pid;
	for (size_t i = s->gpu_pids.len; !s->gpu && !watched && i-- > 0;)
		if (s->gpu_pids.data[i] == pid)
			s->gpu_pids.data[i] = s->gpu_pids.data[--s->gpu_pids.len];
	pthread_mutex_unlock(&s->gpu_lock);
}
