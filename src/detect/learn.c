/* learn.c - two passes over recordings: what is usual for keys, counters and steps; then rows
 * against it, and a mixture of each layer's rows. */
#include "detect/learn.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/cpu_speed.h"
#include "detect/launch_start.h"
#include "detect/learn_facts.h"
#include "detect/learn_kept.h"
#include "detect/learn_known.h"
#include "detect/learn_layer.h"
#include "detect/learn_sample.h"
#include "detect/learn_steps.h"
#include "detect/learn_suspects.h"
#include "detect/losses.h"
#include "detect/recording_feed.h"
#include "detect/windows.h"

#define PROGRESS_OF_EACH 1000 /* a recording's share of the progress, in each pass */

typedef VEC(struct feature_row) rows_of;

/* What passes need of a recording. */
struct learned_recording {
	const struct row_source *source; /* the sample's */
	struct sample *sample;
	uint64_t begin_ns; /* after its warm-up */
	size_t part;	   /* of the sample, of the call that was read last */
	struct learn_facts facts;
	struct kept kept;     /* its events, once they were read */
	struct losses losses; /* its own, likewise */
	bool was_read;
};

struct learning {
	const struct learn_options *o;
	struct learned_recording *recordings;
	size_t recordings_len;
	struct sample *samples; /* of each */
	uint64_t kept_bytes;	/* of all */
	struct known known;
	uint64_t window_ns;
	bool usual; /* the first pass */
	struct windows *windows;
	struct hardware *hardware;
	struct detect_names names;
	uint32_t recording; /* its number */
	double seconds;
	bool waits; /* some recording's waits for the world are irregular */
	struct model_clock clock;
	VEC(struct clock_window) clocked; /* of the second pass */
	paced_windows paced;		  /* likewise */
	suspects suspects;		  /* nothing is learned from these */
	rows_of rows[DETECT_LAYERS];
	uint64_t done; /* for progress: recordings of both passes */
	uint64_t total;
};

/* ---- one recording through one pass ---- */

static struct learned_recording *this_recording(struct learning *l)
{
	return &l->recordings[l->recording];
}

static bool left_out(void *ctx, uint64_t start_ns)
{
	struct learning *l = ctx;
	return learn_suspects_at(&l->suspects, l->recording, start_ns) ||
	       !learn_sample_has(this_recording(l)->sample, start_ns);
}

static bool is_learned(struct learning *l, uint64_t start_ns)
{
	return start_ns >= this_recording(l)->begin_ns && !left_out(l, start_ns);
}

static void call(void *ctx, const struct m_call *c)
{
	struct learning *l = ctx;
	struct learned_recording *r = this_recording(l);
	size_t part = learn_sample_part(r->sample, c->start_ns + c->dur_ns);
	if (part != r->part)
		windows_forget_threads(l->windows);
	r->part = part;
	losses_seen(&r->losses, c->start_ns + c->dur_ns);
	if (c->start_ns + c->dur_ns >= r->begin_ns)
		windows_call(l->windows, &l->names, c, NULL);
}

static void gpu_span(void *ctx, const struct m_gpu_span *s)
{
	struct learning *l = ctx;
	losses_seen(&this_recording(l)->losses, s->end_ns);
	if (s->end_ns >= this_recording(l)->begin_ns)
		windows_gpu_span(l->windows, &l->names, s, NULL);
}

static void input(void *ctx, const struct windows_input *in)
{
	struct learning *l = ctx;
	struct learned_recording *r = this_recording(l);
	if (learn_sample_has(r->sample, in->end_ns))
		kept_add(&r->kept, &l->kept_bytes, in);
}

static void wait(void *ctx, const struct m_wait *w)
{
	struct learning *l = ctx;
	windows_wait(l->windows, &l->names, w);
}

/* Totals of a counter need the value before the first window. */
static void counter_again(void *ctx, const struct m_counter *c)
{
	struct learning *l = ctx;
	if (c->time_ns + HARDWARE_HOLD_NS >= this_recording(l)->begin_ns)
		hardware_counter(l->hardware, &l->names, c);
	windows_counter(l->windows, &l->names, c);
}

static void counter(void *ctx, const struct m_counter *c)
{
	struct learning *l = ctx;
	counter_again(ctx, c);
	losses_counter(&this_recording(l)->losses, &l->names, c);
}

static void sample(void *ctx, const struct m_sample *s)
{
	struct learning *l = ctx;
	if (s->time_ns >= this_recording(l)->begin_ns)
		hardware_sample(l->hardware, &l->names, s);
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
	struct learning *l = ctx;
	if (l->o->progress && total)
		l->o->progress(l->o->progress_ctx,
			       l->done * PROGRESS_OF_EACH + done * PROGRESS_OF_EACH / total,
			       l->total * PROGRESS_OF_EACH);
}

