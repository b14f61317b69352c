/* cmd_agent.c - `eacgm agent`: a session on every process of the host that keeps nothing, and
 * serves what it knows of the AI jobs among them by HTTP.
 *
 * Three threads of it: the first one runs the session, the session's that looks at rows brings the
 * state up to date, and the server's answers. They share the state under one lock. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/agent.h"
#include "cli/agent_config.h"
#include "cli/agent_options.h"
#include "cli/agent_settings.h"
#include "cli/alarm_options.h"
#include "cli/options.h"
#include "cli/session_host.h"
#include "cli/target_args.h"

#define SAMPLE_HZ	 99
#define PUSH_INTERVAL_NS 10000000000ULL
#define CAUSES_BYTES	 (24u << 20) /* of rows that causes are found in */

static const char *const description[] = {
	"Watches every AI job of this host, or of a TARGET, those that run and those that are to "
	"come, and serves what it knows: a page for browsers at http://127.0.0.1:9477/, JSON below "
	"/api/v1/, and metrics for Prometheus at /metrics. "
	"A job is a process that calls CUDA, NCCL or PyTorch. Jobs are not changed, restarted or "
	"stopped.",
	"What tracing costs the jobs is kept within a budget, 1 % of their processor time unless "
	"told otherwise. With --detect there is no budget, and what is not normal is looked for as "
	"'eacgm watch' does, and counted by its cause.",
	"It ends on Ctrl-C or SIGTERM; no probe stays. With -c, SIGHUP ends it too if the file can "
	"be used, for who starts it again (systemd); if not, one line says so and it goes on.",
	NULL,
};

static const struct opt_def options[] = {
	TARGET_OPTIONS,
	{'c', "config", "FILE",
	 "Also take options from this file, in YAML: docs/agent.md. What is given here wins.", NULL,
	 OPT_FILE},
	{0, "listen", "ADDRESS:PORT",
	 "Serve here: 127.0.0.1:9477 unless told. Port 0: one that is free. An address that is no "
	 "loopback's wants the next three.",
	 NULL, 0},
	{0, "tls-cert", "FILE", "Serve by TLS: the certificate, in PEM, with those that signed it.",
	 NULL, OPT_FILE},
	{0, "tls-key", "FILE", "Its key, in PEM.", NULL, OPT_FILE},
	{0, "token-file", "FILE",
	 "Answer only who says the token that is in this file: Authorization: Bearer TOKEN.", NULL,
	 OPT_FILE},
	{0, "budget", "PCT",
	 "What tracing may cost the jobs, of their processor time: 1% unless told.", NULL, 0},
	{0, "detect", NULL, "Look for what is not normal, and why; there is no budget then.", NULL,
	 0},
	ALARM_OPTIONS("Of anomalies: "),
	{0, "freeze", "FOLDER",
	 "Keep the last seconds in memory and, when a GPU has an error, a collective hangs, an "
	 "incident begins, SIGUSR1 comes or POST /freeze, write them into a recording there.",
	 NULL, OPT_FILE},
	{0, "freeze-before", "TIME", "So long before what happened: 10s unless told.", NULL, 0},
	{0, "freeze-after", "TIME", "So long after it: 5s unless told.", NULL, 0},
	{0, "freeze-memory", "MB",
	 "Memory for it; four times as much while a file is written: 16 "
	 "unless told.",
	 NULL, 0},
	{0, "freeze-files", "N", "Files that stay: 20 unless told.", NULL, 0},
	{0, "freeze-bytes", "BYTES", "What they may take in all: 1 GiB unless told.", NULL, 0},
	{0, "freeze-age", "TIME", "Files older than that go, as 72h: of any age stay unless told.",
	 NULL, 0},
	{0, "otlp", "URL",
	 "Also push metrics, incidents and steps to a collector or store of OpenTelemetry, by "
	 "OTLP over HTTP: http://HOST:4318. OTEL_EXPORTER_OTLP_ENDPOINT unless told.",
	 NULL, 0},
	{0, "otlp-interval", "TIME", "So often: each 10s unless told.", NULL, 0},
	{0, "otlp-header", "NAME=VALUE",
	 "A header that the receiver asks for. Everybody on the host can read a command line: "
	 "secrets belong into the file of --config, or OTEL_EXPORTER_OTLP_HEADERS.",
	 NULL, OPT_REPEAT},
	{0, "otlp-ca", "FILE",
	 "Authorities, in PEM, that sign for a receiver at https://: the host's unless told.", NULL,
	 OPT_FILE},
	{0, "pprof-push", "URL",
	 "Also take stacks of the jobs at the CPU clock, 99 times a second, and push them each ten "
	 "seconds as profiles to a server that takes them as Pyroscope does: http://HOST:4040.",
	 NULL, 0},
	{0, "pprof-header", "NAME=VALUE", "A header that the server asks for, as --otlp-header.",
	 NULL, OPT_REPEAT},
	{0, "pprof-ca", "FILE", "Authorities that sign for the server, as --otlp-ca.", NULL,
	 OPT_FILE},
	{0, "store", "FILE.db",
	 "Keep what is known there, rolled up: a database for 'eacgm query'. Counters, steps, "
	 "calls, "
	 "incidents, events.",
	 NULL, OPT_FILE},
	{0, "store-keep", "DAYS", "So long; rows of ten seconds a day at most: 7 unless told.",
	 NULL, 0},
	{0, "store-bytes", "BYTES", "What it may take: 1 GiB unless told.", NULL, 0},
	{0, "no-dcgm", NULL, "Leave out GPUs by the names of NVIDIA's dcgm-exporter.", NULL, 0},
	{'d', "duration", "TIME",
	 "Stop after this time: seconds, or with a unit, as 1.5, 200ms or 3m.", NULL, 0},
	CATALOG_OPTIONS,
	{0},
};

