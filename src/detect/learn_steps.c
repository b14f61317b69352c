/* learn_steps.c - rows of steps to rows of windows. */
#include "detect/learn_steps.h"

#include <math.h>
#include <stdlib.h>

/* Sums over the steps of a row: of what was usual, and of it times each ratio. */
struct joined {
	double usual[FEATURES_MOST], real[FEATURES_MOST];
};

static void joined_add(struct joined *j, const struct feature_row *row)
{
	uint32_t n;
	features_of(DETECT_STEP, &n);
	double usual = (double)(row->end_ns - row->start_ns);
	usual = isfinite(row->x[0]) ? usual * exp(-row->x[0]) : usual;
	for (uint32_t f = 0; f < n; f++)
		if (isfinite(row->x[f])) {
			j->usual[f] += usual;
			j->real[f] += usual * exp(row->x[f]);
		}
}

static void joined_finish(const struct joined *j, struct feature_row *row)
{
	uint32_t n;
	features_of(DETECT_STEP, &n);
	for (uint32_t f = 0; f < n; f++)
		row->x[f] = j->usual[f] > 0 ? log(j->real[f] / j->usual[f]) : NAN;
}

static int by_process(const void *a, const void *b)
{
	const struct feature_row *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->regime != y->regime)
		return x->regime < y->regime ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int by_start(const void *a, const void *b)
{
	const struct feature_row *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

void learn_steps_join(struct step_rows *rows, uint64_t window_ns)
{
	struct feature_row *r = rows->rows.data;
	size_t n = rows->rows.len, kept = 0;
	if (n < 2)
		return;
	qsort(r, n, sizeof(*r), by_process);
	for (size_t i = 0, next; i < n; i = next) {
		struct joined sums = {0};
		struct feature_row one = r[i];
		uint64_t events = 0;
		for (next = i; next < n && r[next].pid == one.pid && r[next].regime == one.regime &&
			       r[next].start_ns / window_ns == one.start_ns / window_ns;
		     next++) {
			joined_add(&sums, &r[next]);
			events += r[next].events;
			one.end_ns = r[next].end_ns;
		}
		joined_finish(&sums, &one);
		one.events = events;
		r[kept++] = one;
	}
	rows->rows.len = kept;
	qsort(r, kept, sizeof(*r), by_start);
}
