/* cmd_record.c - `eacgm record`: options in, one session, one line about it out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alarm_options.h"
#include "base/human.h"
#include "cli/options.h"
#include "cli/target_args.h"
#include "base/outlet.h"
#include "session/session_detect.h"
#include "cli/session_host.h"
#include "detect/model_file.h"
#include "incident/anomaly_text.h"
#include "cli/terminal.h"

#define BURST_ON_MS  500 /* length of one period of --burst where none is given */
#define BUDGET_LEAST 0.1 /* percent */
#define BUDGET_MOST  100.0
#define WAIT_BYTES   (1u << 20)	   /* of lines that nobody has taken yet */
#define WAIT_NS	     1000000000ULL /* at the end, for who reads them */

static const char *const description[] = {
	"Starts a command, or attaches to running processes, and writes every call of every "
	"traced function into a recording. The traced programs are not changed, restarted or "
	"stopped; when eacgm ends, in whatever way, they go on at full speed.",
	"With a command, eacgm ends when the command and all that it started have ended, with "
	"the command's exit status. Ctrl-C reaches the command as well; a second Ctrl-C ends "
	"the recording and leaves the command running. Without a command, Ctrl-C or -d end the "
	"recording.",
	"Modes: 'trace' keeps every call; 'tail' keeps histograms, and each call slower than "
	"99 % of its function's calls so far; 'stats' keeps histograms only.",
	NULL,
};

static const struct opt_def options[] = {
	TARGET_OPTIONS,
	{'o', "output", "FILE", "Where to write; eacgm.eacgm when not given.", NULL, OPT_FILE},
	{'u', "user", "USER",
	 "Whom the command runs as: a name, or a number. When not given: who called sudo, doas or "
	 "pkexec, else the user that eacgm runs as.",
	 NULL, 0},
	{'d', "duration", "TIME",
	 "Stop after this time: seconds, or with a unit, as 1.5, 200ms or 3m.", NULL, 0},
	CATALOG_OPTIONS,
	{0, "mode", "M|LAYER=M,...",
	 "What to keep: trace, tail or stats; for all layers or by layer.", NULL, 0},
	{0, "burst", "1/N[:MS]",
	 "Trace one period in N, and take all probes off in between; a period lasts MS "
	 "milliseconds, 500 when not given.",
	 NULL, 0},
	{0, "budget", "PCT",
	 "What recording may cost, in percent of the job's CPU time: 2 or 2%. What costs most for "
	 "what it tells is turned down for that, Python frames first, then operators, and is on in "
	 "bursts alone; the recording says what was on for how long: see docs/record.md.",
	 NULL, 0},
	{0, "profile", "KIND,...|off",
	 "Which stacks to take: cpu (at each tick of a clock), offcpu (where threads stop running, "
	 "and why), gpu (where kernels are launched from; some launches, by chance), gpu-alloc "
	 "(where memory of GPUs is allocated), gpu-inuse (the same down to PyTorch's caching "
	 "allocator). Unless told: cpu,gpu,gpu-alloc.",
	 NULL, 0},
	WAITS_OPTION,
	{'F', "freq", "HZ",
	 "How many samples a second of running are taken: 19 to 999; 99 unless told.", NULL, 0},
	{0, "debuginfod", NULL,
	 "Ask the servers of $DEBUGINFOD_URLS for the symbols of stripped libraries; their build "
	 "ids "
	 "are sent there. Debug files in /usr/lib/debug are used without asking.",
	 NULL, 0},
	{0, "gpu-timeline", "WHAT",
	 "Also record every kernel, copy and memset that GPUs run, with its times, through "
	 "CUPTI, which comes into the processes and goes out again: see docs/gpu-timeline.md. on "
	 "when no word is given; graphs: graphs as wholes, which is cheaper; waits: also "
	 "waits of the host and of streams, which are dear; off.",
	 "on|graphs|waits|off", OPT_OPTIONAL_VALUE},
	{0, "operators", "HOW",
	 "Where PyTorch's operators come from beside --gpu-timeline: probes, or callbacks of "
	 "PyTorch "
	 "itself where its interface is known. auto: callbacks with --everything, probes else.",
	 "auto|probes|callbacks", 0},
	{0, "probes", "WHERE",
	 "Who sees calls: the kernel, by uprobes, at a microsecond a call; or, of commands that "
	 "eacgm starts and processes by -p, code inside of them where it can, at a fraction of "
	 "that: see docs/record.md. auto, the default: inprocess of commands on hosts of four "
	 "CPUs and more, but with --budget the kernel; the kernel of processes that run already.",
	 "kernel|inprocess|auto", 0},
	{0, "python", "WHAT",
	 "calls: every call of a Python function, of commands that eacgm starts, as their "
	 "interpreters tell it (3.8 and later); off unless told.",
	 "calls|off", 0},
	{0, "python-only", "GLOB,...",
	 "With --python calls: only functions of these files. A glob without a slash is for the "
	 "name of the file alone.",
	 NULL, 0},
	{0, "python-skip", "GLOB,...",
	 "With --python calls: no functions of these files, whatever --python-only says.", NULL, 0},
	{0, "detect", "MODEL",
	 "Tell anomalies as they come, on standard error, and write them into the recording: of "
	 "a model that 'eacgm learn' made, or, without one, learned from what comes first.",
	 NULL, OPT_OPTIONAL_VALUE | OPT_FILE},
	ALARM_OPTIONS("With --detect: "),
	{0, "max-size", "MB", "Stop when the recording has this size.", NULL, 0},
	{0, "attach", "METHOD", "How to attach; the best that works when not given.",
	 "session|multi|single", 0},
	{0, "without-guard", NULL,
	 "Trace also on kernels without sleepable uprobes (before 6.0): a C++ exception that "
	 "passes a traced function then ends the job, and a late library's first calls may be "
	 "lost.",
	 NULL, 0},
	{0},
};