/* A row of the pace alone says nothing of what a layer is like. */
static void keep_row(struct learning *l, const struct feature_row *row)
{
	bool of_pace = detect_layer_traits(row->layer) & LAYER_BY_CALLS && !(row->events > 0);
	if (l->usual || of_pace || !is_learned(l, row->start_ns) ||
	    losses_spoil(&this_recording(l)->losses, row))
		return;
	struct feature_row *to = vec_push(&l->rows[row->layer]);
	*to = *row;
	to->recording = l->recording;
}

/* Of the layers of calls. */
static void window_row(void *ctx, const struct feature_row *row, const struct window_detail *detail)
{
	struct learning *l = ctx;
	(void)detail;
	if (!l->usual && is_learned(l, row->start_ns))
		*vec_push(&l->paced) = (struct paced_window){.recording = l->recording,
							     .pid = row->pid,
							     .start_ns = row->start_ns,
							     .pace = row->pace,
							     .cpus = row->cpus,
							     .parents = row->parents_pace};
	keep_row(l, row);
}

static void hardware_row(void *ctx, const struct feature_row *row,
			 const double values[FEATURES_MOST])
{
	struct learning *l = ctx;
	/* The window that the warm-up ends in is left out of what is usual as well. */
	if (l->usual && is_learned(l, row->start_ns))
		counters_usual_learn(l->known.counters, row->layer, row->regime, values);
	keep_row(l, row);
}

static void clocked(void *ctx, const struct clock_window *window)
{
	struct learning *l = ctx;
	if (l->usual || !is_learned(l, window->start_ns))
		return;
	struct clock_window *to = vec_push(&l->clocked);
	*to = *window;
	to->recording = l->recording;
}

static void mix(void *ctx, uint32_t pid, uint64_t start_ns, const struct work *work)
{
	struct learning *l = ctx;
	hardware_mix(l->hardware, pid, start_ns, work);
}

static void steps_pass(struct learning *l, const struct steps *s)
{
	if (l->usual) {
		struct step_usual usual[STEPS_KINDS];
		step_usual_of(usual, s);
		for (size_t k = 0; k < STEPS_KINDS; k++)
			if (usual[k].steps > l->known.steps[k].steps)
				l->known.steps[k] = usual[k];
		return;
	}
	struct step_rows rows = {0};
	step_rows_make(&rows, s, l->known.steps);
	learn_steps_join(&rows, l->window_ns);
	for (size_t i = 0; i < rows.rows.len; i++)
		keep_row(l, &rows.rows.data[i]);
	step_rows_free(&rows);
}

/* Its events from the file, which are kept for later passes. */
static void read_events(struct learning *l, struct learned_recording *r)
{
	losses_forget(&r->losses);
	r->kept.whole = !r->was_read;
	r->was_read = true;
	recording_feed(r->source, &(struct recording_sink){.ctx = l,
							   .call = call,
							   .gpu_span = gpu_span,
							   .wait = l->waits ? wait : NULL,
							   .counter = counter,
							   .sample = sample,
							   .progress = progress});
	kept_end(&r->kept, &l->kept_bytes);
}

static void read_events_again(struct learning *l, struct learned_recording *r)
{
	recording_feed(r->source, &(struct recording_sink){
					  .ctx = l, .counter = counter_again, .sample = sample});
	kept_replay(&r->kept, l->usual ? NULL : l->known.usual, l->windows, progress, l);
}

static void read_pass(struct learning *l)
{
	struct learned_recording *r = this_recording(l);
	size_t before[DETECT_LAYERS];
	for (size_t i = 0; i < DETECT_LAYERS; i++)
		before[i] = l->rows[i].len;
	detect_names_of_source(&l->names, r->source);
	const struct rec_tables *t = r->source->tables;
	for (size_t i = 0; i < t->processes.len; i++)
		windows_parent(l->windows, t->processes.data[i].pid,
			       t->processes.data[i].parent_pid);
	if (r->kept.whole)
		read_events_again(l, r);
	else
		read_events(l, r);
	windows_end(l->windows);
	hardware_end(l->hardware);
	windows_forget_rows(l->windows);
	hardware_forget_rows(l->hardware);
	detect_keys_forget_rows(l->known.keys);
	steps_pass(l, &r->facts.steps);
	for (size_t i = 0; i < DETECT_LAYERS; i++)
		if (l->rows[i].len > before[i])
			feature_rows_sort(l->rows[i].data + before[i], l->rows[i].len - before[i]);
	l->done++;
}

