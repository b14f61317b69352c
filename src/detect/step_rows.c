/* step_rows.c - features of steps. */
#include "detect/step_rows.h"

#include <math.h>
#include <stdlib.h>

#include "base/stats.h"

/* What is left of the usual duration where a phase is shorter than usual: a floor, for phases
 * whose median is longer than the median step less the others'. */
#define LEAST_RATIO 0.05

/* What medians are taken of: the duration, the phases, launches, operations. */
enum {
	OF_DURATION,
	OF_PHASES,
	OF_LAUNCHES = OF_PHASES + STEP_FEATURE_PHASES,
	OF_OPERATIONS,
	OF_ALL
};

static double value_of(const struct steps_step *s, int what)
{
	if (what == OF_DURATION)
		return (double)(s->end_ns - s->start_ns);
	if (what == OF_LAUNCHES)
		return (double)s->launches;
	return what == OF_OPERATIONS ? s->ops : (double)s->phase_ns[what - OF_PHASES];
}

static struct step_usual usual_of_loop(const struct steps_process *p, const struct steps_loop *l)
{
	double medians[OF_ALL], *values = xcalloc(l->steps + 1, sizeof(*values));
	struct step_usual usual = {.steps = l->steps};
	for (int what = 0; what < OF_ALL && l->steps; what++) {
		for (uint32_t i = 0; i < l->steps; i++)
			values[i] = value_of(&p->steps.data[l->first + i], what);
		medians[what] = stats_median(values, l->steps);
	}
	free(values);
	if (!l->steps)
		return usual;
	usual.duration_ns = medians[OF_DURATION];
	usual.launches = medians[OF_LAUNCHES];
	usual.operations = medians[OF_OPERATIONS];
	for (int i = 0; i < STEP_FEATURE_PHASES; i++)
		usual.phase_ns[i] = medians[OF_PHASES + i];
	return usual;
}

void step_usual_of(struct step_usual ret[STEPS_KINDS], const struct steps *s)
{
	for (int i = 0; i < STEPS_KINDS; i++)
		ret[i] = (struct step_usual){0};
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_process *p = &s->processes.data[i];
		for (size_t k = 0; k < p->loops.len; k++) {
			const struct steps_loop *l = &p->loops.data[k];
			if (l->steps >= STEP_ROWS_LEAST && l->steps > ret[l->kind].steps)
				ret[l->kind] = usual_of_loop(p, l);
		}
	}
}

/* ---- rows ---- */

static double ratio(double value, double usual)
{
	return log(fmax(value / usual, LEAST_RATIO));
}

/* One more on both sides, so that none is a number too. */
static double ratio_of_counts(double value, double usual)
{
	return log((value + 1) / (usual + 1));
}

static void add_row(struct step_rows *ret, const struct steps_process *p,
		    const struct steps_loop *l, const struct steps_step *s,
		    const struct step_usual *usual)
{
	struct feature_row *row = vec_push(&ret->rows);
	*row = (struct feature_row){.start_ns = s->start_ns,
				    .end_ns = s->end_ns,
				    .layer = DETECT_STEP,
				    .pid = p->pid,
				    .gpu = -1,
				    .regime = (uint32_t)l->kind + 1,
				    .events = s->ops};
	double whole = usual->duration_ns;
	uint32_t n = 0;
	row->x[n++] = ratio(value_of(s, OF_DURATION), whole);
	for (int i = 0; i < STEP_FEATURE_PHASES; i++)
		row->x[n++] = ratio(whole + (double)s->phase_ns[i] - usual->phase_ns[i], whole);
	row->x[n++] = ratio_of_counts((double)s->launches, usual->launches);
	row->x[n++] = ratio_of_counts(s->ops, usual->operations);
	while (n < FEATURES_MOST)
		row->x[n++] = NAN;
}

/* A model that knows steps, but none of this kind, says nothing of it. */
static bool is_other_work(const struct step_usual usual[STEPS_KINDS], const struct steps_loop *l)
{
	if (!usual || usual[l->kind].steps)
		return false;
	for (int k = 0; k < STEPS_KINDS; k++)
		if (usual[k].steps)
			return true;
	return false;
}

static void add_loop(struct step_rows *ret, const struct steps_process *p,
		     const struct steps_loop *l, const struct step_usual *known)
{
	struct step_usual own;
	if (!known || !known->steps || known->duration_ns <= 0) {
		own = usual_of_loop(p, l);
		known = &own;
		if (own.steps < STEP_ROWS_LEAST || own.duration_ns <= 0)
			return;
	}
	for (uint32_t i = 0; i < l->steps; i++)
		add_row(ret, p, l, &p->steps.data[l->first + i], known);
}

static int compare_rows(const void *a, const void *b)
{
	const struct feature_row *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

void step_rows_make(struct step_rows *ret, const struct steps *s,
		    const struct step_usual usual[STEPS_KINDS])
{
	*ret = (struct step_rows){0};
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_process *p = &s->processes.data[i];
		for (size_t k = 0; k < p->loops.len; k++) {
			const struct steps_loop *l = &p->loops.data[k];
			if (!is_other_work(usual, l))
				add_loop(ret, p, l, usual ? &usual[l->kind] : NULL);
		}
	}
	if (ret->rows.len)
		qsort(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), compare_rows);
}

void step_rows_free(struct step_rows *r)
{
	vec_free(&r->rows);
}