static const struct cmd_example examples[] = {
	{"sudo eacgm record -- python3 train.py", "trace a run from its start to its end"},
	{"sudo eacgm record -p 4242 -d 10 -o job.eacgm", "ten seconds of a running job"},
	{"sudo eacgm record --probe 'libfoo.so:foo_*(u64 handle, size bytes) -> int' -- ./prog",
	 "any function of any library"},
	{0},
};

static const char *const mode_names[] = {"trace", "tail", "stats"};

static int mode_from_name(const char *name, enum trace_mode *ret, struct err *e)
{
	for (int i = 0; i < 3; i++) {
		if (!strcmp(name, mode_names[i])) {
			*ret = (enum trace_mode)i;
			return 0;
		}
	}
	return err_set(e, EINVAL, "--mode: '%s' is none of trace, tail, stats", name);
}

/* "stats" or "torch=tail,python=stats" */
static int modes_from_args(enum trace_mode mode[LAYERS_MAX], const struct catalog *c,
			   const char *text, struct err *e)
{
	if (!text)
		return 0;
	char *copy = xstrdup(text), *save = NULL;
	int rc = 0;
	for (char *part = strtok_r(copy, ",", &save); part && !rc;
	     part = strtok_r(NULL, ",", &save)) {
		char *equals = strchr(part, '=');
		enum trace_mode m = MODE_TRACE;
		if (!equals) {
			rc = mode_from_name(part, &m, e);
			for (int i = 0; i < LAYERS_MAX && !rc; i++)
				mode[i] = m;
			continue;
		}
		*equals = 0;
		int layer = catalog_layer(c, part);
		if (layer < 0)
			rc = err_set(e, EINVAL, "--mode: there is no layer '%s'", part);
		else
			rc = mode_from_name(equals + 1, &mode[layer], e);
	}
	free(copy);
	return rc;
}

