/* agent_series.c - the families, one function for each kind of thing: jobs with their calls and
 * steps, counters of GPUs, processes and the host, incidents, and what watching costs.
 *
 * Counters of recordings have their units at the end of their names; metrics have Prometheus's base
 * units there: seconds, bytes, hertz. */
#include "serve/agent_series.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/entity.h"
#include "base/map64.h"
#include "serve/collective_series.h"
#include "serve/dcgm_series.h"
#include "serve/memory_series.h"
#include "serve/process_labels.h"
#include "serve/work_series.h"

#define NAME_BYTES 96
#define LEN(x)	   (sizeof(x) / sizeof((x)[0]))

/* ---- counters ---- */

static const char *const kinds[ENTITY_KINDS] = {
	[ENTITY_OTHER] = "other",
	[ENTITY_PROCESS] = "process",
	[ENTITY_GPU] = "gpu",
	[ENTITY_HOST] = "host",
	[ENTITY_INTERFACE] = "interface",
	[ENTITY_CGROUP] = "cgroup",
	[ENTITY_EACGM] = "self",
	[ENTITY_DISK] = "disk",
	[ENTITY_FILESYSTEM] = "filesystem",
};

const char *agent_kind_name(uint8_t kind)
{
	return kinds[kind < ENTITY_KINDS ? kind : ENTITY_OTHER];
}

static const struct unit {
	const char *end, *instead;
	double times;
} units[] = {
	{"_bytes_per_s", "_bytes_per_second", 1},
	{"_per_s", "_per_second", 1},
	{"_ns", "_seconds", 1e-9},
	{"_mhz", "_hertz", 1e6},
	{"_w", "_watts", 1},
	{"_j", "_joules", 1},
};

/* Those that only grow. */
static const char *const totals[] = {
	"net_sent_bytes",     "net_received_bytes",
	"net_retransmits",    "net_resent_bytes",
	"net_timeouts",	      "ecc_corrected_errors",
	"pcie_replays",	      "nvlink_crc_errors",
	"nvlink_replays",     "ecc_uncorrected_errors",
	"energy_j",	      "nvlink_recoveries",
	"lost_calls",	      "migrations",
	"uninterruptible_ns",
};

/* What a process has of a GPU. */
static bool is_of_process(const struct live_metric *m)
{
	return m->kind == ENTITY_GPU && m->pid;
}

static bool is_total(const char *name)
{
	for (size_t i = 0; i < LEN(totals); i++)
		if (!strcmp(name, totals[i]))
			return true;
	return false;
}

/* "eacgm_gpu_sm_clock_hertz" of a GPU's sm_clock_mhz, "eacgm_gpu_process_memory_used_bytes" of a
 * process on a GPU, for a sum over one name is to mean something. Returns what its values are
 * multiplied by. */
static double family_name(char ret[NAME_BYTES], const struct live_metric *m)
{
	const struct unit *unit = NULL;
	size_t n = strlen(m->name);
	for (size_t i = 0; i < LEN(units) && !unit; i++) {
		size_t end = strlen(units[i].end);
		if (n > end && !strcmp(m->name + n - end, units[i].end))
			unit = &units[i];
	}
	snprintf(ret, NAME_BYTES, "eacgm_%s_%s%.*s%s%s", kinds[m->kind],
		 is_of_process(m) ? "process_" : "", (int)(n - (unit ? strlen(unit->end) : 0)),
		 m->name, unit ? unit->instead : "", is_total(m->name) ? "_total" : "");
	return unit ? unit->times : 1;
}

static int compare_metrics(const void *a, const void *b)
{
	const struct live_metric *x = *(const struct live_metric *const *)a;
	const struct live_metric *y = *(const struct live_metric *const *)b;
	int by_name = x->kind != y->kind ? x->kind - y->kind : strcmp(x->name, y->name);
	if (by_name)
		return by_name;
	if (is_of_process(x) != is_of_process(y))
		return is_of_process(y) ? -1 : 1;
	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if (x->instance != y->instance)
		return x->instance < y->instance ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return strcmp(x->label, y->label);
}

