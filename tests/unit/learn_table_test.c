/* learn_table_test.c - models of tables: the mixture in the table's own units, p-values that hold
 * on rows that were not learned, also where faults are among those that were.
 *
 * links: base analyze detect */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/random.h"
#include "detect/learn_table.h"
#include "mixture_score.h"

/* Two groups in columns of very different units, sorted by group; the first share of rows of each
 * are faults. */
static struct table make_table(size_t rows, double faults, uint64_t seed)
{
	struct table t = {.columns = 2, .rows = rows};
	t.names[0] = xstrdup("bytes");
	t.names[1] = xstrdup("ratio");
	t.cells = xcalloc(rows * 2, sizeof(double));
	for (size_t i = 0; i < rows; i++) {
		bool second = i >= rows / 2, fault = (double)(i % 100) < 100 * faults;
		double spread = fault ? 40 : 1;
		t.cells[2 * i] = (second ? 5e9 : 1e9) + 1e7 * spread * random_normal(&seed);
		t.cells[2 * i + 1] = (second ? 0.2 : 0.9) + 0.01 * spread * random_normal(&seed);
	}
	return t;
}

static struct model learned(struct table *t, uint32_t components, double trim)
{
	struct model m;
	struct err e = {0};
	const struct gmm_options o = {.components = components,
				      .starts = 4,
				      .covariance_floor = -1,
				      .seed = 3,
				      .trim_ratio = trim};
	int rc = learn_table(&m, t, &o, 8, &e);
	if (rc)
		fail_msg("%s", e.msg);
	return m;
}

static double share_below(const struct model_mixture *m, const struct table *t, double p)
{
	size_t n = 0;
	for (size_t i = 0; i < t->rows; i++)
		n += tail_p(&m->tail, mixture_score(m, t->cells + 2 * i)) < p;
	return (double)n / (double)t->rows;
}

static void p_values_hold_on_other_rows(void **state)
{
	(void)state;
	struct table t = make_table(6000, 0, 1), other = make_table(6000, 0, 2);
	struct model m = learned(&t, 0, 0);
	const struct model_mixture *x = &m.layers[0];
	assert_int_equal(m.kind, MODEL_TABLE);
	assert_int_equal(x->gmm.components, 2);
	assert_true(x->bics[1] < x->bics[0] && x->bics[1] < x->bics[2]);
	assert_string_equal(x->names[0], "bytes");
	double low = fmin(x->gmm.means[0], x->gmm.means[2]);
	assert_true(x->scale[0] == 1 && x->centre[1] == 0 && fabs(low - 1e9) < 1e6);
	const double ps[] = {0.2, 0.05, 0.01};
	for (size_t i = 0; i < 3; i++) {
		double share = share_below(x, &other, ps[i]);
		/* five standard deviations of the share, and the tail's own error */
		double allowed = 5 * sqrt(ps[i] / 6000) + 0.15 * ps[i];
		if (fabs(share - ps[i]) > allowed)
			fail_msg("p below %g: %g of the rows", ps[i], share);
	}
	model_free(&m);
	table_free(&t);
	table_free(&other);
}

static void faults_do_not_become_normal(void **state)
{
	(void)state;
	struct table t = make_table(6000, 0.1, 4), good = make_table(6000, 0, 5);
	struct model m = learned(&t, 2, 0.15);
	double share = share_below(&m.layers[0], &good, 0.01);
	if (share < 0.003 || share > 0.03)
		fail_msg("%g of the normal rows are below 0.01", share);
	size_t found = 0, faults = 0;
	struct table bad = make_table(6000, 0.1, 6);
	for (size_t i = 0; i < bad.rows; i++) {
		if (i % 100 >= 10)
			continue;
		faults++;
		found += tail_p(&m.layers[0].tail, mixture_score(&m.layers[0], bad.cells + 2 * i)) <
			 0.01;
	}
	if (found < faults * 9 / 10)
		fail_msg("%zu of %zu faults", found, faults);
	model_free(&m);
	table_free(&t);
	table_free(&good);
	table_free(&bad);
}

static void the_same_rows_give_the_same_model(void **state)
{
	(void)state;
	struct table t = make_table(3000, 0, 7), again = make_table(3000, 0, 7);
	struct model a = learned(&t, 3, 0), b = learned(&again, 3, 0);
	assert_memory_equal(a.layers[0].gmm.means, b.layers[0].gmm.means, 6 * sizeof(double));
	assert_memory_equal(&a.layers[0].tail, &b.layers[0].tail, sizeof(struct tail));
	model_free(&a);
	model_free(&b);
	table_free(&t);
	table_free(&again);
}

/* Too few rows for a tail, one row, none. */
static void few_rows(void **state)
{
	(void)state;
	struct err e = {0};
	struct table t = make_table(TAIL_LEAST - 1, 0, 8), one = make_table(1, 0, 9);
	struct model m = learned(&t, 1, 0), single = learned(&one, 0, 0);
	assert_int_equal(m.layers[0].tail.n, 0);
	assert_int_equal(single.layers[0].gmm.components, 1);
	assert_true(isfinite(mixture_score(&single.layers[0], one.cells)));
	model_free(&m);
	model_free(&single);
	one.cells[0] = NAN;
	const struct gmm_options o = {.components = 1, .covariance_floor = -1};
	assert_int_equal(learn_table(&m, &one, &o, 8, &e), -EINVAL);
	table_free(&t);
	table_free(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(p_values_hold_on_other_rows),
		cmocka_unit_test(faults_do_not_become_normal),
		cmocka_unit_test(the_same_rows_give_the_same_model),
		cmocka_unit_test(few_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