static int burst_from_args(struct session_options *o, const char *text, struct err *e)
{
	unsigned n = 0, ms = BURST_ON_MS;
	int end = 0;
	if (!text)
		return 0;
	if ((sscanf(text, "1/%u%n:%u%n", &n, &end, &ms, &end) < 1) || text[end] || n < 2 ||
	    n > 100000 || ms < 50 || ms > 3600000)
		return err_set(e, EINVAL,
			       "--burst: '%s' is not 1/N or 1/N:MS (N from 2, MS from 50)", text);
	o->burst_on_ns = ms * 1000000ULL;
	o->burst_period_ns = o->burst_on_ns * n;
	return 0;
}

/* "2%", "2", "0.5 %" */
static int budget_from_args(struct session_options *o, const char *text, bool detects,
			    struct err *e)
{
	char *end = NULL;
	if (!text)
		return 0;
	double percent = strtod(text, &end);
	while (end > text && *end == ' ')
		end++;
	if (end == text || (*end && strcmp(end, "%") != 0) ||
	    !(percent >= BUDGET_LEAST && percent <= BUDGET_MOST))
		return err_set(e, EINVAL, "--budget: '%s' is not a percentage from %g to %g", text,
			       BUDGET_LEAST, BUDGET_MOST);
	if (o->burst_on_ns)
		return err_set(e, EINVAL, "--budget makes bursts of its own: leave --burst out");
	o->budget = percent / 100;
	o->judged = detects;
	return 0;
}

#define DEFAULT_HZ 99

static int profile_from_args(struct session_options *o, const struct args *a, struct err *e)
{
	const char *text = args_get(a, "profile");
	uint64_t hz = DEFAULT_HZ;
	int rc = args_u64(a, "freq", 19, 999, &hz, e);
	if (rc)
		return rc;
	bool off = text && !strcmp(text, "off");
	unsigned kinds = 0;
	char *copy = xstrdup(!text ? "cpu,gpu,gpu-alloc" : off ? "" : text), *save = NULL;
	for (char *part = strtok_r(copy, ",", &save); part && !rc;
	     part = strtok_r(NULL, ",", &save), kinds++) {
		if (!strcmp(part, "cpu"))
			o->sample_hz = (uint32_t)hz;
		else if (!strcmp(part, "offcpu"))
			o->waits = true;
		else if (!strcmp(part, "gpu") || !strcmp(part, "gpu-alloc"))
			o->stacks = true;
		else if (!strcmp(part, "gpu-inuse"))
			o->stacks = o->allocators = true;
		else
			rc = err_set(e, EINVAL,
				     "--profile: '%s' is none of cpu, offcpu, gpu, gpu-alloc, "
				     "gpu-inuse, off",
				     part);
	}
	free(copy);
	if (!rc && !off && !kinds)
		rc = err_set(e, EINVAL, "--profile: '%s' names no kind; 'off' takes no stacks",
			     text);
	if (!rc && args_has(a, "freq") && !o->sample_hz)
		rc = err_set(e, EINVAL, "-F needs --profile cpu");
	return rc;
}

static enum attach_method method_from_args(const struct args *a)
{
	const char *name = args_get(a, "attach");
	if (!name)
		name = getenv("EACGM_ATTACH");
	for (int m = ATTACH_SESSION; name && m <= ATTACH_SINGLE; m++) {
		if (!strcmp(name, attach_method_name((enum attach_method)m)))
			return (enum attach_method)m;
	}
	return ATTACH_AUTO;
}

/* The option's table has checked the word. */
static enum gpu_timeline timeline_from_args(const struct args *a)
{
	const char *word = args_get(a, "gpu-timeline");
	if (!word || !strcmp(word, "off"))
		return GPU_TIMELINE_OFF;
	if (!strcmp(word, "waits"))
		return GPU_TIMELINE_WAITS;
	return !strcmp(word, "graphs") ? GPU_TIMELINE_GRAPHS : GPU_TIMELINE_ON;
}

