/* nvml.c - the GPU collector: decides at each sample what is due, measures what asking it cost,
 * and keeps the sum within the budget of governor.h. What is asked is in nvml_metrics.c. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "collect/numa.h"
#include "collect/nvml_impl.h"
#include "collect/registry.h"

/* How far before its time a question may be asked: the caller's beat is not exact. */
#define EARLY_NS (30 * MS)

#define COUNT_NS  (5 * S)  /* how often GPUs are counted */
#define LIST_NS	  (10 * S) /* how often they, and their MIG instances, are listed */
#define REPORT_NS (1 * S)  /* how often the collector's own cost is told */

/* Where counters are to be read seldom, what is always on and judges none: of a GPU's budget, and
 * for all GPUs together. */
#define SELDOM_SHARE 0.15
#define SELDOM_MOST  0.6

/* Rare questions are first asked one after the other: within a second, or five for those that
 * are wanted every ten. */
#define SPREAD_FROM_NS (500 * MS)

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

struct spent {
	uint64_t cpu_ns, wall_ns;
};

static struct spent read_spent(void)
{
	return (struct spent){read_clock(CLOCK_THREAD_CPUTIME_ID), read_clock(CLOCK_MONOTONIC)};
}

static void pay(struct pace *p, struct spent *last)
{
	struct spent now = read_spent();
	pace_paid(p, now.cpu_ns - last->cpu_ns, now.wall_ns - last->wall_ns);
	*last = now;
}

static void gather_paces(struct nvml *c)
{
	c->paces.len = 0;
	*vec_push(&c->paces) = &c->event_pace;
	*vec_push(&c->paces) = &c->count_pace;
	*vec_push(&c->paces) = &c->list_pace;
	for (size_t i = 0; i < c->devices.len; i++) {
		for (size_t k = 0; k < nvml_metrics_count; k++) {
			struct pace *p = &c->devices.data[i]->tasks[k].pace;
			if (!p->off)
				*vec_push(&c->paces) = p;
		}
	}
}

/* Registering for events anew may lose one that is queued: only when devices changed. */
static void follow_changes(struct nvml *c)
{
	if (c->devices_changed)
		events_register(c);
	if (c->devices_changed || c->paces_changed)
		gather_paces(c);
	c->devices_changed = c->paces_changed = false;
}

uint64_t nvml_period(const struct nvml *c, uint64_t wanted_ns)
{
	return wanted_ns > c->env->period_least_ns ? wanted_ns : c->env->period_least_ns;
}

/* In budgets of a GPU. */
static double budget(const struct nvml *c)
{
	double n = 0;
	for (size_t i = 0; i < c->devices.len; i++)
		n += !c->devices.data[i]->parent && !c->devices.data[i]->lost;
	n = n > 0 ? n : 1;
	return c->env->period_least_ns ? fmin(SELDOM_SHARE * n, SELDOM_MOST) : n;
}

/* All of them in one sample would make it a long one. */
static void spread(struct pace *p, size_t number, uint64_t now_ns)
{
	if (p->last_ns || p->wanted_ns < SPREAD_FROM_NS)
		return;
	uint64_t step_ns = p->wanted_ns < LIST_NS ? 100 * MS : 500 * MS;
	p->last_ns = now_ns - p->wanted_ns + number % 10 * step_ns;
}

static void failed(struct nvml *c, struct device *d, struct task *t, size_t k, int rc,
		   uint64_t now_ns)
{
	if (nvml_means_lost(rc)) {
		device_lost(c, d, rc, now_ns);
		return;
	}
	if (nvml_means_never(rc)) {
		t->unsupported = t->pace.off = true;
		c->paces_changed = true;
		return;
	}
	if (rc == NVML_UNINITIALIZED && !c->restart_ns) /* the driver was unloaded under us */
		c->restart_ns = now_ns + LIST_NS;
	/* 1, 2, 4 ... 64 periods later */
	uint32_t shift = t->failures < 6 ? t->failures : 6;
	t->failures++;
	t->pace.last_ns = now_ns + t->pace.period_ns * ((1ULL << shift) - 1);
	if (t->failures == 3 && !t->noted) {
		note(c, d->info.entity, "%s fails: %s", nvml_metrics[k].name,
		     nvml_text(&c->lib, rc));
		t->noted = true;
	}
}

static void ask_device(struct nvml *c, struct device *d, size_t number, uint64_t now_ns,
		       struct spent *last)
{
	for (size_t k = 0; k < nvml_metrics_count && !d->lost; k++) {
		struct task *t = &d->tasks[k];
		spread(&t->pace, number + k, now_ns);
		if (!pace_due(&t->pace, now_ns, EARLY_NS))
			continue;
		int rc = nvml_metrics[k].ask(c, d, now_ns);
		pay(&t->pace, last);
		if (rc == NVML_OK)
			t->failures = 0;
		else
			failed(c, d, t, k, rc, now_ns);
	}
}

static void look_after_devices(struct nvml *c, uint64_t now_ns, struct spent *last)
{
	if (c->restart_ns && now_ns >= c->restart_ns) {
		devices_restart(c, now_ns);
		*last = read_spent(); /* not a question that could be asked less often */
	}
	if (!c->initialised)
		return;
	if (pace_due(&c->event_pace, now_ns, EARLY_NS)) {
		events_drain(c, now_ns);
		pay(&c->event_pace, last);
	}
	if (pace_due(&c->count_pace, now_ns, EARLY_NS)) {
		c->list_now |= devices_differ(c);
		pay(&c->count_pace, last);
	}
	if (pace_due(&c->list_pace, now_ns, EARLY_NS) || c->list_now) {
		devices_update(c, now_ns);
		devices_note_unsupported(c);
		pay(&c->list_pace, last);
	}
}

