/* agent_api.c - one function for each answer, and one for each kind of thing in it. */
#include "serve/agent_api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "base/map64.h"
#include "base/utf8.h"
#include "events/metric.h"
#include "serve/work_series.h"

#define FUNCTIONS_MOST 100 /* of a job: those with most time */
#define ENTITY_BYTES   160

/* ---- values ---- */

static json_t *text_json(const char *s)
{
	struct buf clean = {0};
	utf8_append(&clean, s, strlen(s));
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

/* null for "": it is not known. */
static json_t *known_json(const char *s)
{
	return s[0] ? text_json(s) : json_null();
}

static json_t *count_json(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *number_json(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *rank_json(int32_t v)
{
	return v >= 0 ? json_integer(v) : json_null();
}

static json_t *unit_json(uint8_t unit)
{
	const char *text = metric_unit_text(unit);
	return text ? json_string(text) : json_null();
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static json_t *age_json(const struct agent_api_view *v, uint64_t since_ns)
{
	return since_ns && since_ns <= v->now_ns ? json_real(seconds(v->now_ns - since_ns))
						 : json_null();
}

/* ---- jobs ---- */

static bool is_job(const struct live_process *p)
{
	return p->called && !p->end_ns;
}

static json_t *history_json(const struct live_history *h)
{
	json_t *ret = json_array();
	for (uint32_t i = 0; i < h->len; i++)
		json_array_append_new(ret, number_json(live_history_at(h, i) / 1e6));
	return ret;
}

/* null: none were found in it, or a budget left some out. */
static json_t *steps_json(const struct agent_api_view *v, uint32_t pid, bool detail)
{
	const struct live_steps_view *s = agent_series_steps(&v->agent, pid);
	if (!s)
		return json_null();
	json_t *ret = json_pack("{s:o, s:o, s:f, s:f, s:f, s:o, s:o}", "kind", known_json(s->kind),
				"count", count_json(s->count), "last_ms", (double)s->last_ns / 1e6,
				"median_ms", (double)s->median_ns / 1e6, "longest_ms",
				(double)s->longest_ns / 1e6, "since_last_s",
				age_json(v, s->since_ns), "marker", text_json(s->marker));
	json_t *phases = json_array();
	if (s->phases[0])
		json_array_append_new(phases, text_json(s->phases));
	json_object_set_new(ret, "phases", phases);
	if (detail)
		json_object_set_new(ret, "history_ms", history_json(&s->history));
	return ret;
}

struct sums {
	uint64_t calls, errors, collective_calls;
	double ns, collective_ns;
};

/* Of the libraries that ranks talk by. */
static bool is_collective(const struct live_function *f)
{
	return !strcmp(f->layer, "nccl") || !strcmp(f->layer, "mpi");
}

static void add_function(struct sums *to, const struct live_function *f)
{
	to->calls += f->calls;
	to->errors += f->errors;
	to->ns += f->ns;
	if (!is_collective(f))
		return;
	to->collective_calls += f->calls;
	to->collective_ns += f->ns;
}

/* Those of the host's choice, by name. */
static json_t *labels_json(const struct proc_labels *l)
{
	json_t *ret = json_object();
	for (size_t i = 0; l->chosen && i < l->chosen->len; i++)
		if (proc_labels_value(l, i))
			json_object_set_new(ret, l->chosen->list[i].name,
					    text_json(proc_labels_value(l, i)));
	return ret;
}

/* null: it is under none. */
static json_t *rule_json(struct job_rules *r, uint32_t pid)
{
	size_t rule = r ? job_rules_of(r, (pid_t)pid) : 0;
	return rule ? count_json(rule) : json_null();
}

static json_t *job_json(const struct agent_api_view *v, const struct live_process *p,
			const struct sums *sums, const struct work_peaks *peaks, bool detail)
{
	const struct proc_labels *l = &p->labels;
	json_t *ret = json_object();
	json_object_set_new(ret, "pid", json_integer(p->pid));
	json_object_set_new(ret, "parent_pid", json_integer(p->parent));
	json_object_set_new(ret, "comm", text_json(p->comm));
	json_object_set_new(ret, "script", known_json(p->script));
	json_object_set_new(ret, "rank", rank_json(p->rank));
	json_object_set_new(ret, "local_rank", rank_json(l->local_rank));
	json_object_set_new(ret, "world_size", rank_json(l->world_size));
	json_object_set_new(ret, "job", known_json(l->job));
	json_object_set_new(ret, "launcher", known_json(l->launcher));
	json_object_set_new(ret, "pod", known_json(l->pod));
	json_object_set_new(ret, "namespace", known_json(l->pod_namespace));
	json_object_set_new(ret, "pod_uid", known_json(l->pod_uid));
	json_object_set_new(ret, "container", known_json(l->container));
	json_object_set_new(ret, "container_name", known_json(l->container_name));
	json_object_set_new(ret, "labels", labels_json(l));
	json_object_set_new(ret, "rule", rule_json(v->agent.rules, p->pid));
	json_object_set_new(ret, "age_s", age_json(v, p->start_ns));
	json_object_set_new(ret, "calls", count_json(sums->calls));
	json_object_set_new(ret, "errors", count_json(sums->errors));
	json_object_set_new(ret, "call_s", json_real(sums->ns * 1e-9));
	json_object_set_new(ret, "collective_calls", count_json(sums->collective_calls));
	json_object_set_new(ret, "collective_s", json_real(sums->collective_ns * 1e-9));
	json_object_set_new(ret, "flops_per_s",
			    number_json(work_series_speed(v->agent.series, p->pid)));
	json_object_set_new(ret, "mfu",
			    number_json(work_series_mfu(v->agent.series, peaks, p->pid)));
	json_object_set_new(ret, "steps", steps_json(v, p->pid, detail));
	return ret;
}

/* Of each process, in their order; free it. */
static struct sums *sums_of_all(const struct live_series *s)
{
	struct sums *ret = xcalloc(s->processes.len + 1, sizeof(*ret));
	struct map64 place_of = {0};
	uint64_t at;
	for (size_t i = 0; i < s->processes.len; i++)
		map64_set(&place_of, s->processes.data[i].pid, i);
	for (size_t i = 0; i < s->functions.len; i++)
		if (map64_get(&place_of, s->functions.data[i].pid, &at))
			add_function(&ret[at], &s->functions.data[i]);
	map64_free(&place_of);
	return ret;
}

json_t *agent_api_jobs(const struct agent_api_view *v)
{
	const struct live_series *s = v->agent.series;
	struct sums *sums = sums_of_all(s);
	struct work_peaks *peaks = work_peaks_new(s);
	json_t *list = json_array();
	for (size_t i = 0; i < s->processes.len; i++)
		if (is_job(&s->processes.data[i]))
			json_array_append_new(
				list, job_json(v, &s->processes.data[i], &sums[i], peaks, false));
	work_peaks_free(peaks);
	free(sums);
	return json_pack("{s:o}", "jobs", list);
}

static int compare_time(const void *a, const void *b)
{
	const struct live_function *x = *(const struct live_function *const *)a;
	const struct live_function *y = *(const struct live_function *const *)b;
	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static json_t *function_json(const struct live_function *f)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:f, s:o}", "layer", text_json(f->layer), "name",
			 text_json(f->name), "calls", count_json(f->calls), "errors",
			 count_json(f->errors), "total_ns", f->ns, "bytes",
			 f->sized ? count_json(f->bytes) : json_null());
}

static void put_functions(json_t *job, const struct agent_api_view *v, uint32_t pid,
			  struct sums *ret_sums)
{
	const struct live_series *s = v->agent.series;
	VEC(const struct live_function *) found = {0};
	json_t *list = json_array();
	for (size_t i = 0; i < s->functions.len; i++) {
		if (s->functions.data[i].pid != pid)
			continue;
		add_function(ret_sums, &s->functions.data[i]);
		*vec_push(&found) = &s->functions.data[i];
	}
	if (found.len)
		qsort(found.data, found.len, sizeof(*found.data), compare_time);
	for (size_t i = 0; i < found.len && i < FUNCTIONS_MOST; i++)
		json_array_append_new(list, function_json(found.data[i]));
	json_object_set_new(job, "functions", list);
	json_object_set_new(job, "functions_all", count_json(found.len));
	vec_free(&found);
}

static int compare_launches(const void *a, const void *b)
{
	const struct live_kernel *x = *(const struct live_kernel *const *)a;
	const struct live_kernel *y = *(const struct live_kernel *const *)b;
	return x->launches > y->launches ? -1 : x->launches < y->launches;
}

static json_t *kernels_json(const struct live_work *w, uint32_t pid)
{
	VEC(const struct live_kernel *) found = {0};
	json_t *list = json_array();
	for (size_t i = 0; i < w->kernels.len; i++)
		if (w->kernels.data[i].pid == pid)
			*vec_push(&found) = &w->kernels.data[i];
	if (found.len)
		qsort(found.data, found.len, sizeof(*found.data), compare_launches);
	for (size_t i = 0; i < found.len; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "name",
						      text_json(found.data[i]->name), "launches",
						      count_json(found.data[i]->launches)));
	vec_free(&found);
	return list;
}

static json_t *counter_json(const struct live_metric *m)
{
	return json_pack("{s:s, s:o, s:o}", "name", m->name, "value", number_json(m->value), "unit",
			 unit_json(m->unit));
}

static json_t *counters_json(const struct agent_api_view *v, uint8_t kind, uint32_t pid,
			     uint32_t gpu, int32_t instance)
{
	const struct live_series *s = v->agent.series;
	json_t *list = json_array();
	for (size_t i = 0; i < s->metrics.len; i++) {
		const struct live_metric *m = &s->metrics.data[i];
		if (m->there && m->kind == kind && m->pid == pid && m->gpu == gpu &&
		    m->instance == instance && m->time_ns + SERIES_OLD_NS >= s->now_ns)
			json_array_append_new(list, counter_json(m));
	}
	return list;
}

json_t *agent_api_job(const struct agent_api_view *v, uint32_t pid)
{
	const struct live_process *p = live_series_process(v->agent.series, pid);
	struct sums sums = {0};
	if (!p || !is_job(p))
		return NULL;
	json_t *more = json_object();
	put_functions(more, v, pid, &sums);
	struct work_peaks *peaks = work_peaks_new(v->agent.series);
	json_t *ret = job_json(v, p, &sums, peaks, true);
	work_peaks_free(peaks);
	json_object_update(ret, more);
	json_decref(more);
	json_object_set_new(ret, "kernels", kernels_json(&v->agent.series->work, pid));
	json_object_set_new(ret, "counters", counters_json(v, ENTITY_PROCESS, pid, 0, -1));
	return ret;
}

/* ---- what was not normal ---- */

static json_t *anomalies_json(const struct live_state *s)
{
	json_t *list = json_array();
	uint64_t n = s->latest_next < LIVE_ANOMALIES ? s->latest_next : LIVE_ANOMALIES;
	for (uint64_t i = 1; i <= n; i++) {
		const struct live_anomaly *a = &s->latest[(s->latest_next - i) % LIVE_ANOMALIES];
		if (a->id || a->start_ns)
			json_array_append_new(
				list,
				json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "id",
					  count_json(a->id), "start_ns", count_json(a->start_ns),
					  "end_ns", count_json(a->end_ns), "ended", a->ended,
					  "layer", text_json(a->layer), "entity",
					  text_json(a->entity), "why", text_json(a->why)));
	}
	return list;
}