static const struct cmd_example examples[] = {
	{"sudo eacgm agent", "all jobs of this host, on a budget of 1 % of their time"},
	{"curl -s http://127.0.0.1:9477/metrics", "what it knows"},
	{"curl -s http://127.0.0.1:9477/api/v1/jobs", "which jobs there are, as JSON"},
	{"sudo eacgm agent --detect", "and what was not normal"},
	{"sudo eacgm agent --otlp http://127.0.0.1:4318", "and to a collector of OpenTelemetry"},
	{"sudo eacgm agent --store agent.db", "and keep it for a week"},
	{"sudo eacgm agent -c /etc/eacgm/agent.yaml", "with the options of a file"},
	{0},
};

/* ---- what is wanted ---- */

/* All that a session is made of, from the command line and the file. */
struct wanted {
	struct agent_config config;
	struct args args; /* of both */
	struct catalog catalog;
	struct target target;
	struct agent_options options;
	struct session_options session;
};

/* All that there are but interpreters: one alone makes no AI job. */
static uint32_t agent_layers(const struct catalog *c)
{
	uint32_t ret = layers_with(LAYER_IS_CHOSEN) & ~layers_with(LAYER_HAS_FUNCTIONS);
	for (size_t i = 0; i < c->layers.len; i++)
		ret |= 1u << (LAYER_NAMED + i);
	return ret;
}

static void wanted_session(struct wanted *w)
{
	struct session_options *o = &w->session;
	o->catalog = &w->catalog;
	o->target = &w->target;
	o->budget = w->options.budget;
	o->duration_ns = w->options.duration_ns;
	o->frequent = args_has(&w->args, "layers");
	o->all_entries = args_has(&w->args, "everything");
	if (!o->frequent)
		o->layers = agent_layers(&w->catalog);
	if (w->options.detects) { /* as `eacgm watch`: a cause is found by what was waited for */
		w->options.judged.window_bytes = CAUSES_BYTES;
		o->counts_waits = o->counts_stalls = o->disk_io = true;
	}
	if (w->options.detects || w->options.profiled.url)
		o->sample_hz = SAMPLE_HZ;
	w->target.all |= !w->target.pids.len && !w->target.cgroup;
}

