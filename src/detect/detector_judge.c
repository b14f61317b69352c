/* detector_judge.c - from a row to a p, and whether that is an alarm.
 *
 * The alarms that were asked for in an hour are split among the layers that are judged, then
 * between windows by themselves and sums of them, then among the processes and GPUs that have
 * rows; a row's share is as long as its time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "detect/alone.h"
#include "detect/detector_impl.h"
#include "detect/learn.h"

#define NS_PER_S     1000000000ULL
#define NS_PER_HOUR  3.6e12
#define LEARN_P	     1e-4 /* rows that are rarer are not learned from */
#define LAUNCHES     0.33 /* what one launch tells of others, on an H200: -ln p is a quarter less */
#define GPU_LAG_ROWS 2	  /* what GPUs' counters say of a window may be of so many before */
#define ALONE_SHARE  0.2
#define COSTLESS_P   0.5 /* of what is not as usual and costs nothing, at least */

static uint64_t series_number(enum detect_layer layer, uint32_t pid, int32_t gpu)
{
	return (uint64_t)layer << 56 | (uint64_t)((uint32_t)gpu & 0xffffff) << 32 | pid;
}

static struct series *series_of(const struct detector *d, const struct feature_row *row)
{
	uint64_t at;
	bool met = map64_get(&d->series_of, series_number(row->layer, row->pid, row->gpu), &at);
	return met ? d->series.data[at - 1] : NULL;
}

static struct series *series_get(struct detector *d, const struct feature_row *row)
{
	struct series *s = series_of(d, row);
	if (s)
		return s;
	s = xcalloc(1, sizeof(*s));
	s->layer = row->layer;
	s->pid = row->pid;
	s->gpu = row->gpu;
	s->first_ns = row->start_ns;
	*vec_push(&d->series) = s;
	map64_set(&d->series_of, series_number(row->layer, row->pid, row->gpu), d->series.len);
	return s;
}

void series_free(struct series *s)
{
	for (size_t i = 0; i < s->shifts.len; i++)
		free(s->shifts.data[i].collected);
	vec_free(&s->shifts);
	free(s);
}

/* ---- how rarely ---- */

/* Those of a layer that have rows now. */
static uint32_t series_active(const struct detector *d, enum detect_layer layer, uint64_t now_ns)
{
	uint32_t ret = 0;
	for (size_t i = 0; i < d->series.len; i++) {
		const struct series *s = d->series.data[i];
		ret += s->layer == layer && s->last_ns + ACTIVE_S * NS_PER_S > now_ns;
	}
	return ret;
}

static uint32_t layers_active(const struct detector *d, uint64_t now_ns)
{
	uint32_t ret = 0;
	for (enum detect_layer l = 0; l < DETECT_LAYERS; l++)
		ret += d->model->layers[l].columns && series_active(d, l, now_ns);
	return ret;
}

/* The p below which this row alarms by itself; likewise one over the rows between alarms of the
 * sum. */
static double p_of_row(const struct detector *d, const struct feature_row *row)
{
	double alarms = d->o.alarms_per_hour > 0 ? d->o.alarms_per_hour : 1;
	double ways = d->model->without & WITHOUT_CUSUM ? 1 : 2;
	double hours = fmax((double)(row->end_ns - row->start_ns), 1e6) / NS_PER_HOUR;
	uint32_t layers = layers_active(d, row->start_ns);
	uint32_t series = series_active(d, row->layer, row->start_ns);
	double p = alarms * hours / (ways * (layers ? layers : 1) * (series ? series : 1));
	return fmin(p, 0.1);
}

static double height_at(struct detector *d, int power)
{
	if (d->heights[power] == 0)
		d->heights[power] = cusum_height(exp2(power));
	return d->heights[power];
}

/* The height grows nearly as the logarithm of the windows: between powers of two by a line. */
static double sum_height(struct detector *d, enum detect_layer layer, double p)
{
	double at = fmin(fmax(-log2(p), 4), HEIGHTS - 2);
	int low = (int)at;
	double under = height_at(d, low), over = height_at(d, low + 1);
	return (under + (at - low) * (over - under)) * fmax(1, d->model->layers[layer].cusum_ratio);
}

/* Rows of one launch are alike more than those of two: what p would be for another launch was not
 * seen, the less the fewer recordings the model was made of. Of what was recorded before the rows
 * of this very job nothing has to be allowed for. */