static enum operator_source operators_from_args(const struct args *a)
{
	const char *word = args_get(a, "operators");
	if (word && !strcmp(word, "callbacks"))
		return OPERATORS_CALLBACKS;
	return word && !strcmp(word, "probes") ? OPERATORS_PROBES : OPERATORS_AUTO;
}

static enum probes_where probes_from_args(const struct args *a)
{
	const char *word = args_get(a, "probes");
	if (word && !strcmp(word, "inprocess"))
		return PROBES_INSIDE;
	return word && !strcmp(word, "kernel") ? PROBES_KERNEL : PROBES_AUTO;
}

static int python_from_args(struct session_options *o, const struct args *a, struct err *e)
{
	const char *word = args_get(a, "python");
	o->python_calls = word && !strcmp(word, "calls");
	o->python_only = args_get(a, "python-only");
	o->python_skip = args_get(a, "python-skip");
	if ((o->python_only || o->python_skip) && !o->python_calls)
		return err_set(e, EINVAL, "--python-only and --python-skip need --python calls");
	if (o->python_calls &&
	    (!a->rest_len || o->burst_on_ns || o->mode[LAYER_PYTHON] != MODE_TRACE))
		return err_set(e, EINVAL,
			       "--python calls tells every call of a command: -- CMD, and neither "
			       "--burst nor a --mode of the layer python");
	return 0;
}

static int read_options(struct session_options *o, const struct catalog *c, const struct args *a,
			struct err *e)
{
	uint64_t megabytes = 0;
	int rc = layers_from_args(&o->layers, c, a, e);
	if (!rc)
		rc = modes_from_args(o->mode, c, args_get(a, "mode"), e);
	if (!rc)
		rc = burst_from_args(o, args_get(a, "burst"), e);
	if (!rc)
		rc = budget_from_args(o, args_get(a, "budget"), args_has(a, "detect"), e);
	if (!rc && o->judged && args_get(a, "detect")[0])
		rc = err_set(e, EINVAL,
			     "--budget and --detect=MODEL: a model knows functions that are to be "
			     "turned down; --detect learns what is on");
	if (!rc)
		rc = profile_from_args(o, a, e);
	if (!rc)
		rc = python_from_args(o, a, e);
	if (!rc)
		rc = args_u64(a, "max-size", 1, 1 << 24, &megabytes, e);
	if (!rc)
		rc = args_time(a, "duration", 1, DURATION_MOST_NS, &o->duration_ns, e);
	o->max_bytes = megabytes << 20;
	o->output = args_has(a, "output") ? args_get(a, "output") : "eacgm.eacgm";
	o->owner = output_owner_from_sudo();
	o->frequent = args_has(a, "layers");
	o->all_entries = args_has(a, "everything");
	o->counts_waits = o->counts_stalls = o->disk_io = waits_from_args(a);
	o->debuginfod = args_has(a, "debuginfod");
	o->gpu_timeline = timeline_from_args(a);
	o->operators = operators_from_args(a);
	o->probes = probes_from_args(a);
	o->without_guard = args_has(a, "without-guard");
	o->method = method_from_args(a);
	o->mode_text = args_has(a, "mode") ? args_get(a, "mode") : "trace";
	o->command = a->rest_len ? a->rest : NULL;
	return rc;
}

/* ---- what is said meanwhile ---- */

/* Whoever reads standard error may stand still: the threads that empty the rings, judge and answer
 * held tasks speak too, and wait for nobody. */
struct teller {
	struct outlet err;
	struct session_detect *detect; /* NULL: nothing is judged */
};

static void say(void *ctx, const char *sentence)
{
	struct teller *t = ctx;
	outlet_say(&t->err, sentence);
}

static void tell_anomaly(void *ctx, const struct anomaly *a)
{
	char line[ANOMALY_LINE_BYTES], text[ANOMALY_LINE_BYTES + 32];
	if (!anomaly_is_news(a))
		return;
	snprintf(text, sizeof(text), "anomaly%s: %s", a->ended ? " ended" : "",
		 anomaly_line(line, a));
	say(ctx, text);
}

