/* session_detect.c - hands a session's rows to the detector, and what it finds to the recording. */
#include "session/session_detect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map64.h"
#include "incident/anomaly_row.h"
#include "incident/anomaly_text.h"
#include "session/live_setting.h"
#include "session/turned_down.h"

#define WINDOW_BYTES (128u << 20)    /* for causes, unless told */
#define HELD_NS	     120000000000ULL /* a budget, at most, from the first anomaly on, */
#define APART_NS     30000000000ULL  /* before which none was for so long */
#define AFTER_NS     10000000000ULL  /* and so long after the last: it may come again */
#define COUNTLESS    1000000000	     /* more events than come in a window */

struct session_detect {
	struct session_detect_options options;
	struct detector *detector;
	struct session_diagnose *diagnose;
	struct outlook *outlook;
	struct pipeline *pipeline; /* of the batch that is judged */
	struct turned_down down;
	struct map64 open; /* anomalies that last, by their ids */
	uint64_t first_ns; /* when the first of them was told, */
	uint64_t last_ns;  /* and the last, or its end */
	uint64_t upto_ns;  /* of the batch before */
	bool judges;
	bool raised; /* once at least */
};

static void on_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	struct session_detect *d = ctx;
	d->judges |= !isnan(p);
	if (d->options.row)
		d->options.row(d->options.ctx, row, score, alarmed);
}

static void note_lasting(struct session_detect *d, const struct anomaly *a)
{
	uint64_t now_ns = monotonic_ns(), known;
	if (a->ended && !map64_get(&d->open, a->id, &known))
		return; /* found by rule when it was over */
	if (!a->ended && !d->open.len && now_ns > d->last_ns + APART_NS)
		d->first_ns = now_ns;
	d->last_ns = now_ns;
	if (a->ended)
		map64_del(&d->open, a->id);
	else
		map64_set(&d->open, a->id, 1);
}

static void on_anomaly(void *ctx, const struct anomaly *a)
{
	struct session_detect *d = ctx;
	char entity[ANOMALY_ENTITY_BYTES];
	struct anomaly_texts texts;
	struct m_anomaly row;
	session_diagnose_anomaly(d->diagnose, a);
	if (a->moved)
		return;
	note_lasting(d, a);
	anomaly_to_row(&row, &texts, a);
	pipeline_row(d->pipeline, ROW_ANOMALY, &row, texts.of, texts.len);
	anomaly_entity(entity, a);
	pipeline_event(d->pipeline, a->ended ? a->end_ns : a->start_ns, entity,
		       a->ended ? "anomaly_ended" : "anomaly", a->why);
	d->options.anomaly(d->options.ctx, a);
}

static void on_misfit(void *ctx, const struct model_misfit *m)
{
	struct session_detect *d = ctx;
	char entity[32];
	snprintf(entity, sizeof(entity), "pid %u", m->pid);
	pipeline_event(d->pipeline, m->told_ns, entity, "model_misfit", m->why);
	pipeline_note(d->pipeline, "detect", m->why);
	d->judges &= !m->relearns;
	d->options.misfit(d->options.ctx, m);
}

static void on_change(void *ctx, const struct change *c)
{
	struct session_detect *d = ctx;
	char entity[ANOMALY_ENTITY_BYTES];
	snprintf(entity, sizeof(entity), "pid %u", c->pid);
	pipeline_event(d->pipeline, c->start_ns, entity, "change", c->what);
	d->options.change(d->options.ctx, c);
}

static void on_warning(void *ctx, const struct outlook_warning *w)
{
	struct session_detect *d = ctx;
	char entity[256], what[OUTLOOK_WHAT_BYTES];
	entity_text(entity, sizeof(entity), &w->of);
	pipeline_event(d->pipeline, w->now_ns, entity,
		       w->ended ? "early_warning_ended" : "early_warning", outlook_what(what, w));
	d->options.warning(d->options.ctx, w);
}

static void setting_of(void *ctx, uint32_t pid, struct setting *ret)
{
	(void)ctx;
	live_setting(ret, (pid_t)pid);
}

struct session_detect *session_detect_new(const struct session_detect_options *o)
{
	struct session_detect *d = xcalloc(1, sizeof(*d));
	d->options = *o;
	d->diagnose = session_diagnose_new(o->window_bytes ? o->window_bytes : WINDOW_BYTES,
					   o->raw_bytes, o->packed_ns, o->incident, o->ctx);
	d->detector = detector_new(&(struct detector_options){
		.model = o->model,
		.alarms_per_hour = o->alarms_per_hour,
		.least_effect = o->least_effect,
		.follow = true,
		.tell = on_anomaly,
		.misfit = on_misfit,
		.change = on_change,
		.setting = setting_of,
		.row = on_row,
		.tell_ctx = d,
	});
	d->outlook = outlook_new(&(struct outlook_options){.tell = on_warning, .ctx = d});
	return d;
}

void session_detect_free(struct session_detect *d)
{
	if (!d)
		return;
	detector_free(d->detector);
	session_diagnose_free(d->diagnose);
	outlook_free(d->outlook);
	turned_down_free(&d->down);
	map64_free(&d->open);
	free(d);
}