static double p_of_launch(const struct detector *d, double p)
{
	double n = d->model->recordings ? d->model->recordings : 1;
	return d->learning ? p : pow(p, n / (n + LAUNCHES));
}

/* Rows that are rare by one column alone are ALONE_SHARE of those that are rare by all together:
 * so much more often may a normal row alarm. */
static double rarer(double p, double alone)
{
	return isnan(alone) ? p : fmin(p, alone / ALONE_SHARE);
}

/* ---- a row ---- */

/* How fast its work goes on is what a process is there for. */
static double alone_of(const struct model_mixture *m, const struct feature_row *row)
{
	uint32_t n;
	const struct feature *features = features_of(row->layer, &n);
	for (uint32_t f = 0; f < n; f++)
		if (!strcmp(features[f].name, "pace_loss"))
			return alone_p(m, features[f].name, row->x[f]);
	return NAN;
}

static bool is_of_work(enum detect_layer layer)
{
	return layer == DETECT_CUDA || layer == DETECT_TORCH || layer == DETECT_NCCL;
}

static uint64_t layer_of_process(enum detect_layer layer, uint32_t pid)
{
	return (uint64_t)layer << 32 | pid;
}

bool detector_judged_at(const struct detector *d, enum detect_layer layer, uint32_t pid,
			uint64_t time_ns)
{
	uint64_t since;
	return map64_get(&d->judged_since, layer_of_process(layer, pid), &since) &&
	       time_ns >= since;
}

/* Imports, the first calls of libraries, tuning: the first seconds of a process's work. */
static bool is_warmup(struct detector *d, const struct series *s, const struct feature_row *row)
{
	uint64_t since;
	if (!row->pid || row->layer == DETECT_STEP)
		return row->start_ns < s->first_ns + (uint64_t)(WARMUP_S * 1e9);
	if (is_of_work(row->layer) && !map64_get(&d->work_since, row->pid, &since))
		map64_set(&d->work_since, row->pid, row->start_ns);
	bool waits = d->model->layers[DETECT_CUDA].columns ||
		     d->model->layers[DETECT_TORCH].columns ||
		     d->model->layers[DETECT_NCCL].columns;
	if (!map64_get(&d->work_since, row->pid, &since)) {
		if (waits)
			return true;
		since = s->first_ns;
	}
	return row->start_ns < since + (uint64_t)(WARMUP_S * 1e9);
}

/* Counters of a GPU or process that stay other than they were, while what it does takes as long as
 * ever: a benign change. What they are now becomes usual. */
static void rebase_lasting(struct detector *d, struct series *s, struct shift *shift,
			   uint64_t now_ns)
{
	if (!s->open || (s->layer != DETECT_HARDWARE && s->layer != DETECT_HOST) ||
	    now_ns < s->open->a.start_ns + LASTING_S * NS_PER_S)
		return;
	if (d->work_alarmed_ns > s->open->a.start_ns)
		return;
	episode_end(d, s);
	shift->known = false;
	shift->rows = 0;
}

static void sums(struct detector *d, struct series *s, struct judged *j, double rate)
{
	const struct feature_row *row = j->row;
	uint64_t length = row->end_ns - row->start_ns;
	if (d->model->without & WITHOUT_CUSUM)
		return;
	if (s->last_ns && row->start_ns > s->last_ns + PAUSE_ROWS * length)
		s->cusum = (struct cusum){0};
	double height = sum_height(d, row->layer, rate);
	if (cusum_add(&s->cusum, row->start_ns, j->p, height) && !j->explained.better) {
		j->alarmed = true;
		j->since_ns = s->cusum.since;
	}
}

/* What was slow is not what it does now. */
static void leaves_work(struct detector *d, struct series *s, const struct feature_row *row)
{
	s->other_ns = row->end_ns;
	s->recent_len = 0;
	if (s->open)
		episode_end(d, s);
}

static bool lags(const struct series *s, const struct feature_row *row)
{
	uint64_t rows = row->layer == DETECT_HARDWARE ? GPU_LAG_ROWS : row->layer == DETECT_HOST;
	return s->other_ns && row->start_ns < s->other_ns + rows * (row->end_ns - row->start_ns);
}

/* What a row is judged as. */
struct as {
	struct shift *shift;
	bool slowed; /* what it always did is slower, and what is new is beside it */
	bool leaves; /* it is of other work, or of work of a new kind */
	bool fresh;  /* some of it was never seen before, and it is not slowed */
	bool late;   /* its counters may be of that still */
	enum job_work job;
};

