/* judging.c - from a row to an alarm, and on to its anomaly. */
#include "incident/judging.h"

#include <math.h>
#include <stdlib.h>

#include "detect/judge.h"
#include "detect/learn.h"
#include "incident/by_pace.h"
#include "incident/detector_impl.h"
#include "incident/kept_row.h"

#define LEARN_P 1e-4 /* rows that are rarer are not learned from */

void judging_free(struct judging *g)
{
	series_set_free(&g->series);
	map64_free(&g->judged_since);
}

static uint64_t layer_of_process(enum detect_layer layer, uint32_t pid)
{
	return (uint64_t)layer << 32 | pid;
}

bool judged_at(const struct map64 *judged_since, enum detect_layer layer, uint32_t pid,
	       uint64_t time_ns)
{
	uint64_t since;
	return map64_get(judged_since, layer_of_process(layer, pid), &since) && time_ns >= since;
}

/* ---- what a row is judged as ---- */

static const struct model_mixture *mixture_of(const struct detector *d,
					      const struct feature_row *row)
{
	return model_mixture_of(d->model, row->layer, job_is_helper(&d->job.paces, row->pid));
}

static struct shift *shift_of(struct detector *d, struct series *s, uint32_t regime)
{
	struct shift *ret = shifts_find(&s->shifts, regime);
	if (ret)
		return ret;
	bool known = d->learning ? learn_live_knows(d->learning, s->layer, regime)
				 : regime <= d->judging.regimes_known || s->layer == DETECT_STEP;
	return shifts_make(&s->shifts, regime, known);
}

/* What was slow is not what it does now. */
static void leave_work(struct detector *d, struct series *s)
{
	s->recent_len = 0;
	if (s->open)
		episode_end(&d->episodes, s);
}

static struct row_work work_of_row(struct detector *d, struct series *s,
				   const struct feature_row *row)
{
	uint32_t regime = row->regime ? row->regime : s->regime;
	struct row_work w = {.shift = shift_of(d, s, regime)};
	w.slowed = row->pace > 0 && row->pace < SLOWED && !row->resized &&
		   !(d->model->without & WITHOUT_PACE);
	if (w.slowed && !w.shift->known) {
		regime = s->usual;
		w.shift = shift_of(d, s, regime);
	}
	if (w.shift->known)
		s->usual = regime;
	if (regime != s->regime)
		s->cusum = (struct cusum){0};
	s->regime = regime;
	shift_against(w.shift, mixture_of(d, row), row->layer);
	w.fresh = w.shift->known && !w.slowed && fresh_work_covers(&d->fresh, row);
	/* New sizes in work that a model has: it begins or ends in the window. */
	bool resizes = row->resized && regime && regime <= d->judging.regimes_known;
	w.leaves = !w.slowed &&
		   (row->other_work || resizes || !w.shift->known || job_left_work(&d->job, row));
	if (w.leaves)
		leave_work(d, s);
	job_row(&d->job, row, w.leaves || w.fresh);
	return w;
}

/* ---- alarms ---- */

static void sum_up(struct detector *d, struct series *s, struct judged *j, double rate)
{
	const struct feature_row *row = j->row;
	uint64_t length = row->end_ns - row->start_ns;
	if (d->model->without & WITHOUT_CUSUM)
		return;
	if (s->last_ns && row->start_ns > s->last_ns + PAUSE_ROWS * length)
		s->cusum = (struct cusum){0};
	double height = alarm_height(&d->judging.rate, mixture_of(d, row), rate);
	if (cusum_add(&s->cusum, row->start_ns, j->p, height) && !j->explained.better) {
		j->alarmed = true;
		j->since_ns = s->cusum.since;
	}
}

/* A row that was judged, x: less its shift. What is usual follows it where it is normal, which is
 * returned. */
static bool learn_from(struct detector *d, const struct series *s, struct shift *shift,
		       const struct judged *j, double distance_p, const double *x)
{
	bool quiet = !j->alarmed && !j->beside && !s->open;
	/* Work that is far quicker than usual is another kind of work for a while. */
	bool normal = quiet && j->p > NEAR_P && distance_p > NEAR_P;
	if (normal && (d->learning || d->o.follow))
		shift_follow(shift, &j->explained, x, mixture_of(d, j->row), j->row);
	/* Rare normal rows too: without them each fit would be narrower than the last. */
	if (d->learning && quiet && distance_p > LEARN_P)
		learn_live_normal(d->learning, j->row, x);
	return normal;
}