/* Counters of processes that are no jobs would be those of all the host's. */
static bool is_shown(const struct agent_view *v, const struct live_metric *m)
{
	if (!m->there || m->kind >= ENTITY_KINDS || m->time_ns + SERIES_OLD_NS < v->series->now_ns)
		return false;
	const struct live_process *p =
		m->kind == ENTITY_PROCESS ? live_series_process(v->series, m->pid) : NULL;
	return m->kind != ENTITY_PROCESS || (p && p->called && !p->end_ns);
}

static const char *label_of(uint8_t kind)
{
	switch (kind) {
	case ENTITY_INTERFACE:
		return "interface";
	case ENTITY_CGROUP:
		return "cgroup";
	case ENTITY_DISK:
		return "device";
	case ENTITY_FILESYSTEM:
		return "mountpoint";
	default:
		return "of";
	}
}

static void write_metric(const struct series_sink *x, const struct agent_view *v,
			 const struct live_metric *m, double times)
{
	char pid[16], gpu[16], instance[16];
	bool of_gpu = m->kind == ENTITY_GPU;
	const struct live_process *p = m->pid ? live_series_process(v->series, m->pid) : NULL;
	snprintf(pid, sizeof(pid), "%u", m->pid);
	snprintf(gpu, sizeof(gpu), "%u", m->gpu);
	snprintf(instance, sizeof(instance), "%d", m->instance);
	const char *uuid = NULL;
	for (size_t i = 0; of_gpu && i < v->series->gpus.len; i++)
		if (v->series->gpus.data[i].parent < 0 && v->series->gpus.data[i].index == m->gpu)
			uuid = v->series->gpus.data[i].uuid;
	const struct label labels[] = {
		{"gpu", of_gpu ? gpu : NULL},
		{"uuid", uuid},
		{"instance_id", of_gpu && m->instance >= 0 ? instance : NULL},
		{"pid", m->pid ? pid : NULL},
		{"comm", p ? p->comm : NULL},
		{label_of(m->kind), m->label[0] ? m->label : NULL},
	};
	series_sample(x, labels, LEN(labels), times * m->value);
}

static void write_counters(const struct series_sink *x, const struct agent_view *v)
{
	const struct live_series *s = v->series;
	VEC(const struct live_metric *) rows = {0};
	char name[NAME_BYTES] = "", help[NAME_BYTES + 32];
	double times = 1;
	for (size_t i = 0; i < s->metrics.len; i++)
		if (is_shown(v, &s->metrics.data[i]))
			*vec_push(&rows) = &s->metrics.data[i];
	if (rows.len)
		qsort(rows.data, rows.len, sizeof(*rows.data), compare_metrics);
	for (size_t i = 0; i < rows.len; i++) {
		const struct live_metric *m = rows.data[i];
		if (!i || m->kind != rows.data[i - 1]->kind ||
		    is_of_process(m) != is_of_process(rows.data[i - 1]) ||
		    strcmp(m->name, rows.data[i - 1]->name)) {
			times = family_name(name, m);
			snprintf(help, sizeof(help), "The counter %s, see docs/telemetry.md.",
				 m->name);
			series_family(x, name, is_total(m->name) ? FAMILY_COUNTER : FAMILY_GAUGE,
				      help);
		}
		write_metric(x, v, m, times);
	}
	vec_free(&rows);
}

/* ---- jobs ---- */

static void write_jobs(const struct series_sink *x, const struct agent_view *v)
{
	series_family(x, "eacgm_process_info", FAMILY_GAUGE,
		      "A process that calls what is traced; the value is 1.");
	for (size_t i = 0; i < v->series->processes.len; i++) {
		const struct live_process *p = &v->series->processes.data[i];
		struct process_labels l;
		if (!p->called || p->end_ns)
			continue;
		process_labels_of(&l, p);
		series_sample(x, l.list, l.len, 1);
	}
}

enum of_function { CALLS, ERRORS, SECONDS, BYTES };

/* Whether it has that figure at all. */
static bool has_figure(const struct live_function *f, enum of_function what)
{
	return what == ERRORS ? f->errors > 0 : what != BYTES || f->sized;
}

static double figure_of(const struct live_function *f, enum of_function what)
{
	switch (what) {
	case CALLS:
		return (double)f->calls;
	case ERRORS:
		return (double)f->errors;
	case SECONDS:
		return f->ns * 1e-9;
	default:
		return (double)f->bytes;
	}
}

