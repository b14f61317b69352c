/* cmd_agent.c - `eacgm agent`: a session on every process of the host that keeps nothing, and
 * serves what it knows of the AI jobs among them by HTTP.
 *
 * Three threads of it: the first one runs the session, the session's that looks at rows brings the
 * state up to date, and the server's answers. They share the state under one lock. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/agent.h"
#include "cli/alarm_options.h"
#include "cli/options.h"
#include "cli/session_host.h"
#include "cli/target_args.h"

#define PORT		 9477
#define BUDGET		 0.01
#define SAMPLE_HZ	 99
#define CAUSES_BYTES	 (24u << 20) /* of rows that causes are found in */
#define FREEZE_MB	 16
#define FREEZE_BEFORE_NS 10000000000ULL
#define FREEZE_AFTER_NS	 5000000000ULL
#define FREEZE_MOST_NS	 600000000000ULL
#define FREEZE_APART_NS	 30000000000ULL
#define FREEZE_FILES	 20
#define FREEZE_BYTES	 (1ULL << 30)

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
	{0, "freeze-files", "N", "Files that stay, 1 GB in all: 20 unless told.", NULL, 0},
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

/* What is on the command line of the options' kinds; -EINVAL with a sentence. */
struct wanted {
	struct listening where;
	struct session_detect_options judged;
	struct flight_options frozen;
	uint64_t megabytes;
};

static int run_agent(const struct args *args, struct session_options *o, struct wanted *w,
		     struct err *e)
{
	struct agent a = {.dcgm = !args_has(args, "no-dcgm")};
	struct http_server *server = NULL;
	struct session_live live[SESSION_DETECT_LOOKERS];
	int rc = http_server_open(&server, w->where.address, w->where.port, agent_routes,
				  agent_routes_len, &a, e);
	if (rc)
		return rc;
	agent_open(&a, args_has(args, "detect") ? &w->judged : NULL,
		   w->frozen.folder ? &w->frozen : NULL);
	agent_catch_signal();
	o->live = live;
	o->nlive = agent_lookers(&a, live);
	o->say = agent_say;
	o->say_ctx = &a;
	char *text = xasprintf(strchr(w->where.address, ':') ? "serves http://[%s]:%u/metrics"
							     : "serves http://%s:%u/metrics",
			       w->where.address, http_server_port(server));
	agent_say(&a, text);
	free(text);
	rc = serve_session(server, o, e);
	http_server_close(server);
	agent_close(&a);
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

static int frozen_of(struct wanted *w, const struct args *a, struct err *e)
{
	w->megabytes = FREEZE_MB;
	w->frozen = (struct flight_options){.folder = args_get(a, "freeze"),
					    .before_ns = FREEZE_BEFORE_NS,
					    .after_ns = FREEZE_AFTER_NS,
					    .most_files = FREEZE_FILES,
					    .most_bytes = FREEZE_BYTES,
					    .least_apart_ns = FREEZE_APART_NS};
	uint64_t files = FREEZE_FILES;
	int rc = args_time(a, "freeze-before", 0, FREEZE_MOST_NS, &w->frozen.before_ns, e);
	if (!rc)
		rc = args_time(a, "freeze-after", 0, FREEZE_MOST_NS, &w->frozen.after_ns, e);
	if (!rc)
		rc = args_u64(a, "freeze-memory", 1, 1024, &w->megabytes, e);
	if (!rc)
		rc = args_u64(a, "freeze-files", 1, 100000, &files, e);
	w->frozen.window_bytes = w->megabytes << 20;
	w->frozen.most_files = (uint32_t)files;
	return rc;
}

static int options_of(struct session_options *o, struct wanted *w, const struct args *a,
		      struct err *e)
{
	int rc = layers_from_args(&o->layers, o->catalog, a, e);
	if (!rc)
		rc = listening_of(&w->where, args_get(a, "listen"), e);
	if (!rc)
		rc = budget_of(&o->budget, a, e);
	if (!rc)
		rc = args_time(a, "duration", 100000000, DURATION_MOST_NS, &o->duration_ns, e);
	if (!rc)
		rc = alarm_limits_of(a, &w->judged.alarms_per_hour, &w->judged.least_effect, e);
	if (!rc)
		rc = frozen_of(w, a, e);
	o->frequent = args_has(a, "layers");
	o->all_entries = args_has(a, "everything");
	if (!o->frequent)
		o->layers = agent_layers(o->catalog);
	if (args_has(a, "detect")) { /* as `eacgm watch`: a cause is found by what was waited for */
		w->judged.window_bytes = CAUSES_BYTES;
		o->sample_hz = SAMPLE_HZ;
		o->counts_waits = o->counts_stalls = o->disk_io = true;
	}
	return rc;
}

static int run_with(const struct catalog *catalog, const struct args *a)
{
	struct err e = {0};
	struct target target = {0};
	struct wanted w = {0};
	struct session_options o = {.mode_text = "trace",
				    .target_text = "jobs",
				    .catalog = catalog,
				    .target = &target,
				    .live_texts = true,
				    .always_on = true,
				    .jobs_alone = true};
	if (args_has(a, "pid") + args_has(a, "cgroup") + args_has(a, "all") > 1)
		return usage_error(a->command, "give one target: -p PID, --cgroup PATH or --all");
	if (options_of(&o, &w, a, &e))
		return usage_error(a->command, "%s", e.msg);
	if (target_parse(&target, a, &e))
		return command_failed(a->command, &e);
	target.all |= !target.pids.len && !target.cgroup;
	signal(SIGPIPE, SIG_IGN);
	int rc = run_agent(a, &o, &w, &e);
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
