/* agent.c - brings what an agent knows up to date. It answers nobody: agent_answers.c. */
#include "cli/agent.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "cli/agent_frozen.h"
#include "cli/agent_notes.h"
#include "cli/agent_profile.h"
#include "cli/agent_push.h"
#include "cli/live_anomalies.h"
#include "incident/anomaly_text.h"
#include "session/live_names.h"
#include "web/web_page.h"

#define WAIT_BYTES  (1u << 18)
#define ERR_WAIT_NS 200000000ULL
#define STEPS_NS    250000000ULL
#define MIXTURES_NS 5000000000ULL /* so often they are copied */

/* ---- what comes from the session ---- */

void agent_say(void *agent, const char *sentence)
{
	outlet_say(&((struct agent *)agent)->err, sentence);
}

/* ---- what is worth a trace ---- */

static volatile sig_atomic_t freeze_asked;

static void on_signal(int number)
{
	(void)number;
	freeze_asked = 1;
}

void agent_catch_signal(void)
{
	struct sigaction how = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &how, NULL);
}

static void freeze_error(struct agent *a, const struct session_view *v, const struct m_event *e)
{
	char *of = xasprintf("%s of %s", live_string(v, e->name), live_string(v, e->entity));
	char *why = xasprintf("%s: %s", of, live_string(v, e->text));
	agent_peers_freeze(a->peers, &(struct agent_freeze){e->time_ns, why, .of = of});
	free(why);
	free(of);
}

static void look_for_triggers(struct agent *a, const struct session_view *v)
{
	flight_batch(a->flight, v);
	for (size_t i = 0; i < v->batch->events.len; i++) {
		const struct m_event *e = &v->batch->events.data[i];
		if (agent_note_is_error(live_string(v, e->name)))
			freeze_error(a, v, e);
	}
	if (freeze_asked) {
		freeze_asked = 0;
		agent_peers_freeze(a->peers,
				   &(struct agent_freeze){.why = "SIGUSR1", .of = "SIGUSR1"});
	}
	if (v->raised_until_ns) /* what is frozen is to have all calls from now on */
		atomic_store(v->raised_until_ns, flight_until_ns(a->flight));
}

/* ---- what is pushed ---- */

static void on_step_end(void *ctx, const struct live_steps_view *of, uint64_t end_ns, bool first)
{
	struct agent *a = ctx;
	if (agent_series_sees(&a->series, of->marker)) /* this thread alone writes them */
		otlp_events_step_end(a->events,
				     &(struct otlp_step_end){of->pid, of->kind, end_ns, first});
}

static int64_t bytes_of(const struct session_view *v, const struct m_probe *probe,
			const struct m_call *c)
{
	int arg = live_bytes_arg(v, probe);
	return arg >= 0 && arg < c->nargs ? (int64_t)c->args[arg] : -1;
}

static void note_collective(struct agent *a, const struct session_view *v,
			    const struct m_probe *probe, const struct m_call *c)
{
	const struct m_thread *t = v->names->thread(v->names->ctx, c->thread);
	if (t)
		otlp_events_collective(
			a->events, &(struct otlp_collective){.pid = t->pid,
							     .tid = t->tid,
							     .name = live_string(v, probe->name),
							     .layer = live_string(v, probe->layer),
							     .start_ns = c->start_ns,
							     .end_ns = c->start_ns + c->dur_ns,
							     .bytes = bytes_of(v, probe, c),
							     .failed = c->flags & CALL_ERROR});
}

/* Between ranks: roles "collective" and "p2p" (docs/catalog.md). */
static void look_for_collectives(struct agent *a, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->calls.len; i++) {
		const struct m_call *c = &v->batch->calls.data[i];
		const struct m_probe *probe = v->names->probe(v->names->ctx, c->probe);
		const char *role = probe ? live_string(v, probe->role) : "";
		if (!strcmp(role, "collective") || !strcmp(role, "p2p"))
			note_collective(a, v, probe, c);
	}
}

/* ---- what is kept ---- */

