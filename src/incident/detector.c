/* detector.c - events in, rows out of windows and counters, rows to the judge. */
#include "incident/detector.h"

#include <stdlib.h>

#include "detect/learn.h"
#include "incident/detector_impl.h"

#define WINDOW_NS   1000000000ULL
#define LOSSES_HELD 64 /* windows */
#define UPTO_MOST   60 /* windows that are handed out one by one */

/* Without a model counters depend on the rows before, and rows of a file are judged as they come.
 */
static void judge(struct detector *d, const struct made_row *row)
{
	if (row->row.start_ns < d->from_ns)
		return;
	if (d->o.whole && !d->learning)
		row_queue_push(&d->queue, row);
	else
		judging_row(d, row);
}

static void judge_queued(void *ctx, const struct made_row *row)
{
	struct detector *d = ctx;
	if (!d->until_ns || row->row.start_ns < d->until_ns)
		judging_row(d, row);
}

static void window_row(void *ctx, const struct feature_row *row, const struct window_detail *detail)
{
	struct detector *d = ctx;
	struct made_row made;
	made_row_of_window(&made, row, detail);
	/* One that lasts is known in windows in which it has not ended. */
	if (!d->again && detail->events > detail->known)
		d->events_of_unknown_keys += detail->events - detail->known;
	judge(d, &made);
}

static void hardware_row(void *ctx, const struct feature_row *row,
			 const double values[FEATURES_MOST])
{
	struct made_row made;
	made_row_of_counters(&made, row, values);
	judge(ctx, &made);
}

static void mix(void *ctx, uint32_t pid, uint64_t start_ns, const struct work *work)
{
	struct detector *d = ctx;
	hardware_mix(d->hardware, pid, start_ns, work);
}

/* Of a file that is read again. */
static bool is_before(void *ctx, uint64_t start_ns)
{
	const struct detector *d = ctx;
	return start_ns < d->from_ns;
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
		.keys_known = d->fresh.keys_known,
		.clock = d->o.model ? &d->o.model->clock : NULL,
		.waits = d->o.model && d->o.model->clock.waits,
		.row = window_row,
		.left_out = d->o.whole && d->from_ns ? is_before : NULL,
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

static uint32_t parent_of(const void *ctx, uint32_t pid)
{
	const struct detector *d = ctx;
	return windows_parent_of(d->windows, pid);
}

/* What lasts as long as the detector. */
static void make_parts(struct detector *d)
{
	const struct detector_options *o = &d->o;
	d->queue.window_ns = d->window_ns;
	d->losses.window_ns = d->window_ns;
	d->saves.window_ns = d->window_ns;
	d->rows.o = o;
	d->incidents = (struct incidents){.parent_of = parent_of, .ctx = d};
	d->changes = (struct changes){.tell = o->change, .ctx = o->tell_ctx};
	d->waits = (struct collective_waits){.tell = collective_tell, .ctx = d};
}

/* What goes by the model. */
static void make_judges(struct detector *d)
{
	const uint64_t window_ns = d->window_ns;
	const struct detector_options *o = &d->o;
	d->fresh = (struct fresh_work){.window_ns = window_ns};
	d->fresh.keys_known = o->model ? detect_keys_count(d->known.keys) : 0;
	d->fit = (struct model_fit){.o = o};
	d->episodes = (struct episodes){.o = o,
					.known = &d->known,
					.rows = &d->rows,
					.incidents = &d->incidents,
					.lines = d->o.whole ? NULL : &d->lines,
					.last_id = d->episodes.last_id};
	d->judging = (struct judging){.lossy_rows = d->judging.lossy_rows};
	d->judging.rate.alarms_per_hour = o->alarms_per_hour > 0 ? o->alarms_per_hour : 1;
	d->judging.rate.least_effect = o->least_effect > 0 ? o->least_effect : LEAST_EFFECT;
	if (o->model && d->known.regimes)
		d->judging.regimes_known = regimes_count(d->known.regimes);
	open_sources(d);
	d->job = (struct job_family){.window_ns = window_ns,
				     .windows = d->windows,
				     .paces = {.window_ns = window_ns,
					       .learned = d->model->clock.layer == DETECT_LAYERS}};
}

static void learn_from_now_on(struct detector *d)
{
	d->learning = learn_live_new(d->window_ns, d->known.counters);
	d->model = learn_live_model(d->learning);
}

const struct model *detector_model(const struct detector *d)
{
	return d->model;
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
	} else {
		known_make(&d->known, 0, 0);
		learn_from_now_on(d);
	}
	make_parts(d);
	make_judges(d);
	return d;
}

const struct detect_layers *detector_layers(const struct detector *d)
{
	return detect_keys_layers(d->known.keys);
}

static void free_judges(struct detector *d)
{
	hardware_free(d->hardware);
	vec_free(&d->queue.rows);
	judging_free(&d->judging);
	episodes_free(&d->episodes);
	job_free(&d->job);
	fresh_work_free(&d->fresh);
	model_fit_free(&d->fit);
}

void detector_free(struct detector *d)
{
	free_judges(d);
	windows_free(d->windows);
	incidents_free(&d->incidents);
	told_rows_free(&d->rows);
	saves_free(&d->saves);
	changes_free(&d->changes);
	losses_free(&d->losses);
	collective_waits_free(&d->waits);
	line_times_free(&d->lines);
	busy_threads_free(&d->busy);
	vec_free(&d->ended);
	vec_free(&d->standing);
	known_free(&d->known);
	learn_live_free(d->learning);
	free(d);
}