static json_t *causes_json(const struct agent_causes *causes)
{
	json_t *list = json_array();
	for (size_t i = 0; i < causes->len; i++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:f}", "cause",
						      text_json(causes->rows[i].cause), "incidents",
						      count_json(causes->rows[i].n), "cost_s",
						      causes->rows[i].cost_s));
	return list;
}

/* The newest first. */
static json_t *events_json(const struct live_notices *all)
{
	json_t *list = json_array();
	for (uint32_t i = all->len; i; i--) {
		const struct live_notice *n = live_notices_at(all, i - 1);
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:o}", "time_ns", count_json(n->time_ns),
					"entity", text_json(n->entity), "name", text_json(n->name),
					"text", text_json(n->text)));
	}
	return list;
}

json_t *agent_api_incidents(const struct agent_api_view *v)
{
	json_t *list = json_array();
	for (size_t i = json_array_size(v->incidents); i; i--)
		json_array_append_new(list, json_deep_copy(json_array_get(v->incidents, i - 1)));
	return json_pack("{s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "judges", v->agent.state->judges,
			 "learning", v->agent.state->learning, "now_ns", count_json(v->now_ns),
			 "incidents", list, "anomalies", anomalies_json(v->agent.state), "causes",
			 causes_json(v->agent.causes), "events", events_json(v->agent.notices));
}