void session_detect_lookers(struct session_detect *d, const struct session_live *host,
			    struct session_live ret[static SESSION_DETECT_LOOKERS])
{
	ret[0] = *host;
	ret[1] = (struct session_live){.ctx = d->diagnose,
				       .batch = session_diagnose_batch,
				       .end = session_diagnose_end,
				       .misses = "looked at for causes"};
}

/* A function that comes or goes changes how long all others seem to take. */
static void learn_anew(struct session_detect *d)
{
	char text[128];
	detector_learn_anew(d->detector);
	d->judges = false;
	snprintf(text, sizeof(text),
		 "the budget has changed what is traced: %u functions are left out", d->down.len);
	pipeline_event(d->pipeline, monotonic_ns(), "eacgm", "learns_anew", text);
}

/* Nothing is turned down because of what is to be explained. */
static void hold_budget(struct session_detect *d, const struct session_view *v)
{
	uint64_t last_ns = d->open.len ? monotonic_ns() : d->last_ns,
		 most_ns = d->first_ns + HELD_NS;
	if (!d->last_ns || !v->held_until_ns)
		return;
	atomic_store(v->held_until_ns, last_ns + AFTER_NS < most_ns ? last_ns + AFTER_NS : most_ns);
}

/* All calls are recorded for some seconds, so that the job is slower than it was: as where calls
 * are lost, windows of that time are neither judged nor learned from. */
static void pass_over_raised(struct session_detect *d, const struct session_view *v)
{
	if (!d->upto_ns || !turned_down_was_raised(v, d->upto_ns))
		return;
	d->raised = true;
	detector_lost(d->detector, d->upto_ns, v->batch->upto_ns, COUNTLESS);
}

static void take_standing(void *ctx, const struct job_standing *j)
{
	struct session_detect *d = ctx;
	detector_standing(d->detector, j);
}

void session_detect_batch(struct session_detect *d, const struct session_view *v)
{
	const struct feed_batch *b = v->batch;
	d->pipeline = v->pipeline;
	if (v->held_until_ns && turned_down_take(&d->down, b))
		learn_anew(d);
	for (size_t i = 0; i < b->processes.len; i++)
		detector_process(d->detector, &b->processes.data[i]);
	for (size_t i = 0; i < b->counters.len; i++) {
		detector_counter(d->detector, v->names, &b->counters.data[i]);
		outlook_counter(d->outlook, v->names, &b->counters.data[i]);
	}
	for (size_t i = 0; i < b->samples.len; i++)
		detector_sample(d->detector, v->names, &b->samples.data[i]);
	for (size_t i = 0; i < b->gpu_spans.len; i++)
		detector_gpu_span(d->detector, v->names, &b->gpu_spans.data[i]);
	for (size_t i = 0; i < b->waits.len; i++)
		detector_wait(d->detector, v->names, &b->waits.data[i]);
	for (size_t i = 0; i < b->calls.len; i++)
		if (!turned_down_has(&d->down, b->calls.data[i].probe))
			detector_call(d->detector, v->names, &b->calls.data[i]);
	for (size_t i = 0; i < b->threads_gone.len; i++)
		detector_thread_gone(d->detector, b->threads_gone.data[i]);
	for (size_t i = 0; i < b->metrics_gone.len; i++) {
		detector_metric_gone(d->detector, b->metrics_gone.data[i]);
		outlook_metric_gone(d->outlook, b->metrics_gone.data[i]);
	}
	if (b->overruns && d->upto_ns)
		detector_lost(d->detector, d->upto_ns, b->upto_ns, b->overruns);
	pass_over_raised(d, v);
	d->upto_ns = b->upto_ns;
	if (!v->upto_ns)
		return;
	detector_upto(d->detector, v->upto_ns);
	outlook_upto(d->outlook, v->upto_ns);
	session_diagnose_standings(d->diagnose, take_standing, d);
	hold_budget(d, v);
}

uint64_t session_detect_lossy(const struct session_detect *d)
{
	struct detector_stats st;
	detector_stats(d->detector, &st);
	return st.lossy_rows;
}

static void note_lossy(struct session_detect *d)
{
	uint64_t rows = session_detect_lossy(d);
	if (!rows)
		return;
	char *text = xasprintf("%llu windows were not judged: calls of their time were lost%s",
			       (unsigned long long)rows,
			       d->raised ? ", or a budget had all on around what happened" : "");
	pipeline_note(d->pipeline, "detect", text);
	free(text);
}

void session_detect_end(struct session_detect *d, const struct session_view *v)
{
	d->pipeline = v->pipeline;
	detector_end(d->detector);
	note_lossy(d);
	uint64_t left_out = outlook_left_out(d->outlook);
	if (!left_out)
		return;
	char *text = xasprintf("%llu values of counters were not looked at for early warnings: "
			       "there were too many at a time",
			       (unsigned long long)left_out);
	pipeline_note(d->pipeline, "detect", text);
	free(text);
}

bool session_detect_judges(const struct session_detect *d)
{
	return d->judges;
}

const struct model *session_detect_model(const struct session_detect *d)
{
	return detector_model(d->detector);
}

const struct detect_layers *session_detect_layers(const struct session_detect *d)
{
	return detector_layers(d->detector);
}
