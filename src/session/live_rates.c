/* live_rates.c - counts rows by the second. */
#include "session/live_rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/entity.h"
#include "base/map64.h"
#include "events/losses.h"
#include "events/rows.h"
#include "session/live_names.h"

#define SECOND_NS      1000000000ULL
#define FUNCTIONS_MOST (1 << 16) /* of a second: beyond, none is added */
#define CPU_ENTITIES   4096	 /* processes whose CPU time is summed */
#define CPU_OLD_NS     (3 * SECOND_NS)
#define LOSSES_MOST    4096 /* causes times CPUs */
#define SMOOTHING      0.1  /* of costs: about ten seconds */
#define NO_LAYER       UINT8_MAX

struct sum {
	uint32_t probe;
	uint64_t name; /* value of the argument that names the call */
	uint64_t ns;
};

struct process_cpu {
	uint32_t metric;
	uint64_t time_ns;
	double cores;
};

struct live_rates {
	VEC(uint8_t) layer_of;	      /* probe -> index into the state's layers */
	struct map64 function_of;     /* hash of probe and name -> index into sums */
	VEC(struct sum) sums;	      /* of this second */
	uint64_t probes_ns;	      /* what probes had taken up to the last second */
	uint64_t before[LIVE_LAYERS]; /* calls up to the last second */
	uint64_t second_ns;	      /* when this second began */
	uint64_t own_cpu_ns;
	VEC(struct process_cpu) cpus;
	VEC(struct m_loss) losses;
	struct map64 alive; /* pids */
};

struct live_rates *live_rates_new(void)
{
	return xcalloc(1, sizeof(struct live_rates));
}

void live_rates_free(struct live_rates *r)
{
	vec_free(&r->layer_of);
	map64_free(&r->function_of);
	vec_free(&r->sums);
	vec_free(&r->cpus);
	vec_free(&r->losses);
	map64_free(&r->alive);
	free(r);
}

/* ---- calls ---- */

static uint8_t layer_named(struct live_state *s, const char *name)
{
	for (uint32_t i = 0; i < s->layers_len; i++)
		if (!strncmp(s->layers[i].name, name, sizeof(s->layers[i].name) - 1))
			return (uint8_t)i;
	if (s->layers_len == LIVE_LAYERS)
		return NO_LAYER;
	snprintf(s->layers[s->layers_len].name, sizeof(s->layers[0].name), "%s", name);
	return (uint8_t)s->layers_len++;
}

static uint8_t layer_of(struct live_rates *r, const struct session_view *v, uint32_t number,
			struct live_state *s)
{
	while (r->layer_of.len <= number) {
		uint32_t next = (uint32_t)r->layer_of.len;
		const struct m_probe *probe = v->names->probe(v->names->ctx, next);
		if (!probe)
			return NO_LAYER;
		*vec_push(&r->layer_of) = layer_named(s, live_string(v, probe->layer));
	}
	return r->layer_of.data[number];
}

static void add_time(struct live_rates *r, const struct session_view *v, const struct m_call *c)
{
	const struct m_probe *probe = v->names->probe(v->names->ctx, c->probe);
	uint64_t name = live_name_value(probe, c);
	uint64_t key = hash_u64(hash_u64(c->probe) ^ name), at;
	if (!map64_get(&r->function_of, key, &at)) {
		if (r->sums.len >= FUNCTIONS_MOST)
			return;
		at = r->sums.len;
		*vec_push(&r->sums) = (struct sum){.probe = c->probe, .name = name};
		map64_set(&r->function_of, key, at);
	}
	r->sums.data[at].ns += c->dur_ns;
}

static void take_calls(struct live_rates *r, const struct session_view *v, struct live_state *s)
{
	for (size_t i = 0; i < v->batch->calls.len; i++) {
		const struct m_call *c = &v->batch->calls.data[i];
		uint8_t layer = layer_of(r, v, c->probe, s);
		if (layer == NO_LAYER)
			continue;
		s->layers[layer].calls++;
		add_time(r, v, c);
	}
}

/* ---- a second has ended ---- */