/* Its mixture decides. */
static void judge_by_itself(struct detector *d, struct series *s, struct judged *j)
{
	double rate = alarm_p(&d->judging.rate, d->model, &d->judging.series, j->row);
	j->alarmed = j->p < rate && !j->explained.better;
	sum_up(d, s, j, rate);
}

/* ln of the time that the row's work took over what is usual in its kind of work; NaN unknown. */
static double loss_of(const struct feature_row *row, const struct shift *shift)
{
	size_t at = feature_place(row->layer, "pace_loss");
	double lost = row->pace > 0 ? -log(row->pace) : NAN;
	return at < FEATURES_MOST ? lost - shift->centre[at] : lost;
}

/* Whether the GPU's work of the row tells something of its own. */
static bool has_device_times(const struct feature_row *row)
{
	size_t at = feature_place(row->layer, "device_slowdown");
	return at < FEATURES_MOST && isfinite(row->x[at]);
}

/* Where no pace says what is lost, the times of its calls do, and of nothing else. */
static bool costs_too_little(const struct detector *d, const struct judged *j)
{
	const struct feature_row *row = j->row;
	double lost_ns = layer_has_calls(row->layer) ? j->made->calls.lost_ns : NAN;
	if (d->model->without & WITHOUT_PACE || by_pace_minds_all(d) || has_device_times(row))
		return false;
	return lost_ns < d->judging.rate.least_effect * (double)(row->end_ns - row->start_ns);
}

static void note_work_alarmed(struct detector *d, const struct series *s)
{
	bool of_work = layer_has_calls(s->layer) || s->layer == DETECT_STEP;
	if (s->open && of_work && s->open->a.end_ns > d->judging.work_alarmed_ns)
		d->judging.work_alarmed_ns = s->open->a.end_ns;
}

static void join_anomaly(struct detector *d, struct series *s, const struct judged *j);

/* A row of counters comes after those of its window's calls (but for a file without a model, whose
 * counters come last): with what it says the one that was judged by its pace may alarm. Who reads
 * rows was told that one already, as what it was then. */
static void judge_with_counters(struct detector *d, const struct feature_row *row, double p)
{
	double more;
	if (!by_pace_with_counters(d, row, p, &more))
		return;
	const struct job_pace *pace = job_pace_of(&d->job.paces, row->pid);
	struct kept_row *kept = pace->row;
	struct series *s = kept ? series_find(&d->judging.series, &kept->made.row) : NULL;
	bool waits = s && !s->open && s->recent_len && kept->made.row.start_ns == row->start_ns &&
		     series_recent(s, 0)->start_ns == row->start_ns;
	if (!waits)
		return;
	kept->judged.alarmed = true;
	kept->judged.p *= exp(-more);
	kept->judged.since_ns = pace->judge.since_ns;
	series_recent_pop(s);
	join_anomaly(d, s, &kept->judged);
	note_work_alarmed(d, s);
}

/* Sets what the row came to; whether it is normal. */
static bool judge(struct detector *d, struct series *s, const struct row_work *w, struct judged *j)
{
	const struct feature_row *row = j->row;
	struct feature_row off = *row;
	struct judgement judgement;
	double lost = loss_of(row, w->shift);
	for (size_t f = 0; f < FEATURES_MOST; f++)
		off.x[f] -= w->shift->centre[f];
	judge_row(&judgement, d->model, mixture_of(d, row), d->learning, &off);
	j->explained = judgement.explained;
	j->p = judgement.p;
	j->shift = w->shift->centre;
	enum by_pace by = by_pace_of(d, row, &judgement);
	if (by == BY_ITSELF && !isnan(j->p) && costs_too_little(d, j) &&
	    !by_pace_calls_failed(row, &judgement))
		j->p = fmax(j->p, COSTLESS_P);
	if (by == BY_ITSELF || by_pace_minds_all(d))
		judge_by_itself(d, s, j);
	j->by_pace = by == BY_PACE;
	if (j->by_pace)
		by_pace_judge(d, row, lost, j);
	/* Threads that wait for each other lose more between their calls than there is time. */
	if (layer_has_calls(row->layer) && row->pace > 0 && !row->parents_pace && !isnan(lost))
		j->lost_ns = (double)(row->end_ns - row->start_ns) * fmax(0, -expm1(-lost));
	bool costs = by_pace_costs(d, lost);
	if (j->by_pace)
		kept_row_set(&job_pace_of(&d->job.paces, row->pid)->row, j);
	if (by == BESIDE_PACE)
		judge_with_counters(d, row, j->p);
	if (by == BESIDE_PACE && !costs && !isnan(j->p))
		j->p = fmax(j->p, COSTLESS_P);
	j->beside = !j->alarmed && costs && !row->resized && j->p < BESIDE_P &&
		    !j->explained.better && job_is_told(&d->job, row);
	return learn_from(d, s, w->shift, j, judgement.distance_p, off.x);
}

