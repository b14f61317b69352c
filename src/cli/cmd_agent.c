/* cmd_agent.c - `eacgm agent`: a session on every process of the host that keeps nothing, and
 * serves what it knows of the AI jobs among them by HTTP.
 *
 * Three threads of it: the first one runs the session, the session's that looks at rows brings the
 * state up to date, and the server's answers. They share the state under one lock. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/outlet.h"
#include "cli/alarm_options.h"
#include "cli/live_anomalies.h"
#include "cli/options.h"
#include "cli/session_host.h"
#include "cli/target_args.h"
#include "cli/watch_steps.h"
#include "incident/anomaly_text.h"
#include "serve/agent_series.h"
#include "serve/http_server.h"
#include "session/live_rates.h"
#include "session/session_detect.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

#define WAIT_BYTES  (1u << 18)
#define ERR_WAIT_NS 200000000ULL
#define PORT	    9477
#define BUDGET	    0.01
#define HOST_BYTES  256
#define STEPS_NS    250000000ULL

static const char *const description[] = {
	"Watches every AI job of this host, or of a TARGET, those that run and those that are to "
	"come, and serves "
	"what it knows as metrics: http://127.0.0.1:9477/metrics, for Prometheus. A job is a "
	"process that calls CUDA, NCCL or PyTorch. Jobs are not changed, restarted or stopped.",
	"What tracing costs the jobs is kept within a budget, 1 % of their processor time unless "
	"told otherwise. With --detect there is no budget, and what is not normal is looked for as "
	"'eacgm watch' does, and counted by its cause.",
	"It ends on Ctrl-C or SIGTERM; no probe stays.",
	NULL,
};

static const struct opt_def options[] = {
	TARGET_OPTIONS,
	{0, "listen", "ADDRESS:PORT",
	 "Serve here: a loopback address, 127.0.0.1:9477 unless told. Port 0: one that is free.",
	 NULL, 0},
	{0, "budget", "PCT",
	 "What tracing may cost the jobs, of their processor time: 1% unless told.", NULL, 0},
	{0, "detect", NULL, "Look for what is not normal, and why; there is no budget then.", NULL,
	 0},
	ALARM_OPTIONS("Of anomalies: "),
	{0, "no-dcgm", NULL, "Leave out GPUs by the names of NVIDIA's dcgm-exporter.", NULL, 0},
	{'d', "duration", "TIME",
	 "Stop after this time: seconds, or with a unit, as 1.5, 200ms or 3m.", NULL, 0},
	CATALOG_OPTIONS,
	{0},
};

static const struct cmd_example examples[] = {
	{"sudo eacgm agent", "all jobs of this host, within 1 % of their time"},
	{"curl -s http://127.0.0.1:9477/metrics", "what it knows"},
	{"sudo eacgm agent --detect", "and what was not normal"},
	{0},
};

struct agent {
	struct outlet err;
	pthread_mutex_t lock; /* of the next four */
	struct live_state state;
	struct live_series series;
	struct agent_causes causes;
	uint64_t last_batch_ns;
	struct live_rates *rates; /* those three of the thread that looks at rows */
	struct watch_steps *steps;
	struct session_detect *detect; /* NULL: nothing is judged */
	uint64_t steps_taken_ns;
	char host[HOST_BYTES];
	bool dcgm;
};

/* ---- what comes from the session ---- */

static void say(void *ctx, const char *sentence)
{
	outlet_say(&((struct agent *)ctx)->err, sentence);
}

static void on_batch(void *ctx, const struct session_view *v)
{
	struct agent *a = ctx;
	uint64_t now_ns = monotonic_ns();
	if (a->detect)
		session_detect_batch(a->detect, v);
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
}

