/* session.c - start, follow, stop. */
#include "session/session.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "session/privileges.h"
#include "session/session_impl.h"
#include "parser/parser.h"
#include "pipeline/readers.h"
#include "symbolize/debuginfod.h"

#define TICK_NS		  50000000L
#define SAMPLE_TICKS	  4 /* collectors are asked every 200 ms */
#define LEARN_TICKS	  20
#define SWEEP_TICKS	  20
#define SOCKET_TICKS	  20
#define OPEN_TICKS	  20
#define TRIM_TICKS	  200 /* as long as what has ended is known: pipeline/forget.c */
#define TAIL_QUANTILE	  0.99
#define FIRST_STACK_SHIFT 3 /* as for a busy job; a quiet one gets more stacks soon */
#define SETTLE_MS	  5000
#define SETTLE_STEP_MS	  20
#define STRINGS_KEPT	  (512u << 20)	/* bytes, of a recording */
#define STRINGS_UNKEPT	  (64u << 20)	/* likewise, where nothing is kept */
#define LARGE_BYTES	  (64 << 10)	/* blocks that go back to the system when they are freed */
#define INTERRUPT_WAIT_NS 5000000000ULL /* for the command to end after Ctrl-C */

/* ---- metas ---- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return timespec_ns(&ts);
}

/* Names the boot: recordings of one boot have the same clock. */
static void write_boot_id(struct session *s)
{
	char id[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f && fgets(id, sizeof(id), f)) {
		id[strcspn(id, "\n")] = 0;
		pipeline_meta(s->pipeline, "boot_id", "%s", id);
	}
	if (f)
		fclose(f);
}

/* CLOCK_REALTIME minus CLOCK_MONOTONIC: where the clocks of two hosts stand to each other. */
static void write_realtime_offset(struct session *s)
{
	uint64_t before_ns = monotonic_ns(), realtime_ns = clock_ns(CLOCK_REALTIME);
	uint64_t middle_ns = before_ns + (monotonic_ns() - before_ns) / 2;
	pipeline_meta(s->pipeline, "realtime_offset_ns", "%ld", (long)(realtime_ns - middle_ns));
}

void session_write_metas(struct session *s, double probe_ns_each)
{
	struct utsname u;
	uname(&u);
	pipeline_meta(s->pipeline, "host", "%s", u.nodename);
	pipeline_meta(s->pipeline, "kernel", "%s", u.release);
	pipeline_meta(s->pipeline, "version", "%s", EACGM_VERSION);
	pipeline_meta(s->pipeline, "mode", "%s", s->opts->mode_text);
	pipeline_meta(s->pipeline, "target", "%s", s->opts->target_text);
	pipeline_meta(s->pipeline, "sample_hz", "%u", s->opts->sample_hz);
	if (s->opts->command)
		pipeline_meta(s->pipeline, "command", "%s", s->opts->command[0]);
	pipeline_meta(s->pipeline, "probe_ns_each", "%.0f", probe_ns_each);
	pipeline_meta(s->pipeline, "start_realtime_ns", "%lu",
		      (unsigned long)clock_ns(CLOCK_REALTIME));
	pipeline_meta(s->pipeline, "start_monotonic_ns", "%lu", (unsigned long)s->start_ns);
	write_realtime_offset(s);
	write_boot_id(s);
}

static uint64_t own_cpu_ns(const struct session *s)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + tracer_helpers_cpu_ns(s->tracer);
}