static void wanted_free(struct wanted *w)
{
	target_free(&w->target);
	catalog_free(&w->catalog);
	args_free(&w->args);
	agent_config_free(&w->config);
}

static int blamed(struct wanted *w, const struct args *given, const char *name, const char *other,
		  int status, struct err *e)
{
	struct err was = *e;
	agent_config_blame(&w->config, given, name, e);
	if (!strcmp(was.msg, e->msg))
		agent_config_blame(&w->config, given, other, e);
	return status;
}

/* What the environment says, and what is when nobody tells. */
static int complete_push(struct push_wanted *p, struct err *e)
{
	int rc = push_wanted_environment(p, e);
	p->interval_ns = p->interval_ns ? p->interval_ns : PUSH_INTERVAL_NS;
	return rc;
}

/* 0, or with a sentence the exit status; wanted_free is due in any case. */
static int wanted_make(struct wanted *w, const struct args *given, struct err *e)
{
	const char *path = args_get(given, "config");
	*w = (struct wanted){.session = {.mode_text = "trace",
					 .target_text = "jobs",
					 .live_texts = true,
					 .always_on = true,
					 .jobs_alone = true}};
	if (path && agent_config_load(&w->config, given->command, path, e))
		return EXIT_USAGE;
	agent_config_merge(&w->args, given, &w->config);
	if (agent_options_read(&w->options, &w->args, e) || complete_push(&w->options.pushed, e))
		return EXIT_USAGE; /* the file's were checked */
	if (agent_options_check_listen(&w->options, e))
		return blamed(w, given, "listen", "listen", EXIT_USAGE, e);
	if (catalog_from_args(&w->catalog, &w->args, e))
		return blamed(w, given, "catalog", "probe", 1, e);
	if (layers_from_args(&w->session.layers, &w->catalog, &w->args, e))
		return blamed(w, given, "layers", "layers", EXIT_USAGE, e);
	if (target_parse(&w->target, &w->args, e))
		return blamed(w, given, "pid", "cgroup", 1, e);
	wanted_session(w);
	return 0;
}

/* ---- running ---- */

struct running {
	struct agent agent;
	const struct args *given;
};

/* SIGHUP: privileges are given up, so that this process can make no other session and start no
 * other program. It ends for who starts it again, unless that one would not start. */
static bool ends_on_hangup(void *ctx)
{
	struct running *r = ctx;
	struct wanted next;
	struct err e = {0};
	bool good = !args_has(r->given, "config") || !wanted_make(&next, r->given, &e);
	char *text = good ? xasprintf("SIGHUP: ends, to be started again")
			  : xasprintf("SIGHUP: goes on as before: %s", e.msg);
	agent_say(&r->agent, text);
	free(text);
	if (args_has(r->given, "config"))
		wanted_free(&next);
	return good;
}

static void on_attached(void *ctx, const struct session_attached *a)
{
	struct running *r = ctx;
	char *text = xasprintf("attached to %zu process%s at %llu places", a->processes,
			       a->processes == 1 ? "" : "es", (unsigned long long)a->places);
	notify_state(&r->agent.notify, "READY=1", text);
	free(text);
}

static void on_end(void *ctx)
{
	struct running *r = ctx;
	notify_state(&r->agent.notify, "STOPPING=1", "takes its probes out");
}

static int serve_session(struct http_server *server, struct running *r,
			 const struct session_options *o, struct err *e)
{
	struct session_host host;
	struct session_result result = {0};
	sigset_t before;
	int rc = session_host_open(&host, o, e);
	if (rc)
		return rc;
	if (r->agent.push)
		rc = agent_push_start(r->agent.push, e);
	if (!rc && r->agent.profile)
		rc = agent_profile_start(r->agent.profile, e);
	if (rc) {
		session_host_close(&host);
		return rc;
	}
	host.hooks = (struct session_host_hooks){
		.ctx = r, .attached = on_attached, .ends = on_end, .hangup = ends_on_hangup};
	session_host_block_signals(&before);
	rc = http_server_start(server, e);
	if (!rc && r->agent.store)
		rc = store_start(r->agent.store, e);
	if (rc) {
		session_host_close(&host);
		return rc;
	}
	return session_host_run(&host, NULL, &result, e);
}

