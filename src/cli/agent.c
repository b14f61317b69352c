/* agent.c - brings what an agent knows up to date, and answers from it. */
#include "cli/agent.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/live_anomalies.h"
#include "incident/anomaly_text.h"
#include "report/report_anomalies.h"
#include "session/live_names.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

#define WAIT_BYTES  (1u << 18)
#define ERR_WAIT_NS 200000000ULL
#define STEPS_NS    250000000ULL

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

/* Errors of GPUs, and collectives that hang. */
static bool is_trigger(const char *name)
{
	return !strcmp(name, "xid") || !strcmp(name, "collective_hang") ||
	       !strcmp(name, "collective_mismatch");
}

static void look_for_triggers(struct agent *a, const struct session_view *v)
{
	flight_batch(a->flight, v);
	for (size_t i = 0; i < v->batch->events.len; i++) {
		const struct m_event *e = &v->batch->events.data[i];
		if (!is_trigger(live_string(v, e->name)))
			continue;
		char *why = xasprintf("%s of %s: %s", live_string(v, e->name),
				      live_string(v, e->entity), live_string(v, e->text));
		flight_trigger(a->flight, e->time_ns, why);
		free(why);
	}
	if (freeze_asked) {
		freeze_asked = 0;
		flight_trigger(a->flight, 0, "SIGUSR1");
	}
}

static void on_written(void *ctx, const char *path, const char *why, const struct err *failed)
{
	struct agent *a = ctx;
	char *text = failed ? xasprintf("cannot freeze (%s): %s", why, failed->msg)
			    : xasprintf("froze %s: %s", path, why);
	outlet_say(&a->err, text);
	free(text);
}

/* ---- what there is at a batch ---- */

static void on_batch(void *ctx, const struct session_view *v)
{
	struct agent *a = ctx;
	uint64_t now_ns = monotonic_ns();
	if (a->detect)
		session_detect_batch(a->detect, v);
	if (a->flight)
		look_for_triggers(a, v);
	watch_steps_batch(a->steps, v, now_ns);
	pthread_mutex_lock(&a->lock);
	a->last_batch_ns = now_ns;
	live_rates_batch(a->rates, v, now_ns, &a->state);
	live_series_batch(&a->series, v, now_ns);
	a->state.learning = a->detect && !session_detect_judges(a->detect);
	if (now_ns - a->steps_taken_ns > STEPS_NS) {
		watch_steps_get(a->steps, &a->state.steps);
		a->steps_taken_ns = now_ns;
	}
	pthread_mutex_unlock(&a->lock);
	notify_alive(&a->notify, now_ns); /* what /healthz looks at as well */
}

static void on_end(void *ctx, const struct session_view *v)
{
	struct agent *a = ctx;
	if (a->detect)
		session_detect_end(a->detect, v);
	if (a->flight)
		flight_end(a->flight, v);
}

static void on_anomaly(void *ctx, const struct anomaly *found)
{
	struct agent *a = ctx;
	pthread_mutex_lock(&a->lock);
	live_anomaly_keep(&a->state, found);
	pthread_mutex_unlock(&a->lock);
}

/* Incidents have rows as they go on; the last one counts. */
static void count_incident(struct agent_causes *c, const char *cause, double cost_ns)
{
	size_t i = 0;
	while (i < c->len && strcmp(c->rows[i].cause, cause))
		i++;
	if (i == AGENT_CAUSES)
		return;
	if (i == c->len) {
		snprintf(c->rows[i].cause, sizeof(c->rows[i].cause), "%s", cause);
		c->len++;
	}
	c->rows[i].n++;
	c->rows[i].cost_s += isfinite(cost_ns) ? cost_ns * 1e-9 : 0;
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
	if (a->flight && !told->row->ended)
		flight_trigger(a->flight, told->row->onset_ns, text);
	if (told->row->ended) {
		const char *cause = incident_text(told, told->row->cause);
		pthread_mutex_lock(&a->lock);
		count_incident(&a->causes, cause[0] ? cause : "unknown", told->row->cost_ns);
		pthread_mutex_unlock(&a->lock);
	}
	free(text);
	buf_free(&line);
}

