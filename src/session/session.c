/* session.c - a session's life: what is forked, loaded, opened and attached, and its end. What it
 * does in between is in session_follow.c. */
#include "session/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "session/session_impl.h"
#include "parser/parser.h"
#include "pipeline/readers.h"
#include "symbolize/debuginfod.h"

#define ALWAYS_ON_RINGS	  (32u << 20) /* of many CPUs */
#define ALWAYS_ON_FEW	  (16u << 20) /* as long as each has ALWAYS_ON_RING */
#define ALWAYS_ON_RING	  (1u << 20)
#define FIRST_STACK_SHIFT 3 /* as for a busy job; a quiet one gets more stacks soon */

void session_say(const struct session *s, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	if (!s->opts->say)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->opts->say(s->opts->say_ctx, text);
}

/* ---- what is forked ---- */

uint32_t session_ring_bytes(const struct session_options *o, long cpus)
{
	uint32_t n = cpus > 8 ? (uint32_t)cpus : 8, few = ALWAYS_ON_FEW / n;
	if (!o->always_on)
		return 0;
	if (few >= ALWAYS_ON_RING)
		return few;
	return ALWAYS_ON_RINGS / n < ALWAYS_ON_RING ? ALWAYS_ON_RINGS / n : ALWAYS_ON_RING;
}

static struct tracer_options tracer_options_of(const struct session *s)
{
	const struct session_options *o = s->opts;
	struct tracer_options opts = {
		.catalog = o->catalog,
		.layers = o->layers,
		.frequent = o->frequent,
		.all_entries = o->all_entries,
		.method = o->method,
		.all = o->target->all,
		.cgroup_id = o->target->cgroup_id,
		.cgroup_level = o->target->cgroup_level,
		.btf_path = o->btf_path,
		.hurry_fd = o->hurry_fd,
		.patience = o->patience,
		.starts_targets = o->command != NULL,
		.ring_bytes = session_ring_bytes(o, sysconf(_SC_NPROCESSORS_CONF)),
		.wakes_reader = o->always_on,
		.without_guard = o->without_guard,
		.stacks = o->stacks,
		.jobs_alone = o->jobs_alone,
		.leaves_out = o->rules != NULL,
		.stacks_seen = pipeline_stack_bounds(!o->output)->stacks / 2,
		.allocators = o->allocators,
		.callers = o->callers,
		.sample_hz = o->sample_hz,
		.waits = o->waits,
		.counts_waits = o->counts_waits,
		.counts_stalls = o->counts_stalls,
		.disk_io = o->disk_io,
		.sockets = o->layers & layers_with(LAYER_HAS_COLLECTIVES),
		.inside = inside_library(s),
		.inside_running = inside_is_on(s) && !o->command,
		.counts_hits = session_has_budget(s),
	};
	memcpy(opts.mode, o->mode, sizeof(opts.mode));
	return opts;
}

/* Where files of others are read. */
static int start_readers(struct session *s, struct err *e)
{
	struct namer_files files = {0};
	struct parser_op reading[PIPELINE_OPS];
	struct tracer_options of = tracer_options_of(s);
	pipeline_parser_ops(&files, reading);
	of.others = (struct parser_ops){reading, PIPELINE_OPS};
	return tracer_start_readers(&s->readers, &of, e);
}

static struct session *session_new(const struct session_options *opts)
{
	struct session *s = xcalloc(1, sizeof(*s));
	s->options = *opts;
	s->opts = &s->options;
	s->clock.timer_fd = s->clock.burst_fd = -1;
	s->clock.probes_on = true;
	s->mover.stack_shift = FIRST_STACK_SHIFT;
	s->command.launch = (struct launch){.gate = -1, .report = -1, .pidfd = -1};
	nap_init(&s->mover.pause);
	pthread_mutex_init(&s->timeline.lock, NULL);
	pthread_mutex_init(&s->tables_lock, NULL);
	pthread_mutex_init(&s->inside.lock, NULL);
	pthread_mutex_init(&s->bringing, NULL);
	pthread_mutex_init(&s->budget.told_lock, NULL);
	return s;
}

/* The command is forked first: it has what this process then gives up, and nothing of the tracer.
 */
