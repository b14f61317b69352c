/* detector.c - events in, rows out of windows and counters, rows to the judge. */
#include "detect/detector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/detector_impl.h"
#include "detect/learn.h"

#define WINDOW_NS   1000000000ULL
#define LOSSES_HELD 64 /* windows */
#define UPTO_MOST   60 /* windows that are handed out one by one */
#define EVENTS_HELD 16 /* windows: a sum may say later that an anomaly began in them */

static void calls_of_detail(struct row_calls *ret, const struct window_detail *d)
{
	ret->len = d->keys_len < WINDOWS_KEYS ? d->keys_len : WINDOWS_KEYS;
	memcpy(ret->keys, d->keys, ret->len * sizeof(ret->keys[0]));
	ret->lost_ns = 0;
	if (isfinite(d->usual_ns))
		ret->lost_ns += d->total_ns - d->usual_ns;
	if (isfinite(d->usual_gap_ns))
		ret->lost_ns += d->gap_ns - d->usual_gap_ns;
}

/* Layers of a file come one after another: together they are judged as they would be live, and
 * share the alarms that were asked for. Without a model counters depend on the rows before. */
static void judge(struct detector *d, const struct feature_row *row)
{
	if (!d->o.whole || d->learning) {
		detector_judge(d, row);
		return;
	}
	struct waiting_row *w = vec_push(&d->waiting);
	*w = (struct waiting_row){.row = *row,
				  .due_ns = feature_row_due(row, d->window_ns),
				  .calls = d->calls,
				  .has_values = d->values};
	if (d->values)
		memcpy(w->values, d->values, sizeof(w->values));
}

static int by_end(const void *a, const void *b)
{
	const struct waiting_row *x = a, *y = b;
	if (x->due_ns != y->due_ns)
		return x->due_ns < y->due_ns ? -1 : 1;
	return feature_rows_compare(&x->row, &y->row);
}

static void judge_waiting(struct detector *d)
{
	if (d->waiting.len)
		qsort(d->waiting.data, d->waiting.len, sizeof(*d->waiting.data), by_end);
	for (size_t i = 0; i < d->waiting.len; i++) {
		const struct waiting_row *w = &d->waiting.data[i];
		d->calls = w->calls;
		d->values = w->has_values ? w->values : NULL;
		detector_judge(d, &w->row);
	}
	d->values = NULL;
	vec_free(&d->waiting);
}

static void window_row(void *ctx, const struct feature_row *row, const struct window_detail *detail)
{
	struct detector *d = ctx;
	calls_of_detail(&d->calls, detail);
	d->stats.unknown_keys += detail->events - detail->known;
	d->values = NULL;
	judge(d, row);
}

static void hardware_row(void *ctx, const struct feature_row *row,
			 const double values[FEATURES_MOST])
{
	struct detector *d = ctx;
	d->calls = (struct row_calls){.lost_ns = NAN};
	d->values = values;
	judge(d, row);
	d->values = NULL;
}

static void mix(void *ctx, uint32_t pid, uint64_t start_ns, const struct work *work)
{
	struct detector *d = ctx;
	hardware_mix(d->hardware, pid, start_ns, work);
}

static void open_sources(struct detector *d)
{
	uint64_t late = d->o.whole ? WINDOWS_NEVER : DETECTOR_LATE_NS;
	d->windows = windows_new(&(struct windows_options){
		.window_ns = d->window_ns,
		.late_ns = late,
		.keys = d->known.keys,
		.usual = d->known.usual,
		.regimes = d->known.regimes,
		.learn = true, /* keys that no model has */
		.new_regimes = true,
		.without_gaps = d->known.without & WITHOUT_GAPS,
		.keys_known = d->keys_known,
		.row = window_row,
		.mix = mix,
		.ctx = d,
	});
	d->hardware = hardware_new(&(struct hardware_options){
		.window_ns = d->window_ns,
		.late_ns = late,
		.usual = d->known.counters,
		.row = hardware_row,
		.ctx = d,
	});
}

struct detector *detector_new(const struct detector_options *o)
{
	struct detector *d = xcalloc(1, sizeof(*d));
	d->o = *o;
	d->model = o->model;
	d->window_ns = o->window_ns;
	if (!d->window_ns)
		d->window_ns = o->model && o->model->window_ns ? o->model->window_ns : WINDOW_NS;
	if (o->model) {
		known_of_model(&d->known, o->model, 0);
		d->keys_known = detect_keys_count(d->known.keys);
		d->regimes_known = d->known.regimes ? regimes_count(d->known.regimes) : 0;
	} else {
		known_make(&d->known, 0, 0);
		d->learning = detector_learning_new(d);
	}
	d->losses.window_ns = d->window_ns;
	open_sources(d);
	return d;
}

void detector_free(struct detector *d)
{
	windows_free(d->windows);
	hardware_free(d->hardware);
	for (size_t i = 0; i < d->series.len; i++)
		series_free(d->series.data[i]);
	vec_free(&d->series);
	for (size_t i = 0; i < d->episodes.len; i++)
		episode_free(d->episodes.data[i]);
	vec_free(&d->episodes);
	map64_free(&d->series_of);
	map64_free(&d->work_since);
	map64_free(&d->judged_since);
	map64_free(&d->left_work);
	map64_free(&d->told_slow);
	map64_free(&d->told_children);
	vec_free(&d->waiting);
	vec_free(&d->held_rows);
	vec_free(&d->stretches);
	vec_free(&d->held);
	vec_free(&d->first_seen);
	vec_free(&d->saves);
	vec_free(&d->long_saves);
	vec_free(&d->ended);
	losses_free(&d->losses);
	map64_free(&d->fresh[0]);
	map64_free(&d->fresh[1]);
	known_free(&d->known);
	if (d->learning)
		detector_learning_free(d->learning);
	free(d);
}