static void write_functions(const struct series_sink *x, const struct agent_view *v,
			    enum of_function what)
{
	for (size_t i = 0; i < v->series->functions.len; i++) {
		const struct live_function *f = &v->series->functions.data[i];
		const struct live_process *p = live_series_process(v->series, f->pid);
		char pid[16];
		snprintf(pid, sizeof(pid), "%u", f->pid);
		const struct label labels[] = {{"pid", pid},
					       {"comm", p ? p->comm : NULL},
					       {"layer", f->layer},
					       {"function", f->name}};
		if (has_figure(f, what))
			series_sample(x, labels, LEN(labels), figure_of(f, what));
	}
}

static void write_calls(const struct series_sink *x, const struct agent_view *v)
{
	series_family(x, "eacgm_calls_total", FAMILY_COUNTER,
		      "Calls that were seen, by process and function.");
	write_functions(x, v, CALLS);
	series_family(x, "eacgm_call_errors_total", FAMILY_COUNTER,
		      "Calls that returned an error.");
	write_functions(x, v, ERRORS);
	series_family(x, "eacgm_call_seconds_total", FAMILY_COUNTER,
		      "Time in calls, without those within one of their own layer.");
	write_functions(x, v, SECONDS);
	series_family(x, "eacgm_call_bytes_total", FAMILY_COUNTER,
		      "Bytes that calls were of, where they say how many.");
	write_functions(x, v, BYTES);
}

static uint64_t coverage_key(const struct live_coverage *c)
{
	return hash_u64(hash_bytes(c->layer, strlen(c->layer))) ^
	       hash_bytes(c->name, strlen(c->name));
}

/* A name may have several probes, one of each library: the one that is seen least is told. */
static void write_coverage(const struct series_sink *x, const struct agent_view *v)
{
	const struct live_series *s = v->series;
	struct map64 least = {0}; /* of a name: the place of its row */
	uint64_t at;
	series_family(x, "eacgm_function_seen_ratio", FAMILY_GAUGE,
		      "Share of the last seconds in which calls of a function were seen, where "
		      "the budget left some out.");
	for (size_t i = 0; i < s->coverages.len; i++) {
		uint64_t key = coverage_key(&s->coverages.data[i]);
		if (!map64_get(&least, key, &at) ||
		    s->coverages.data[i].seen_ratio < s->coverages.data[at].seen_ratio)
			map64_set(&least, key, i);
	}
	for (size_t i = 0; i < s->coverages.len; i++) {
		const struct live_coverage *c = &s->coverages.data[i];
		const struct label labels[] = {{"layer", c->layer}, {"function", c->name}};
		if (map64_get(&least, coverage_key(c), &at) && at == i)
			series_sample(x, labels, LEN(labels), c->seen_ratio);
	}
	map64_free(&least);
}

/* By what they were turned down for. */
static void write_in_bursts(const struct series_sink *x, const struct live_series *s)
{
	uint64_t jobs = 0, own = 0;
	for (size_t i = 0; i < s->coverages.len; i++)
		if (s->coverages.data[i].in_bursts)
			*(s->coverages.data[i].for_own ? &own : &jobs) += 1;
	series_family(
		x, "eacgm_functions_in_bursts", FAMILY_GAUGE,
		"Functions that are on in bursts alone, for the jobs' budget or for eacgm's own.");
	series_sample(x, &(struct label){"budget", "jobs"}, 1, (double)jobs);
	series_sample(x, &(struct label){"budget", "own"}, 1, (double)own);
}

/* Where the budget left out calls of what marks a step, several steps would be told as one. */
bool agent_series_sees(const struct live_series *s, const char *marker)
{
	for (size_t i = 0; i < s->coverages.len; i++) {
		const struct live_coverage *c = &s->coverages.data[i];
		if (!strcmp(c->name, marker) && c->seen_ratio < 1)
			return false;
	}
	return true;
}

const struct live_steps_view *agent_series_steps(const struct agent_view *v, uint32_t pid)
{
	for (uint32_t i = 0; i < v->jobs->len; i++) {
		const struct live_steps_view *s = &v->jobs->of[i];
		if (s->pid == pid && s->count)
			return agent_series_sees(v->series, s->marker) ? s : NULL;
	}
	return NULL;
}

