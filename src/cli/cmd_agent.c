/* cmd_agent.c - `eacgm agent`: a session on every process of the host that keeps nothing, and
 * serves what it knows of the AI jobs among them by HTTP.
 *
 * Three threads of it: the first one runs the session, the session's that looks at rows brings the
 * state up to date, and the server's answers. They share the state under one lock. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "cli/agent_answers.h"
#include "cli/agent_config.h"
#include "cli/agent_options.h"
#include "cli/agent_reload.h"
#include "cli/agent_rules.h"
#include "cli/agent_settings.h"
#include "cli/alarm_options.h"
#include "cli/options.h"
#include "cli/session_host.h"
#include "cli/target_args.h"

#define SAMPLE_HZ	 99
#define PUSH_INTERVAL_NS 10000000000ULL
#define NO_POST                                                                                    \
	"only root and the agent's own user may: for others set a token (eacgm agent "             \
	"--token-file FILE)"
/* Of rows that causes are found in, the incident's and usual ones: as they are, those of five small
 * trainings fill it in ten seconds. */
#define CAUSES_BYTES	 (12u << 20)
#define CAUSES_RAW_BYTES (4u << 20)
#define CAUSES_NS	 30000000000ULL
#define COUNTERS_NS	 1000000000 /* where nobody judges them, nor keeps those of the last moments */

