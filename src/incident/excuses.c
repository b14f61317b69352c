/* excuses.c - the table of excuses, and the test of each. */
#include "incident/excuses.h"

#include <string.h>

#include "detect/learn_known.h"
#include "detect/learn.h"
#include "incident/by_pace.h"
#include "incident/detector_impl.h"

#define WARMUP_NS  ((uint64_t)(WARMUP_S * 1e9))
#define LASTING_NS 600000000000ULL /* anomalies of counters */

static bool lacks_calls(const struct excuse_case *c)
{
	return losses_spoil(&c->d->losses, c->row);
}

/* Imports, the first calls of libraries, tuning; and what launches that were learned took. */
static bool is_warmup(const struct excuse_case *c)
{
	const struct model_mixture *layers = c->d->model->layers;
	uint64_t since;
	bool of_process = c->row->pid && c->row->layer != DETECT_STEP;
	bool work_comes = false;
	for (enum detect_layer l = 0; l < DETECT_LAYERS; l++)
		work_comes |= detect_layer_traits(l) & LAYER_IS_WORK && layers[l].columns;
	if (!of_process || !map64_get(&c->d->job.work_since, c->row->pid, &since)) {
		if (of_process && work_comes)
			return true;
		since = c->series->first_ns;
	}
	return c->row->start_ns < since + WARMUP_NS + c->d->model->clock.start_ns;
}

/* Its pace takes account of new functions: they count as they took. Not of sizes whose usual time
 * nobody knows. */
static bool tells_pace(const struct excuse_case *c)
{
	const struct feature_row *row = c->row;
	return row->pace > 0 && !row->parents_pace && !row->resized &&
	       layer_has_calls(row->layer) && by_pace_tells(c->d->model, row->layer) &&
	       !by_pace_minds_all(c->d) && !(c->d->model->without & WITHOUT_PACE);
}

static bool has_new_sizes(const struct excuse_case *c)
{
	return c->work->fresh;
}

static bool model_is_stale(const struct excuse_case *c)
{
	return model_fit_excuses(&c->d->fit, c->row);
}

/* Steps of a process whose calls nobody knows: of another job than that which was learned, and what
 * that one's steps take says nothing of them. */
static bool are_unknown_steps(const struct excuse_case *c)
{
	return c->row->layer == DETECT_STEP && c->d->model->clock.layer < DETECT_LAYERS &&
	       !(c->d->model->without & WITHOUT_PACE) &&
	       !job_has_pace(&c->d->job.paces, c->row->pid);
}

static bool is_other_work(const struct excuse_case *c)
{
	return are_unknown_steps(c) ||
	       (c->work->shift->known && (c->row->other_work || c->work->leaves));
}

static bool is_checkpoint(const struct excuse_case *c)
{
	return saves_cover(&c->d->saves, c->row);
}

/* Windows that the events of a recording end in. */
static bool is_ending(const struct excuse_case *c)
{
	return c->d->ending && c->row->layer != DETECT_STEP && c->d->last_event_ns &&
	       c->row->end_ns > c->d->last_event_ns;
}

static bool is_new_work(const struct excuse_case *c)
{
	return !c->work->shift->known && !tells_pace(c);
}

/* Counters of a GPU or process that stay other than they were, while what it does takes as long as
 * ever. */
static bool counters_stay(const struct excuse_case *c)
{
	const struct episode *open = c->series->open;
	return open && layer_has_counters(c->row->layer) &&
	       c->row->start_ns >= open->a.start_ns + LASTING_NS &&
	       c->d->judging.work_alarmed_ns <= open->a.start_ns;
}

static const struct excuse excuses[] = {
#define X(name, stage, holds, what) {name, stage, holds},
	EXCUSES(X, X)
#undef X
};
#define LEN (sizeof(excuses) / sizeof(excuses[0]))
_Static_assert(LEN <= 32, "a bit for each");

uint32_t excuse_bit(const char *name)
{
	for (size_t i = 0; i < LEN; i++)
		if (!strcmp(excuses[i].name, name))
			return 1u << i;
	return 0;
}

const struct excuse *excuse_find(enum excuse_stage stage, const struct excuse_case *c)
{
	for (size_t i = 0; i < LEN; i++)
		if (excuses[i].stage == stage && !(c->d->o.without_excuses & 1u << i) &&
		    excuses[i].holds(c))
			return &excuses[i];
	return NULL;
}