/* ---- GPUs and counters over time ---- */

json_t *agent_api_gpus(const struct agent_api_view *v)
{
	const struct live_series *s = v->agent.series;
	json_t *list = json_array();
	for (size_t i = 0; i < s->gpus.len; i++) {
		const struct live_gpu_id *g = &s->gpus.data[i];
		bool whole = g->parent < 0;
		if (g->gone)
			continue;
		json_array_append_new(
			list,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "index",
				  json_integer(g->index), "parent", rank_json(g->parent), "name",
				  text_json(g->name), "uuid", text_json(g->uuid), "bus_id",
				  text_json(g->bus_id), "driver", text_json(g->driver), "xid",
				  g->xid ? json_integer(g->xid) : json_null(), "counters",
				  whole ? counters_json(v, ENTITY_GPU, 0, g->index, -1)
					: json_array()));
	}
	return json_pack("{s:o}", "gpus", list);
}

static json_t *values_json(const struct live_trends *t, const float *values)
{
	json_t *ret = json_array();
	for (uint32_t i = 0; i < live_trends_points(t); i++)
		json_array_append_new(ret, number_json(live_trend_value(t, values, i)));
	return ret;
}

/* As a counter of its process. */
static json_t *step_trend_json(const struct live_trends *t, const struct live_step_trend *s)
{
	char entity[ENTITY_BYTES];
	snprintf(entity, sizeof(entity), "pid %u", s->pid);
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "entity", entity, "kind",
			 agent_kind_name(ENTITY_PROCESS), "name", "step_time", "unit", "ns", "mean",
			 values_json(t, s->mean), "max", values_json(t, s->longest));
}

