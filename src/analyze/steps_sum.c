/* steps_sum.c - a loop's figures, its slow steps and what in them was longer. */
#include <math.h>

#include "analyze/steps_impl.h"
#include "base/sort.h"

#define SLOW_Z	   3.5
#define SLOW_RATIO 1.1
/* The distance of the normal distribution's quartiles from its middle. */
#define Z_OF_MAD 0.6745

static uint64_t duration(const struct steps_step *s)
{
	return s->end_ns - s->start_ns;
}

/* Of values in order; the middle of two is the lower. */
/* Nearest rank: the least value that is no less than so many of all. */
static uint64_t quantile(const uint64_t *sorted, size_t n, double q)
{
	size_t rank = (size_t)ceil(q * (double)n);
	return sorted[rank ? rank - 1 : 0];
}

static uint64_t median(uint64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), sort_compare_u64);
	return quantile(values, n, 0.5);
}

/* ---- what was longer ---- */

struct symbol_time {
	uint32_t symbol;
	uint64_t inside_ns; /* in it */
	uint64_t before_ns; /* from the end of the operation before it */
};

struct times {
	struct symbol_time *rows; /* by symbol */
	VEC(uint32_t) met;
};

static void add_times(struct times *x, const struct steps_text *t, const struct steps_cut *cut,
		      const struct steps_step *step)
{
	uint64_t at = step->start_ns;
	for (size_t i = cut->begin; i < cut->end; i++) {
		const struct steps_op *o = &t->ops[i];
		struct symbol_time *row = &x->rows[o->symbol];
		if (!row->inside_ns && !row->before_ns)
			*vec_push(&x->met) = o->symbol;
		row->before_ns += o->start_ns > at ? o->start_ns - at : 0;
		row->inside_ns += o->dur_ns;
		if (steps_op_end(o) > at)
			at = steps_op_end(o);
	}
}

static const char *name_kept(struct steps *owner, const char *name)
{
	char *kept = xstrdup(name);
	*vec_push(&owner->names) = kept;
	return kept;
}

static void cause_add(struct steps_slow *slow, struct steps_cause cause)
{
	uint32_t at = slow->causes_len;
	while (at && slow->causes[at - 1].more_ns < cause.more_ns)
		at--;
	if (cause.more_ns <= 0 || at == STEPS_CAUSES)
		return;
	if (slow->causes_len < STEPS_CAUSES)
		slow->causes_len++;
	for (uint32_t i = slow->causes_len - 1; i > at; i--)
		slow->causes[i] = slow->causes[i - 1];
	slow->causes[at] = cause;
}

static void find_causes(struct steps_slow *slow, const struct times *usual, size_t usual_steps,
			struct times *its, const struct steps_text *t, const struct steps_cut *cut,
			const struct steps_step *step, struct steps *owner)
{
	add_times(its, t, cut, step);
	for (size_t i = 0; i < its->met.len; i++) {
		struct symbol_time *row = &its->rows[its->met.data[i]];
		const struct symbol_time *u = &usual->rows[its->met.data[i]];
		const char *name = t->symbols[its->met.data[i]].name;
		int64_t inside = (int64_t)(row->inside_ns - u->inside_ns / usual_steps);
		int64_t before = (int64_t)(row->before_ns - u->before_ns / usual_steps);
		cause_add(slow, (struct steps_cause){name, false, inside});
		cause_add(slow, (struct steps_cause){name, true, before});
		*row = (struct symbol_time){0};
	}
	its->met.len = 0;
	for (uint32_t i = 0; i < slow->causes_len; i++)
		slow->causes[i].name = name_kept(owner, slow->causes[i].name);
}

/* ---- slow steps ---- */