int session_prepare(struct session **ret, const struct session_options *opts, struct err *e)
{
	struct session *s = session_new(opts);
	int rc = command_prepare(s, e);
	if (!rc && opts->debuginfod)
		rc = debuginfod_start(&s->debuginfod, e);
	if (!rc)
		rc = start_readers(s, e);
	if (rc) {
		session_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int session_open(struct session *s, struct err *e)
{
	struct tracer_options opts = tracer_options_of(s);
	opts.events = session_events(s);
	opts.readers = s->readers;
	int rc = tracer_open(&s->tracer, &opts, e);
	if (rc)
		return rc;
	tracer_set_stack_shift(s->tracer, s->mover.stack_shift);
	if (tracer_call_costs(s->tracer, &s->call_costs, &s->call_costs_error))
		memset(&s->call_costs, 0, sizeof(s->call_costs)); /* the kernel's part is missing */
	return 0;
}

/* ---- who is asked for names ---- */

static void say_plainly(void *ctx, const char *sentence)
{
	session_say(ctx, "%s", sentence);
}

static void ask_servers(struct session *s)
{
	int hurry_fd = s->opts->hurry_fd ? s->opts->hurry_fd : -1;
	const struct pipeline_servers servers = {s->debuginfod, hurry_fd, say_plainly, s};
	if (s->debuginfod)
		pipeline_ask_servers(s->pipeline, &servers);
}

static bool name_kernel_address(void *ctx, uint64_t address, char *ret, size_t size)
{
	return tracer_kernel_symbol(ctx, address, ret, size);
}

static void ask_kernel(struct session *s)
{
	const struct pipeline_kernel kernel = {name_kernel_address, s->tracer};
	pipeline_ask_kernel(s->pipeline, &kernel);
}

/* ---- start ---- */

static void open_timer(struct session *s)
{
	s->clock.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	follow_pace(s, false);
}

static int start_parts(struct session *s, struct err *e)
{
	ask_servers(s);
	ask_kernel(s);
	hang_watch_start(s);
	s->start_ns = s->clock.switched_ns = monotonic_ns();
	metas_begin(s);
	spans_tell(s);
	inside_tell(s);
	int rc = live_start(s, e);
	if (rc)
		return rc;
	open_timer(s);
	rc = bursts_open(s, e);
	if (rc)
		return rc;
	rc = mover_start(s, e);
	collect_start(s);
	if (s->opts->command)
		tracer_expect(s->tracer, s->command.launch.path, s->opts->command);
	tracer_hook_loaders(s->tracer);
	return rc;
}

int session_start(struct session *s, struct err *e)
{
	int rc = session_output_open(s, e);
	if (!rc)
		rc = start_parts(s, e);
	if (!rc)
		rc = s->opts->command ? command_start(s, e) : targets_add(s, e);
	if (rc)
		return rc;
	s->started = true;
	if (!s->opts->command)
		silence_begin(s);
	attacher_start(s);
	calls_start(s);
	follow_begin(s);
	return 0;
}

void session_attached(const struct session *s, struct session_attached *ret)
{
	struct tracer_stats st;
	tracer_stats(s->tracer, &st);
	*ret = (struct session_attached){.processes = s->live.len, .places = st.sites};
}

/* ---- end ---- */

static void fill_result(struct session *s, const struct pipeline_stats *st,
			struct session_result *ret)
{
	const struct session_command *c = &s->command;
	bool kept = s->opts->output != NULL;
	*ret = (struct session_result){
		.calls = kept ? st->written.calls : st->calls,
		.samples = kept ? st->written.samples : st->samples,
		.gpu_spans = kept ? st->written.gpu_spans : st->gpu_spans,
		.bytes = st->bytes,
		.lost = st->lost,
		.unwritten = {st->written.calls_dropped, st->written.samples_dropped,
			      st->written.gpu_spans_dropped},
		.duration_s = (double)(monotonic_ns() - s->start_ns) / 1e9,
		.in_vain = s->silence.in_vain,
		.left_running = c->launch.pid && !c->ended,
		.exit_status = c->ended ? launch_exit_status(c->status) : 0,
		.stopped_early = atomic_load(&s->mover.failed),
	};
}

/* Also where the start failed: then ret is NULL. */
static void close_pipeline(struct session *s, struct session_result *ret, struct err *e)
{
	struct err why = {0};
	struct pipeline_stats st;
	collect_close(s);
	mover_stop(s);
	live_stop(s);
	int rc = session_output_end(s, &st, &why);
	if (ret)
		fill_result(s, &st, ret);
	int freed = session_output_close(s, rc ? NULL : &why);
	if (ret && ret->stopped_early)
		*e = s->mover.error;
	else if (ret && (rc || freed)) {
		ret->stopped_early = true;
		*e = why;
	}
}

void session_finish(struct session *s, struct session_result *ret, struct err *e)
{
	follow_end(s);
	close_pipeline(s, ret, e);
	if (s->guard_failed && !ret->stopped_early) {
		ret->stopped_early = true;
		err_set(e, EIO, "the exception guard (eacgm-guard) has ended: recording stopped");
	}
}

/* Those that go on running have calls under way. */
static void close_tracer(struct session *s)
{
	const struct target *t = s->opts->target;
	if (!s->tracer)
		return;
	if (s->live.len || t->all || t->cgroup_id)
		tracer_linger(s->tracer);
	tracer_close(s->tracer);
}

void session_close(struct session *s)
{
	struct session_result unread;
	struct err ignored;
	if (!s)
		return;
	if (s->pipeline && s->started)
		session_finish(s, &unread, &ignored);
	else if (s->pipeline)
		close_pipeline(s, NULL, NULL);
	command_close(s);
	spans_close(s);
	inside_close(s);
	close_tracer(s);
	debuginfod_stop(s->debuginfod);
	parser_host_stop(s->readers);
	if (s->clock.timer_fd >= 0)
		close(s->clock.timer_fd);
	bursts_close(s);
	jobs_free(s);
	vec_free(&s->live);
	vec_free(&s->ended);
	vec_free(&s->enums);
	hang_watch_free(s);
	silence_free(s);
	session_budget_close(s);
	nap_free(&s->mover.pause);
	free(s);
}
