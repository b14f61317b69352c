/* agent_owners.c - looks processes up by their containers, GPUs by their UUIDs and numbers: each
 * process once for each answer of the runtime, GPUs once a second. */
#include "cli/agent_owners.h"

#include <stdio.h>
#include <string.h>

#include "pods/hpc_jobs.h"
#include "pods/pod_sources.h"

#define GPUS_NS 1000000000ULL

struct agent_owners {
	struct pod_sources *pods; /* NULL: nobody is asked */
	struct hpc_jobs *hpc;	  /* likewise */
	uint64_t gpus_ns;	  /* when GPUs were looked at last */
};

_Static_assert(SERIES_GPU_JOBS >= HPC_JOBS, "a GPU has room for its jobs");

/* ---- processes ---- */

static void name_process(struct live_process *p, const struct pod_names *of)
{
	struct proc_labels *l = &p->labels;
	snprintf(l->pod, sizeof(l->pod), "%s", of->pod);
	snprintf(l->pod_namespace, sizeof(l->pod_namespace), "%s", of->pod_namespace);
	snprintf(l->container_name, sizeof(l->container_name), "%s", of->container);
}

/* p->named: the answer that it was looked up in, plus 1. Whether it is not there, and is new. */
static bool look_up(struct live_process *p, const struct pod_table *t)
{
	struct pod_names room;
	const struct proc_labels *l = &p->labels;
	if (!p->called || p->end_ns || p->named == t->containers_times + 1)
		return false;
	bool is_new = !p->named;
	p->named = t->containers_times + 1;
	if (!l->container[0] && !l->pod_uid[0])
		return false;
	const struct pod_names *of =
		pod_containers_find(&t->containers, l->container, l->pod_uid, &room);
	if (of)
		name_process(p, of);
	return !of && is_new;
}

/* ---- GPUs ---- */

static const struct pod_names *holder_of(const struct pod_table *t, const struct live_gpu_id *g)
{
	char device[40];
	if (!t->devices_ns || !g->uuid[0])
		return NULL;
	const struct pod_names *of = pod_devices_find(&t->devices, g->uuid);
	if (of)
		return of;
	if (g->parent < 0) /* by GKE's plugin */
		snprintf(device, sizeof(device), "nvidia%u", g->index);
	else
		snprintf(device, sizeof(device), "nvidia%d/gi%d", g->parent, g->gpu_instance);
	return pod_devices_find(&t->devices, device);
}

static void name_gpu(struct live_gpu_id *g, const struct pod_names *of)
{
	static const struct pod_names nobody = {.pod = ""};
	of = of ? of : &nobody;
	snprintf(g->pod, sizeof(g->pod), "%s", of->pod);
	snprintf(g->pod_namespace, sizeof(g->pod_namespace), "%s", of->pod_namespace);
	snprintf(g->container, sizeof(g->container), "%s", of->container);
}

static void name_gpus(const struct pod_table *t, struct live_series *s)
{
	bool old = t->devices_ns + POD_OLD_NS < s->now_ns;
	for (size_t i = 0; i < s->gpus.len; i++)
		name_gpu(&s->gpus.data[i], old ? NULL : holder_of(t, &s->gpus.data[i]));
}

static void take_jobs(struct live_gpu_id *g, const struct hpc_table *t)
{
	char name[32];
	g->jobs_len = 0;
	if (g->parent < 0)
		snprintf(name, sizeof(name), "%u", g->index);
	else
		snprintf(name, sizeof(name), "%d.%d", g->parent, g->gpu_instance);
	for (size_t i = 0; i < t->list.len; i++) {
		const struct hpc_gpu *of = &t->list.data[i];
		if (strcmp(of->name, name) != 0)
			continue;
		memcpy(g->jobs, of->jobs, sizeof(of->jobs));
		g->jobs_len = of->n;
		return;
	}
}

static void take_all_jobs(struct hpc_jobs *hpc, struct live_series *s)
{
	const struct hpc_table *t = hpc_jobs_hold(hpc);
	for (size_t i = 0; i < s->gpus.len; i++)
		take_jobs(&s->gpus.data[i], t);
	hpc_jobs_release(hpc);
}

/* ---- all of it ---- */

void agent_owners_tick(struct agent_owners *o, struct live_series *s)
{
	bool gpus_due = s->now_ns - o->gpus_ns >= GPUS_NS, unknown = false;
	if (gpus_due)
		o->gpus_ns = s->now_ns;
	if (gpus_due && o->hpc)
		take_all_jobs(o->hpc, s);
	if (!o->pods)
		return;
	const struct pod_table *t = pod_sources_hold(o->pods);
	for (size_t i = 0; i < s->processes.len; i++)
		unknown |= look_up(&s->processes.data[i], t);
	if (gpus_due)
		name_gpus(t, s);
	pod_sources_release(o->pods);
	if (unknown)
		pod_sources_ask_soon(o->pods);
}

/* ---- culprits ---- */

static void put_name(json_t *o, const char *key, const char *name)
{
	if (name[0])
		json_object_set_new(o, key, json_string(name));
}

void agent_owners_name(struct agent_owners *o, json_t *culprit)
{
	struct pod_names room;
	const char *container = json_string_value(json_object_get(culprit, "container"));
	const char *uid = json_string_value(json_object_get(culprit, "pod_uid"));
	if (!o->pods || (!container && !uid))
		return;
	const struct pod_table *t = pod_sources_hold(o->pods);
	const struct pod_names *of = pod_containers_find(&t->containers, container ? container : "",
							 uid ? uid : "", &room);
	if (of) {
		put_name(culprit, "pod", of->pod);
		put_name(culprit, "namespace", of->pod_namespace);
		put_name(culprit, "container_name", of->container);
	}
	pod_sources_release(o->pods);
	if (!of)
		pod_sources_ask_soon(o->pods);
}

/* ---- its life ---- */

struct agent_owners *agent_owners_new(const struct owners_wanted *w,
				      void (*say)(void *ctx, const char *sentence), void *ctx)
{
	if (!w->kubelet && !w->runtime && !w->hpc_folder)
		return NULL;
	struct agent_owners *o = xcalloc(1, sizeof(*o));
	if (w->kubelet || w->runtime)
		o->pods = pod_sources_new(
			&(struct pod_sources_options){.kubelet = w->kubelet,
						      .runtime = w->runtime,
						      .kubelet_usual = w->kubelet_usual,
						      .runtime_usual = w->runtime_usual,
						      .ctx = ctx,
						      .say = say});
	if (w->hpc_folder)
		o->hpc = hpc_jobs_new(w->hpc_folder, say, ctx);
	return o;
}

int agent_owners_start(struct agent_owners *o, struct err *e)
{
	int rc = o->pods ? pod_sources_start(o->pods, e) : 0;
	return rc || !o->hpc ? rc : hpc_jobs_start(o->hpc, e);
}

void agent_owners_free(struct agent_owners *o)
{
	if (!o)
		return;
	pod_sources_free(o->pods);
	hpc_jobs_free(o->hpc);
	free(o);
}