static struct as work_of_row(struct detector *d, struct series *s, const struct feature_row *row)
{
	uint32_t regime = row->regime ? row->regime : s->regime;
	struct as as = {.shift = shift_get(d, s, regime)};
	as.slowed = row->pace > 0 && row->pace < SLOWED && !(d->model->without & WITHOUT_PACE);
	if (as.slowed && !as.shift->known) {
		regime = s->usual;
		as.shift = shift_get(d, s, regime);
	}
	if (as.shift->known)
		s->usual = regime;
	if (regime != s->regime)
		s->cusum = (struct cusum){0};
	s->regime = regime;
	as.late = !as.slowed && as.shift->known && lags(s, row);
	as.fresh = as.shift->known && !as.slowed && fresh_work(d, row);
	as.leaves = !as.slowed && (row->other_work || !as.shift->known || job_left_work(d, row));
	if (as.leaves)
		leaves_work(d, s, row);
	job_row(d, row, as.leaves || as.fresh);
	as.job = job_work(d, row);
	return as;
}

/* Rows that say nothing of faults, for what the process does is none of its usual work, or not the
 * whole of it. */
static bool is_excused(struct detector *d, const struct series *s, const struct as *as,
		       const struct feature_row *row)
{
	bool ends = d->ending && row->layer != DETECT_STEP && d->last_event_ns &&
		    row->end_ns > d->last_event_ns; /* windows that the events end in */
	bool other = as->shift->known && (row->other_work || as->leaves);
	return is_warmup(d, s, row) || as->fresh || other || saves_excuse(d, row) || as->late ||
	       as->job == JOB_LEFT || ends;
}

/* Time that nobody waits for: of calls, where none of them failed more than usual. */
static bool costs_nothing(const struct as *as, const struct judged *j)
{
	enum detect_layer layer = j->row->layer;
	uint32_t n;
	const struct feature *features = features_of(layer, &n);
	if (as->job != JOB_USUAL || layer == DETECT_HARDWARE || layer == DETECT_HOST)
		return false;
	for (uint32_t f = 0; f < n; f++)
		if (!strcmp(features[f].name, "errors") && j->explained.shares[f] > 0.5)
			return false;
	return true;
}

/* Sets p and what explains it; whether the row is normal. */
static bool judge(struct detector *d, struct series *s, const struct as *as, struct judged *j)
{
	const struct feature_row *row = j->row;
	const struct model_mixture *m = &d->model->layers[row->layer];
	struct feature_row off = *row, blurred;
	struct explained noisy;
	for (size_t f = 0; f < FEATURES_MOST; f++)
		off.x[f] -= as->shift->centre[f];
	explain_blurred(&blurred, &off);
	explain_row(&noisy, m, row->layer, blurred.x);
	explain_row(&j->explained, m, row->layer, off.x);
	j->explained.score = noisy.score;
	j->p = p_of_launch(d, rarer(tail_p(&m->tail, noisy.score), alone_of(m, &blurred)));
	if (costs_nothing(as, j)) {
		j->explained.better = true;
		j->p = fmax(j->p, COSTLESS_P);
	}
	j->shift = as->shift->centre;
	double rate = p_of_row(d, row);
	j->alarmed = j->p < rate && !j->explained.better;
	sums(d, s, j, rate);
	j->beside = as->slowed && j->p < BESIDE_P && !j->explained.better && job_is_told(d, row);
	/* Work that is far quicker than usual is another kind of work for a while. */
	double p_of_distance = tail_p(&m->tail, noisy.distance_score);
	bool normal =
		!j->alarmed && !j->beside && !s->open && j->p > NEAR_P && p_of_distance > NEAR_P;
	if (normal && (d->learning || d->o.follow))
		shift_follow(as->shift, &j->explained, off.x, m, row);
	/* Rare normal rows too: without them each fit would be narrower than the last. */
	if (d->learning && !j->alarmed && !j->beside && !s->open && p_of_distance > LEARN_P)
		detector_learning_normal(d, row, off.x);
	return normal;
}

