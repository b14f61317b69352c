/* cmd_watch.c - `eacgm watch`: a session that keeps nothing, and what is seen of it now.
 *
 * Three threads of it: the session's that looks at rows brings the state up to date and has them
 * judged, another draws and reads keys, the first one runs the session. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/alarm_options.h"
#include "base/json_out.h"
#include "base/clock.h"
#include "base/human.h"
#include "cli/options.h"
#include "cli/target_args.h"
#include "base/outlet.h"
#include "session/session_detect.h"
#include "cli/live_anomalies.h"
#include "cli/session_host.h"
#include "detect/model_file.h"
#include "incident/anomaly_text.h"
#include "report/report_anomalies.h"
#include "report/report_outlook.h"
#include "session/live_rates.h"
#include "cli/watch_screen.h"
#include "cli/watch_steps.h"
#include "cli/watch_terminal.h"

#define KEY_MS	    100 /* also how soon a new size is seen */
#define DRAW_NS	    500000000ULL
#define LINE_NS	    1000000000ULL
#define SAID_FOR_NS 15000000000ULL
#define SAMPLE_HZ   99		  /* as record: lines of Python that time is lost in */
#define WAIT_BYTES  (1u << 20)	  /* of lines that nobody has taken yet */
#define OUT_WAIT_NS 1000000000ULL /* at the end, for who reads them */
#define ERR_WAIT_NS 200000000ULL

static const char *const description[] = {
	"Shows what a running job does, now: calls by layer, GPUs, the time of its steps, what "
	"tracing costs, and what is not normal, as it comes. Nothing is recorded, and the job is "
	"not changed, restarted or stopped. 'q' or Ctrl-C end it; the job goes on.",
	"What is normal comes from a model ('eacgm learn'), or, without one, from the job's own "
	"first minute of work.",
	"Where standard output is no terminal, a line a second is printed; with --json a line of "
	"JSON for each anomaly, when it is found and when it has ended.",
	NULL,
};

static const struct opt_def options[] = {
	TARGET_OPTIONS,
	{'m', "model", "MODEL", "Judge by this model of 'eacgm learn'.", NULL, OPT_FILE},
	ALARM_OPTIONS("Of anomalies: "),
	{0, "json", NULL, "Print anomalies alone, each as a line of JSON.", NULL, 0},
	{'d', "duration", "TIME",
	 "Stop after this time: seconds, or with a unit, as 1.5, 200ms or 3m.", NULL, 0},
	CATALOG_OPTIONS,
	WAITS_OPTION,
	{0},
};

static const struct cmd_example examples[] = {
	{"sudo eacgm watch -p 4242", "a running job and its children"},
	{"sudo eacgm watch -p 4242 -m train.model --json", "anomalies for a script"},
	{0},
};

enum output { SCREEN, LINES, JSON };

struct watch {
	enum output output;
	struct outlet out, err; /* standard output, where it is no screen; standard error */
	pthread_mutex_t lock;	/* of state */
	struct live_state state;
	uint64_t said_ns;
	struct live_rates *rates; /* those three of the thread that looks at rows */
	struct watch_steps *steps;
	struct session_detect *detect;
	bool has_model;
	uint64_t steps_shown_ns;
	atomic_bool started; /* the job is traced */
	atomic_bool dirty;   /* something new that should be shown at once */
	atomic_bool stop;
	atomic_bool ended;
};

/* ---- what comes from the session ---- */

static void say(void *ctx, const char *sentence)
{
	struct watch *w = ctx;
	if (w->output != SCREEN || atomic_load(&w->ended)) {
		outlet_say(&w->err, sentence);
		return;
	}
	pthread_mutex_lock(&w->lock);
	snprintf(w->state.said, sizeof(w->state.said), "%s", sentence);
	w->said_ns = monotonic_ns();
	pthread_mutex_unlock(&w->lock);
	atomic_store(&w->dirty, true);
}

/* A pipe whose reader has gone ends the watch. */
static void print_line(struct watch *w, const char *text)
{
	char *clean = text_clean(text), *line = xasprintf("%s\n", clean);
	if (outlet_put(&w->out, line, strlen(line)))
		atomic_store(&w->stop, true);
	free(line);
	free(clean);
}