static void say_addresses(struct running *r, const struct agent_options *o,
			  const struct http_server *server)
{
	bool v6 = strchr(o->where.address, ':') != NULL;
	char *text = xasprintf(v6 ? "serves %s://[%s]:%u/metrics%s" : "serves %s://%s:%u/metrics%s",
			       o->where.cert_file ? "https" : "http", o->where.address,
			       http_server_port(server),
			       o->where.token_file ? ", to who says the token" : "");
	agent_say(&r->agent, text);
	free(text);
	if (r->agent.profile) {
		text = xasprintf("pushes profiles to %s each 10 s", o->profiled.url);
		agent_say(&r->agent, text);
		free(text);
	}
	if (!r->agent.push)
		return;
	text = xasprintf("pushes to %s by OTLP each %llu s", o->pushed.url,
			 (unsigned long long)(o->pushed.interval_ns / 1000000000));
	agent_say(&r->agent, text);
	free(text);
}

static int run_open(struct running *r, struct wanted *w, struct http_server *server, struct err *e)
{
	struct session_live live[SESSION_DETECT_LOOKERS];
	const struct push_wanted *pushed = &w->options.pushed;
	const struct agent_wanted wanted = {
		.judged = w->options.detects ? &w->options.judged : NULL,
		.frozen = w->options.frozen.folder ? &w->options.frozen : NULL,
		.stored = w->options.stored.path ? &w->options.stored : NULL,
		.pushes = pushed->url != NULL,
		.stacks = w->session.sample_hz != 0,
	};
	int rc = agent_open(&r->agent, &wanted, e);
	if (!rc && pushed->url)
		rc = agent_push_open(&r->agent.push, pushed, &r->agent, e);
	if (!rc && w->options.profiled.url)
		rc = agent_profile_open(&r->agent.profile, &w->options.profiled,
					&(struct agent_profile_told){&r->agent, agent_say,
								     r->agent.host, SAMPLE_HZ},
					e);
	if (!rc) {
		agent_catch_signal();
		w->session.live = live;
		w->session.nlive = agent_lookers(&r->agent, live);
		w->session.say = agent_say;
		w->session.say_ctx = &r->agent;
		say_addresses(r, &w->options, server);
		rc = serve_session(server, r, &w->session, e);
	}
	return rc;
}

static int run_agent(const struct args *given, struct wanted *w, struct err *e)
{
	struct running r = {.agent.dcgm = w->options.dcgm, .given = given};
	struct http_server *server = NULL;
	const struct http_server_options o = {.address = w->options.where.address,
					      .port = w->options.where.port,
					      .cert_file = w->options.where.cert_file,
					      .key_file = w->options.where.key_file,
					      .token_file = w->options.where.token_file,
					      .routes = agent_routes,
					      .routes_len = agent_routes_len,
					      .ctx = &r.agent};
	int rc = http_server_open(&server, &o, e);
	if (rc)
		return rc;
	r.agent.settings = agent_settings_json(&w->args, args_get(given, "config"));
	rc = run_open(&r, w, server, e);
	http_server_close(server); /* it asks the next for what it sent */
	agent_push_close(r.agent.push);
	agent_profile_close(r.agent.profile);
	agent_close(&r.agent);
	return rc;
}

static int run(const struct args *a)
{
	struct wanted w;
	struct err e = {0};
	int status = wanted_make(&w, a, &e);
	signal(SIGPIPE, SIG_IGN);
	if (status == EXIT_USAGE && !w.config.path && !args_has(a, "config"))
		usage_error(a->command, "%s", e.msg);
	else if (status || run_agent(a, &w, &e))
		status = (command_failed(a->command, &e), status ? status : 1);
	wanted_free(&w);
	return status;
}

const struct command cmd_agent = {
	.name = "agent",
	.synopsis = "[TARGET] [OPTION...]",
	.summary = "watch all AI jobs of this host, and serve what is known",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = 0,
	.run = run,
};