static void add_step_trends(json_t *list, const struct agent_api_view *v)
{
	for (size_t i = 0; i < v->trends->steps.len; i++) {
		const struct live_step_trend *s = &v->trends->steps.data[i];
		if (agent_series_sees(v->agent.series, s->marker))
			json_array_append_new(list, step_trend_json(v->trends, s));
	}
}

static json_t *trend_json(const struct live_trends *t, const struct live_trend *of)
{
	const struct entity e = {.kind = of->kind,
				 .pid = of->pid,
				 .gpu = of->gpu,
				 .instance = of->instance,
				 .label = of->label,
				 .host = ""};
	char entity[ENTITY_BYTES];
	entity_text(entity, sizeof(entity), &e);
	return json_pack("{s:o, s:s, s:o, s:o, s:o}", "entity", text_json(entity), "kind",
			 agent_kind_name(of->kind), "name", text_json(of->name), "unit",
			 unit_json(of->unit), "mean", values_json(t, of->values));
}

static bool kind_is_known(const char *kind)
{
	for (int i = 0; i < ENTITY_KINDS; i++)
		if (!strcmp(kind, agent_kind_name((uint8_t)i)))
			return true;
	return false;
}

json_t *agent_api_series(const struct agent_api_view *v, const char *kind)
{
	const struct live_trends *t = v->trends;
	json_t *list = json_array();
	if (kind && !kind_is_known(kind)) {
		json_decref(list);
		return NULL;
	}
	for (size_t i = 0; i < t->list.len; i++)
		if (!kind || !strcmp(kind, agent_kind_name(t->list.data[i].kind)))
			json_array_append_new(list, trend_json(t, &t->list.data[i]));
	if (!kind || !strcmp(kind, agent_kind_name(ENTITY_PROCESS)))
		add_step_trends(list, v);
	return json_pack("{s:f, s:I, s:o, s:o, s:o}", "bucket_s", seconds(TREND_EACH_NS), "points",
			 (json_int_t)live_trends_points(t), "last_ns", count_json(t->last_ns),
			 "left_out", count_json(t->left_out), "series", list);
}

/* ---- the agent itself ---- */

static json_t *layers_json(const struct live_state *s)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < s->layers_len; i++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", "layer",
						      text_json(s->layers[i].name), "calls",
						      count_json(s->layers[i].calls), "calls_per_s",
						      number_json(s->layers[i].calls_per_s),
						      "busiest", known_json(s->layers[i].busiest)));
	return list;
}

static json_t *coverages_json(const struct live_series *s)
{
	json_t *list = json_array();
	for (size_t i = 0; i < s->coverages.len; i++)
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:b, s:s}", "layer",
					text_json(s->coverages.data[i].layer), "function",
					text_json(s->coverages.data[i].name), "seen_ratio",
					number_json(s->coverages.data[i].seen_ratio), "in_bursts",
					s->coverages.data[i].in_bursts, "budget",
					s->coverages.data[i].for_own ? "own" : "jobs"));
	return list;
}