/* ---- answers ---- */

static void get_metrics(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	struct flight_stats frozen = {0};
	struct exposition x = {.open_metrics = strstr(q->accept, "application/openmetrics-text")};
	ret->type = exposition_type(x.open_metrics);
	if (a->flight)
		flight_stats(a->flight, &frozen);
	pthread_mutex_lock(&a->lock);
	agent_series_write(&x, &(struct agent_view){.series = &a->series,
						    .state = &a->state,
						    .causes = &a->causes,
						    .host = a->host,
						    .version = EACGM_VERSION,
						    .freezes = a->flight != NULL,
						    .frozen = frozen.files,
						    .unfrozen = frozen.failed,
						    .dcgm = a->dcgm});
	pthread_mutex_unlock(&a->lock);
	ret->body = x.text;
}

static void get_root(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	(void)ctx;
	(void)q;
	buf_printf(&ret->body, "eacgm agent " EACGM_VERSION "\n/metrics  for Prometheus\n"
			       "/healthz  whether it works\n"
			       "/freeze   POST: the last seconds into a recording\n");
}

/* Batches come several times a second, also where nothing happens. */
static void get_health(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	(void)q;
	pthread_mutex_lock(&a->lock);
	uint64_t last_ns = a->last_batch_ns;
	pthread_mutex_unlock(&a->lock);
	bool works = last_ns && monotonic_ns() - last_ns < 10000000000ULL;
	ret->status = works ? 200 : 503;
	buf_printf(&ret->body, works ? "ok\n" : "nothing came for ten seconds\n");
}

static void post_freeze(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	(void)q;
	if (!a->flight) {
		ret->status = 404;
		buf_printf(&ret->body, "nothing is kept: start the agent with --freeze FOLDER\n");
		return;
	}
	flight_trigger(a->flight, 0, "asked by HTTP");
	ret->status = 202;
	buf_printf(&ret->body, "will be written\n");
}

const struct http_route agent_routes[] = {
	{"/", false, get_root},
	{"/metrics", false, get_metrics},
	{"/healthz", false, get_health},
	{"/freeze", true, post_freeze},
};
const size_t agent_routes_len = sizeof(agent_routes) / sizeof(agent_routes[0]);

/* ---- its life ---- */

void agent_open(struct agent *a, struct session_detect_options *judged,
		struct flight_options *frozen)
{
	struct live_state *s = &a->state;
	pthread_mutex_init(&a->lock, NULL);
	notify_open(&a->notify);
	outlet_open(&a->err, STDERR_FILENO, WAIT_BYTES);
	s->start_ns = monotonic_ns();
	s->job_cpu = s->probe_cpu = s->own_cpu = s->own_rss_bytes = s->learn_left_s = NAN;
	s->judges = judged != NULL;
	s->steps.looking = true;
	if (gethostname(a->host, sizeof(a->host) - 1))
		a->host[0] = 0;
	a->rates = live_rates_new();
	a->steps = watch_steps_new();
	if (judged) {
		judged->ctx = a;
		judged->anomaly = on_anomaly;
		judged->incident = on_incident;
		a->detect = session_detect_new(judged);
	}
	if (frozen) {
		frozen->ctx = a;
		frozen->written = on_written;
		a->flight = flight_new(frozen);
	}
}

void agent_close(struct agent *a)
{
	if (a->flight)
		flight_free(a->flight);
	if (a->detect)
		session_detect_free(a->detect);
	live_rates_free(a->rates);
	watch_steps_free(a->steps);
	live_series_free(&a->series);
	notify_close(&a->notify);
	outlet_close(&a->err, ERR_WAIT_NS);
	pthread_mutex_destroy(&a->lock);
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