/* The row was judged: it may be of an anomaly, and say of its job's other rows that they are. */
static void take_judged(struct detector *d, struct series *s, const struct as *as,
			const struct judged *j)
{
	const struct feature_row *row = j->row;
	if (!detector_judged_at(d, row->layer, row->pid, UINT64_MAX))
		map64_set(&d->judged_since, layer_of_process(row->layer, row->pid), row->start_ns);
	bool by_itself = episode_row(d, s, j);
	if (by_itself && as->slowed)
		job_told(d, row);
}

void detector_judge(struct detector *d, const struct feature_row *row)
{
	struct judged j = {.row = row, .p = NAN, .since_ns = row->start_ns};
	j.explained.score = NAN;
	d->judged_ns = row->start_ns > d->judged_ns ? row->start_ns : d->judged_ns;
	if (losses_spoil(&d->losses, row)) {
		d->stats.lossy_rows++;
		if (series_of(d, row))
			episode_unjudged(d, series_of(d, row), row);
		rows_tell(d, row, &j);
		return;
	}
	if ((d->learning && detector_learning_row(d, row)) || !d->model ||
	    !d->model->layers[row->layer].columns) {
		rows_tell(d, row, &j);
		return;
	}
	struct series *s = series_get(d, row);
	struct as as = work_of_row(d, s, row);
	bool normal = false, excused = is_excused(d, s, &as, row);
	if (!excused && !as.shift->known)
		shift_collect(as.shift, &d->model->layers[row->layer], row);
	else if (!excused)
		normal = judge(d, s, &as, &j);
	bool of_calls = layer_has_calls(row->layer);
	if (of_calls && !d->o.whole && (d->learning || d->o.follow))
		usual_follow(d->known.usual, row->layer, (double)d->window_ns / 1e9, normal);
	s->last_ns = row->start_ns;
	if (!isnan(j.p))
		take_judged(d, s, &as, &j);
	else
		episode_unjudged(d, s, row);
	if (s->open && (of_calls || row->layer == DETECT_STEP) &&
	    s->open->a.end_ns > d->work_alarmed_ns)
		d->work_alarmed_ns = s->open->a.end_ns;
	rebase_lasting(d, s, as.shift, row->start_ns);
	rows_tell(d, row, &j);
}

static bool has_series(const struct detector *d, uint32_t pid)
{
	for (size_t i = 0; i < d->series.len; i++)
		if (d->series.data[i]->pid == pid)
			return true;
	return false;
}

/* One of its layers may be idle for long while others work: its warm-up is over then, too. */
static void process_forget(struct detector *d, uint32_t pid)
{
	if (has_series(d, pid))
		return;
	map64_del(&d->work_since, pid);
	for (int l = 0; l < DETECT_LAYERS && !d->rereads; l++)
		map64_del(&d->judged_since, layer_of_process(l, pid));
}

static void series_forget(struct detector *d, uint64_t now_ns)
{
	VEC(uint32_t) gone = {0};
	size_t kept = 0;
	for (size_t i = 0; i < d->series.len; i++) {
		struct series *s = d->series.data[i];
		if (s->open || (!s->gone && s->last_ns + SERIES_IDLE_S * NS_PER_S > now_ns)) {
			d->series.data[kept++] = s;
			map64_set(&d->series_of, series_number(s->layer, s->pid, s->gpu), kept);
			continue;
		}
		map64_del(&d->series_of, series_number(s->layer, s->pid, s->gpu));
		*vec_push(&gone) = s->pid;
		series_free(s);
	}
	d->series.len = kept;
	for (size_t i = 0; i < gone.len; i++)
		process_forget(d, gone.data[i]);
	vec_free(&gone);
}

void detector_judge_gone(struct detector *d, uint32_t pid, uint64_t now_ns)
{
	bool any = false;
	for (size_t i = 0; i < d->series.len; i++) {
		struct series *s = d->series.data[i];
		if (s->pid != pid)
			continue;
		s->gone = any = true;
		if (s->open)
			episode_end(d, s);
	}
	if (any)
		series_forget(d, now_ns);
}

void detector_judge_upto(struct detector *d, uint64_t now_ns)
{
	bool idle = false;
	for (size_t i = 0; i < d->series.len; i++) {
		struct series *s = d->series.data[i];
		uint64_t silence = (GAP_ROWS + 2) * d->window_ns;
		if (s->open && s->layer != DETECT_STEP && s->last_ns + silence < now_ns)
			episode_end(d, s);
		idle |= s->last_ns + SERIES_IDLE_S * NS_PER_S <= now_ns;
	}
	if (idle)
		series_forget(d, now_ns);
}