enum of_steps { STEPS, LAST_STEP, MEDIAN_STEP };

static void write_steps_of(const struct series_sink *x, const struct agent_view *v,
			   enum of_steps what)
{
	for (uint32_t i = 0; i < v->jobs->len; i++) {
		char pid[16];
		uint32_t of = v->jobs->of[i].pid;
		const struct live_process *p = live_series_process(v->series, of);
		const struct live_steps_view *s = agent_series_steps(v, of);
		if (!s || (p && p->end_ns))
			continue;
		snprintf(pid, sizeof(pid), "%u", of);
		const struct label labels[] = {
			{"pid", pid}, {"comm", p ? p->comm : NULL}, {"kind", s->kind}};
		double value = what == STEPS	   ? (double)s->count
			       : what == LAST_STEP ? (double)s->last_ns * 1e-9
						   : (double)s->median_ns * 1e-9;
		series_sample(x, labels, LEN(labels), value);
	}
}

static void write_phase(const struct series_sink *x, const struct live_process *p,
			const struct live_steps_view *s, const char *phase, double value)
{
	char pid[16];
	snprintf(pid, sizeof(pid), "%u", s->pid);
	const struct label labels[] = {
		{"pid", pid}, {"comm", p ? p->comm : NULL}, {"kind", s->kind}, {"phase", phase}};
	series_sample(x, labels, LEN(labels), value);
}

static void write_phases_of(const struct series_sink *x, const struct agent_view *v, bool sums)
{
	for (uint32_t i = 0; i < v->jobs->len; i++) {
		uint32_t of = v->jobs->of[i].pid;
		const struct live_process *p = live_series_process(v->series, of);
		const struct live_steps_view *s = agent_series_steps(v, of);
		if (!s || (p && p->end_ns))
			continue;
		for (uint32_t k = 0; !sums && k < s->phase_len; k++)
			write_phase(x, p, s, s->phase[k].name, (double)s->phase[k].share);
		for (uint32_t k = 0; sums && k < s->phase_sum_len; k++)
			write_phase(x, p, s, s->phase_sum[k].name, s->phase_sum[k].ns * 1e-9);
	}
}

static void write_phases(const struct series_sink *x, const struct agent_view *v)
{
	series_family(x, "eacgm_step_phase_ratio", FAMILY_GAUGE,
		      "Share of the steps' time, of the last seconds in which some ended.");
	write_phases_of(x, v, false);
	series_family(x, "eacgm_step_phase_seconds_total", FAMILY_COUNTER,
		      "Time of steps by phase: each step by the shares that were found last.");
	write_phases_of(x, v, true);
}

static void write_steps(const struct series_sink *x, const struct agent_view *v)
{
	series_family(x, "eacgm_steps_total", FAMILY_COUNTER,
		      "Steps of each job, since they were found.");
	write_steps_of(x, v, STEPS);
	series_family(x, "eacgm_step_seconds", FAMILY_GAUGE, "The last step.");
	write_steps_of(x, v, LAST_STEP);
	series_family(x, "eacgm_step_median_seconds", FAMILY_GAUGE,
		      "The median of the last 240 steps.");
	write_steps_of(x, v, MEDIAN_STEP);
	write_phases(x, v);
	if (v->jobs->left_out) {
		series_family(x, "eacgm_steps_left_out_processes", FAMILY_GAUGE,
			      "Processes with steps, beyond those whose steps are counted.");
		series_sample(x, NULL, 0, v->jobs->left_out);
	}
}

/* ---- what was not normal, what it costs ---- */