/* With the lock held. */
static struct store_seen seen_by(const struct agent *a,
				 const struct live_steps_view *told[static LIVE_JOBS])
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < a->jobs.len; i++)
		if (agent_series_sees(&a->series, a->jobs.of[i].marker))
			told[n++] = &a->jobs.of[i];
	return (struct store_seen){.series = &a->series, .steps = told, .steps_len = n};
}

/* Likewise. */
static void store_state(struct agent *a, uint64_t now_ns)
{
	const struct live_steps_view *told[LIVE_JOBS];
	const struct store_seen seen = seen_by(a, told);
	store_tick(a->store, &seen, now_ns);
}

static void store_end(struct agent *a)
{
	const struct live_steps_view *told[LIVE_JOBS];
	const struct store_seen seen = seen_by(a, told);
	store_close(a->store, &seen);
}

/* ---- what there is at a batch ---- */

static void look_at_mixtures(struct agent *a, uint64_t now_ns)
{
	const struct model *model = session_detect_model(a->detect);
	if (!model || (a->mixtures_ns && now_ns < a->mixtures_ns + MIXTURES_NS))
		return;
	a->mixtures_ns = now_ns;
	judged_mixtures(a->judged, model, session_detect_layers(a->detect));
}

/* Nothing is told of the time before. */
static void tell_learning(struct agent *a)
{
	bool learning = !session_detect_judges(a->detect);
	if (learning == a->learning)
		return;
	a->learning = learning;
	agent_say(a, learning ? "learns anew what is usual, without what is on in bursts alone"
			      : "what is usual is known: judges from now on");
}

static void on_batch(void *ctx, const struct session_view *v)
{
	struct agent *a = ctx;
	uint64_t now_ns = monotonic_ns();
	if (a->detect) {
		session_detect_batch(a->detect, v);
		tell_learning(a);
		look_at_mixtures(a, now_ns);
	}
	agent_note_events(a, v);
	if (a->flight)
		look_for_triggers(a, v);
	if (a->events)
		look_for_collectives(a, v);
	watch_steps_batch(a->steps, v, now_ns);
	pthread_mutex_lock(&a->lock);
	a->last_batch_ns = now_ns;
	live_rates_batch(a->rates, v, now_ns, &a->state);
	live_series_batch(&a->series, v, now_ns);
	if (a->comms)
		live_comms_batch(a->comms, v, &a->series);
	if (a->owners)
		agent_owners_tick(a->owners, &a->series);
	a->state.learning = a->learning;
	if (now_ns - a->steps_taken_ns > STEPS_NS) {
		watch_steps_jobs(a->steps, &a->jobs, now_ns);
		a->steps_taken_ns = now_ns;
	}
	if (live_trends_tick(&a->trends, &a->series, now_ns))
		live_trends_steps(&a->trends, &a->jobs);
	if (a->store)
		store_state(a, now_ns);
	pthread_mutex_unlock(&a->lock);
	if (a->flames)
		agent_flames_batch(a->flames, a->store, v, now_ns);
	if (a->profile) /* this thread alone writes the series */
		agent_profile_batch(a->profile, v, &a->series, now_ns);
	notify_alive(&a->notify, now_ns); /* what /healthz looks at as well */
}

static void on_end(void *ctx, const struct session_view *v)
{
	struct agent *a = ctx;
	if (a->detect)
		session_detect_end(a->detect, v);
	if (a->flight)
		flight_end(a->flight, v);
	if (a->profile)
		agent_profile_end(a->profile, &a->series, monotonic_ns());
	pthread_mutex_lock(&a->lock);
	watch_steps_jobs(a->steps, &a->jobs, monotonic_ns());
	pthread_mutex_unlock(&a->lock);
}

static void on_anomaly(void *ctx, const struct anomaly *found)
{
	struct agent *a = ctx;
	pthread_mutex_lock(&a->lock);
	live_anomaly_keep(&a->state, found);
	pthread_mutex_unlock(&a->lock);
}

static void on_misfit(void *ctx, const struct model_misfit *m)
{
	agent_say(ctx, m->why);
}

static void on_change(void *ctx, const struct change *c)
{
	char text[CHANGE_LINE_BYTES];
	agent_say(ctx, change_line(text, c));
}

