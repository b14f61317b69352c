/* by_pace.c - rows that alarm by the pace of their process, and rows beside them. */
#include "incident/by_pace.h"

#include <math.h>

#include "base/stats.h"
#include "detect/learn.h"
#include "incident/detector_impl.h"

#define ERRORS_MOST    0.5 /* share of the distance: above it a row is of failed calls */
#define FREEDOM	       20  /* of Student's t: no sigma is known exactly */
#define ANCESTORS_MOST 8   /* that are asked for: a loop of parents ends */

bool by_pace_calls_failed(const struct feature_row *row, const struct judgement *judged)
{
	size_t errors = feature_place(row->layer, "errors");
	return errors < FEATURES_MOST && judged->explained.shares[errors] > ERRORS_MOST;
}

bool by_pace_tells(const struct model *m, enum detect_layer layer)
{
	static const enum detect_layer order[] = {DETECT_TORCH, DETECT_CUDA, DETECT_NCCL};
	if (m->clock.layer < DETECT_LAYERS)
		return layer == m->clock.layer;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (m->layers[order[i]].columns)
			return layer == order[i];
	return layer >= DETECT_NAMED;
}

/* Whether who it works for goes on: its nearest ancestor with a pace, for between them may stand
 * one that only forks. */
static bool is_worked_for(const struct detector *d, const struct feature_row *row, uint32_t pid)
{
	for (int i = 0; i < ANCESTORS_MOST; i++) {
		pid = windows_parent_of(d->windows, pid);
		if (!pid || job_has_pace(&d->job.paces, pid))
			break;
	}
	return pid && job_goes_on(&d->job.paces, pid, row);
}

/* Of a process that makes no calls any more counters are all that tell, unless it is a helper that
 * rests meanwhile. */
static bool counters_are_all(const struct detector *d, const struct feature_row *row, uint32_t pid)
{
	double before;
	if (!layer_has_counters(row->layer) || job_pace_at(&d->job.paces, pid, row, &before) > 0 ||
	    before > 0)
		return false;
	return !job_is_helper(&d->job.paces, pid) || !is_worked_for(d, row, pid);
}

enum by_pace by_pace_of(const struct detector *d, const struct feature_row *row,
			const struct judgement *judged)
{
	uint32_t pid = row->pid ? row->pid : row->gpu_pid;
	if (d->model->without & WITHOUT_PACE || !job_has_pace(&d->job.paces, pid) ||
	    by_pace_calls_failed(row, judged))
		return BY_ITSELF;
	if (counters_are_all(d, row, pid))
		return BY_ITSELF;
	bool own = row->pace > 0 && !row->parents_pace && layer_has_calls(row->layer);
	if (own && by_pace_tells(d->model, row->layer))
		return BY_PACE;
	return by_pace_minds_all(d) ? BY_ITSELF : BESIDE_PACE;
}

bool by_pace_minds_all(const struct detector *d)
{
	return d->judging.rate.least_effect <= NO_EFFECT;
}

static double least_loss(const struct detector *d)
{
	return -log1p(-d->judging.rate.least_effect);
}

/* Of a sum that alarms. */
static double height_of(const struct detector *d)
{
	return pace_alarms_height(d->model->clock.tails, d->judging.rate.least_effect,
				  d->judging.rate.alarms_per_hour);
}

void by_pace_judge(struct detector *d, const struct feature_row *row, double lost, struct judged *j)
{
	const struct model_clock *m = &d->model->clock;
	bool learned = m->layer == DETECT_LAYERS;
	struct pace_judge *judge = &job_pace_of(&d->job.paces, row->pid)->judge;
	double least = least_loss(d), s = pace_judge_sigma(judge, learned ? 0 : m->sigma);
	double height = height_of(d);
	if (isnan(s) || isnan(lost) || isnan(j->p))
		return;
	double sum = pace_judge_add(judge, row->start_ns, d->window_ns, lost, s, least,
				    height + PACE_MOST);
	double p = stats_student_above(lost / s, FREEDOM);
	bool slow = lost >= least && sum > height;
	if (slow && !j->alarmed)
		j->since_ns = judge->since_ns;
	if (by_pace_minds_all(d)) {
		j->p = fmin(j->p, p);
		j->alarmed |= slow;
		return;
	}
	j->p = lost < least ? fmax(p, COSTLESS_P) : p;
	j->alarmed = slow;
}

bool by_pace_with_counters(struct detector *d, const struct feature_row *row, double p,
			   double *ret_more)
{
	struct job_pace *pace = job_pace_of(&d->job.paces, row->pid);
	*ret_more = 0;
	if (!pace || row->layer != DETECT_HOST || isnan(p))
		return false;
	double height = height_of(d);
	return pace_judge_counters(&pace->judge, row->start_ns, p, !job_is_told(&d->job, row),
				   height + PACE_MOST, ret_more) > height;
}

bool by_pace_costs(const struct detector *d, double lost)
{
	if (d->model->without & WITHOUT_PACE)
		return false;
	double least = by_pace_minds_all(d) ? -log1p(-LEAST_EFFECT) : least_loss(d);
	return lost > least;
}