static void print_json(struct watch *w, json_t *row)
{
	char *text = json_out_text(row, JSON_COMPACT);
	json_decref(row);
	if (text)
		print_line(w, text);
	free(text);
}

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	struct watch *w = ctx;
	char line[ANOMALY_LINE_BYTES], text[ANOMALY_LINE_BYTES + 32];
	if (w->output == JSON)
		print_json(w, anomaly_json(a));
	snprintf(text, sizeof(text), "anomaly%s: %s", a->ended ? " ended" : "",
		 anomaly_line(line, a));
	if (w->output == LINES && anomaly_is_news(a))
		print_line(w, text);
	pthread_mutex_lock(&w->lock);
	live_anomaly_keep(&w->state, a);
	pthread_mutex_unlock(&w->lock);
	atomic_store(&w->dirty, true);
}

static void on_misfit(void *ctx, const struct model_misfit *m)
{
	struct watch *w = ctx;
	w->has_model &= !m->relearns;
	if (w->output == JSON)
		print_json(w, json_pack("{s:o}", "misfit", misfit_json(m)));
	else if (w->output == LINES)
		print_line(w, m->why);
	else
		say(w, m->why);
}

static void on_change(void *ctx, const struct change *c)
{
	struct watch *w = ctx;
	char line[CHANGE_LINE_BYTES];
	if (w->output == JSON)
		print_json(w, json_pack("{s:o}", "change", change_json(c)));
	else if (w->output == LINES)
		print_line(w, change_line(line, c));
	else
		say(w, change_line(line, c));
}

static void print_advice(struct watch *w, const struct incident_said *told)
{
	char *text = xasprintf("do: %s", incident_advice(told));
	print_line(w, text);
	free(text);
}

static void on_incident(void *ctx, const struct incident_said *told)
{
	struct watch *w = ctx;
	struct buf line = {0};
	incident_line(&line, told);
	buf_byte(&line, 0);
	char *text = xasprintf("%s: %s", told->row->ended ? "incident ended" : "cause",
			       (const char *)line.data);
	if (w->output == JSON)
		print_json(w, json_pack("{s:o}", "incident", incident_json(told)));
	else if (w->output == LINES)
		print_line(w, text);
	if (w->output == LINES && !told->row->ended)
		print_advice(w, told);
	pthread_mutex_lock(&w->lock);
	live_cause_keep(&w->state, told->row->id, told->row->ended, (const char *)line.data,
			incident_advice(told));
	pthread_mutex_unlock(&w->lock);
	atomic_store(&w->dirty, true);
	free(text);
	buf_free(&line);
}

static void on_warning(void *ctx, const struct outlook_warning *w)
{
	struct watch *watch = ctx;
	char line[OUTLOOK_LINE_BYTES];
	if (watch->output == JSON)
		print_json(watch, json_pack("{s:o}", "outlook", outlook_json(w)));
	else if (watch->output == LINES)
		print_line(watch, outlook_line(line, w));
	else
		say(watch, outlook_line(line, w));
}

static void print_phases(struct watch *w)
{
	for (uint32_t i = 0; i < w->state.phases.len; i++) {
		char *line = xasprintf("steps of %s", w->state.phases.of[i]);
		print_line(w, line);
		free(line);
	}
}

static void on_batch(void *ctx, const struct session_view *v)
{
	struct watch *w = ctx;
	uint64_t now_ns = monotonic_ns();
	atomic_store(&w->started, true);
	session_detect_batch(w->detect, v);
	watch_steps_batch(w->steps, v, now_ns);
	uint64_t intervals = w->state.phases.intervals;
	pthread_mutex_lock(&w->lock);
	live_rates_batch(w->rates, v, now_ns, &w->state);
	w->state.unjudged = session_detect_lossy(w->detect);
	w->state.learning = !w->has_model && !session_detect_judges(w->detect);
	if (now_ns - w->steps_shown_ns > DRAW_NS / 2) {
		watch_steps_get(w->steps, &w->state.steps, &w->state.phases);
		w->steps_shown_ns = now_ns;
	}
	pthread_mutex_unlock(&w->lock);
	if (w->output == LINES && w->state.phases.intervals != intervals)
		print_phases(w);
}

static void on_end(void *ctx, const struct session_view *v)
{
	struct watch *w = ctx;
	session_detect_end(w->detect, v);
	atomic_store(&w->ended, true); /* the terminal is given back while probes go */
}

/* ---- drawing ---- */

static void draw(struct watch *w, const struct watch_size *size)
{
	struct buf lines = {0};
	pthread_mutex_lock(&w->lock);
	w->state.now_ns = monotonic_ns();
	if (w->state.now_ns - w->said_ns > SAID_FOR_NS)
		w->state.said[0] = 0;
	if (w->output == SCREEN)
		watch_render(&lines, &w->state, size);
	else
		watch_render_line(&lines, &w->state);
	pthread_mutex_unlock(&w->lock);
	if (w->output == SCREEN) {
		watch_terminal_show(&lines, size);
	} else {
		buf_byte(&lines, 0);
		print_line(w, (const char *)lines.data);
	}
	buf_free(&lines);
}