static void on_end(void *ctx, const struct session_view *v)
{
	struct agent *a = ctx;
	if (a->detect)
		session_detect_end(a->detect, v);
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
	struct exposition x = {.open_metrics = strstr(q->accept, "application/openmetrics-text")};
	ret->type = exposition_type(x.open_metrics);
	pthread_mutex_lock(&a->lock);
	agent_series_write(&x, &(struct agent_view){.series = &a->series,
						    .state = &a->state,
						    .causes = &a->causes,
						    .host = a->host,
						    .version = EACGM_VERSION,
						    .dcgm = a->dcgm});
	pthread_mutex_unlock(&a->lock);
	ret->body = x.text;
}

static void get_root(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	(void)ctx;
	(void)q;
	buf_printf(&ret->body, "eacgm agent " EACGM_VERSION "\n/metrics  for Prometheus\n"
			       "/healthz  whether it works\n");
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

static const struct http_route routes[] = {
	{"/", false, get_root},
	{"/metrics", false, get_metrics},
	{"/healthz", false, get_health},
};

/* ---- options ---- */

struct listening {
	char address[64];
	uint16_t port;
};

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

/* "127.0.0.1:9477", "[::1]:9477". */
static int listening_of(struct listening *ret, const char *text, struct err *e)
{
	*ret = (struct listening){.address = "127.0.0.1", .port = PORT};
	const char *colon = text ? strrchr(text, ':') : NULL;
	if (!text)
		return 0;
	char *end = NULL;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	bool bracket = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
	size_t len = colon ? (size_t)(colon - text) - 2 * bracket : 0;
	if (!colon || end == colon + 1 || *end || port > 65535 || !len ||
	    len >= sizeof(ret->address))
		return err_set(e, EINVAL, "--listen: '%s' is no ADDRESS:PORT", text);
	memcpy(ret->address, text + bracket, len);
	ret->address[len] = 0;
	ret->port = (uint16_t)port;
	if (!is_loopback(ret->address))
		return err_set(e, EINVAL,
			       "--listen: '%s' is no loopback address (127.0.0.1, [::1]); there is "
			       "no TLS and no token yet, so the agent serves this host alone",
			       ret->address);
	return 0;
}

static int budget_of(double *ret, const struct args *a, struct err *e)
{
	const char *text = args_get(a, "budget");
	char *end = NULL;
	bool detects = args_has(a, "detect");
	*ret = detects ? 0 : BUDGET;
	if (!text)
		return 0;
	if (detects)
		return err_set(e, EINVAL,
			       "--budget and --detect: what is turned down would be "
			       "taken for a change of the job");
	double percent = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "%")) || !(percent >= 0.1 && percent <= 100))
		return err_set(e, EINVAL, "--budget: '%s' is not a percentage from 0.1 to 100",
			       text);
	*ret = percent / 100;
	return 0;
}

/* ---- running ---- */

static void begin_state(struct agent *a)
{
	struct live_state *s = &a->state;
	s->start_ns = monotonic_ns();
	s->job_cpu = s->probe_cpu = s->own_cpu = s->own_rss_bytes = s->learn_left_s = NAN;
	s->judges = a->detect != NULL;
	s->steps.looking = true;
	if (gethostname(a->host, sizeof(a->host) - 1))
		a->host[0] = 0;
}

static int serve_session(struct http_server *server, const struct session_options *o, struct err *e)
{
	struct session_host host;
	struct session_result result = {0};
	sigset_t before;
	int rc = session_host_open(&host, o, e);
	if (rc)
		return rc;
	session_host_block_signals(&before);
	rc = http_server_start(server, e);
	if (rc) {
		session_host_close(&host);
		return rc;
	}
	return session_host_run(&host, NULL, &result, e);
}

