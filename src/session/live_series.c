/* live_series.c - keeps the last value of what comes, by what it is of. */
#include "session/live_series.h"

#include <stdio.h>
#include <string.h>

#include "base/entity.h"
#include "base/map64.h"
#include "session/live_names.h"

#define OTHER "(other)"

static uint64_t mix(uint64_t a, uint64_t b)
{
	return hash_u64(hash_u64(a) ^ b);
}

/* ---- processes ---- */

static struct live_process *process_of(struct live_series *s, uint32_t pid)
{
	uint64_t at;
	return map64_get(&s->process_of, pid, &at) ? &s->processes.data[at] : NULL;
}

const struct live_process *live_series_process(const struct live_series *s, uint32_t pid)
{
	uint64_t at;
	return map64_get(&s->process_of, pid, &at) ? &s->processes.data[at] : NULL;
}

static void take_process(struct live_series *s, const struct session_view *v,
			 const struct m_process *row)
{
	struct live_process *p = process_of(s, row->pid);
	bool again = p && p->start_ns != row->start_ns; /* another of its number */
	if (!p) {
		if (s->processes.len >= SERIES_PROCESSES) {
			s->left_out++;
			return;
		}
		map64_set(&s->process_of, row->pid, s->processes.len);
		p = vec_push(&s->processes);
	}
	bool called = p->called && !again;
	struct proc_labels labels = p->labels;
	uint64_t named = again ? 0 : p->named;
	*p = (struct live_process){.pid = row->pid,
				   .parent = row->parent_pid,
				   .rank = row->rank,
				   .start_ns = row->start_ns,
				   .end_ns = row->end_ns,
				   .called = called,
				   .labels = labels,
				   .named = named};
	snprintf(p->comm, sizeof(p->comm), "%s", live_string(v, row->comm));
	snprintf(p->script, sizeof(p->script), "%s", live_string(v, row->script));
}

/* Those that have ended, with what they called. */
static void forget_ended(struct live_series *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->processes.len; i++) {
		struct live_process *p = &s->processes.data[i];
		if (!p->end_ns || p->end_ns + SERIES_OLD_NS > s->now_ns)
			s->processes.data[kept++] = *p;
	}
	if (kept == s->processes.len)
		return;
	s->processes.len = kept;
	map64_free(&s->process_of);
	for (size_t i = 0; i < kept; i++)
		map64_set(&s->process_of, s->processes.data[i].pid, i);
	kept = 0;
	for (size_t i = 0; i < s->functions.len; i++)
		if (process_of(s, s->functions.data[i].pid))
			s->functions.data[kept++] = s->functions.data[i];
	s->functions.len = kept;
	map64_free(&s->function_of);
	map64_free(&s->named);
	for (size_t i = 0; i < kept; i++) {
		const struct live_function *f = &s->functions.data[i];
		uint64_t key = mix(f->pid, hash_bytes(f->layer, strlen(f->layer)));
		map64_set(&s->named, mix(key, hash_bytes(f->name, strlen(f->name))), i);
	}
	live_work_forget(&s->work, s);
	live_collectives_forget(&s->collectives, s);
}

/* ---- calls ---- */

/* The place of a function by its names; what finds none is added to that of all others of its layer
 * in its process, for which there is room always. */
static size_t place_named(struct live_series *s, uint32_t pid, const char *layer, const char *name)
{
	uint64_t of_layer = mix(pid, hash_bytes(layer, strlen(layer))), at;
	uint64_t key = mix(of_layer, hash_bytes(name, strlen(name)));
	if (map64_get(&s->named, key, &at))
		return at;
	if (s->functions.len >= SERIES_FUNCTIONS && strcmp(name, OTHER)) {
		s->left_out++;
		return place_named(s, pid, layer, OTHER);
	}
	map64_set(&s->named, key, s->functions.len);
	struct live_function *f = vec_push(&s->functions);
	f->pid = pid;
	snprintf(f->layer, sizeof(f->layer), "%s", layer);
	snprintf(f->name, sizeof(f->name), "%s", name);
	return s->functions.len - 1;
}

/* Numbers are the session's: a name has several, one for each place that is probed. ret_arg: which
 * of a call's arguments says of how many bytes it is, -1: none. */