static void tell_misfit(void *ctx, const struct model_misfit *m)
{
	say(ctx, m->why);
}

static void tell_change(void *ctx, const struct change *c)
{
	char text[CHANGE_LINE_BYTES];
	say(ctx, change_line(text, c));
}

static void tell_incident(void *ctx, const struct incident_said *told)
{
	struct buf text = {0};
	buf_printf(&text, told->row->ended ? "incident ended: " : "cause: ");
	incident_line(&text, told);
	const char *evidence = incident_text(told, told->row->evidence[0]);
	if (*evidence)
		buf_printf(&text, "; %s", evidence);
	buf_byte(&text, 0);
	say(ctx, (const char *)text.data);
	text.len = 0;
	buf_printf(&text, "do: %s", incident_advice(told));
	buf_byte(&text, 0);
	if (!told->row->ended)
		say(ctx, (const char *)text.data);
	buf_free(&text);
}

static void tell_warning(void *ctx, const struct outlook_warning *w)
{
	char text[OUTLOOK_LINE_BYTES];
	say(ctx, outlook_line(text, w));
}

static void judge(void *ctx, const struct session_view *v)
{
	struct teller *t = ctx;
	session_detect_batch(t->detect, v);
	outlet_flush(&t->err, 0);
}

static void judge_end(void *ctx, const struct session_view *v)
{
	struct teller *t = ctx;
	session_detect_end(t->detect, v);
}

/* --detect, --detect=MODEL; NULL without. */
static int detect_from_args(struct teller *t, struct model *model, const struct args *a,
			    struct err *e)
{
	const char *path = args_get(a, "detect");
	double alarms = 0, effect = 0;
	int rc = alarm_limits_of(a, &alarms, &effect, e);
	if (rc || !path)
		return rc;
	rc = *path ? model_read_for(model, path, MODEL_JOB, "a running job", e) : 0;
	if (!rc)
		t->detect = session_detect_new(
			&(struct session_detect_options){.model = *path ? model : NULL,
							 .alarms_per_hour = alarms,
							 .least_effect = effect,
							 .ctx = t,
							 .anomaly = tell_anomaly,
							 .misfit = tell_misfit,
							 .change = tell_change,
							 .incident = tell_incident,
							 .warning = tell_warning});
	return rc;
}

static char *target_text(const struct target *t, const struct session_options *o)
{
	if (o->command)
		return xasprintf("command %s", o->command[0]);
	if (t->all)
		return xstrdup(TARGET_ALL);
	if (t->cgroup)
		return xasprintf(TARGET_CGROUP "%s", t->cgroup);
	return xasprintf("%zu process%s", t->pids.len, t->pids.len == 1 ? "" : "es");
}

/* "; 5 calls, 2 samples could not be written", or nothing. The caller's. */
static char *unwritten_text(const struct session_result *r)
{
	const struct {
		uint64_t n;
		const char *what;
	} rows[] = {{r->unwritten.calls, "calls"},
		    {r->unwritten.samples, "samples"},
		    {r->unwritten.gpu_spans, "GPU spans"}};
	struct buf text = {0};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].n)
			buf_printf(&text, "%s%llu %s", text.len ? ", " : "; ",
				   (unsigned long long)rows[i].n, rows[i].what);
	buf_printf(&text, "%s", text.len ? " could not be written" : "");
	buf_byte(&text, 0);
	return (char *)text.data;
}

/* Of what is in the file. */
static void say_result(struct teller *t, const struct session_options *o,
		       const struct session_result *r)
{
	char spans[64] = "", *unwritten = unwritten_text(r);
	char *where = r->bytes ? xasprintf("%s (%.1f MB)", o->output, (double)r->bytes / 1e6)
			       : xstrdup("no file");
	if (r->gpu_spans)
		snprintf(spans, sizeof(spans), ", %llu GPU spans",
			 (unsigned long long)r->gpu_spans);
	char *text = xasprintf("%llu calls, %llu samples%s in %.1f s, lost %llu -> %s%s",
			       (unsigned long long)r->calls, (unsigned long long)r->samples, spans,
			       r->duration_s, (unsigned long long)r->lost, where, unwritten);
	say(t, text);
	free(text);
	free(where);
	free(unwritten);
	if (r->left_running)
		say(t, "the command goes on running, untraced");
}