static int run_agent(const struct args *args, struct session_options *o,
		     const struct listening *where, struct err *e)
{
	struct agent a = {.dcgm = !args_has(args, "no-dcgm")};
	struct http_server *server = NULL;
	struct session_detect_options judged = {
		.ctx = &a, .anomaly = on_anomaly, .incident = on_incident};
	struct session_live live[SESSION_DETECT_LOOKERS] = {
		{.ctx = &a, .batch = on_batch, .end = on_end, .misses = "counted"}};
	int rc = alarm_limits_of(args, &judged.alarms_per_hour, &judged.least_effect, e);
	if (!rc)
		rc = http_server_open(&server, where->address, where->port, routes,
				      sizeof(routes) / sizeof(routes[0]), &a, e);
	if (rc)
		return rc;
	pthread_mutex_init(&a.lock, NULL);
	outlet_open(&a.err, STDERR_FILENO, WAIT_BYTES);
	a.rates = live_rates_new();
	a.steps = watch_steps_new();
	o->live = live;
	o->nlive = 1;
	if (args_has(args, "detect")) {
		const struct session_live looks = live[0];
		a.detect = session_detect_new(&judged);
		session_detect_lookers(a.detect, &looks, live);
		o->nlive = SESSION_DETECT_LOOKERS;
	}
	o->say = say;
	o->say_ctx = &a;
	begin_state(&a);
	char *text = xasprintf(strchr(where->address, ':') ? "serves http://[%s]:%u/metrics"
							   : "serves http://%s:%u/metrics",
			       where->address, http_server_port(server));
	outlet_say(&a.err, text);
	free(text);
	rc = serve_session(server, o, e);
	http_server_close(server);
	if (a.detect)
		session_detect_free(a.detect);
	live_rates_free(a.rates);
	watch_steps_free(a.steps);
	live_series_free(&a.series);
	outlet_close(&a.err, ERR_WAIT_NS);
	pthread_mutex_destroy(&a.lock);
	return rc;
}

/* All that there are but interpreters: one alone makes no AI job. */
static uint32_t agent_layers(const struct catalog *c)
{
	uint32_t ret = layers_with(LAYER_IS_CHOSEN) & ~layers_with(LAYER_HAS_FUNCTIONS);
	for (size_t i = 0; i < c->layers.len; i++)
		ret |= 1u << (LAYER_NAMED + i);
	return ret;
}

static int options_of(struct session_options *o, struct listening *where, const struct args *a,
		      struct err *e)
{
	int rc = layers_from_args(&o->layers, o->catalog, a, e);
	if (!rc)
		rc = listening_of(where, args_get(a, "listen"), e);
	if (!rc)
		rc = budget_of(&o->budget, a, e);
	if (!rc)
		rc = args_time(a, "duration", 100000000, DURATION_MOST_NS, &o->duration_ns, e);
	o->frequent = args_has(a, "layers");
	o->all_entries = args_has(a, "everything");
	if (!o->frequent)
		o->layers = agent_layers(o->catalog);
	return rc;
}

static int run_with(const struct catalog *catalog, const struct args *a)
{
	struct err e = {0};
	struct target target = {0};
	struct listening where;
	struct session_options o = {.mode_text = "trace",
				    .target_text = "jobs",
				    .catalog = catalog,
				    .target = &target,
				    .live_texts = true,
				    .always_on = true,
				    .jobs_alone = true};
	if (args_has(a, "pid") + args_has(a, "cgroup") + args_has(a, "all") > 1)
		return usage_error(a->command, "give one target: -p PID, --cgroup PATH or --all");
	if (options_of(&o, &where, a, &e))
		return usage_error(a->command, "%s", e.msg);
	if (target_parse(&target, a, &e))
		return command_failed(a->command, &e);
	target.all |= !target.pids.len && !target.cgroup;
	signal(SIGPIPE, SIG_IGN);
	int rc = run_agent(a, &o, &where, &e);
	target_free(&target);
	return rc ? command_failed(a->command, &e) : 0;
}

static int run(const struct args *a)
{
	struct catalog catalog = {0};
	struct err e = {0};
	if (catalog_from_args(&catalog, a, &e))
		return command_failed(a->command, &e);
	int status = run_with(&catalog, a);
	catalog_free(&catalog);
	return status;
}

const struct command cmd_agent = {
	.name = "agent",
	.synopsis = "[TARGET] [OPTION...]",
	.summary = "watch all AI jobs of this host, and serve what is known as metrics",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = 0,
	.run = run,
};