static void write_incidents(const struct series_sink *x, const struct agent_view *v)
{
	series_family(x, "eacgm_incidents_total", FAMILY_COUNTER,
		      "Incidents that have ended, by their cause.");
	for (size_t i = 0; i < v->causes->len; i++)
		series_sample(x, &(struct label){"cause", v->causes->rows[i].cause}, 1,
			      (double)v->causes->rows[i].n);
	series_family(x, "eacgm_incident_seconds_total", FAMILY_COUNTER,
		      "Time that incidents cost their jobs, by their cause.");
	for (size_t i = 0; i < v->causes->len; i++)
		series_sample(x, &(struct label){"cause", v->causes->rows[i].cause}, 1,
			      v->causes->rows[i].cost_s);
	series_family(
		x, "eacgm_notices_total", FAMILY_COUNTER,
		"What was told beside incidents: early warnings, errors of GPUs, hangs, and more.");
	for (uint32_t i = 0; i < v->notices->counts_len; i++) {
		const struct live_notice_count *c = &v->notices->counts[i];
		series_sample(x, &(struct label){"name", c->name}, 1, (double)c->n);
	}
	series_family(x, "eacgm_anomalies_total", FAMILY_COUNTER, "Anomalies that were found.");
	series_sample(x, NULL, 0, (double)v->state->anomalies);
	series_family(x, "eacgm_anomalies_lasting", FAMILY_GAUGE, "Anomalies that have not ended.");
	series_sample(x, NULL, 0, (double)v->state->lasting);
	series_family(x, "eacgm_learning", FAMILY_GAUGE,
		      "1 while what is normal is not known yet.");
	series_sample(x, NULL, 0, v->state->learning);
}

static void write_number(const struct series_sink *x, const char *name, enum family_type type,
			 const char *help, double value)
{
	series_family(x, name, type, help);
	series_sample(x, NULL, 0, value);
}

static void write_events(const struct series_sink *x, const struct agent_pushed *p)
{
	const struct label logs[] = {{"to", p->to}, {"signal", "logs"}};
	const struct label spans[] = {{"to", p->to}, {"signal", "spans"}};
	series_family(x, "eacgm_push_left_out_total", FAMILY_COUNTER,
		      "Logs and spans that found no room between two pushes: of spans the longest "
		      "are pushed.");
	series_sample(x, logs, LEN(logs), (double)p->logs_left_out);
	series_sample(x, spans, LEN(spans), (double)p->spans_left_out);
	series_family(x, "eacgm_push_events_total", FAMILY_COUNTER,
		      "Logs and spans that were pushed, or wait to be.");
	series_sample(x, logs, LEN(logs), (double)p->logs);
	series_sample(x, spans, LEN(spans), (double)p->spans);
}

static const struct pushed_family {
	const char *name, *help;
	size_t offset; /* of struct agent_pushed */
	enum family_type type;
} pushed_families[] = {
#define PUSHED(field) offsetof(struct agent_pushed, field)
	{"eacgm_push_sent_total", "Bodies that the receiver took.", PUSHED(sent), FAMILY_COUNTER},
	{"eacgm_push_wire_bytes_total", "Their bytes, compressed.", PUSHED(bytes), FAMILY_COUNTER},
	{"eacgm_push_body_bytes_total", "Their bytes before.", PUSHED(raw_bytes), FAMILY_COUNTER},
	{"eacgm_push_failures_total", "Attempts that failed and are made again.", PUSHED(failures),
	 FAMILY_COUNTER},
	{"eacgm_push_refused_total", "Bodies that the receiver will not take.", PUSHED(refused),
	 FAMILY_COUNTER},
	{"eacgm_push_dropped_total", "Bodies that found no room while they waited.",
	 PUSHED(dropped), FAMILY_COUNTER},
	{"eacgm_push_rejected_total",
	 "Points, logs and spans that the receiver left out of what it took.",
	 PUSHED(rejected_rows), FAMILY_COUNTER},
	{"eacgm_push_waiting", "Bodies that wait to be pushed.", PUSHED(waiting), FAMILY_GAUGE},
	{"eacgm_push_made_seconds", "What it took to make the last push.", PUSHED(made_ns),
	 FAMILY_GAUGE},
#undef PUSHED
};

static void write_pushed(const struct series_sink *x, const struct agent_pushed *pushed, size_t n)
{
	for (size_t i = 0; i < LEN(pushed_families); i++) {
		const struct pushed_family *f = &pushed_families[i];
		bool in_ns = f->offset == offsetof(struct agent_pushed, made_ns);
		series_family(x, f->name, f->type, f->help);
		for (size_t k = 0; k < n; k++) {
			uint64_t value;
			memcpy(&value, (const char *)&pushed[k] + f->offset, sizeof(value));
			series_sample(x, &(struct label){"to", pushed[k].to}, 1,
				      (double)value * (in_ns ? 1e-9 : 1));
		}
	}
	for (size_t k = 0; k < n; k++)
		if (pushed[k].tells_events)
			write_events(x, &pushed[k]);
}