static const char *const description[] = {
	"Watches every AI job of this host, or of a TARGET, those that run and those that are to "
	"come, and serves what it knows: a page for browsers at http://127.0.0.1:9477/, JSON below "
	"/api/v1/, and metrics for Prometheus at /metrics. "
	"A job is a process that calls CUDA, NCCL or PyTorch. Jobs are not changed, restarted or "
	"stopped.",
	"What tracing costs the jobs is kept within a budget, 1 % of their processor time unless "
	"told otherwise, and what the agent itself takes within 0.5 % of a core, as far as it "
	"goes with calls. With --detect what is not normal is looked for as 'eacgm watch' does, "
	"and "
	"counted by its cause; there are budgets then where --budget or --own-budget says so.",
	"It ends on Ctrl-C or SIGTERM; no probe stays. With -c, SIGHUP has the file read again: "
	"another budget, receiver, certificate, token, address or limit is taken over; for others "
	"it "
	"ends, for who starts it again (systemd). If the file cannot be used, one line says so and "
	"it "
	"goes on.",
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
	 "Answer only who says the token that is in this file: Authorization: Bearer TOKEN. "
	 "Browsers "
	 "are given the page, which asks for it.",
	 NULL, OPT_FILE},
	{0, "budget", "PCT",
	 "What tracing may cost the jobs, of their processor time: 1% unless told, with --detect "
	 "as "
	 "much as it takes.",
	 NULL, 0},
	{0, "own-budget", "PCT",
	 "What the agent itself may take, of one core: 0.5% unless told, where --budget is less "
	 "than 100% "
	 "or not given; with --detect where a budget is given. It reads fewer calls for that.",
	 NULL, 0},
	{0, "detect", NULL,
	 "Look for what is not normal, and why: by all functions, or, with --budget, by those that "
	 "it leaves on.",
	 NULL, 0},
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
	{0, "peer", "URL",
	 "Tell this agent of another host, http://HOST:9477, when something is frozen here: it "
	 "freezes too, where a process has one of the communicators of NCCL that it is of. 64 at "
	 "most; each has to name the others.",
	 NULL, OPT_REPEAT},
	{0, "peer-ca", "FILE", "Authorities that sign for peers at https://, as --otlp-ca.", NULL,
	 OPT_FILE},
	{0, "peer-token-file", "FILE",
	 "Say the token that is in this file to peers: that of their --token-file.", NULL,
	 OPT_FILE},
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
	{0, "otlp-profiles", NULL,
	 "Also take stacks as --pprof-push does, and push them there as profiles of OTLP, which "
	 "are "
	 "in development and may change.",
	 NULL, 0},
	{0, "pprof-push", "URL",
	 "Also take stacks of the jobs at the CPU clock, 99 times a second, and push them each ten "
	 "seconds as profiles to a server that takes them as Pyroscope does: http://HOST:4040.",
	 NULL, 0},
	{0, "pprof-header", "NAME=VALUE", "A header that the server asks for, as --otlp-header.",
	 NULL, OPT_REPEAT},
	{0, "pprof-ca", "FILE", "Authorities that sign for the server, as --otlp-ca.", NULL,
	 OPT_FILE},
	{0, "parca-push", "URL",
	 "Likewise to a server that takes them as Parca does: http://HOST:7070.", NULL, 0},
	{0, "parca-header", "NAME=VALUE", "A header that it asks for, as --otlp-header.", NULL,
	 OPT_REPEAT},
	{0, "parca-ca", "FILE", "Authorities that sign for it, as --otlp-ca.", NULL, OPT_FILE},
	{0, "profile-interval", "TIME", "What a profile is of, 1s to 60s: 10s unless told.", NULL,
	 0},
	{0, "store", "FILE.db",
	 "Keep what is known there, rolled up: a database for 'eacgm query'. Counters, steps, "
	 "calls, "
	 "incidents, events.",
	 NULL, OPT_FILE},
	{0, "store-keep", "DAYS",
	 "So long; rows of ten seconds a day, of a second an hour at most: 7 unless told.", NULL,
	 0},
	{0, "store-bytes", "BYTES", "What it may take: 1 GiB unless told.", NULL, 0},
	{0, "kubelet-socket", "PATH",
	 "Ask the kubelet there which pod has which GPU; 'off': do not. Where it usually is, if it "
	 "is there: /var/lib/kubelet/pod-resources/kubelet.sock.",
	 NULL, OPT_FILE},
	{0, "runtime-socket", "PATH",
	 "Ask the container runtime there (CRI) whose containers are; 'off': do not. Where those "
	 "of containerd, CRI-O, k3s and cri-dockerd usually are, if one is there.",
	 NULL, OPT_FILE},
	{0, "hpc-job-mapping-dir", "FOLDER",
	 "Take jobs of GPUs from files there, as dcgm-exporter: named 0 for GPU 0, 0.7 for its GPU "
	 "instance 7, with a job in each line.",
	 NULL, OPT_FILE},
	{0, "label", "NAME=VALUE",
	 "A label of each job, in eacgm_process_info, JSON and what is pushed. 16 at most, with "
	 "those of the next.",
	 NULL, OPT_REPEAT},
	{0, "label-env", "[NAME=]VARIABLE",
	 "A label that has the value of this variable of a job's environment. It is named as the "
	 "variable, in lower case, unless told. Whoever may read what the agent serves reads it: "
	 "no secrets.",
	 NULL, OPT_REPEAT},
	{0, "rule", "RULE",
	 "What of which job is traced: 'command=python3 *serve*;trace=false' leaves those alone, "
	 "'command=*train*;layers=cuda,nccl' takes calls of these layers alone. Of command, cgroup "
	 "(globs) and user all that are given have to fit; the first rule that fits holds. 64 at "
	 "most.",
	 NULL, OPT_REPEAT},
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
	struct job_rules rules;
	uint64_t catalog_sum;
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
	o->own_budget = w->options.own_budget;
	o->judged = w->options.detects;
	o->duration_ns = w->options.duration_ns;
	o->frequent = args_has(&w->args, "layers");
	o->all_entries = args_has(&w->args, "everything");
	if (!o->frequent)
		o->layers = agent_layers(&w->catalog);
	if (w->options.detects) { /* as `eacgm watch`: a cause is found by what was waited for */
		w->options.judged.window_bytes = CAUSES_BYTES;
		w->options.judged.raw_bytes = CAUSES_RAW_BYTES;
		w->options.judged.packed_ns = CAUSES_NS;
		o->counts_waits = o->counts_stalls = o->disk_io = true;
	}
	if (!w->options.detects && !w->options.frozen.folder)
		o->counters_ns = COUNTERS_NS;
	if (w->options.detects || agent_options_profiles(&w->options))
		o->sample_hz = SAMPLE_HZ;
	w->target.all |= !w->target.pids.len && !w->target.cgroup;
}

