/* session_mover.c - the thread between rings and recording, and the one that sends the
 * recording to the disk. The mover polls: a wake-up per record would be paid by the traced
 * threads. It never waits for the disk: rings would fill meanwhile. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/thresholds.h"
#include "session/session_impl.h"

#define SYNC_NS		500000000
#define POLL_NS		5000000	  /* 5 ms: a ring of 16 MB holds 80 ms of 5 M calls/s */
#define QUIET_NS	20000000  /* at most, where little comes, */
#define CALM_NS		150000000 /* likewise, of what is always on */
#define QUIET_RECORDS	100	  /* in a pass */
#define RECORD_BYTES	50	  /* of most calls */
#define BYTES_NS	0.05 /* of a CPU's probes in the kernel: a million calls a second of 50 bytes */
#define STACKS_FLUSHES	4 /* stacks of frequent calls are counted over so many: two seconds */
#define STACKS_MOST	80
#define STACKS_LEAST	28
#define STACK_SHIFT_MAX 6
#define LOSSES_NS	100000000UL /* a window is judged half a second after its end */
#define DISKS_NS	900000000UL /* at every second flush */
#define FLUSH_NS	500000000UL /* what a crash can lose at most */
#define LEARN_NS	900000000UL /* at every second flush */
#define TAIL_QUANTILE	0.99

static int on_record(void *ctx, void *record, size_t len)
{
	pipeline_record(ctx, record, len);
	return 0;
}

static void on_loss(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count)
{
	static const char *const names[] = LOSS_NAMES;
	pipeline_loss(ctx, names[cause], cpu, count);
}

void session_loss(struct session *s, const char *cause, uint64_t total)
{
	if (total)
		pipeline_loss(s->pipeline, cause, 0, total);
}

static void add_lost_calls(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count)
{
	uint64_t *total = ctx;
	(void)cpu;
	*total += cause == LOSS_RING_FULL ? count : 0;
}

/* When calls were lost, for those who judge how fast they come. */
static void look_for_losses(struct session *s, uint64_t now_ns)
{
	uint64_t total = spans_lost_calls(s) + inside_lost_calls(s);
	tracer_losses(s->tracer, add_lost_calls, &total);
	pipeline_lost_calls(s->pipeline, now_ns, total);
}

static void on_histogram(void *ctx, const struct hist_key *key, const struct hist_value *value)
{
	struct session *s = ctx;
	s->mover.counted_calls += value->count;
	if (s->mover.learns)
		thresholds_add(s->mover.thresholds, key, value);
	pipeline_histogram(s->pipeline, key, value, s->mover.last);
}

static void on_told_histogram(void *ctx, const struct hist_key *key, const struct hist_value *value)
{
	struct session *s = ctx;
	struct hist_key known = *key;
	if (pipeline_told_name(s->pipeline, &known, atomic_load(&s->mover.stop)))
		on_histogram(ctx, &known, value);
}

static void on_threshold(void *ctx, uint32_t probe, uint64_t ns)
{
	struct session *s = ctx;
	tracer_set_threshold(s->tracer, probe, ns);
	inside_set_threshold(s, probe, ns);
}

static void on_disk_io(void *ctx, const struct disk_io *row)
{
	pipeline_disk_io(ctx, row);
}

static void look_at_disks(struct session *s, bool last)
{
	uint64_t now_ns = monotonic_ns();
	if (!last && now_ns - s->mover.disks_ns < DISKS_NS)
		return;
	s->mover.disks_ns = now_ns;
	tracer_disk_io(s->tracer, on_disk_io, s->pipeline);
}

static void on_fixed_work(void *ctx, pid_t pid, const struct fixed_work *w)
{
	pipeline_fixed_work(ctx, monotonic_ns(), pid, (double)w->ns / (double)w->n);
}

static bool keeps_histograms(const struct session *s)
{
	for (int i = 0; i < LAYERS_MAX; i++) {
		if (s->opts->mode[i] != MODE_TRACE)
			return true;
	}
	return false;
}

static bool uses_tail(const struct session *s)
{
	for (int i = 0; i < LAYERS_MAX; i++) {
		if (s->opts->mode[i] == MODE_TAIL)
			return true;
	}
	return false;
}

/* All of them, each time. */
static void look_at_histograms(struct session *s)
{
	uint64_t now_ns = monotonic_ns();
	s->mover.learns = s->mover.thresholds && now_ns - s->mover.learned_ns >= LEARN_NS;
	s->mover.counted_calls = 0;
	if (!keeps_histograms(s))
		return;
	tracer_histograms(s->tracer, on_histogram, s);
	inside_histograms(s, on_told_histogram);
	if (s->mover.learns) {
		thresholds_learn(s->mover.thresholds, TAIL_QUANTILE, on_threshold, s);
		s->mover.learned_ns = now_ns;
	}
}

/* A stack takes 60 to 100 us to walk, and the job's data and code leave the caches meanwhile: of
 * frequent calls so few are taken that a job of many small kernels hardly notices. The bounds are
 * more than twice apart, so that it settles. */
static void pace_stacks(struct session *s, uint64_t taken)
{
	uint64_t since = taken - s->mover.stacks_taken;
	if (++s->mover.stack_flushes < STACKS_FLUSHES && since <= 2 * STACKS_MOST)
		return;
	s->mover.stack_flushes = 0;
	s->mover.stacks_taken = taken;
	if (since > STACKS_MOST && s->mover.stack_shift < STACK_SHIFT_MAX)
		s->mover.stack_shift++;
	else if (since < STACKS_LEAST && s->mover.stack_shift)
		s->mover.stack_shift--;
	tracer_set_stack_shift(s->tracer, s->mover.stack_shift);
}