static void pass(struct learning *l, bool usual)
{
	l->usual = usual;
	l->windows = windows_new(&(struct windows_options){
		.window_ns = l->window_ns,
		.late_ns = WINDOWS_NEVER,
		.keys = l->known.keys,
		.usual = l->known.usual,
		.regimes = l->known.regimes,
		.learn = usual,
		.learn_only = usual,
		.without_keys = true,
		.new_regimes = usual,
		.without_gaps = l->known.without & WITHOUT_GAPS,
		.waits = l->waits,
		.row = window_row,
		.left_out = left_out,
		.input = input,
		.clocked = clocked,
		.mix = mix,
		.ctx = l,
	});
	l->hardware = hardware_new(&(struct hardware_options){
		.window_ns = l->window_ns,
		.late_ns = WINDOWS_NEVER,
		.usual = l->known.counters,
		.row = hardware_row,
		.ctx = l,
	});
	for (l->recording = 0; l->recording < l->recordings_len; l->recording++) {
		struct learned_recording *r = this_recording(l);
		double warmup = l->o->warmup_s >= 0 ? l->o->warmup_s : WARMUP_S;
		r->begin_ns = r->facts.work_ns + (uint64_t)(warmup * 1e9);
		read_pass(l);
		if (usual)
			l->seconds += learn_sample_seconds(r->sample, r->begin_ns);
	}
	windows_free(l->windows);
	hardware_free(l->hardware);
}

/* ---- all of it ---- */

static void time_words(char ret[64], double seconds)
{
	unsigned long long s = (unsigned long long)seconds;
	if (s >= 3600)
		snprintf(ret, 64, "%llu h %llu min", s / 3600, s / 60 % 60);
	else
		snprintf(ret, 64, "%llu min %llu s", s / 60, s % 60);
}

/* "1 h 2 min of 2 recordings, on host gpu7", "11 min 4 s, spread over 1 h 2 min of ...". Whoever
 * knows the files' names puts them there. */
static char *origin_of(const struct learning *l)
{
	size_t n = l->recordings_len;
	const char *host = rec_meta(l->recordings[0].source->tables, "host");
	char time[64], whole[64], spread[96] = "", of[64] = "a recording";
	double all = 0;
	bool sampled = false;
	for (size_t i = 0; i < n; i++) {
		sampled |= l->samples[i].stretches.len > 0;
		all += learn_sample_whole_seconds(&l->samples[i], l->recordings[i].begin_ns);
	}
	time_words(time, l->seconds);
	time_words(whole, all);
	if (sampled)
		snprintf(spread, sizeof(spread), ", spread over %s", whole);
	if (n > 1)
		snprintf(of, sizeof(of), "%zu recordings", n);
	return host ? xasprintf("%s%s of %s, on host %s", time, spread, of, host)
		    : xasprintf("%s%s of %s", time, spread, of);
}

/* ---- how fast the work went on in the windows that were learned ---- */

static int by_process(const void *a, const void *b)
{
	const struct clock_window *x = a, *y = b;
	if (x->recording != y->recording)
		return x->recording < y->recording ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* What was made before it was known what belongs to the work: its pace, now that it is, and what of
 * its logarithm is for its CPUs. What has its parent's keeps that. */
static double pace_now(const struct learning *l, struct clock_window key, double before,
		       double *cpus)
{
	struct clock_reading r;
	const struct clock_window *w = l->clocked.len
					       ? bsearch(&key, l->clocked.data, l->clocked.len,
							 sizeof(*l->clocked.data), by_process)
					       : NULL;
	if (!w)
		return before;
	clock_read(&r, &l->clock, &w->sums, l->window_ns);
	*cpus = cpu_speed_part(&l->clock, w->work_ns);
	return r.speed * exp(*cpus);
}

/* By the paces without it. */
static void learn_cpu_speed(struct learning *l)
{
	if (l->window_ns < CPU_WORK_NS) /* live, values would be late for such windows */
		return;
	struct cpu_window *all = xcalloc(l->clocked.len + 1, sizeof(*all));
	for (size_t i = 0; i < l->clocked.len; i++) {
		const struct clock_window *w = &l->clocked.data[i];
		struct clock_reading r;
		clock_read(&r, &l->clock, &w->sums, l->window_ns);
		all[i] = (struct cpu_window){w->recording, w->pid, r.speed, w->work_ns};
	}
	cpu_speed_learn(&l->clock, all, l->clocked.len);
	free(all);
}

static void layer_pace(struct learning *l, enum detect_layer layer)
{
	size_t loss = feature_place(layer, "pace_loss");
	for (size_t i = 0; loss < FEATURES_MOST && i < l->rows[layer].len; i++) {
		struct feature_row *row = &l->rows[layer].data[i];
		if (row->parents_pace)
			continue;
		row->pace = pace_now(l,
				     (struct clock_window){.recording = row->recording,
							   .pid = row->pid,
							   .start_ns = row->start_ns},
				     row->pace, &row->cpus);
		row->x[loss] = row->pace > 0 ? -log(row->pace) : NAN;
	}
}

static void learn_pace(struct learning *l)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->clocked.len; i++)
		if (l->clocked.data[i].layer == l->clock.layer)
			l->clocked.data[kept++] = l->clocked.data[i];
	l->clocked.len = kept;
	if (!kept)
		return;
	qsort(l->clocked.data, kept, sizeof(*l->clocked.data), by_process);
	learn_cpu_speed(l);
	for (size_t i = 0; i < l->paced.len; i++) {
		struct paced_window *w = &l->paced.data[i];
		if (!w->parents)
			w->pace = pace_now(l,
					   (struct clock_window){.recording = w->recording,
								 .pid = w->pid,
								 .start_ns = w->start_ns},
					   w->pace, &w->cpus);
	}
	for (enum detect_layer layer = 0; layer < DETECT_LAYERS; layer++)
		layer_pace(l, layer);
}