static void draw_screen(struct watch *w)
{
	struct watch_size size, shown = {0};
	uint64_t shown_ns = 0;
	while (!atomic_load(&w->started) && !atomic_load(&w->ended))
		nanosleep(&(struct timespec){.tv_nsec = KEY_MS * 1000000L}, NULL);
	if (atomic_load(&w->ended))
		return;
	watch_terminal_enter();
	while (!atomic_load(&w->ended)) {
		uint64_t now_ns = monotonic_ns();
		watch_terminal_size(&size);
		if (now_ns - shown_ns >= DRAW_NS || atomic_exchange(&w->dirty, false) ||
		    size.columns != shown.columns || size.rows != shown.rows) {
			draw(w, &size);
			shown = size;
			shown_ns = now_ns;
		}
		int key = watch_terminal_key(KEY_MS);
		if (key == 'q' || key == 'Q')
			atomic_store(&w->stop, true);
	}
	watch_terminal_leave();
}

/* Also hands on what waits for its reader. */
static void draw_lines(struct watch *w)
{
	uint64_t shown_ns = monotonic_ns();
	while (!atomic_load(&w->ended)) {
		nanosleep(&(struct timespec){.tv_nsec = KEY_MS * 1000000L}, NULL);
		uint64_t now_ns = monotonic_ns();
		outlet_flush(&w->err, 0);
		int rc = outlet_flush(&w->out, 0);
		if (rc && rc != -ETIMEDOUT)
			atomic_store(&w->stop, true);
		if (w->output != LINES || now_ns - shown_ns < LINE_NS || !atomic_load(&w->started))
			continue;
		draw(w, NULL);
		shown_ns = now_ns;
	}
}

static void *show(void *arg)
{
	struct watch *w = arg;
	if (w->output == SCREEN)
		draw_screen(w);
	else
		draw_lines(w);
	return NULL;
}

/* ---- running ---- */

static void say_result(struct watch *w, const struct session_result *r)
{
	char calls[HUMAN_BYTES], anomalies[HUMAN_BYTES], lost[HUMAN_BYTES];
	char *text = xasprintf("watched %.1f s, %s calls, lost %s, anomalies: %s", r->duration_s,
			       human_count(calls, r->calls), human_count(lost, r->lost),
			       human_count(anomalies, w->state.anomalies));
	outlet_say(&w->err, text);
	free(text);
}

/* Nobody who reads, or does not, holds up the end. A reader who has gone is no failure, a full disk
 * is. */
static int end_output(struct watch *w, struct err *e)
{
	uint64_t lost = outlet_close(&w->out, OUT_WAIT_NS);
	int error = w->out.error == -EPIPE ? 0 : -w->out.error, rc = 0;
	if (error)
		rc = err_set(e, error, "cannot write to the standard output: %s", strerror(error));
	else if (lost) {
		char count[HUMAN_BYTES];
		char *text =
			xasprintf("%s %s not printed: nobody took them", human_count(count, lost),
				  lost == 1 ? "line was" : "lines were");
		outlet_say(&w->err, text);
		free(text);
	}
	outlet_close(&w->err, ERR_WAIT_NS);
	return rc;
}

/* Ctrl-C is for the session alone: no other thread must end by it, nor the rest of the program
 * when the session has ended. */
static int run_session(struct watch *w, struct session_host *host, struct err *e)
{
	struct session_result result = {0};
	pthread_t shower;
	sigset_t before;
	session_host_block_signals(&before);
	int rc = -pthread_create(&shower, NULL, show, w);
	if (rc) {
		session_host_close(host);
		return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
	}
	rc = session_host_run(host, &w->stop, &result, e);
	atomic_store(&w->ended, true);
	pthread_join(shower, NULL);
	if (!rc)
		say_result(w, &result);
	if (!rc && result.stopped_early)
		rc = -EIO;
	return rc;
}

static void describe(struct live_state *s, const struct target *t)
{
	char comm[16] = "";
	if (t->all)
		snprintf(s->target, sizeof(s->target), "all processes");
	else if (t->cgroup)
		snprintf(s->target, sizeof(s->target), "cgroup %.80s", t->cgroup);
	else if (!proc_comm("/proc", t->pids.data[0], t->pids.data[0], comm))
		snprintf(s->target, sizeof(s->target), "%s, pid %d", comm, t->pids.data[0]);
	else
		snprintf(s->target, sizeof(s->target), "pid %d", t->pids.data[0]);
}