void detector_relearn(struct detector *d, uint64_t from_ns)
{
	struct windows *before = d->windows;
	judging_end(d);
	free_judges(d);
	d->from_ns = from_ns;
	d->until_ns = 0;
	d->ending = false;
	d->o.model = NULL;
	known_forget(&d->known, 0);
	learn_live_free(d->learning);
	learn_from_now_on(d);
	make_judges(d);
	windows_take_parents(d->windows, before);
	windows_free(before);
	d->again = d->o.whole;
	if (!d->again)
		return;
	saves_free(&d->saves);
	losses_forget(&d->losses);
	detect_keys_forget_rows(d->known.keys);
}

void detector_learn_anew(struct detector *d)
{
	detector_relearn(d, d->last_event_ns > d->upto_ns ? d->last_event_ns : d->upto_ns);
}

static void count_event(struct detector *d, const struct windows_event *e)
{
	uint64_t end = e->start_ns + e->dur_ns;
	d->last_event_ns = end > d->last_event_ns ? end : d->last_event_ns;
	d->events_seen += !d->again;
	losses_seen(&d->losses, end);
	fresh_work_event(&d->fresh, e);
	saves_event(&d->saves, e);
}

void detector_call(struct detector *d, const struct detect_names *n, const struct m_call *c)
{
	struct windows_event e;
	if (!d->again)
		collective_waits_call(&d->waits, n, c);
	if (windows_call(d->windows, n, c, &e))
		count_event(d, &e);
}

void detector_gpu_span(struct detector *d, const struct detect_names *n, const struct m_gpu_span *s)
{
	struct windows_event e;
	if (windows_gpu_span(d->windows, n, s, &e))
		count_event(d, &e);
}

void detector_wait(struct detector *d, const struct detect_names *n, const struct m_wait *w)
{
	windows_wait(d->windows, n, w);
	stopped_tell(d, n, w);
}

void detector_counter(struct detector *d, const struct detect_names *n, const struct m_counter *c)
{
	hardware_counter(d->hardware, n, c);
	windows_counter(d->windows, n, c);
	losses_counter(&d->losses, n, c);
}

void detector_sample(struct detector *d, const struct detect_names *n, const struct m_sample *s)
{
	struct detect_line line;
	const struct m_thread *t = n->thread(n->ctx, s->thread);
	hardware_sample(d->hardware, n, s);
	if (d->o.whole || !t || !n->line)
		return;
	busy_threads_add(&d->busy, t, s);
	if (busy_threads_has(&d->busy, t, s->thread) && n->line(n->ctx, s->stack, &line))
		line_times_add(&d->lines, t->pid, &line, s->time_ns, s->weight_ns);
}

void detector_row(struct detector *d, const struct feature_row *row)
{
	struct made_row made;
	made_row_of_row(&made, row);
	judge(d, &made);
}

void detector_lost(struct detector *d, uint64_t from_ns, uint64_t to_ns, uint64_t events)
{
	losses_add(&d->losses, from_ns, to_ns, (double)events);
}

void detector_thread_gone(struct detector *d, uint32_t thread)
{
	windows_thread_gone(d->windows, thread);
	map64_del(&d->busy.of_thread, thread);
}

void detector_metric_gone(struct detector *d, uint32_t metric)
{
	hardware_metric_gone(d->hardware, metric);
}

/* A number that has gone to another is not waited for to be forgotten. */
void detector_process(struct detector *d, const struct m_process *row)
{
	size_t i = 0;
	windows_parent(d->windows, row->pid, row->parent_pid);
	collective_waits_process(&d->waits, row);
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
		collective_waits_gone(&d->waits, ended.pid);
		model_fit_forget(&d->fit, ended.pid);
		judging_process_gone(d, ended.pid, now_ns);
		job_forget(&d->job, &ended);
		line_times_forget(&d->lines, ended.pid);
		map64_del(&d->busy.of_process, ended.pid);
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
	uint64_t since_ns;
	hand_out_upto(d, now_ns);
	if (d->o.whole)
		return;
	if (model_fit_settle(&d->fit, &since_ns))
		detector_relearn(d, now_ns);
	judging_upto(d, now_ns);
	forget_ended(d, now_ns);
	fresh_work_upto(&d->fresh, now_ns);
	saves_upto(&d->saves, now_ns);
	if (now_ns > LOSSES_HELD * d->window_ns)
		losses_upto(&d->losses, now_ns - LOSSES_HELD * d->window_ns);
}

/* Of a file it is known before any row is judged. */
static void look_for_fit(struct detector *d)
{
	uint64_t since_ns;
	row_queue_sort(&d->queue);
	for (size_t i = 0; i < d->queue.rows.len; i++)
		model_fit_row(&d->fit, &d->queue.rows.data[i].row);
	if (model_fit_settle(&d->fit, &since_ns))
		d->until_ns = since_ns;
}

void detector_end(struct detector *d)
{
	d->ending = true;
	windows_end(d->windows);
	hardware_end(d->hardware);
	if (d->reads_again)
		look_for_fit(d);
	row_queue_drain(&d->queue, judge_queued, d);
	judging_end(d);
	standing_tell_ends(d);
	told_rows_end(&d->rows);
}

void detector_stats(const struct detector *d, struct detector_stats *ret)
{
	*ret = (struct detector_stats){.events = d->events_seen,
				       .rows = d->rows.rows,
				       .alarmed_rows = d->rows.alarmed,
				       .unknown_keys = d->events_of_unknown_keys,
				       .late = windows_late(d->windows),
				       .lossy_rows = d->judging.lossy_rows};
}

const struct change *detector_changes(const struct detector *d, size_t *ret_n)
{
	*ret_n = d->changes.list.len;
	return d->changes.list.data;
}