/* Who detects leaves out WARMUP_S, whatever was left out here. */
static uint64_t start_after_warmup(const struct learning *l, uint64_t start_ns)
{
	double warmup = l->o->warmup_s >= 0 ? l->o->warmup_s : WARMUP_S;
	double sum = start_ns ? (double)start_ns + (warmup - WARMUP_S) * 1e9 : 0;
	return (uint64_t)fmin(fmax(sum, 0), (double)LAUNCH_START_MOST_NS);
}

/* Of the layers of a window each has a row: one is enough. What has its parent's pace has none. */
static void learn_alarms(struct learning *l, const struct model *m, size_t recordings)
{
	struct paced *all = xcalloc(l->paced.len + 1, sizeof(*all));
	size_t n = 0;
	learn_suspects_sort(&l->paced);
	for (size_t i = 0; i < l->paced.len; i++) {
		const struct paced_window *w = &l->paced.data[i];
		if (w->pace > 0 && !w->parents)
			all[n++] = (struct paced){w->recording, w->pid,	 w->start_ns,
						  log(w->pace), w->cpus, 0};
	}
	uint64_t start_ns = launch_start_ns(all, n, l->window_ns);
	n = launch_start_leave_out(all, n, start_ns);
	l->clock.start_ns = start_after_warmup(l, start_ns);
	double least = clock_resolution(&l->clock, l->window_ns);
	learn_counters_p(all, n, m, l->rows[DETECT_HOST].data, l->rows[DETECT_HOST].len);
	if (n)
		pace_alarms_learn(l->clock.tails, &l->clock.sigma, all, n, (uint32_t)recordings,
				  l->window_ns, least);
	free(all);
}

/* ---- both passes, and again ---- */

static void round_of_passes(struct learning *l)
{
	l->seconds = 0;
	usual_learn_until_settled(l->known.usual);
	pass(l, true);
	usual_settle(l->known.usual);
	counters_usual_settle(l->known.counters);
	if (l->known.regimes)
		regimes_freeze(l->known.regimes);
	l->clocked.len = l->paced.len = 0;
	pass(l, false);
	clock_learn(&l->clock, l->clocked.data, l->clocked.len, l->window_ns, l->waits);
	learn_pace(l);
}

static void suspect_tell(const struct learning *l, const struct row_source *r,
			 const struct suspect *s)
{
	const char *begin = rec_meta(r->tables, "start_monotonic_ns");
	double begin_s = begin ? (double)strtoull(begin, NULL, 10) / 1e9 : 0;
	l->o->suspect(l->o->suspect_ctx, s->recording, (double)s->start_ns / 1e9 - begin_s,
		      (double)s->end_ns / 1e9 - begin_s);
}

/* Faults move what is usual as well, so that all of it is learned again without them. */
static void suspects_leave(struct learning *l)
{
	if (l->known.without & WITHOUT_CLEANING)
		return;
	learn_suspects_find(&l->suspects, &l->paced, l->window_ns);
	if (!l->suspects.len)
		return;
	for (size_t i = 0; i < DETECT_LAYERS; i++)
		l->rows[i].len = 0;
	known_forget(&l->known, l->o->seed); /* events that are kept have keys */
	l->total *= 2;
	round_of_passes(l);
	for (size_t i = 0; i < l->suspects.len; i++) {
		const struct suspect *s = &l->suspects.data[i];
		l->seconds -= (double)(s->end_ns - s->start_ns) / 1e9;
		if (l->o->suspect)
			suspect_tell(l, l->recordings[s->recording].source, s);
	}
}