static uint64_t children_cpu_ns(void)
{
	struct rusage ru;
	getrusage(RUSAGE_CHILDREN, &ru);
	return (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000ULL +
	       (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000ULL;
}

void session_write_end(struct session *s)
{
	struct tracer_stats st;
	tracer_stats(s->tracer, &st);
	/* a launched command's time is exact once it was waited for; others are sampled */
	uint64_t job_ns = s->child_ended ? children_cpu_ns() : procfs_cpu_ns(s->procfs);
	pipeline_meta(s->pipeline, "end_monotonic_ns", "%lu", (unsigned long)monotonic_ns());
	uint64_t own_ns = own_cpu_ns(s);
	own_cost_look(&s->own_cost, own_ns);
	pipeline_meta(s->pipeline, "collector_cpu_ns", "%lu", (unsigned long)own_ns);
	pipeline_meta(s->pipeline, "displacing_cpu_ns", "%lu",
		      (unsigned long)s->own_cost.displacing_ns);
	pipeline_meta(s->pipeline, "start_cpu_ns", "%lu", (unsigned long)s->start_cpu_ns);
	struct tracer_holds holds;
	tracer_holds(s->tracer, &holds);
	pipeline_meta(s->pipeline, "holds", "%lu", (unsigned long)holds.count);
	pipeline_meta(s->pipeline, "held_ns", "%lu", (unsigned long)holds.held_ns);
	pipeline_meta(s->pipeline, "held_cpu_ns", "%lu", (unsigned long)holds.cpu_ns);
	pipeline_meta(s->pipeline, "job_cpu_ns", "%lu", (unsigned long)job_ns);
	pipeline_meta(s->pipeline, "attach_method", "%s", attach_method_name(st.method));
	pipeline_meta(s->pipeline, "attach_sites", "%lu", (unsigned long)st.sites);
	pipeline_meta(s->pipeline, "attach_sites_stepped", "%lu", (unsigned long)st.sites_stepped);
	pipeline_meta(s->pipeline, "attach_ms", "%.1f", (double)st.attach_ns / 1e6);
	pipeline_meta(s->pipeline, "plan_ms", "%.1f", (double)st.plan_ns / 1e6);
	pipeline_meta(s->pipeline, "files_read", "%lu", (unsigned long)st.files_read);
	pipeline_meta(s->pipeline, "files_cached", "%lu", (unsigned long)st.files_cached);
	if (!s->opts->stacks && !s->opts->sample_hz && !s->opts->waits)
		return;
	pipeline_meta(s->pipeline, "unwind_files", "%lu", (unsigned long)st.unwinder.files);
	pipeline_meta(s->pipeline, "unwind_files_cached", "%lu", (unsigned long)st.unwinder.cached);
	pipeline_meta(s->pipeline, "unwind_files_refused", "%lu",
		      (unsigned long)st.unwinder.refused);
	pipeline_meta(s->pipeline, "unwind_bytes", "%lu", (unsigned long)st.unwinder.words_bytes);
	pipeline_meta(s->pipeline, "unwind_ms", "%.1f", (double)st.unwinder.build_ns / 1e6);
}

/* ---- notes at the end: what was expected and not found ---- */

struct found {
	const struct catalog *catalog;
	struct session *s;
	uint32_t *sites; /* per entry */
	bool *met;	 /* a library of the entry was met */
};

static void add_result(void *ctx, const char *path, const struct entry_result *r)
{
	struct found *f = ctx;
	size_t i = (size_t)(r->entry - f->catalog->entries.data);
	f->sites[i] += r->sites;
	f->met[i] = true;
	if (r->reason[0] && !r->off && (r->entry->expected || r->entry->layer == LAYER_USER))
		pipeline_note(f->s->pipeline, path, r->reason);
}

static void note_missing(struct session *s)
{
	const struct catalog *c = s->opts->catalog;
	struct found f = {.catalog = c,
			  .s = s,
			  .sites = xcalloc(c->entries.len, sizeof(*f.sites)),
			  .met = xcalloc(c->entries.len, sizeof(*f.met))};
	tracer_results(s->tracer, add_result, &f);
	for (size_t i = 0; i < c->entries.len; i++) {
		const struct cat_entry *en = &c->entries.data[i];
		bool told = false;
		for (size_t k = 0; k < i && en->libraries.len; k++) {
			const struct cat_entry *before = &c->entries.data[k];
			told |= before->libraries.len &&
				!strcmp(before->libraries.data[0], en->libraries.data[0]);
		}
		/* on a host without GPUs nobody expects them, but who asks for them by name */
		bool gpu_layer = en->layer == LAYER_CUDA || en->layer == LAYER_NCCL;
		if (gpu_layer && !s->saw_gpu && !(s->opts->frequent && s->opts->layers != ~0u))
			continue;
		if (told || f.met[i] || !(s->opts->layers & 1u << en->layer) ||
		    en->off_by_default || !(en->expected || en->layer == LAYER_USER) ||
		    !en->libraries.len)
			continue;
		pipeline_note(s->pipeline, en->libraries.data[0],
			      "not loaded by any traced process");
	}
	free(f.sites);
	free(f.met);
}

/* ---- following ---- */

static void emit_counter(void *ctx, const char *entity, const char *name, double value)
{
	struct session *s = ctx;
	pipeline_counter(s->pipeline, monotonic_ns(), entity, name, value);
}

static void post_open_call(void *ctx, const struct rec_call *c)
{
	pipeline_open_call(ctx, c);
}

static void post_open_wait(void *ctx, const struct rec_sample *sample)
{
	pipeline_open_wait(ctx, sample);
}

static void tick_burst(struct session *s, uint64_t now_ns)
{
	if (!s->opts->burst_on_ns)
		return;
	uint64_t length_ns = s->probes_on ? s->opts->burst_on_ns
					  : s->opts->burst_period_ns - s->opts->burst_on_ns;
	if (now_ns - s->switched_ns < length_ns)
		return;
	struct err e = {0};
	if (s->probes_on) { /* taking them off takes as long as others keep the kernel from it */
		spans_pause(s, true);
		pipeline_window(s->pipeline, s->switched_ns, monotonic_ns());
	}
	if (tracer_switch(s->tracer, ~0u, !s->probes_on, post_open_call, s->pipeline, &e))
		pipeline_note(s->pipeline, "burst", e.msg);
	s->probes_on = !s->probes_on;
	s->switched_ns = monotonic_ns();
	if (s->probes_on)
		spans_pause(s, false);
}

static bool uses_tail(const struct session *s)
{
	for (int i = 0; i < LAYER_COUNT; i++) {
		if (s->opts->mode[i] == MODE_TAIL)
			return true;
	}
	return false;
}

/* An end that was not told (the control ring was full, or the process ended before it
 * became a target) must not keep the recording open. */
static bool has_ended(pid_t pid)
{
	char path[64], text[1024], state = 0;
	unsigned long threads = 0;
	if (kill(pid, 0) && errno == ESRCH)
		return true;
	/* nobody has waited for it yet (proc_pid_stat(5), fields 3 and 20) */
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	const char *after_name = strrchr(text, ')');
	return after_name &&
	       sscanf(after_name + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu",
		      &state, &threads) == 2 &&
	       state == 'Z' && threads <= 1;
}

static void sweep_ended(struct session *s)
{
	for (size_t i = s->live.len; i-- > 0;) {
		if (has_ended(s->live.data[i]))
			session_unwatch_pid(s, s->live.data[i]);
	}
}

static void on_tick(struct session *s, unsigned tick)
{
	uint64_t now_ns = monotonic_ns();
	if (tick % SAMPLE_TICKS == 0)
		own_cost_look(&s->own_cost, own_cpu_ns(s));
	if (tick % SAMPLE_TICKS == 0)
		collector_procfs.sample(s->procfs, now_ns, emit_counter, s);
	if (tick % LEARN_TICKS == 0 && uses_tail(s))
		tracer_learn_thresholds(s->tracer, TAIL_QUANTILE);
	if (tick % OPEN_TICKS == 0)
		hang_watch_tick(s);
	if (tick % SOCKET_TICKS == 0)
		sockets_sample(s);
	tick_burst(s, now_ns);
	spans_switch_probes(s);
	/* where CUPTI is on its way into the processes that were there, -d waits for it */
	s->timeline_came |= !attacher_at_work(s);
	if (!s->timeline_came)
		s->follow_ns = now_ns;
	if (s->opts->duration_ns && now_ns - s->follow_ns >= s->opts->duration_ns)
		s->stop = true;
	if (atomic_load(&s->write_failed) || (s->opts->stop && atomic_load(s->opts->stop)))
		s->stop = true;
	if (tick % SWEEP_TICKS == 0)
		sweep_ended(s);
	if (tick % TRIM_TICKS == 0)
		malloc_trim(0);
	if (!s->guard_failed && !tracer_guard_works(s->tracer)) {
		s->guard_failed = s->stop = true;
		pipeline_note(s->pipeline, "eacgm-guard",
			      "ended or failed: recording stopped, to keep the job from harm");
	}
	if (s->interrupts && now_ns - s->interrupted_ns > INTERRUPT_WAIT_NS)
		s->stop = true;
}

/* Ctrl-C reaches the command too: its end is part of the run. Asked a second time, or
 * where there is no command, recording ends and what runs goes on. */
static void on_signal(struct session *s, int fd)
{
	struct signalfd_siginfo info;
	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return;
	s->interrupted_ns = monotonic_ns();
	if (info.ssi_signo != SIGINT || !s->launch.pid || ++s->interrupts > 1)
		s->stop = true;
}

static void reap_child(struct session *s)
{
	int status;
	if (s->launch.pid && !s->child_ended &&
	    waitpid(s->launch.pid, &status, WNOHANG) == s->launch.pid) {
		s->child_ended = true;
		s->child_status = status;
	}
}

static void follow(struct session *s, int signal_fd, int timer_fd)
{
	struct pollfd fds[] = {
		{.fd = tracer_control_fd(s->tracer), .events = POLLIN},
		{.fd = signal_fd, .events = POLLIN},
		{.fd = timer_fd, .events = POLLIN},
		{.fd = s->launch.pid ? s->launch.pidfd : -1, .events = POLLIN},
	};
	unsigned tick = 0;
	s->follow_ns = monotonic_ns();
	s->start_cpu_ns = own_cpu_ns(s);
	own_cost_begin(&s->own_cost, s->start_cpu_ns);
	while (!s->stop) {
		if (poll(fds, 4, -1) < 0 && errno != EINTR)
			break;
		tracer_control(s->tracer);
		if (fds[1].revents)
			on_signal(s, signal_fd);
		uint64_t expirations;
		if (fds[2].revents && read(timer_fd, &expirations, 8) == 8)
			on_tick(s, ++tick);
		reap_child(s);
		if (s->child_ended)
			fds[3].fd = -1;
		/* a command may leave children behind: they are part of the job */
		if (s->had_targets && !s->live.len && (!s->launch.pid || s->child_ended) &&
		    !s->opts->target->all && !s->opts->target->cgroup_id)
			s->stop = true;
	}
}

/* ---- start and stop ---- */

static int open_signals(sigset_t *old)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Until here the recording is sure to get its end. What came since ended the questions to servers,
 * at most: it is not to end the program now. */
static void close_signals(int fd, const sigset_t *old)
{
	struct signalfd_siginfo info;
	while (read(fd, &info, sizeof(info)) == sizeof(info))
		;
	sigprocmask(SIG_SETMASK, old, NULL);
	close(fd);
}

static int open_timer(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	struct itimerspec every = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
	if (fd >= 0)
		timerfd_settime(fd, 0, &every, NULL);
	return fd;
}

/* Children that were forked while their parents were not targets yet. One that has loaded its
 * libraries by now tells of them no more. */
static int add_forked(struct session *s, struct err *e)
{
	int rc = 0;
	struct err ended;
	size_t known;
	for (size_t i = 0; i < s->live.len && !rc; i++) { /* grows meanwhile */
		pids_t family = {0};
		proc_descendants("/proc", s->live.data[i], &family);
		for (size_t k = 0; k < family.len && !rc; k++) {
			rc = tracer_add_pid(s->tracer, family.data[k], e);
			known = s->live.len;
			session_watch_pid(s, family.data[k]);
			pipeline_process(s->pipeline, family.data[k]);
			if (s->live.len > known)
				tracer_scan_pid(s->tracer, family.data[k], &ended);
		}
		vec_free(&family);
	}
	return rc;
}

/* Every process is scanned after it became a target: what it loaded before is found then,
 * what it loads later is told. */
static int add_targets(struct session *s, struct err *e)
{
	const struct target *t = s->opts->target;
	pids_t everyone = {0};
	const pids_t *pids = &t->pids;
	if (t->all) {
		proc_all("/proc", &everyone);
		pids = &everyone;
	}
	int rc = 0, alive = 0;
	for (size_t i = 0; i < pids->len && !rc; i++) {
		if (pids->data[i] == getpid())
			continue;
		if (!t->all)
			rc = tracer_add_pid(s->tracer, pids->data[i], e);
		if (!rc)
			session_watch_pid(s, pids->data[i]);
	}
	if (!t->all)
		rc = rc ? rc : add_forked(s, e);
	for (size_t i = 0; i < pids->len && !rc; i++) {
		struct err why = {0};
		if (pids->data[i] == getpid())
			continue;
		pipeline_process(s->pipeline, pids->data[i]);
		if (tracer_scan_pid(s->tracer, pids->data[i], &why) >= 0)
			alive++;
		else if (!t->all)
			pipeline_note(s->pipeline, "process", why.msg);
	}
	if (!rc && t->pids.len && !alive && !t->all)
		rc = err_set(e, ESRCH, "none of the processes could be traced: they ended");
	vec_free(&everyone);
	return rc;
}

static int start_command(struct session *s, struct err *e)
{
	int rc = tracer_start_sampling(s->tracer, e);
	if (!rc)
		rc = tracer_prepare_exec(s->tracer, s->launch.path, e);
	if (!rc)
		rc = tracer_add_pid(s->tracer, s->launch.pid, e);
	if (rc)
		return rc;
	session_watch_pid(s, s->launch.pid);
	pipeline_process(s->pipeline, s->launch.pid);
	return launch_go(&s->launch, s->opts->command[0], s->opts->user, e);
}

static struct tracer_options tracer_options_of(const struct session_options *o)
{
	struct tracer_options opts = {
		.catalog = o->catalog,
		.layers = o->layers,
		.frequent = o->frequent,
		.all_entries = o->all_entries,
		.method = o->method,
		.all = o->target->all,
		.cgroup_id = o->target->cgroup_id,
		.cgroup_level = o->target->cgroup_level,
		.btf_path = getenv("EACGM_BTF"),
		.without_guard = o->without_guard,
		.stacks = o->stacks,
		.allocators = o->allocators,
		.sample_hz = o->sample_hz,
		.waits = o->waits,
		.sockets = o->layers & 1u << LAYER_NCCL,
	};
	memcpy(opts.mode, o->mode, sizeof(opts.mode));
	return opts;
}

int session_start_readers(struct parser_host **ret, const struct session_options *opts,
			  struct err *e)
{
	struct namer_files files = {0};
	struct parser_op reading[PIPELINE_OPS];
	struct tracer_options of = tracer_options_of(opts);
	pipeline_parser_ops(&files, reading);
	of.others = (struct parser_ops){reading, PIPELINE_OPS};
	return tracer_start_readers(ret, &of, e);
}

static int open_tracer(struct session *s, struct err *e)
{
	struct tracer_options opts = tracer_options_of(s->opts);
	opts.events = session_events(s);
	opts.readers = s->readers;
	return tracer_open(&s->tracer, &opts, e);
}

static void stop_recording(struct session *s)
{
	tracer_freeze(s->tracer);
	attacher_stop(s);
	if (s->opts->burst_on_ns && s->probes_on)
		pipeline_window(s->pipeline, s->switched_ns, monotonic_ns());
	struct err e = {0};
	if (tracer_open_calls(s->tracer, post_open_call, s->pipeline, &e))
		pipeline_note(s->pipeline, "open calls", e.msg);
	if (tracer_open_waits(s->tracer, post_open_wait, s->pipeline, &e))
		pipeline_note(s->pipeline, "open waits", e.msg);
	collector_procfs.sample(s->procfs, monotonic_ns(), emit_counter, s);
	gpus_stop(s);
	sockets_stop(s);
	note_missing(s);
	session_write_end(s);
	mover_stop(s);
}

void session_say(const struct session *s, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (s->opts->say)
		s->opts->say(s->opts->say_ctx, text);
	else
		text_printf(stderr, "eacgm: %s\n", text);
}

/* Whoever attaches wants to know from when on calls are seen. */
static void say_attached(const struct session *s)
{
	struct tracer_stats st;
	tracer_stats(s->tracer, &st);
	session_say(s, "attached to %zu process%s at %llu places%s", s->live.len,
		    s->live.len == 1 ? "" : "es", (unsigned long long)st.sites,
		    s->opts->output ? "; Ctrl-C ends the recording" : "");
}

/* Stacks that are taken before their unwind tables are there are cut. Tasks that load a library
 * meanwhile are held, and have to be answered. */
static void settle_stacks(struct session *s)
{
	for (int waited_ms = 0; waited_ms < SETTLE_MS; waited_ms += SETTLE_STEP_MS) {
		if (tracer_stacks_settle(s->tracer, SETTLE_STEP_MS))
			return;
		tracer_control(s->tracer);
	}
	pipeline_note(s->pipeline, "stacks",
		      "the first ones may be cut: unwind tables took longer than 5 s");
}

static int run(struct session *s, struct err *e)
{
	int timer_fd = open_timer();
	int rc = mover_start(s, e);
	gpus_start(s);
	sockets_start(s);
	tracer_hook_loaders(s->tracer);
	if (!rc)
		rc = s->opts->command ? start_command(s, e) : add_targets(s, e);
	atomic_store(&s->begun, !rc);
	if (!rc && !s->opts->command) {
		settle_stacks(s);
		rc = tracer_start_sampling(s->tracer, e);
		if (!rc)
			say_attached(s);
	}
	if (!rc) {
		attacher_start(s);
		follow(s, s->signal_fd, timer_fd);
		stop_recording(s);
	}
	gpus_stop(s);
	mover_stop(s);
	close(timer_fd);
	return rc;
}

static void fill_result(struct session *s, struct session_result *ret)
{
	struct pipeline_stats st;
	pipeline_stats(s->pipeline, &st);
	bool kept = s->opts->output != NULL;
	*ret = (struct session_result){
		.calls = kept ? st.written.calls : st.calls,
		.samples = kept ? st.written.samples : st.samples,
		.gpu_spans = kept ? st.written.gpu_spans : st.gpu_spans,
		.bytes = st.bytes,
		.lost = st.lost,
		.unwritten = {st.written.calls_dropped, st.written.samples_dropped,
			      st.written.gpu_spans_dropped},
		.duration_s = (double)(monotonic_ns() - s->start_ns) / 1e9,
		.left_running = s->launch.pid && !s->child_ended,
		.exit_status = s->child_ended ? launch_exit_status(s->child_status) : 0,
		.stopped_early = atomic_load(&s->write_failed),
	};
}

static void add_ring_loss(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count)
{
	struct session_result *r = ctx;
	(void)cpu;
	if (cause == LOSS_RING_FULL || cause == LOSS_STACK_FULL || cause == LOSS_NO_STATE ||
	    cause == LOSS_HIST_FULL || cause == LOSS_SAMPLE || cause == LOSS_STACK)
		r->lost += count;
}

/* glibc's malloc takes the size of the largest block that was freed for what will be needed again:
 * after libbpf's copy of the kernel's types, 6 MB, smaller ones come from its arenas, which would
 * keep the highest water of queues and fits for days (mallopt(3), M_MMAP_THRESHOLD). What small
 * blocks leave behind goes back now and then: on_tick. */
static void give_back_large_blocks(void)
{
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
}

/* The command is forked first: it has what this process then gives up, and nothing of the tracer.
 */
static void stop_readers(struct session *s)
{
	if (s->readers != s->opts->readers)
		parser_host_stop(s->readers);
}

static void say_plainly(void *ctx, const char *sentence)
{
	session_say(ctx, "%s", sentence);
}

static void ask_servers(struct session *s)
{
	const struct pipeline_servers servers = {s->debuginfod, s->signal_fd, say_plainly, s};
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

static int prepare(struct session *s, struct err *e)
{
	const struct session_options *o = s->opts;
	int rc = 0;
	spans_prepare(s);
	if (o->command)
		rc = launch_prepare(&s->launch, o->command, o->user, e);
	spans_prepared(s);
	if (!rc && o->debuginfod)
		rc = debuginfod_start(&s->debuginfod, e);
	s->readers = o->readers;
	if (!rc && !s->readers)
		rc = session_start_readers(&s->readers, o, e);
	if (!rc && !o->confined)
		rc = privileges_give_up(o->gpu_timeline && !o->command, o->method, e);
	return rc ? rc : open_tracer(s, e);
}

int session_run(const struct session_options *opts, struct session_result *ret, struct err *e)
{
	give_back_large_blocks();
	struct session *s = xcalloc(1, sizeof(*s));
	s->opts = opts;
	s->probes_on = true;
	s->stack_shift = FIRST_STACK_SHIFT;
	s->launch = (struct launch){.gate = -1, .report = -1, .pidfd = -1};
	struct rec_writer_options wo = {.max_bytes = opts->max_bytes,
					.max_string_bytes =
						opts->output ? STRINGS_KEPT : STRINGS_UNKEPT,
					.owner = opts->owner,
					.named_when_told = true};
	int rc = prepare(s, e);
	if (rc) {
		launch_cancel(&s->launch);
		spans_close(s);
		debuginfod_stop(s->debuginfod);
		stop_readers(s);
		free(s);
		return rc;
	}
	tracer_set_stack_shift(s->tracer, s->stack_shift);
	double probe_ns_each = tracer_calibrate(s->tracer);
	sigset_t old;
	s->signal_fd = open_signals(&old);
	rc = rec_writer_open(&s->writer, opts->output, &wo, e);
	if (!rc) {
		const struct parser_service readers = tracer_others(s->tracer);
		s->pipeline = pipeline_new(s->writer, "/proc", &readers);
		ask_servers(s);
		ask_kernel(s);
		if (!opts->output)
			pipeline_forget_ended(s->pipeline);
		hang_watch_start(s);
		collector_procfs.open(&s->procfs, "/proc", e);
		s->start_ns = s->switched_ns = monotonic_ns();
		session_write_metas(s, probe_ns_each);
		spans_tell(s);
		rc = live_start(s, probe_ns_each, e);
		if (!rc)
			rc = run(s, e);
		live_stop(s);
		struct err close_error = {0};
		int closed = pipeline_end(s->pipeline, &close_error);
		if (!rc) {
			fill_result(s, ret);
			tracer_losses(s->tracer, add_ring_loss, ret);
		}
		int freed = pipeline_close(s->pipeline, closed ? NULL : &close_error);
		closed = closed ? closed : freed;
		s->pipeline = NULL; /* what the tracer tells from here on is for nobody */
		if (!rc && closed && !ret->stopped_early) {
			ret->stopped_early = true;
			s->write_error = close_error;
		}
		if (!rc && ret->stopped_early)
			*e = s->write_error;
		collector_procfs.close(s->procfs);
	}
	close_signals(s->signal_fd, &old);
	if (!rc && s->guard_failed && !ret->stopped_early) {
		ret->stopped_early = true;
		err_set(e, EIO, "the exception guard (eacgm-guard) has ended: recording stopped");
	}
	if (rc)
		launch_cancel(&s->launch);
	if (s->live.len || opts->target->all || opts->target->cgroup_id)
		tracer_linger(s->tracer);
	vec_free(&s->live);
	vec_free(&s->enums);
	vec_free(&s->collective_probes);
	spans_close(s);
	tracer_close(s->tracer);
	debuginfod_stop(s->debuginfod);
	stop_readers(s);
	if (!s->gpu_abandoned)
		free(s);
	return rc;
}