/* The row was judged: it may be of an anomaly, and say of its job's other rows that they are. */
static void join_anomaly(struct detector *d, struct series *s, const struct judged *j)
{
	const struct feature_row *row = j->row;
	struct map64 *since = &d->judging.judged_since;
	if (!judged_at(since, row->layer, row->pid, UINT64_MAX))
		map64_set(since, layer_of_process(row->layer, row->pid), row->start_ns);
	if (d->o.model && !s->judged_ns)
		s->judged_ns = row->start_ns;
	const struct anomaly before = s->open ? s->open->a : (struct anomaly){0};
	bool by_itself = episode_row(&d->episodes, s, j);
	if (j->by_pace && before.id && !s->open) {
		pace_judge_over(&job_pace_of(&d->job.paces, row->pid)->judge);
		/* what is beside a window may be seen in the next one */
		episodes_end_beside(&d->episodes, before.incident, before.end_ns + d->window_ns);
	}
	if (by_itself && row->pace > 0 && by_pace_costs(d, -log(row->pace)))
		job_told(&d->job, row);
}

/* ---- a row ---- */

/* as_made: with the pace that the model says, so that it can be judged again. */
static void hand_out(struct detector *d, const struct judged *j, const struct feature_row *as_made)
{
	struct told_row r = {*as_made, j->explained.score, j->p, j->alarmed || j->beside};
	r.row.parent = windows_parent_of(d->windows, j->row->pid);
	told_rows_push(&d->rows, &r);
}

/* Whether a row cannot be judged at all: too much of it was lost, or its layer is not known. */
static bool is_unknown(struct detector *d, const struct made_row *made)
{
	const struct feature_row *row = &made->row;
	if (excuse_find(EXCUSE_KNOWN, &(struct excuse_case){.d = d, .row = row})) {
		struct series *s = series_find(&d->judging.series, row);
		d->judging.lossy_rows++;
		if (s)
			episode_unjudged(&d->episodes, s, row);
		return true;
	}
	return (d->learning && learn_live_row(d->learning, row, made_row_values(made))) ||
	       !d->model->layers[row->layer].columns;
}

/* Whether the row is normal; p of j stays NaN where it is excused. */
static bool judge_unless_excused(struct detector *d, struct series *s, const struct row_work *w,
				 struct judged *j)
{
	const struct excuse_case c = {.d = d, .row = j->row, .series = s, .work = w};
	if (excuse_find(EXCUSE_WORK, &c))
		return false;
	if (!excuse_find(EXCUSE_NEW, &c)) {
		/* It is judged by its pace at once, and becomes known all the same. */
		if (!w->shift->known && j->row->pace >= SLOWED)
			shift_collect(w->shift, mixture_of(d, j->row), j->row);
		return judge(d, s, w, j);
	}
	shift_collect(w->shift, mixture_of(d, j->row), j->row);
	return false;
}

/* A benign change: what counters are now becomes usual. */
static void settle_lasting(struct detector *d, struct series *s, const struct row_work *w,
			   const struct feature_row *row)
{
	const struct excuse_case c = {.d = d, .row = row, .series = s, .work = w};
	if (!excuse_find(EXCUSE_LASTING, &c))
		return;
	episode_end(&d->episodes, s);
	shift_forget(w->shift);
}

