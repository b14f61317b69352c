/* steps_batches.c - the batches of an evaluation that lies between steps of training.
 *
 * They are few, so that nothing but their own repetition tells where one ends. It is that of the
 * work: tensors that a loader makes or moves may come earlier, or for two batches at once. */
#include "analyze/steps_impl.h"

/* The shortest distance at which the work repeats itself; its length where it does not. One
 * operation in fifty may differ, and four: most distances are given up after a few operations. */
static size_t period_of(const struct steps_text *t, const steps_positions_t *work)
{
	for (size_t lag = 1; lag * 2 <= work->len; lag++) {
		size_t wrong = 0, i = 0;
		for (; i + lag < work->len && wrong <= 4 + i / 50; i++)
			wrong += t->ops[work->data[i]].symbol != t->ops[work->data[i + lag]].symbol;
		if (i + lag == work->len && wrong <= (work->len - lag) / 50)
			return lag;
	}
	return work->len;
}

/* The first operation behind work, and values that are read of it. */
static size_t end_of_work(const struct steps_text *t, size_t last, size_t end)
{
	size_t i = last + 1;
	while (i < end && steps_class(t, i) & CLASS_READ)
		i++;
	return i;
}

void steps_batches(steps_cut_rows_t *ret, const struct steps_text *t, size_t begin, size_t end)
{
	steps_positions_t work = {0};
	for (size_t i = begin; i < end; i++)
		if (!(steps_class(t, i) & (CLASS_SETUP | CLASS_LOADER)))
			*vec_push(&work) = i;
	size_t period = period_of(t, &work), at = begin;
	for (size_t k = period; k && k < work.len && work.len - k >= period; k += period) {
		size_t next = end_of_work(t, work.data[k - 1], work.data[k]);
		*vec_push(ret) = (struct steps_cut){at, next};
		at = next;
	}
	/* The last one has what remains. */
	*vec_push(ret) = (struct steps_cut){at, end};
	vec_free(&work);
}