/* ---- peers ---- */

const char *agent_peer_answer_name(enum peer_answer answer)
{
	static const char *const names[PEER_ANSWERS] = {
		[PEER_FREEZES] = "frozen", [PEER_JOINS] = "joined",
		[PEER_LATE] = "late",	   [PEER_HELD_OFF] = "held_off",
		[PEER_KNOWN] = "known",	   [PEER_STRANGER] = "stranger",
		[PEER_BAD] = "bad"};
	return names[answer];
}

static const struct peer_family {
	const char *name, *help;
	size_t offset; /* of struct agent_peer */
} peer_families[] = {
#define PEER(field) offsetof(struct agent_peer, field)
	{"eacgm_peer_told_total", "Freezes that another agent was told.", PEER(told)},
	{"eacgm_peer_froze_total", "Of these: those that it froze as well.", PEER(froze)},
	{"eacgm_peer_failures_total", "Attempts to tell it that failed.", PEER(failures)},
	{"eacgm_peer_refused_total", "Freezes that it would not be told.", PEER(refused)},
	{"eacgm_peer_dropped_total", "Freezes that it could not be told in time.", PEER(dropped)},
#undef PEER
};

static void write_peer_counts(const struct series_sink *x, const struct agent_peers_view *p)
{
	for (size_t i = 0; i < LEN(peer_families) && p->len; i++) {
		series_family(x, peer_families[i].name, FAMILY_COUNTER, peer_families[i].help);
		for (size_t k = 0; k < p->len; k++) {
			uint64_t value;
			memcpy(&value, (const char *)&p->list[k] + peer_families[i].offset,
			       sizeof(value));
			series_sample(x, &(struct label){"peer", p->list[k].url}, 1, (double)value);
		}
	}
}

/* Of those that took something. */
static void write_peer_times(const struct series_sink *x, const struct agent_peers_view *p)
{
	series_family(x, "eacgm_peer_last_told_seconds", FAMILY_GAUGE,
		      "When another agent was told last, of the Unix epoch.");
	for (size_t i = 0; i < p->len; i++)
		if (p->list[i].taken_realtime_ns)
			series_sample(x, &(struct label){"peer", p->list[i].url}, 1,
				      (double)p->list[i].taken_realtime_ns * 1e-9);
	series_family(x, "eacgm_peer_answer_seconds", FAMILY_GAUGE,
		      "From what froze here last to that agent's answer.");
	for (size_t i = 0; i < p->len; i++)
		if (p->list[i].taken_realtime_ns)
			series_sample(x, &(struct label){"peer", p->list[i].url}, 1,
				      p->list[i].answer_s);
}

static void write_peers(const struct series_sink *x, const struct agent_peers_view *p)
{
	write_number(x, "eacgm_peers", FAMILY_GAUGE,
		     "Other agents that are told of what freezes here.", (double)p->len);
	write_peer_counts(x, p);
	if (p->len)
		write_peer_times(x, p);
	series_family(x, "eacgm_peer_notes_total", FAMILY_COUNTER,
		      "What other agents told that they froze, by what became of it here.");
	for (int i = 0; i < PEER_ANSWERS; i++)
		series_sample(x, &(struct label){"result", agent_peer_answer_name(i)}, 1,
			      (double)p->notes[i]);
}

static void write_own_budget(const struct series_sink *x, const struct own_budget_view *b)
{
	if (!(b->limit > 0))
		return;
	write_number(x, "eacgm_own_budget_cores", FAMILY_GAUGE,
		     "CPUs that eacgm itself may take (--own-budget).", b->limit);
	write_number(x, "eacgm_own_always_cores", FAMILY_GAUGE,
		     "CPUs that eacgm takes by what is on all the time, as reckoned from the last "
		     "minute.",
		     b->used);
	write_number(x, "eacgm_own_fixed_cores", FAMILY_GAUGE,
		     "Of these: what it takes whatever is called.", b->fixed);
	write_number(x, "eacgm_own_call_seconds", FAMILY_GAUGE,
		     "Processor time that eacgm takes for a call that it reads.", b->call_s);
}