/* What a window of the process is, but while it is warming up or slow. */
static void note_change(struct detector *d, const struct row_work *w, const struct feature_row *row)
{
	uint64_t since;
	bool resizes = w->fresh || row->resized;
	enum change_kind kind = CHANGE_NONE;
	if (!(row->events > 0) || row->parents_pace || !by_pace_tells(d->model, row->layer) ||
	    !map64_get(&d->job.work_since, row->pid, &since) ||
	    row->start_ns < since + (uint64_t)(WARMUP_S * 1e9))
		return;
	if (saves_cover(&d->saves, row))
		kind = CHANGE_SAVES;
	else if (row->other_work || !w->shift->known)
		kind = CHANGE_WORK;
	else if (resizes)
		kind = CHANGE_SIZES;
	if (kind == CHANGE_SAVES || !w->slowed)
		changes_window(&d->changes, row->pid, row->start_ns, row->end_ns, kind,
			       row->regime);
}

void judging_row(struct detector *d, const struct made_row *as_made)
{
	struct made_row made = *as_made;
	const struct feature_row *row = &made.row;
	struct judged j = {
		.made = &made, .row = row, .p = NAN, .since_ns = row->start_ns, .lost_ns = NAN};
	j.explained.score = NAN;
	job_pace_correct(&d->job, &made.row);
	if (is_unknown(d, &made)) {
		hand_out(d, &j, &as_made->row);
		return;
	}
	struct series *s = series_get(&d->judging.series, row);
	if (!d->o.whole)
		model_fit_row(&d->fit, &as_made->row);
	struct row_work w = work_of_row(d, s, row);
	note_change(d, &w, row);
	bool normal = judge_unless_excused(d, s, &w, &j);
	if (layer_has_calls(row->layer) && !d->o.whole && (d->learning || d->o.follow))
		usual_follow(d->known.usual, row->layer, (double)d->window_ns / 1e9, normal);
	s->last_ns = row->start_ns;
	if (!isnan(j.p))
		join_anomaly(d, s, &j);
	else
		episode_unjudged(&d->episodes, s, row);
	note_work_alarmed(d, s);
	settle_lasting(d, s, &w, row);
	hand_out(d, &j, &as_made->row);
}

/* ---- forgetting ---- */

/* One of its layers may be idle for long while others work: its warm-up is over then, too. */
static void process_forget(void *ctx, uint32_t pid)
{
	struct detector *d = ctx;
	if (series_has_process(&d->judging.series, pid))
		return;
	job_forget_work(&d->job, pid);
	changes_forget(&d->changes, pid);
	for (int l = 0; l < DETECT_LAYERS && !d->o.event; l++)
		map64_del(&d->judging.judged_since, layer_of_process(l, pid));
}

void judging_process_gone(struct detector *d, uint32_t pid, uint64_t now_ns)
{
	bool any = false;
	for (size_t i = 0; i < d->judging.series.list.len; i++) {
		struct series *s = d->judging.series.list.data[i];
		if (s->pid != pid)
			continue;
		s->gone = any = true;
		if (s->open)
			episode_end(&d->episodes, s);
	}
	if (any)
		series_forget(&d->judging.series, now_ns, process_forget, d);
}

void judging_upto(struct detector *d, uint64_t now_ns)
{
	bool idle = false;
	for (size_t i = 0; i < d->judging.series.list.len; i++) {
		struct series *s = d->judging.series.list.data[i];
		/* a window is judged that much after its end */
		uint64_t silence = (GAP_ROWS + 2) * d->window_ns + DETECTOR_LATE_NS;
		if (s->open && s->layer != DETECT_STEP && s->last_ns + silence < now_ns)
			episode_end(&d->episodes, s);
		idle |= s->last_ns + SERIES_IDLE_S * 1000000000ULL <= now_ns;
	}
	if (idle)
		series_forget(&d->judging.series, now_ns, process_forget, d);
}

void judging_end(struct detector *d)
{
	for (size_t i = 0; i < d->judging.series.list.len; i++)
		if (d->judging.series.list.data[i]->open)
			episode_end(&d->episodes, d->judging.series.list.data[i]);
}