static struct live_function *function_of(struct live_series *s, const struct session_view *v,
					 uint32_t pid, const struct m_probe *probe,
					 const struct m_call *c, int *ret_arg)
{
	char layer[LAYER_NAME_BYTES], name[SERIES_NAME];
	uint64_t named = live_name_value(probe, c), at;
	uint64_t key = mix(mix(pid, c->probe), named);
	if (!map64_get(&s->function_of, key, &at)) {
		snprintf(layer, sizeof(layer), "%s", live_string(v, probe->layer));
		live_function_name(v, probe, named, name, sizeof(name));
		at = place_named(s, pid, layer, name) << 8 |
		     (uint64_t)(live_bytes_arg(v, probe) + 1);
		if (s->function_of.len >= 4 * SERIES_FUNCTIONS)
			map64_free(&s->function_of);
		map64_set(&s->function_of, key, at);
	}
	*ret_arg = (int)(at & 0xff) - 1;
	return &s->functions.data[at >> 8];
}

/* Of functions that are summed it would be of some alone. */
static void take_bytes(struct live_function *f, const struct m_call *c, int arg)
{
	if (arg < 0 || arg >= c->nargs || !strcmp(f->name, OTHER))
		return;
	f->sized = true;
	f->bytes += c->flags & CALL_ERROR ? 0 : c->args[arg];
}

static void take_calls(struct live_series *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->calls.len; i++) {
		const struct m_call *c = &v->batch->calls.data[i];
		const struct m_probe *probe = v->names->probe(v->names->ctx, c->probe);
		const struct m_thread *thread = v->names->thread(v->names->ctx, c->thread);
		struct live_process *p = thread ? process_of(s, thread->pid) : NULL;
		if (!probe || !p)
			continue;
		if (!p->called) {
			proc_labels_read(&p->labels, "/proc", (pid_t)p->pid, s->chosen);
			p->named = 0;
		}
		p->called = true;
		int arg;
		struct live_function *f = function_of(s, v, p->pid, probe, c, &arg);
		f->calls++;
		f->errors += (c->flags & CALL_ERROR) != 0;
		f->ns += c->flags & CALL_NESTED ? 0 : (double)c->dur_ns;
		take_bytes(f, c, arg);
	}
}

/* ---- counters ---- */

static struct live_metric *place_of_metric(struct live_series *s)
{
	if (s->free_metrics.len)
		return &s->metrics.data[s->free_metrics.data[--s->free_metrics.len]];
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room has data */
	return s->metrics.len < SERIES_METRICS ? vec_push(&s->metrics) : NULL;
}

static struct live_metric *metric_of_row(struct live_series *s, const struct session_view *v,
					 uint32_t number)
{
	uint64_t at;
	if (map64_get(&s->metric_of, number, &at))
		return &s->metrics.data[at];
	const struct m_metric *row = v->names->metric(v->names->ctx, number);
	struct live_metric *m = row ? place_of_metric(s) : NULL;
	if (!m) {
		s->left_out += row != NULL;
		return NULL;
	}
	*m = (struct live_metric){.kind = row->kind,
				  .unit = row->unit,
				  .there = true,
				  .pid = row->pid,
				  .gpu = row->gpu,
				  .instance = row->instance,
				  .label = xstrdup(live_string(v, row->label)),
				  .name = xstrdup(live_string(v, row->name))};
	map64_set(&s->metric_of, number, (uint64_t)(m - s->metrics.data));
	return m;
}

static void take_counters(struct live_series *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->counters.len; i++) {
		const struct m_counter *c = &v->batch->counters.data[i];
		struct live_metric *m = metric_of_row(s, v, c->metric);
		if (!m)
			continue;
		m->value = c->value;
		m->time_ns = c->time_ns;
	}
}

static void forget_metrics(struct live_series *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->metrics_gone.len; i++) {
		uint64_t at;
		if (!map64_get(&s->metric_of, v->batch->metrics_gone.data[i], &at))
			continue;
		free(s->metrics.data[at].label);
		free(s->metrics.data[at].name);
		s->metrics.data[at] = (struct live_metric){0};
		*vec_push(&s->free_metrics) = (uint32_t)at;
		map64_del(&s->metric_of, v->batch->metrics_gone.data[i]);
	}
}

/* ---- GPUs ---- */

static struct live_gpu_id *gpu_of(struct live_series *s, uint32_t index, int32_t parent)
{
	for (size_t i = 0; i < s->gpus.len; i++)
		if (s->gpus.data[i].index == index && s->gpus.data[i].parent == parent)
			return &s->gpus.data[i];
	if (s->gpus.len >= SERIES_GPUS)
		return NULL;
	struct live_gpu_id *g = vec_push(&s->gpus);
	g->index = index;
	g->parent = parent;
	return g;
}

