/* detector_recording.c - a whole file through a detector. */
#include "incident/detector.h"

#include "detect/learn_steps.h"
#include "detect/recording_feed.h"
#include "incident/detector_impl.h"
#include "incident/event_reread.h"

struct reading {
	struct detector *d;
	struct detect_names names;
	struct event_reread *reread;
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};

static void call(void *ctx, const struct m_call *c)
{
	struct reading *r = ctx;
	detector_call(r->d, &r->names, c);
}

static void gpu_span(void *ctx, const struct m_gpu_span *s)
{
	struct reading *r = ctx;
	detector_gpu_span(r->d, &r->names, s);
}

static void wait(void *ctx, const struct m_wait *w)
{
	struct reading *r = ctx;
	detector_wait(r->d, &r->names, w);
}

static void counter(void *ctx, const struct m_counter *c)
{
	struct reading *r = ctx;
	detector_counter(r->d, &r->names, c);
}

static void sample(void *ctx, const struct m_sample *s)
{
	struct reading *r = ctx;
	detector_sample(r->d, &r->names, s);
}

static void progress(void *ctx, uint64_t done, uint64_t total)
{
	struct reading *r = ctx;
	if (r->progress)
		r->progress(r->progress_ctx, done, total);
}

static void judge_steps(struct detector *d, const struct row_source *r)
{
	struct steps steps = {0};
	struct step_rows rows = {0};
	steps_make(&steps, r, &(struct steps_options){0});
	step_rows_make(&rows, &steps, d->known.steps);
	learn_steps_join(&rows, d->window_ns);
	for (size_t i = 0; i < rows.rows.len; i++)
		detector_row(d, &rows.rows.data[i]);
	step_rows_free(&rows);
	steps_free(&steps);
}

static void reread_call(void *ctx, const struct m_call *c)
{
	struct reading *r = ctx;
	event_reread_call(r->reread, &r->names, c);
}

static void reread_gpu_span(void *ctx, const struct m_gpu_span *s)
{
	struct reading *r = ctx;
	event_reread_gpu_span(r->reread, &r->names, s);
}

/* Reads the file again for its events: where nothing was found, once. */
static void reread_events(struct reading *reading, const struct row_source *r)
{
	struct recording_sink sink = {
		.ctx = reading, .call = reread_call, .gpu_span = reread_gpu_span};
	struct detector *d = reading->d;
	reading->reread = event_reread_new(
		&(struct event_reread_options){.o = &d->o,
					       .known = &d->known,
					       .episodes = &d->episodes,
					       .judged_since = &d->judging.judged_since,
					       .from_ns = d->from_ns,
					       .until_ns = d->until_ns,
					       .window_ns = d->window_ns});
	recording_feed(r, &sink);
	event_reread_find(reading->reread);
	recording_feed(r, &sink);
	event_reread_free(reading->reread);
}

static void read_all(struct reading *reading, const struct row_source *r)
{
	struct detector *d = reading->d;
	recording_feed(r, &(struct recording_sink){.ctx = reading,
						   .call = call,
						   .gpu_span = gpu_span,
						   .wait = wait,
						   .counter = counter,
						   .sample = sample,
						   .progress = progress});
	judge_steps(d, r);
	detector_end(d);
	if (d->o.event)
		reread_events(reading, r);
}

void detector_recording(struct detector *d, const struct row_source *r,
			void (*on_progress)(void *ctx, uint64_t done, uint64_t total), void *ctx)
{
	struct reading reading = {.d = d, .progress = on_progress, .progress_ctx = ctx};
	detect_names_of_source(&reading.names, r);
	d->reads_again = true;
	const struct rec_tables *tables = r->tables;
	for (size_t i = 0; i < tables->processes.len; i++) {
		const struct m_process *p = &tables->processes.data[i];
		windows_parent(d->windows, p->pid, p->parent_pid);
		collective_waits_process(&d->waits, p);
	}
	read_all(&reading, r);
	if (!d->until_ns)
		return;
	detector_relearn(d, d->until_ns);
	read_all(&reading, r);
}