static void begin_state(struct watch *w, const struct target *t)
{
	struct timespec wall;
	clock_gettime(CLOCK_REALTIME, &wall);
	struct live_state *s = &w->state;
	s->start_ns = monotonic_ns();
	s->realtime_offset_ns =
		(uint64_t)wall.tv_sec * 1000000000ULL + (uint64_t)wall.tv_nsec - s->start_ns;
	s->job_cpu = s->probe_cpu = s->learn_left_s = NAN;
	s->judges = true;
	s->learning = !w->has_model;
	s->phases.looking = true;
	describe(s, t);
}

/* judged: all but who is told. */
static int watch(struct session_options *o, struct session_detect_options judged,
		 enum output output, struct err *e)
{
	struct watch w = {.output = output, .has_model = judged.model != NULL};
	const struct session_live looks = {.ctx = &w, .batch = on_batch, .end = on_end};
	struct session_live live[SESSION_DETECT_LOOKERS];
	pthread_mutex_init(&w.lock, NULL);
	outlet_open(&w.out, STDOUT_FILENO, WAIT_BYTES);
	outlet_open(&w.err, STDERR_FILENO, WAIT_BYTES);
	begin_state(&w, o->target);
	w.rates = live_rates_new();
	w.steps = watch_steps_new(1);
	judged.ctx = &w;
	judged.anomaly = on_anomaly;
	judged.misfit = on_misfit;
	judged.change = on_change;
	judged.incident = on_incident;
	judged.warning = on_warning;
	w.detect = session_detect_new(&judged);
	session_detect_lookers(w.detect, &looks, live);
	struct session_options watched = *o;
	watched.live = live;
	watched.nlive = SESSION_DETECT_LOOKERS;
	watched.say = say;
	watched.say_ctx = &w;
	struct session_host host;
	int rc = session_host_open(&host, &watched, e);
	if (!rc)
		rc = run_session(&w, &host, e);
	session_detect_free(w.detect);
	live_rates_free(w.rates);
	watch_steps_free(w.steps);
	struct err of_output;
	int output_rc = end_output(&w, &of_output);
	pthread_mutex_destroy(&w.lock);
	if (!rc && output_rc)
		*e = of_output;
	return rc ? rc : output_rc;
}

static int watch_target(const struct args *a, struct session_options *o, struct err *e)
{
	struct target target = {0};
	struct model model = {0};
	const char *path = args_get(a, "model");
	enum output output = args_has(a, "json") ? JSON : watch_terminal_usable() ? SCREEN : LINES;
	struct session_detect_options judged = {0};
	int rc = alarm_limits_of(a, &judged.alarms_per_hour, &judged.least_effect, e);
	if (!rc && path)
		rc = model_read_for(&model, path, MODEL_JOB, "a running job", e);
	if (!rc)
		rc = target_parse(&target, a, e);
	struct session_options watched = *o;
	watched.target = &target;
	judged.model = path ? &model : NULL;
	if (!rc)
		rc = watch(&watched, judged, output, e);
	target_free(&target);
	model_free(&model);
	return rc;
}

static int run_with(const struct catalog *catalog, const struct args *a)
{
	struct err e = {0};
	struct session_options o = {.mode_text = "trace",
				    .target_text = "",
				    .catalog = catalog,
				    .sample_hz = SAMPLE_HZ};
	if (args_has(a, "pid") + args_has(a, "cgroup") + args_has(a, "all") != 1)
		return usage_error(a->command, "give one target: -p PID, --cgroup PATH or --all");
	if (layers_from_args(&o.layers, catalog, a, &e) ||
	    args_time(a, "duration", 100000000, DURATION_MOST_NS, &o.duration_ns, &e))
		return usage_error(a->command, "%s", e.msg);
	o.frequent = args_has(a, "layers");
	o.counts_waits = o.counts_stalls = o.disk_io = waits_from_args(a);
	o.all_entries = args_has(a, "everything");
	signal(SIGPIPE, SIG_IGN);
	return watch_target(a, &o, &e) ? command_failed(a->command, &e) : 0;
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

const struct command cmd_watch = {
	.name = "watch",
	.synopsis = "TARGET [OPTION...]",
	.summary = "show what a running job does, and what is not normal, as it comes",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 0,
	.max_args = 0,
	.run = run,
};