static void take_gpus(struct live_series *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->gpus.len; i++) {
		const struct m_gpu *row = &v->batch->gpus.data[i];
		struct live_gpu_id *g = gpu_of(s, row->index, row->parent);
		if (!g)
			continue;
		g->gone = row->gone_ns != 0;
		g->gpu_instance = row->gpu_instance;
		snprintf(g->uuid, sizeof(g->uuid), "%s", live_string(v, row->uuid));
		snprintf(g->name, sizeof(g->name), "%s", live_string(v, row->name));
		snprintf(g->bus_id, sizeof(g->bus_id), "%s", live_string(v, row->bus_id));
		snprintf(g->driver, sizeof(g->driver), "%s", live_string(v, row->driver));
	}
}

static void take_xids(struct live_series *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->events.len; i++) {
		const struct m_event *row = &v->batch->events.data[i];
		struct entity of;
		if (strcmp(live_string(v, row->name), "xid"))
			continue;
		entity_parse(&of, live_string(v, row->entity));
		struct live_gpu_id *g = of.kind == ENTITY_GPU ? gpu_of(s, of.gpu, -1) : NULL;
		if (g)
			g->xid = (int32_t)strtol(live_string(v, row->text), NULL, 10);
	}
}

/* ---- what a budget leaves out ---- */

static struct live_coverage *coverage_of(struct live_series *s, const struct session_view *v,
					 uint32_t number)
{
	uint64_t at;
	if (map64_get(&s->coverage_of, number, &at))
		return &s->coverages.data[at];
	const struct m_probe *probe = v->names->probe(v->names->ctx, number);
	if (!probe || s->coverages.len >= SERIES_COVERAGES)
		return NULL;
	map64_set(&s->coverage_of, number, s->coverages.len);
	struct live_coverage *c = vec_push(&s->coverages);
	snprintf(c->layer, sizeof(c->layer), "%s", live_string(v, probe->layer));
	snprintf(c->name, sizeof(c->name), "%s", live_string(v, probe->name));
	return c;
}

static void take_coverages(struct live_series *s, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->coverages.len; i++) {
		const struct m_coverage *row = &v->batch->coverages.data[i];
		struct live_coverage *c = coverage_of(s, v, row->probe);
		if (!c || row->on_ns < c->on_ns || row->off_ns < c->off_ns)
			continue;
		c->in_bursts = row->in_bursts;
		c->for_own = row->for_own;
		double on_ns = (double)(row->on_ns - c->on_ns);
		double all_ns = on_ns + (double)(row->off_ns - c->off_ns);
		if (all_ns <= 0)
			continue;
		c->seen_ratio = on_ns / all_ns;
		c->on_ns = row->on_ns;
		c->off_ns = row->off_ns;
	}
}

/* ---- all of it ---- */

void live_series_batch(struct live_series *s, const struct session_view *v, uint64_t now_ns)
{
	s->now_ns = now_ns;
	for (size_t i = 0; i < v->batch->processes.len; i++)
		take_process(s, v, &v->batch->processes.data[i]);
	take_gpus(s, v);
	take_xids(s, v);
	take_counters(s, v);
	take_calls(s, v);
	take_coverages(s, v);
	live_work_batch(&s->work, v, s, now_ns);
	live_collectives_batch(&s->collectives, v, s);
	live_gpu_memory_batch(&s->gpu_memory, v, s);
	forget_metrics(s, v);
	if (v->batch->processes.len)
		forget_ended(s);
}

uint64_t live_series_left_out(const struct live_series *s)
{
	return s->left_out + s->collectives.left_out + live_gpu_memory_left_out(&s->gpu_memory);
}

void live_series_free(struct live_series *s)
{
	for (size_t i = 0; i < s->metrics.len; i++) {
		free(s->metrics.data[i].label);
		free(s->metrics.data[i].name);
	}
	vec_free(&s->metrics);
	vec_free(&s->free_metrics);
	vec_free(&s->functions);
	vec_free(&s->processes);
	vec_free(&s->gpus);
	vec_free(&s->coverages);
	live_work_free(&s->work);
	live_collectives_free(&s->collectives);
	live_gpu_memory_free(&s->gpu_memory);
	map64_free(&s->metric_of);
	map64_free(&s->function_of);
	map64_free(&s->named);
	map64_free(&s->process_of);
	map64_free(&s->coverage_of);
}