static void on_warning(void *ctx, const struct outlook_warning *w)
{
	char text[OUTLOOK_LINE_BYTES];
	agent_say(ctx, outlook_line(text, w));
}

static void on_row(void *ctx, const struct feature_row *row, double score, bool alarmed)
{
	judged_row(((struct agent *)ctx)->judged, row, score, alarmed);
}

/* How much of what was lost was whose. */
static void blame_of(struct buf *ret, const struct incident_said *told)
{
	const struct m_incident *row = told->row;
	char ns[HUMAN_BYTES];
	for (size_t i = 0; i < MODEL_INCIDENT_OWNERS && row->owners[i]; i++)
		buf_printf(ret, "%s%s: %s", i ? "; " : "",
			   human_ns(ns, (uint64_t)fmin(fmax(0, row->owner_ns[i]), 1e18)),
			   incident_text(told, row->owners[i]));
	buf_byte(ret, 0);
}

static void push_incident(struct agent *a, const struct incident_said *told, const char *sentence)
{
	const struct m_incident *row = told->row;
	const char *cause = incident_text(told, row->cause),
		   *culprit = incident_text(told, row->culprit);
	struct buf evidence = {0}, blame = {0};
	incident_evidence(&evidence, told, "; ");
	blame_of(&blame, told);
	otlp_events_incident(
		a->events,
		&(struct otlp_incident){
			.id = row->id,
			.told_ns = row->told_ns,
			.onset_ns = row->onset_ns,
			.end_ns = row->end_ns,
			.pid = row->pid,
			.culprit_pid = row->culprit_pid,
			.ended = row->ended,
			.beside = row->beside,
			.cost_ns = row->cost_ns,
			.confidence = row->confidence,
			.sentence = sentence,
			.cause = cause,
			.runner_up = incident_text(told, row->runner_up),
			.culprit = culprit[0] ? culprit : incident_text(told, row->culprit_name),
			.culprit_kind = incident_text(told, row->culprit_kind),
			.evidence = (const char *)evidence.data,
			.blame = (const char *)blame.data,
			.advice = incident_advice(told)});
	buf_free(&evidence);
	buf_free(&blame);
}

/* Returns whether it was told before; what was is forgotten after AGENT_TOLD others. */
static bool is_told_again(struct agent *a, const struct m_incident *row)
{
	for (size_t i = 0; i < AGENT_TOLD && i < a->ntold; i++) {
		const struct agent_told *t = &a->told[i];
		if (t->id == row->id && t->told_ns == row->told_ns && t->pid == row->pid)
			return true;
	}
	a->told[a->ntold++ % AGENT_TOLD] = (struct agent_told){row->id, row->told_ns, row->pid};
	return false;
}

static void freeze_incident(struct agent *a, const struct m_incident *row, const char *text)
{
	agent_peers_freeze(a->peers, &(struct agent_freeze){.time_ns = row->onset_ns,
							    .why = text,
							    .pid = row->pid,
							    .is_again = is_told_again(a, row)});
}

static void on_incident(void *ctx, const struct incident_said *told)
{
	struct agent *a = ctx;
	struct buf line = {0};
	incident_line(&line, told);
	buf_byte(&line, 0);
	char *text = xasprintf("%s: %s", told->row->ended ? "incident ended" : "incident",
			       (const char *)line.data);
	outlet_say(&a->err, text);
	if (a->events)
		push_incident(a, told, (const char *)line.data);
	if (a->flight && !told->row->ended)
		freeze_incident(a, told->row, text);
	if (a->store)
		store_incident(a->store, told);
	pthread_mutex_lock(&a->lock);
	json_t *taken = agent_incidents_take(&a->incidents, told);
	if (a->owners)
		agent_owners_name(a->owners, json_object_get(taken, "culprit"));
	pthread_mutex_unlock(&a->lock);
	free(text);
	buf_free(&line);
}

/* ---- its life ---- */