static void write_own(const struct series_sink *x, const struct agent_view *v)
{
	const struct live_state *s = v->state;
	series_family(x, "eacgm_build_info", FAMILY_GAUGE, "The value is 1.");
	series_sample(x, &(struct label){"version", v->version}, 1, 1);
	write_number(x, "eacgm_own_cpu_cores", FAMILY_GAUGE,
		     "CPUs that eacgm itself used in the last second.", s->own_cpu);
	write_own_budget(x, &s->own_budget);
	write_number(x, "eacgm_own_resident_bytes", FAMILY_GAUGE,
		     "Memory of eacgm's own process, without those that read files for it.",
		     s->own_rss_bytes);
	write_number(x, "eacgm_probe_cpu_cores", FAMILY_GAUGE,
		     "CPUs that probes took of the jobs, smoothed over ten seconds.", s->probe_cpu);
	write_number(x, "eacgm_job_cpu_cores", FAMILY_GAUGE,
		     "CPUs that traced processes used, likewise.", s->job_cpu);
	write_number(x, "eacgm_holds_total", FAMILY_COUNTER,
		     "How often a process that loads libraries, or raises, was held for probes.",
		     (double)s->holds);
	write_number(x, "eacgm_held_seconds_total", FAMILY_COUNTER,
		     "How long they were held, in sum.", (double)s->held_ns / 1e9);
	write_number(x, "eacgm_lost_events_total", FAMILY_COUNTER,
		     "Events that found no room and were not seen.", (double)s->lost);
	write_number(x, "eacgm_unjudged_events_total", FAMILY_COUNTER,
		     "Events that were not judged, since judging was too slow.",
		     (double)s->overruns);
	write_number(x, "eacgm_left_out_total", FAMILY_COUNTER,
		     "Functions, processes, counters, collectives and allocations that found no "
		     "room among these metrics.",
		     (double)live_series_left_out(v->series));
	if (v->freezes) {
		write_number(x, "eacgm_freezes_total", FAMILY_COUNTER,
			     "Recordings of the moments before something happened.",
			     (double)v->frozen);
		write_number(x, "eacgm_freeze_failures_total", FAMILY_COUNTER,
			     "Recordings that could not be written.", (double)v->unfrozen);
		write_number(x, "eacgm_freezes_held_off_total", FAMILY_COUNTER,
			     "What would have been frozen, had nothing been so shortly before.",
			     (double)v->held_off);
		write_peers(x, v->peers);
	}
	if (v->pushed_len)
		write_pushed(x, v->pushed, v->pushed_len);
	write_number(x, "eacgm_job_processes", FAMILY_GAUGE, "Processes that call what is traced.",
		     s->processes);
}

/* Of processes of all programs: what a rule fits that is no job counts too. */
static void write_rules(const struct series_sink *x, struct job_rules *r)
{
	if (!r)
		return;
	series_family(x, "eacgm_rule_processes", FAMILY_GAUGE,
		      "Processes that the rule of this number, from 1, is the first to fit.");
	for (size_t i = 1; i <= r->len; i++) {
		bool leaves_alone = r->list[i - 1].left_out == JOB_LEFT_ALONE;
		char number[16];
		snprintf(number, sizeof(number), "%zu", i);
		const struct label labels[] = {{"rule", number},
					       {"trace", leaves_alone ? "false" : "true"}};
		series_sample(x, labels, LEN(labels), (double)job_rules_count(r, i));
	}
	write_number(x, "eacgm_rule_failures_total", FAMILY_COUNTER,
		     "Processes that were traced against their rule, each once, since there was no "
		     "room.",
		     (double)job_rules_failures(r));
}

void agent_series_write(const struct series_sink *x, const struct agent_view *v)
{
	write_own(x, v);
	write_rules(x, v->rules);
	write_jobs(x, v);
	write_calls(x, v);
	write_coverage(x, v);
	write_in_bursts(x, v->series);
	work_series_write(x, v->series);
	collective_series_write(x, v->series);
	memory_series_write(x, v->series);
	write_steps(x, v);
	write_incidents(x, v);
	write_counters(x, v);
	if (v->dcgm)
		dcgm_series_write(x, v);
}