static int name_recording(struct session *s, struct err *e)
{
	s->mover.named = true;
	return session_output_name(s, e);
}

static void note_progress(struct session *s, const struct pipeline_stats *st)
{
	const struct segments *segments = s->output.segments;
	atomic_store(&s->mover.progress.calls, st->calls);
	atomic_store(&s->mover.progress.samples, st->samples);
	atomic_store(&s->mover.progress.gpu_spans, st->gpu_spans);
	atomic_store(&s->mover.progress.lost, st->lost);
	atomic_store(&s->mover.progress.segment, segments ? segments_number(segments) : 0);
}

void session_progress(const struct session *s, struct session_progress *ret)
{
	*ret = (struct session_progress){.calls = atomic_load(&s->mover.progress.calls),
					 .samples = atomic_load(&s->mover.progress.samples),
					 .gpu_spans = atomic_load(&s->mover.progress.gpu_spans),
					 .lost = atomic_load(&s->mover.progress.lost),
					 .segment = atomic_load(&s->mover.progress.segment)};
}

static void flush(struct session *s, bool last)
{
	tracer_losses(s->tracer, on_loss, s->pipeline);
	spans_losses(s);
	inside_losses(s);
	look_at_disks(s, last);
	tracer_fixed_work(s->tracer, on_fixed_work, s->pipeline);
	look_at_histograms(s);
	calls_note(s);
	struct pipeline_stats st;
	pipeline_stats(s->pipeline, &st);
	pace_stacks(s, st.chance_stacks);
	if (last)
		pipeline_meta(s->pipeline, "probe_hits", "%lu",
			      (unsigned long)(st.calls + s->mover.counted_calls));
	struct err e;
	int rc = session_output_flush(s, &e);
	note_progress(s, &st);
	if (!rc && atomic_load(&s->mover.begun))
		rc = name_recording(s, &e);
	if (!rc || atomic_load(&s->mover.failed))
		return;
	s->mover.error = e;
	atomic_store(&s->mover.failed, true);
}

/* The target runs, and nobody has been told where its recording is. */
static bool waits_for_name(const struct session *s)
{
	return !s->mover.named && atomic_load(&s->mover.begun);
}

/* How long the mover rests after so many records: where few come longer each time. For what is
 * always on programs end the rest when a ring is half full; else it is no longer than a part of
 * what it takes to fill one should many come. */
static uint64_t rest_ns(const struct session *s, int records, uint64_t last_ns)
{
	bool calm = s->opts->always_on;
	double bytes = tracer_ring_bytes(s->tracer);
	double most = calm ? CALM_NS : fmin(QUIET_NS, bytes / BYTES_NS / 4);
	double few = calm ? bytes / RECORD_BYTES / 2 : QUIET_RECORDS;
	if (records >= few)
		return POLL_NS;
	return (uint64_t)fmax(POLL_NS, fmin(most, 2 * (double)last_ns));
}

static void *move(void *arg)
{
	struct session *s = arg;
	uint64_t flushed_ns = monotonic_ns(), looked_ns = 0, rest = POLL_NS;
	s->mover.thresholds = uses_tail(s) ? thresholds_new() : NULL;
	s->mover.learned_ns = flushed_ns;
	setpriority(PRIO_PROCESS, 0, -10); /* the rings must not fill while the job is busy */
	for (;;) {
		bool last = s->mover.last = atomic_load(&s->mover.stop);
		uint64_t begin_ns = monotonic_ns();
		int n = (int)inside_drain(s);
		if (last)
			inside_finish(s);
		n += tracer_drain(s->tracer); /* after: stacks of calls that are told inside */
		pipeline_pass_end(s->pipeline);
		if (last)
			pipeline_pass_end(s->pipeline); /* what still waited for its name */
		uint64_t now_ns = monotonic_ns();
		spans_drain(s, now_ns);
		if (last)
			spans_finish(s);
		if (now_ns - looked_ns >= LOSSES_NS || last) {
			look_for_losses(s, now_ns);
			looked_ns = now_ns;
		}
		live_pass(s, begin_ns);
		bool due = now_ns - flushed_ns >= FLUSH_NS;
		if (due || last || waits_for_name(s))
			flush(s, last);
		if (due)
			flushed_ns = now_ns;
		if (last)
			break;
		rest = rest_ns(s, n, rest);
		if (n < 1000)
			tracer_rest(s->tracer, rest);
	}
	thresholds_free(s->mover.thresholds);
	return NULL;
}

/* What was flushed survives a crash of the machine a second later. */
static void *sync_file(void *arg)
{
	struct session *s = arg;
	while (!atomic_load(&s->mover.stop)) {
		nap_for(&s->mover.pause, SYNC_NS);
		if (!atomic_load(&s->mover.stop)) /* at the end all is synced */
			session_output_sync(s);
	}
	return NULL;
}

int mover_start(struct session *s, struct err *e)
{
	int rc = tracer_set_drain(s->tracer, on_record, s->pipeline, e);
	if (!rc) {
		rc = thread_start(&s->mover.thread, move, s, "eacgm-rings");
		if (!rc && s->opts->output)
			s->mover.syncs =
				!thread_start(&s->mover.syncer, sync_file, s, "eacgm-sync");
		if (rc)
			return err_set(e, -rc, "cannot start a thread: %s", strerror(-rc));
		s->mover.runs = true;
	}
	return rc;
}

void mover_stop(struct session *s)
{
	if (!s->mover.runs)
		return;
	atomic_store(&s->mover.stop, true);
	tracer_end_rests(s->tracer);
	nap_end(&s->mover.pause);
	pthread_join(s->mover.thread, NULL);
	if (s->mover.syncs)
		pthread_join(s->mover.syncer, NULL);
	s->mover.runs = s->mover.syncs = false;
}