int agent_open(struct agent *a, const struct agent_wanted *wanted, struct err *e)
{
	struct live_state *s = &a->state;
	struct session_detect_options *judged = wanted->judged;
	struct flight_options *frozen = wanted->frozen;
	struct store_options *stored = wanted->stored;
	pthread_mutex_init(&a->lock, NULL);
	pthread_mutex_init(&a->push_lock, NULL);
	notify_open(&a->notify);
	outlet_open(&a->err, STDERR_FILENO, WAIT_BYTES);
	s->start_ns = monotonic_ns();
	s->job_cpu = s->probe_cpu = s->own_cpu = s->own_rss_bytes = s->learn_left_s = NAN;
	s->judges = judged != NULL;
	if (gethostname(a->host, sizeof(a->host) - 1))
		a->host[0] = 0;
	agent_incidents_open(&a->incidents);
	web_page_policy(&a->policy, "'self'");
	web_page_policy(&a->alone, "'none'");
	a->rates = live_rates_new();
	a->steps = watch_steps_new(LIVE_JOBS);
	a->series.chosen = wanted->labels;
	a->rules = wanted->rules;
	a->owners = agent_owners_new(wanted->owners, agent_say, a);
	if (wanted->pushes) {
		a->events = otlp_events_new();
		watch_steps_tell(a->steps, &(struct watch_steps_told){a, on_step_end});
	}
	if (wanted->stacks)
		a->flames = agent_flames_new();
	if (judged) {
		judged->ctx = a;
		judged->anomaly = on_anomaly;
		judged->misfit = on_misfit;
		judged->change = on_change;
		judged->warning = on_warning;
		judged->incident = on_incident;
		judged->row = on_row;
		a->judged = judged_new(false);
		a->detect = session_detect_new(judged);
		a->learning = true;
	}
	struct err no_folder;
	if (frozen && flight_folder_make(frozen, &no_folder)) /* it may come */
		agent_say(a, no_folder.msg);
	if (frozen) {
		frozen->ctx = a;
		frozen->written = agent_frozen_written;
		frozen->joined = agent_frozen_joined;
		a->flight = flight_new(frozen);
		a->comms = live_comms_new();
		a->pages = freeze_pages_new();
	}
	if (!stored)
		return 0;
	a->store_path = stored->path;
	stored->say = agent_say;
	stored->ctx = a;
	return store_open(&a->store, stored, e);
}

void agent_close(struct agent *a)
{
	agent_owners_free(a->owners);
	if (a->flight)
		flight_free(a->flight);
	live_comms_free(a->comms);
	freeze_pages_free(a->pages);
	if (a->flames)
		agent_flames_free(a->flames);
	if (a->detect)
		session_detect_free(a->detect);
	judged_free(a->judged);
	if (a->store)
		store_end(a);
	live_rates_free(a->rates);
	watch_steps_free(a->steps);
	if (a->events)
		otlp_events_free(a->events);
	live_series_free(&a->series);
	live_trends_free(&a->trends);
	agent_incidents_close(&a->incidents);
	json_decref(a->settings);
	buf_free(&a->policy);
	buf_free(&a->alone);
	notify_close(&a->notify);
	outlet_close(&a->err, ERR_WAIT_NS);
	pthread_mutex_destroy(&a->push_lock);
	pthread_mutex_destroy(&a->lock);
}

void agent_set_settings(struct agent *a, json_t *settings)
{
	pthread_mutex_lock(&a->lock);
	json_t *before = a->settings;
	a->settings = settings;
	pthread_mutex_unlock(&a->lock);
	json_decref(before);
}

struct agent_push *agent_exchange_push(struct agent *a, struct agent_push *p)
{
	pthread_mutex_lock(&a->push_lock);
	struct agent_push *ret = a->push;
	a->push = p;
	pthread_mutex_unlock(&a->push_lock);
	return ret;
}

void agent_name_as_dcgm(struct agent *a, bool does)
{
	pthread_mutex_lock(&a->lock);
	a->dcgm = does;
	pthread_mutex_unlock(&a->lock);
}

size_t agent_lookers(struct agent *a, struct session_live ret[static SESSION_DETECT_LOOKERS])
{
	const struct session_live looks = {
		.ctx = a, .batch = on_batch, .end = on_end, .misses = "counted"};
	ret[0] = looks;
	if (!a->detect)
		return 1;
	session_detect_lookers(a->detect, &looks, ret);
	return SESSION_DETECT_LOOKERS;
}