/* What the probes take of the jobs, as a share of what these use. */
static json_t *cost_json(const struct live_state *s)
{
	return s->job_cpu > 0 ? number_json(s->probe_cpu / s->job_cpu) : json_null();
}

static json_t *own_budget_json(const struct own_budget_view *b)
{
	if (!(b->limit > 0))
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o}", "limit_cores", number_json(b->limit),
			 "always_cores", number_json(b->used), "fixed_cores", number_json(b->fixed),
			 "call_s", number_json(b->call_s));
}

static json_t *peer_json(const struct agent_peer *p)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "url", text_json(p->url),
			 "told", count_json(p->told), "froze", count_json(p->froze), "failures",
			 count_json(p->failures), "refused", count_json(p->refused), "dropped",
			 count_json(p->dropped), "waiting", count_json(p->waiting),
			 "last_told_realtime_ns",
			 p->taken_realtime_ns ? count_json(p->taken_realtime_ns) : json_null(),
			 "answer_s", number_json(p->answer_s));
}

static json_t *peers_json(const struct agent_peers_view *p)
{
	json_t *list = json_array(), *notes = json_object();
	for (size_t i = 0; i < p->len; i++)
		json_array_append_new(list, peer_json(&p->list[i]));
	for (int i = 0; i < PEER_ANSWERS; i++)
		json_object_set_new(notes, agent_peer_answer_name(i), count_json(p->notes[i]));
	return json_pack("{s:o, s:o}", "told", list, "notes", notes);
}

json_t *agent_api_self(const struct agent_api_view *v)
{
	const struct live_state *s = v->agent.state;
	json_t *ret = json_object();
	json_object_set_new(ret, "version", json_string(v->agent.version));
	json_object_set_new(ret, "host", text_json(v->agent.host));
	json_object_set_new(ret, "age_s", age_json(v, s->start_ns));
	json_object_set_new(ret, "own_cpu_cores", number_json(s->own_cpu));
	json_object_set_new(ret, "own_budget", own_budget_json(&s->own_budget));
	json_object_set_new(ret, "own_resident_bytes", number_json(s->own_rss_bytes));
	json_object_set_new(ret, "probe_cpu_cores", number_json(s->probe_cpu));
	json_object_set_new(ret, "job_cpu_cores", number_json(s->job_cpu));
	json_object_set_new(ret, "cost_ratio", cost_json(s));
	json_object_set_new(ret, "lost", count_json(s->lost));
	json_object_set_new(ret, "unjudged", count_json(s->overruns));
	json_object_set_new(ret, "left_out", count_json(live_series_left_out(v->agent.series)));
	json_object_set_new(ret, "freezes", json_boolean(v->agent.freezes));
	json_object_set_new(ret, "frozen", count_json(v->agent.frozen));
	json_object_set_new(ret, "held_off", count_json(v->agent.held_off));
	json_object_set_new(ret, "peers",
			    v->agent.freezes ? peers_json(v->agent.peers) : json_null());
	json_object_set_new(ret, "judges", json_boolean(s->judges));
	json_object_set_new(ret, "learning", json_boolean(s->learning));
	json_object_set_new(ret, "layers", layers_json(s));
	json_object_set_new(ret, "turned_down", coverages_json(v->agent.series));
	return ret;
}

json_t *agent_api_state(const struct agent_api_view *v)
{
	const struct live_state *s = v->agent.state;
	const struct live_series *series = v->agent.series;
	uint64_t jobs = 0, steps = 0;
	for (uint32_t i = 0; i < v->agent.jobs->len; i++)
		steps += v->agent.jobs->of[i].count;
	for (size_t i = 0; i < series->processes.len; i++)
		jobs += is_job(&series->processes.data[i]);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "now_ns",
			 count_json(v->now_ns), "jobs", count_json(jobs), "incidents",
			 count_json(json_array_size(v->incidents)), "anomalies",
			 count_json(s->anomalies), "lasting", count_json(s->lasting), "steps",
			 count_json(steps), "own_cpu_cores", number_json(s->own_cpu), "cost_ratio",
			 cost_json(s), "lost", count_json(s->lost));
}