static int compare_slow(const void *a, const void *b)
{
	const struct steps_slow *x = a, *y = b;
	if (x->z != y->z)
		return x->z > y->z ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

static void find_slow(struct steps_loop *loop, const struct steps_step *steps, uint64_t *scratch)
{
	for (uint32_t i = 0; i < loop->steps; i++) {
		uint64_t d = duration(&steps[i]);
		scratch[i] = d > loop->median_ns ? d - loop->median_ns : loop->median_ns - d;
	}
	uint64_t mad = median(scratch, loop->steps);
	for (uint32_t i = 0; i < loop->steps; i++) {
		double more = (double)duration(&steps[i]) - (double)loop->median_ns;
		double z = Z_OF_MAD * more / (double)(mad ? mad : 1);
		if (z <= SLOW_Z ||
		    (double)duration(&steps[i]) <= SLOW_RATIO * (double)loop->median_ns)
			continue;
		struct steps_slow *slow = vec_push(&loop->slow);
		slow->step = loop->first + i;
		slow->z = z;
	}
	loop->slow_total = (uint32_t)loop->slow.len;
	if (loop->slow.len)
		qsort(loop->slow.data, loop->slow.len, sizeof(*loop->slow.data), compare_slow);
	if (loop->slow.len > STEPS_SLOW_KEPT)
		loop->slow.len = STEPS_SLOW_KEPT;
}

void steps_slow_phase(const struct steps_loop *loop, const struct steps_step *step,
		      struct steps_slow *slow)
{
	slow->phase_more_ns = INT64_MIN;
	for (int p = 0; p < STEPS_PHASES; p++) {
		int64_t more = (int64_t)(step->phase_ns[p] - loop->phase_median_ns[p]);
		if (more <= slow->phase_more_ns)
			continue;
		slow->phase = (enum steps_phase)p;
		slow->phase_more_ns = more;
	}
}

static void explain_slow(struct steps_loop *loop, const struct steps_step *steps,
			 const struct steps_text *t, const struct steps_cut *cuts,
			 struct steps *owner)
{
	struct times usual = {xcalloc(t->symbols_len, sizeof(*usual.rows)), {0}};
	struct times its = {xcalloc(t->symbols_len, sizeof(*its.rows)), {0}};
	size_t usual_steps = 0;
	for (uint32_t i = 0; i < loop->steps; i++)
		if ((double)duration(&steps[i]) <= SLOW_RATIO * (double)loop->median_ns) {
			add_times(&usual, t, &cuts[i], &steps[i]);
			usual_steps++;
		}
	for (size_t k = 0; k < loop->slow.len; k++) {
		struct steps_slow *slow = &loop->slow.data[k];
		uint32_t i = slow->step - loop->first;
		steps_slow_phase(loop, &steps[i], slow);
		find_causes(slow, &usual, usual_steps ? usual_steps : 1, &its, t, &cuts[i],
			    &steps[i], owner);
	}
	free(usual.rows);
	free(its.rows);
	vec_free(&usual.met);
	vec_free(&its.met);
}

/* ---- all ---- */

void steps_phases_sum(struct steps_loop *loop, const struct steps_step *steps)
{
	uint64_t *values = xcalloc(loop->steps + 1, sizeof(*values));
	for (int p = 0; p < STEPS_PHASES; p++) {
		loop->phase_mean_ns[p] = 0;
		for (uint32_t i = 0; i < loop->steps; i++) {
			values[i] = steps[i].phase_ns[p];
			loop->phase_mean_ns[p] += (double)values[i] / loop->steps;
		}
		loop->phase_median_ns[p] = median(values, loop->steps);
	}
	free(values);
}

void steps_loop_sum(struct steps_loop *loop, const struct steps_step *steps,
		    const struct steps_text *t, const struct steps_cut *cuts, struct steps *owner)
{
	uint64_t *values = xcalloc(loop->steps + 1, sizeof(*values));
	for (uint32_t i = 0; i < loop->steps; i++) {
		values[i] = duration(&steps[i]);
		loop->total_ns += values[i];
		loop->ops_mean += (double)steps[i].ops / loop->steps;
		loop->launches_mean += (double)steps[i].launches / loop->steps;
	}
	loop->median_ns = median(values, loop->steps);
	loop->min_ns = values[0];
	loop->max_ns = values[loop->steps - 1];
	loop->p99_ns = quantile(values, loop->steps, 0.99);
	loop->mean_ns = (double)loop->total_ns / loop->steps;
	find_slow(loop, steps, values);
	free(values);
	steps_phases_sum(loop, steps);
	if (loop->slow.len)
		explain_slow(loop, steps, t, cuts, owner);
}