static void wanted_free(struct wanted *w)
{
	target_free(&w->target);
	catalog_free(&w->catalog);
	job_rules_free(&w->rules);
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
static int complete_push(struct otlp_wanted *p, struct err *e)
{
	int rc = otlp_wanted_environment(p, e);
	p->to.interval_ns = p->to.interval_ns ? p->to.interval_ns : PUSH_INTERVAL_NS;
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
					 .callers = true,
					 .jobs_alone = true}};
	job_rules_init(&w->rules);
	if (path && agent_config_load(&w->config, given->command, path, e))
		return EXIT_USAGE;
	agent_config_merge(&w->args, given, &w->config);
	if (agent_options_read(&w->options, &w->args, e) || complete_push(&w->options.pushed, e))
		return EXIT_USAGE; /* the file's were checked */
	if (agent_options_check_profiles(&w->options, e))
		return blamed(w, given, "otlp-profiles", "otlp-profiles", EXIT_USAGE, e);
	if (agent_options_check_peers(&w->options, e))
		return blamed(w, given, "peer", "peer", EXIT_USAGE, e);
	if (agent_options_check_labels(&w->options, e))
		return EXIT_USAGE;
	if (agent_options_check_listen(&w->options, e))
		return blamed(w, given, "listen", "listen", EXIT_USAGE, e);
	if (catalog_from_args(&w->catalog, &w->args, e))
		return blamed(w, given, "catalog", "probe", 1, e);
	w->catalog_sum = w->catalog.files_sum;
	if (layers_from_args(&w->session.layers, &w->catalog, &w->args, e))
		return blamed(w, given, "layers", "layers", EXIT_USAGE, e);
	if (target_parse(&w->target, &w->args, e))
		return blamed(w, given, "pid", "cgroup", 1, e);
	wanted_session(w);
	if (agent_rules_read(&w->rules, &w->args, &w->catalog, w->session.layers, e))
		return blamed(w, given, "rule", "rule", EXIT_USAGE, e);
	w->session.rules = w->rules.len ? &w->rules : NULL;
	return 0;
}

/* ---- running ---- */

struct running {
	struct agent agent;
	const struct args *given;
	struct http_server *server;
	struct session *session;
	/* All that was wanted and is in use: strings of what runs are theirs. */
	VEC(struct wanted *) kept;
	struct wanted *now;	/* what was read last */
	struct wanted *pushing; /* whose receiver is pushed to */
	pthread_t closer;	/* of the receiver before, while there is one */
	bool closes;
};

static int listen_for(struct running *r, const struct wanted *w, const int *socket,
		      struct http_server **ret, struct err *e)
{
	const struct agent_address *where = &w->options.where;
	const struct http_server_options o = {.address = where->address,
					      .port = where->port,
					      .cert_file = where->cert_file,
					      .key_file = where->key_file,
					      .token_file = where->token_file,
					      .no_post = NO_POST,
					      .socket = socket,
					      .routes = agent_routes,
					      .routes_len = agent_routes_len,
					      .ctx = &r->agent};
	return http_server_open(ret, &o, e);
}

static void say_address(struct running *r)
{
	const struct agent_address *where = &r->now->options.where;
	bool v6 = strchr(where->address, ':') != NULL;
	char *text = xasprintf(v6 ? "serves %s://[%s]:%u/metrics%s" : "serves %s://%s:%u/metrics%s",
			       where->cert_file ? "https" : "http", where->address,
			       http_server_port(r->server),
			       where->token_file ? ", to who says the token" : "");
	agent_say(&r->agent, text);
	free(text);
	notify_keep_socket(&r->agent.notify, http_server_socket(r->server));
}

static void say_push(struct running *r, const char *what, const char *url, const char *how,
		     uint64_t each_ns)
{
	char *text = xasprintf("pushes %sto %s%s each %llu s", what, url, how,
			       (unsigned long long)(each_ns / 1000000000));
	agent_say(&r->agent, text);
	free(text);
}

static void say_profiles(struct running *r)
{
	const struct agent_options *o = &r->now->options;
	uint64_t each_ns = o->profiled.interval_ns;
	for (size_t i = 0; i < PROFILE_SERVERS; i++)
		if (o->profiled.servers[i].url)
			say_push(r, "profiles ", o->profiled.servers[i].url, "", each_ns);
	if (o->pushed.profiles)
		say_push(r, "profiles ", o->pushed.to.url, " by OTLP", each_ns);
}

static void say_otlp(struct running *r)
{
	const struct push_wanted *to = &r->now->options.pushed.to;
	if (to->url)
		say_push(r, "", to->url, " by OTLP", to->interval_ns);
}

/* ---- SIGHUP ---- */

static void *close_push(void *push)
{
	agent_push_close(push);
	return NULL;
}

static void await_closer(struct running *r)
{
	if (r->closes)
		pthread_join(r->closer, NULL);
	r->closes = false;
}

/* What no string is in use of. */
static void drop_wanted(struct running *r)
{
	size_t left = 1; /* the session's is the first */
	for (size_t i = 1; i < r->kept.len; i++) {
		struct wanted *w = r->kept.data[i];
		if (w == r->now || w == r->pushing) {
			r->kept.data[left++] = w;
			continue;
		}
		wanted_free(w);
		free(w);
	}
	r->kept.len = left;
}

/* The receiver before gets the last there is, and may take its time: on a thread of its own. Takes
 * what was opened. */