/* A process leads where its calls agree with the model's clock, as who detects has it, or where it
 * has a pace that is not its parent's. */
static void find_roles(const struct learning *l, struct map64 *own)
{
	for (size_t i = 0; i < l->clocked.len; i++) {
		const struct clock_window *w = &l->clocked.data[i];
		struct clock_reading r;
		clock_read(&r, &l->clock, &w->sums, l->window_ns);
		if (r.agrees)
			learn_role(own, w->recording, w->pid, true);
	}
	for (size_t i = 0; i < l->paced.len; i++) {
		const struct paced_window *w = &l->paced.data[i];
		if (w->pace > 0)
			learn_role(own, w->recording, w->pid, !w->parents);
	}
}

/* How many layers were learned. */
static size_t learn_layers(struct learning *l, struct model *m)
{
	size_t learned = 0;
	struct map64 own = {0};
	find_roles(l, &own);
	for (enum detect_layer layer = 0; layer < DETECT_NAMED + m->named.len; layer++) {
		struct err why;
		int rc = learn_layer(m, layer, l->rows[layer].data, l->rows[layer].len, &own,
				     &(struct learn_mixture_options){.components = l->o->components,
								     .covariance = l->o->covariance,
								     .seed = l->o->seed,
								     .without = l->o->without},
				     &why);
		learned += rc == 0;
		if (rc)
			err_wrap(&why, rc, "%s", detect_layer_name(&m->named, layer));
		if (rc && l->o->left_out)
			l->o->left_out(l->o->left_out_ctx, layer, why.msg);
	}
	map64_free(&own);
	return learned;
}

static void recordings_make(struct learning *l, const struct row_source *const *recordings)
{
	size_t n = l->recordings_len;
	l->recordings = xcalloc(n, sizeof(*l->recordings));
	l->samples = xcalloc(n, sizeof(*l->samples));
	learn_sample_make(l->samples, recordings, n, l->window_ns, l->o->events);
	for (size_t i = 0; i < n; i++) {
		struct learned_recording *r = &l->recordings[i];
		r->sample = &l->samples[i];
		r->source = &r->sample->source;
		r->losses.window_ns = l->window_ns;
		learn_facts_make(&r->facts, r->source, recordings[i]);
		l->waits |= r->facts.irregular;
	}
}

static void recordings_free(struct learning *l)
{
	for (size_t i = 0; i < l->recordings_len; i++) {
		learn_facts_free(&l->recordings[i].facts);
		kept_free(&l->recordings[i].kept);
		losses_free(&l->recordings[i].losses);
		learn_sample_free(&l->samples[i]);
	}
	free(l->recordings);
	free(l->samples);
}

int learn_model(struct model *ret, const struct row_source *const *recordings, size_t n,
		const struct learn_options *o, struct err *e)
{
	if (!n)
		return err_set(e, EINVAL, "there is no recording to learn from");
	struct learning l = {.o = o, .total = 2 * n, .recordings_len = n};
	l.window_ns = o->window_ns ? o->window_ns : 1000000000;
	recordings_make(&l, recordings);
	known_make(&l.known, o->without, o->seed);
	round_of_passes(&l);
	suspects_leave(&l);
	struct model m;
	model_init(&m);
	m.window_ns = l.window_ns;
	m.seconds = l.seconds;
	m.recordings = (uint32_t)n;
	m.origin = origin_of(&l);
	for (size_t i = 0; i < n; i++)
		setting_add_recording(&m.setting, recordings[i]->tables);
	known_to_model(&l.known, &m);
	size_t learned = learn_layers(&l, &m);
	if (l.clock.layer < DETECT_LAYERS)
		learn_alarms(&l, &m, n);
	m.clock = l.clock;
	known_free(&l.known);
	recordings_free(&l);
	vec_free(&l.paced);
	vec_free(&l.clocked);
	vec_free(&l.suspects);
	for (size_t i = 0; i < DETECT_LAYERS; i++)
		vec_free(&l.rows[i]);
	if (learned) {
		*ret = m;
		return 0;
	}
	model_free(&m);
	return err_set(e, EINVAL,
		       "%.0f s of work after its warm-up are too little to learn from: at least %d "
		       "windows of %.3g s are needed",
		       l.seconds, LEARN_LEAST_ROWS, (double)l.window_ns / 1e9);
}