static int record(const struct args *a, struct session_options *o, struct teller *t, struct err *e)
{
	const struct command *cmd = a->command;
	struct session_result result = {0};
	outlet_open(&t->err, STDERR_FILENO, WAIT_BYTES);
	o->say = say;
	o->say_ctx = t;
	struct session_host host;
	int rc = session_host_open(&host, o, e);
	if (!rc)
		rc = session_host_run(&host, NULL, &result, e);
	if (!rc)
		say_result(t, o, &result);
	outlet_close(&t->err, WAIT_NS);
	if (rc)
		return command_failed(cmd, e);
	if (result.stopped_early) {
		command_failed(cmd, e);
		return result.exit_status ? result.exit_status : 1;
	}
	/* stacks and a timeline are something too, where they were asked for */
	bool in_vain = result.in_vain && !args_has(a, "profile") && !args_has(a, "gpu-timeline");
	return result.exit_status || !in_vain ? result.exit_status : 1;
}

static int run_with(const struct catalog *catalog, const struct args *a)
{
	const struct command *cmd = a->command;
	struct session_options o = {.catalog = catalog};
	struct target target = {0};
	struct teller teller = {0};
	struct err e = {0};
	if (read_options(&o, catalog, a, &e))
		return usage_error(cmd, "%s", e.msg);
	signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of write(2), told as such */
	signal(SIGPIPE, SIG_IGN);
	int targets = (o.command != NULL) + args_has(a, "pid") + args_has(a, "cgroup") +
		      args_has(a, "all");
	if (targets != 1)
		return usage_error(cmd, "give one target: -- CMD, -p PID, --cgroup PATH or --all");
	if (args_has(a, "user") && !o.command)
		return usage_error(cmd, "-u needs a command: -- CMD");
	struct command_user user = {0};
	if (o.command && command_user_find(&user, args_get(a, "user"), &e))
		return command_failed(cmd, &e);
	o.user = &user;
	struct model model = {0};
	if (detect_from_args(&teller, &model, a, &e)) {
		command_user_free(&user);
		return command_failed(cmd, &e);
	}
	const struct session_live judges = {.ctx = &teller, .batch = judge, .end = judge_end};
	struct session_live live[SESSION_DETECT_LOOKERS];
	if (teller.detect) {
		session_detect_lookers(teller.detect, &judges, live);
		o.live = live;
		o.nlive = SESSION_DETECT_LOOKERS;
	}
	if (target_parse(&target, a, &e)) {
		target_free(&target);
		session_detect_free(teller.detect);
		model_free(&model);
		command_user_free(&user);
		return command_failed(cmd, &e);
	}
	char *text = target_text(&target, &o);
	o.target = &target;
	o.target_text = text;
	int status = record(a, &o, &teller, &e);
	free(text);
	target_free(&target);
	session_detect_free(teller.detect);
	model_free(&model);
	command_user_free(&user);
	return status;
}

static int run(const struct args *a)
{
	struct catalog catalog = {0};
	struct err e = {0};
	if (catalog_from_args(&catalog, a, &e))
		return command_failed(a->command, &e);
	const char *python = args_get(a, "python");
	if (python && !strcmp(python, "calls")) /* these are among them */
		catalog_leave_out(&catalog, "python.frame");
	int status = run_with(&catalog, a);
	catalog_free(&catalog);
	return status;
}

const struct command cmd_record = {
	.name = "record",
	.synopsis = "[TARGET] [OPTION...] [-- CMD ARG...]",
	.summary = "trace a run into a file",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = 0,
	.takes_rest = true,
	.run = run,
};