static int push_elsewhere(struct running *r, struct agent_push *p, struct err *e)
{
	int rc = agent_push_start(p, e);
	if (rc) {
		agent_push_close(p);
		return rc;
	}
	p = agent_exchange_push(&r->agent, p);
	r->pushing = r->now;
	r->closes = !thread_start(&r->closer, close_push, p, "eacgm-last-push");
	if (!r->closes)
		agent_push_close(p);
	say_otlp(r);
	return 0;
}

/* At the address of the one before its socket stays: nobody is refused. */
static int listen_elsewhere(struct running *r, struct wanted *next, struct err *e)
{
	const struct agent_address *was = &r->now->options.where, *is = &next->options.where;
	bool same = !strcmp(was->address, is->address) && was->port == is->port;
	int socket = http_server_socket(r->server);
	struct http_server *made = NULL;
	int rc = listen_for(r, next, same ? &socket : NULL, &made, e);
	if (!rc)
		rc = http_server_start(made, e);
	if (rc) {
		http_server_close(made);
		return rc;
	}
	http_server_close(r->server);
	r->server = made;
	return 0;
}

static void set_limits(struct running *r, const struct agent_options *o)
{
	if (o->budget > 0 || o->own_budget > 0)
		session_set_budget(r->session, o->budget, o->own_budget);
	if (r->agent.flight)
		flight_limit(r->agent.flight, &o->frozen);
	if (r->agent.store)
		store_limit(r->agent.store, o->stored.keep_s, o->stored.most_bytes);
	agent_name_as_dcgm(&r->agent, o->dcgm);
}

/* As the page and /api/v1/settings tell them. */
static void set_settings(struct running *r, const struct wanted *w)
{
	agent_set_settings(&r->agent, agent_settings_json(&w->args, args_get(r->given, "config")));
}

static bool pushes_alike(const struct wanted *a, const struct wanted *b)
{
	static const char *const names[] = {"otlp", "otlp-interval", "otlp-header", "otlp-ca"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!args_same(&a->args, &b->args, names[i]))
			return false;
	return true;
}

/* What may well fail comes first: where it does, all is as before. */
static int take_over(struct running *r, struct wanted *next, bool listens, struct err *e)
{
	struct agent_push *p = NULL;
	int rc = r->pushing && !pushes_alike(r->now, next)
			 ? agent_push_open(&p, &next->options.pushed, &r->agent, e)
			 : 0;
	if (!rc && listens)
		rc = listen_elsewhere(r, next, e);
	if (rc) {
		agent_push_close(p);
		return rc;
	}
	r->now = next;
	if (listens)
		say_address(r);
	set_limits(r, &next->options);
	set_settings(r, next);
	return p ? push_elsewhere(r, p, e) : 0;
}

static char *answer_hangup(struct running *r, struct wanted *next, bool *ret_ends)
{
	struct agent_changes c;
	struct err e = {0};
	char *ret;
	agent_changes_make(&c, &r->now->args, &next->args,
			   r->now->catalog_sum != next->catalog_sum);
	catalog_free(&next->catalog); /* the session has one */
	next->catalog = (struct catalog){0};
	*ret_ends = agent_changes_any(&c.anew);
	if (*ret_ends)
		ret = xasprintf("SIGHUP: ends, to be started again with another %s",
				(const char *)c.anew.data);
	else if (!agent_changes_any(&c.taken) && !c.listens)
		ret = xasprintf("SIGHUP: nothing has changed");
	else if (take_over(r, next, c.listens, &e))
		ret = xasprintf("SIGHUP: goes on as before: %s", e.msg);
	else
		ret = xasprintf("SIGHUP: takes over %s",
				agent_changes_any(&c.taken) ? (const char *)c.taken.data
							    : "the files of TLS and the token");
	agent_changes_free(&c);
	return ret;
}

/* Privileges are given up, so that this process can make no other session and start no other
 * program. What needs one ends it, for who starts it again, unless that one would not start. */