static void tell_cost(struct nvml *c, uint64_t now_ns)
{
	if (!c->report_ns) {
		c->report_ns = now_ns;
		c->cpu_reported_ns = c->cpu_ns;
	}
	if (now_ns - c->report_ns < REPORT_NS)
		return;
	double elapsed_ns = (double)(now_ns - c->report_ns);
	sink_counter(c->sink, now_ns, &ENTITY_NAMED(ENTITY_EACGM, ""), "gpu_collector_cpu_ratio",
		     (double)(c->cpu_ns - c->cpu_reported_ns) / elapsed_ns);
	sink_counter(c->sink, now_ns, &ENTITY_NAMED(ENTITY_EACGM, ""),
		     "gpu_collector_stretch_ratio", c->stretch);
	c->report_ns = now_ns;
	c->cpu_reported_ns = c->cpu_ns;
}

static void copy_watched(struct nvml *c)
{
	c->pids.len = 0;
	pthread_mutex_lock(&c->watched.lock);
	for (size_t i = 0; i < c->watched.data.len; i++)
		*vec_push(&c->pids) = c->watched.data.data[i];
	pthread_mutex_unlock(&c->watched.lock);
}

static void nvml_read(void *state, uint64_t now_ns)
{
	struct nvml *c = state;
	struct spent start = read_spent(), last = start;
	c->now_ns = now_ns;
	copy_watched(c);
	look_after_devices(c, now_ns, &last);
	for (size_t i = 0; i < c->devices.len && c->initialised; i++)
		ask_device(c, c->devices.data[i], i * 3, now_ns, &last);
	follow_changes(c);
	c->stretch = governor_plan(c->paces.data, c->paces.len, budget(c));
	c->cpu_ns += read_clock(CLOCK_THREAD_CPUTIME_ID) - start.cpu_ns;
	tell_cost(c, now_ns);
}

static void nvml_add_pid(void *state, pid_t pid, bool is_new)
{
	struct nvml *c = state;
	(void)is_new;
	pthread_mutex_lock(&c->watched.lock);
	*vec_push(&c->watched.data) = pid;
	pthread_mutex_unlock(&c->watched.lock);
}

static void nvml_del_pid(void *state, pid_t pid)
{
	struct nvml *c = state;
	pthread_mutex_lock(&c->watched.lock);
	for (size_t i = c->watched.data.len; i-- > 0;)
		if (c->watched.data.data[i] == pid)
			c->watched.data.data[i] = c->watched.data.data[--c->watched.data.len];
	pthread_mutex_unlock(&c->watched.lock);
}

static void nvml_close(void *state)
{
	struct nvml *c = state;
	devices_note_unsupported(c);
	devices_release(c);
	devices_free(c);
	if (c->initialised)
		c->lib.Shutdown();
	nvml_library_close(&c->lib);
	vec_free(&c->paces);
	vec_free(&c->pids);
	vec_free(&c->watched.data);
	vec_free(&c->processes);
	vec_free(&c->samples);
	numa_free(c->numa);
	pthread_mutex_destroy(&c->watched.lock);
	free(c);
}

static void set_pace(struct pace *p, uint64_t period_ns, uint64_t last_ns)
{
	*p = (struct pace){.wanted_ns = period_ns, .period_ns = period_ns, .last_ns = last_ns};
}

static int nvml_open(void **ret_state, const struct collect_env *env,
		     const struct collect_sink *sink, struct err *e)
{
	struct nvml_library lib = {0};
	int rc = nvml_library_open(&lib, env->nvml_library, e);
	if (rc < 0)
		return rc;
	rc = nvml_start(&lib, e);
	if (rc < 0) {
		nvml_library_close(&lib);
		return rc;
	}
	struct nvml *c = xcalloc(1, sizeof(*c));
	c->lib = lib;
	c->initialised = true;
	c->env = env;
	c->sink = sink;
	pthread_mutex_init(&c->watched.lock, NULL);
	if (ASK(c, SystemGetDriverVersion, c->driver, sizeof(c->driver)) != NVML_OK)
		c->driver[0] = 0;
	uint64_t now_ns = c->now_ns = read_clock(CLOCK_MONOTONIC);
	set_pace(&c->event_pace, nvml_period(c, 100 * MS), 0);
	set_pace(&c->count_pace, COUNT_NS, now_ns);
	set_pace(&c->list_pace, LIST_NS, now_ns);
	devices_update(c, now_ns);
	if (!c->devices.len && !c->count_failed)
		note(c, "gpu", "the NVIDIA driver has no GPU");
	follow_changes(c);
	*ret_state = c;
	return 0;
}

const struct collector collector_nvml = {
	.name = "gpu",
	.layers = LAYER_HAS_GPUS,
	.period_ns = 100 * MS,
	.slow = "NVML",
	.open = nvml_open,
	.add_pid = nvml_add_pid,
	.del_pid = nvml_del_pid,
	.read = nvml_read,
	.close = nvml_close,
};