static void counted(struct detector *d, const struct windows_event *e)
{
	uint64_t end = e->start_ns + e->dur_ns;
	d->last_event_ns = end > d->last_event_ns ? end : d->last_event_ns;
	d->stats.events++;
	losses_seen(&d->losses, end);
	fresh_event(d, e);
	saves_event(d, e);
	events_hold(d, e);
}

void detector_call(struct detector *d, const struct detect_names *n, const struct m_call *c)
{
	struct windows_event e;
	if (!windows_call(d->windows, n, c, &e))
		return;
	counted(d, &e);
}

void detector_gpu_span(struct detector *d, const struct detect_names *n, const struct m_gpu_span *s)
{
	struct windows_event e;
	if (!windows_gpu_span(d->windows, n, s, &e))
		return;
	counted(d, &e);
}

void detector_counter(struct detector *d, const struct detect_names *n, const struct m_counter *c)
{
	hardware_counter(d->hardware, n, c);
	losses_counter(&d->losses, n, c);
}

void detector_sample(struct detector *d, const struct detect_names *n, const struct m_sample *s)
{
	hardware_sample(d->hardware, n, s);
}

void detector_row(struct detector *d, const struct feature_row *row)
{
	d->calls = (struct row_calls){.lost_ns = NAN};
	d->values = NULL;
	/* The first feature of a step is the logarithm of its duration over the usual one. */
	if (row->layer == DETECT_STEP && isfinite(row->x[0]))
		d->calls.lost_ns = (double)(row->end_ns - row->start_ns) * -expm1(-row->x[0]);
	judge(d, row);
}

void detector_lost(struct detector *d, uint64_t from_ns, uint64_t to_ns, uint64_t events)
{
	losses_add(&d->losses, from_ns, to_ns, (double)events);
}

void detector_thread_gone(struct detector *d, uint32_t thread)
{
	windows_thread_gone(d->windows, thread);
}

void detector_name_gone(struct detector *d, uint32_t string)
{
	hardware_name_gone(d->hardware, string);
}

/* A number that has gone to another is not waited for to be forgotten. */
void detector_process(struct detector *d, const struct m_process *row)
{
	size_t i = 0;
	job_process(d, row);
	while (i < d->ended.len && d->ended.data[i].pid != row->pid)
		i++;
	if (row->end_ns && i == d->ended.len)
		vec_push(&d->ended);
	if (row->end_ns)
		d->ended.data[i] = *row;
	else if (i < d->ended.len)
		d->ended.data[i] = d->ended.data[--d->ended.len];
}

static void forget_ended(struct detector *d, uint64_t now_ns)
{
	for (size_t i = d->ended.len; i-- > 0;) {
		const struct m_process ended = d->ended.data[i];
		if (ended.end_ns + d->window_ns + DETECTOR_GONE_NS > now_ns)
			continue;
		d->ended.data[i] = d->ended.data[--d->ended.len];
		windows_process_gone(d->windows, ended.pid);
		hardware_process_gone(d->hardware, ended.pid);
		detector_judge_gone(d, ended.pid, now_ns);
		job_forget(d, &ended);
	}
}

/* Window by window, however long nobody asked: calls of each before its counters. */
static void hand_out_upto(struct detector *d, uint64_t now_ns)
{
	uint64_t from = d->upto_ns && d->upto_ns < now_ns ? d->upto_ns : now_ns;
	if (now_ns - from > UPTO_MOST * d->window_ns)
		from = now_ns - UPTO_MOST * d->window_ns;
	for (uint64_t at = from + d->window_ns; at < now_ns; at += d->window_ns) {
		windows_upto(d->windows, at);
		hardware_upto(d->hardware, at);
	}
	windows_upto(d->windows, now_ns);
	hardware_upto(d->hardware, now_ns);
	d->upto_ns = now_ns;
}

void detector_upto(struct detector *d, uint64_t now_ns)
{
	hand_out_upto(d, now_ns);
	if (d->o.whole)
		return;
	detector_judge_upto(d, now_ns);
	forget_ended(d, now_ns);
	fresh_upto(d, now_ns);
	saves_upto(d, now_ns);
	if (now_ns > LOSSES_HELD * d->window_ns)
		losses_upto(&d->losses, now_ns - LOSSES_HELD * d->window_ns);
	if (now_ns > EVENTS_HELD * d->window_ns)
		events_upto(d, now_ns - EVENTS_HELD * d->window_ns);
}

void detector_end(struct detector *d)
{
	d->ending = true;
	windows_end(d->windows);
	hardware_end(d->hardware);
	judge_waiting(d);
	for (size_t i = 0; i < d->series.len; i++)
		if (d->series.data[i]->open)
			episode_end(d, d->series.data[i]);
	rows_end(d);
	events_upto(d, UINT64_MAX);
}

void detector_stats(const struct detector *d, struct detector_stats *ret)
{
	*ret = d->stats;
	ret->late += windows_late(d->windows);
}