static bool ends_on_hangup(void *ctx)
{
	struct running *r = ctx;
	struct err e = {0};
	bool ends = true;
	char *text;
	if (args_has(r->given, "config")) {
		struct wanted *next = xcalloc(1, sizeof(*next));
		await_closer(r);
		*vec_push(&r->kept) = next;
		ends = false;
		text = wanted_make(next, r->given, &e)
			       ? xasprintf("SIGHUP: goes on as before: %s", e.msg)
			       : answer_hangup(r, next, &ends);
		drop_wanted(r);
	} else {
		text = xasprintf("SIGHUP: ends, to be started again");
	}
	agent_say(&r->agent, text);
	free(text);
	return ends;
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

static int start_threads(struct running *r, struct err *e)
{
	int rc = http_server_start(r->server, e);
	if (!rc && r->agent.peers)
		rc = agent_peers_start(r->agent.peers, e);
	if (!rc && r->agent.store)
		rc = store_start(r->agent.store, e);
	if (!rc && r->agent.owners)
		rc = agent_owners_start(r->agent.owners, e);
	return rc;
}

static int serve_session(struct running *r, const struct session_options *o, struct err *e)
{
	struct session_host host;
	struct session_result result = {0};
	sigset_t before;
	int rc = session_host_open(&host, o, e);
	if (rc)
		return rc;
	r->session = host.session;
	if (r->agent.push)
		rc = agent_push_start(r->agent.push, e);
	if (!rc && r->agent.profile)
		rc = agent_profile_start(r->agent.profile, e);
	host.hooks = (struct session_host_hooks){
		.ctx = r, .attached = on_attached, .ends = on_end, .hangup = ends_on_hangup};
	session_host_block_signals(&before);
	if (!rc)
		rc = start_threads(r, e);
	if (rc) {
		session_host_close(&host);
		return rc;
	}
	return session_host_run(&host, NULL, &result, e);
}

static int open_push(struct running *r, struct wanted *w, struct err *e)
{
	struct agent_push *p = NULL;
	int rc = agent_push_open(&p, &w->options.pushed, &r->agent, e);
	agent_exchange_push(&r->agent, p);
	r->pushing = rc ? NULL : w;
	return rc;
}

static int open_profile(struct running *r, const struct agent_options *o, struct err *e)
{
	struct agent_profile_told told = {
		.ctx = &r->agent, .say = agent_say, .host = r->agent.host, .sample_hz = SAMPLE_HZ};
	if (o->pushed.profiles) {
		told.otlp = agent_push_client(r->agent.push);
		told.about = agent_push_about(r->agent.push);
	}
	return agent_profile_open(&r->agent.profile, &o->profiled, &told, e);
}

static void say_what_runs(struct running *r)
{
	say_address(r);
	say_profiles(r);
	say_otlp(r);
}

static int run_open(struct running *r, struct wanted *w, struct err *e)
{
	struct session_live live[SESSION_DETECT_LOOKERS];
	const struct otlp_wanted *pushed = &w->options.pushed;
	const struct agent_wanted wanted = {
		.judged = w->options.detects ? &w->options.judged : NULL,
		.frozen = w->options.frozen.folder ? &w->options.frozen : NULL,
		.stored = w->options.stored.path ? &w->options.stored : NULL,
		.pushes = pushed->to.url != NULL,
		.owners = &w->options.owners,
		.labels = &w->options.labels,
		.rules = w->session.rules,
		.stacks = w->session.sample_hz != 0,
	};
	int rc = agent_open(&r->agent, &wanted, e);
	set_settings(r, w);
	if (!rc && pushed->to.url)
		rc = open_push(r, w, e);
	if (!rc && agent_options_profiles(&w->options))
		rc = open_profile(r, &w->options, e);
	if (!rc && wanted.frozen)
		rc = agent_peers_open(&r->agent.peers, &w->options.peers, &r->agent, e);
	if (!rc) {
		agent_catch_signal();
		w->session.live = live;
		w->session.nlive = agent_lookers(&r->agent, live);
		w->session.say = agent_say;
		w->session.say_ctx = &r->agent;
		say_what_runs(r);
		rc = serve_session(r, &w->session, e);
	}
	return rc;
}

/* At the socket that a service's manager kept open, where it is at the address. */
static int listen_first(struct running *r, const struct wanted *w, struct err *e)
{
	const struct agent_address *where = &w->options.where;
	int kept = notify_kept_socket();
	bool fits = kept >= 0 && http_socket_is_at(kept, where->address, where->port);
	int rc = listen_for(r, w, fits ? &kept : NULL, &r->server, e);
	if (kept >= 0)
		close(kept);
	return rc;
}

static int run_agent(const struct args *given, struct wanted *w, struct err *e)
{
	struct running r = {.agent.dcgm = w->options.dcgm, .given = given, .now = w};
	*vec_push(&r.kept) = w;
	int rc = listen_first(&r, w, e);
	if (!rc) {
		rc = run_open(&r, w, e);
		http_server_close(r.server); /* it asks the next for what it sent */
		await_closer(&r);
		agent_push_close(agent_exchange_push(&r.agent, NULL)); /* tells of profiles, too */
		agent_profile_close(r.agent.profile);
		agent_peers_close(r.agent.peers);
		agent_close(&r.agent);
	}
	r.now = r.pushing = NULL;
	drop_wanted(&r);
	vec_free(&r.kept);
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