static void end_layers(struct live_rates *r, const struct session_view *v, double seconds,
		       struct live_state *s)
{
	const struct sum *busiest[LIVE_LAYERS] = {0};
	for (size_t i = 0; i < r->sums.len; i++) {
		uint8_t layer = r->layer_of.data[r->sums.data[i].probe];
		if (!busiest[layer] || r->sums.data[i].ns > busiest[layer]->ns)
			busiest[layer] = &r->sums.data[i];
	}
	for (uint32_t i = 0; i < s->layers_len; i++) {
		struct live_layer *l = &s->layers[i];
		l->calls_per_s = (double)(l->calls - r->before[i]) / seconds;
		r->before[i] = l->calls;
		live_history_add(&l->history, l->calls_per_s);
		l->busiest[0] = 0;
		if (!busiest[i])
			continue;
		l->busiest_ns_per_s = (double)busiest[i]->ns / seconds;
		live_function_name(v, v->names->probe(v->names->ctx, busiest[i]->probe),
				   busiest[i]->name, l->busiest, sizeof(l->busiest));
	}
	r->sums.len = 0;
	map64_free(&r->function_of);
}

static double own_rss_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f)
		return NAN;
	if (fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* CPU times come in ticks of 10 ms: their ratio by the second would jump. */
static void smooth(double *average, double value)
{
	*average = isfinite(*average) ? *average + SMOOTHING * (value - *average) : value;
}

static void end_cost(struct live_rates *r, const struct session_view *v, uint64_t now_ns,
		     double seconds, struct live_state *s)
{
	struct timespec ts;
	size_t kept = 0;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	uint64_t cpu_ns = (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
	s->own_cpu = (double)(cpu_ns - r->own_cpu_ns) / 1e9 / seconds;
	r->own_cpu_ns = cpu_ns;
	s->own_rss_bytes = own_rss_bytes();
	smooth(&s->probe_cpu, (double)(v->running_cost_ns - r->probes_ns) / 1e9 / seconds);
	r->probes_ns = v->running_cost_ns;
	s->own_budget = v->own_budget;
	s->holds = v->holds;
	s->held_ns = v->held_ns;
	double job_cpu = 0;
	for (size_t i = 0; i < r->cpus.len; i++) {
		struct process_cpu *c = &r->cpus.data[i];
		if (c->time_ns + CPU_OLD_NS < now_ns)
			continue;
		job_cpu += c->cores;
		r->cpus.data[kept++] = *c;
	}
	r->cpus.len = kept;
	if (kept)
		smooth(&s->job_cpu, job_cpu);
}

/* ---- counters, GPUs, processes, losses ---- */

static void take_cpu(struct live_rates *r, const struct m_counter *c)
{
	for (size_t i = 0; i < r->cpus.len; i++) {
		if (r->cpus.data[i].metric != c->metric)
			continue;
		r->cpus.data[i].time_ns = c->time_ns;
		r->cpus.data[i].cores = c->value;
		return;
	}
	if (r->cpus.len < CPU_ENTITIES)
		*vec_push(&r->cpus) = (struct process_cpu){c->metric, c->time_ns, c->value};
}

static struct live_gpu *gpu_of(struct live_state *s, uint32_t index)
{
	if (index >= LIVE_GPUS)
		return NULL;
	struct live_gpu *g = &s->gpus[index];
	if (!g->known) {
		*g = (struct live_gpu){.known = true,
				       .busy_ratio = NAN,
				       .memory_used_bytes = NAN,
				       .memory_total_bytes = NAN,
				       .power_w = NAN,
				       .power_limit_w = NAN,
				       .temperature_celsius = NAN};
	}
	return g;
}

static void take_gpu_counter(struct live_state *s, uint32_t index, const char *name, double value)
{
	struct live_gpu *g = gpu_of(s, index);
	if (!g)
		return;
	if (!strcmp(name, "sm_ratio"))
		g->busy_ratio = value;
	else if (!strcmp(name, "memory_used_bytes"))
		g->memory_used_bytes = value;
	else if (!strcmp(name, "memory_total_bytes"))
		g->memory_total_bytes = value;
	else if (!strcmp(name, "power_w"))
		g->power_w = value;
	else if (!strcmp(name, "power_limit_w"))
		g->power_limit_w = value;
	else if (!strcmp(name, "temperature_celsius"))
		g->temperature_celsius = value;
}

static void take_other(struct live_state *s, const struct session_view *v,
		       const struct m_counter *c, const struct m_metric *m)
{
	uint32_t i = 0;
	while (i < s->counters_len && s->counters[i].metric != c->metric)
		i++;
	if (i == LIVE_COUNTERS)
		return;
	struct live_counter *w = &s->counters[i];
	w->value = c->value;
	if (i < s->counters_len)
		return;
	struct entity of = ENTITY_NAMED(m->kind, live_string(v, m->label));
	char entity[LIVE_NAME_BYTES / 2];
	entity_text(entity, sizeof(entity), &of);
	snprintf(w->what, sizeof(w->what), "%s %.40s", entity, live_string(v, m->name));
	w->metric = c->metric;
	w->unit = m->unit;
	s->counters_len++;
}

static void take_counters(struct live_rates *r, const struct session_view *v, struct live_state *s)
{
	for (size_t i = 0; i < v->batch->counters.len; i++) {
		const struct m_counter *c = &v->batch->counters.data[i];
		const struct m_metric *m = v->names->metric(v->names->ctx, c->metric);
		const char *name = m ? live_string(v, m->name) : "";
		if (m && m->kind == ENTITY_GPU && m->instance < 0 && !m->pid)
			take_gpu_counter(s, m->gpu, name, c->value);
		else if (m && m->kind == ENTITY_PROCESS && !strcmp(name, "cpu_ratio"))
			take_cpu(r, c);
		else if (m && m->unit == UNIT_RATIO && m->kind != ENTITY_GPU &&
			 m->kind != ENTITY_PROCESS && m->kind != ENTITY_EACGM)
			take_other(s, v, c, m);
	}
}

static void take_gpus(const struct session_view *v, struct live_state *s)
{
	for (size_t i = 0; i < v->batch->gpus.len; i++) {
		const struct m_gpu *row = &v->batch->gpus.data[i];
		struct live_gpu *g = row->parent < 0 ? gpu_of(s, row->index) : NULL;
		if (!g)
			continue;
		snprintf(g->name, sizeof(g->name), "%s", live_string(v, row->name));
		g->memory_total_bytes = (double)row->memory_bytes;
		g->power_limit_w = row->power_limit_w > 0 ? row->power_limit_w : NAN;
		g->known = !row->gone_ns;
	}
}

static void take_processes(struct live_rates *r, const struct session_view *v, struct live_state *s)
{
	for (size_t i = 0; i < v->batch->processes.len; i++) {
		const struct m_process *p = &v->batch->processes.data[i];
		if (p->end_ns)
			map64_del(&r->alive, p->pid);
		else
			map64_set(&r->alive, p->pid, 1);
	}
	s->processes = (uint32_t)r->alive.len;
}

static void take_losses(struct live_rates *r, const struct session_view *v, struct live_state *s)
{
	for (size_t i = 0; i < v->batch->losses.len; i++) {
		const struct m_loss *row = &v->batch->losses.data[i];
		size_t at = 0;
		while (at < r->losses.len && (r->losses.data[at].cause != row->cause ||
					      r->losses.data[at].cpu != row->cpu))
			at++;
		if (at == LOSSES_MOST || loss_is_kept(live_string(v, row->cause)))
			continue;
		if (at == r->losses.len)
			vec_push(&r->losses);
		r->losses.data[at] = *row; /* totals */
	}
	s->lost = 0;
	for (size_t i = 0; i < r->losses.len; i++)
		s->lost += r->losses.data[i].count;
	s->overruns = v->overruns;
}

void live_rates_batch(struct live_rates *r, const struct session_view *v, uint64_t now_ns,
		      struct live_state *s)
{
	if (!r->second_ns)
		r->second_ns = now_ns;
	take_processes(r, v, s);
	take_gpus(v, s);
	take_counters(r, v, s);
	take_calls(r, v, s);
	take_losses(r, v, s);
	if (now_ns - r->second_ns < SECOND_NS)
		return;
	double seconds = (double)(now_ns - r->second_ns) / 1e9;
	end_layers(r, v, seconds, s);
	end_cost(r, v, now_ns, seconds, s);
	r->second_ns = now_ns;
}
