/* sort_test.c - both sorts against qsort, of rows in every degree of order; stability.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/sort.h"

struct row {
	uint32_t key;
	uint32_t place; /* before it was sorted */
};

static int by_key(const void *a, const void *b, void *arg)
{
	const struct row *x = a, *y = b;
	if (arg)
		++*(uint64_t *)arg;
	return (x->key > y->key) - (x->key < y->key);
}

static int by_key_and_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

enum shape { SORTED, REVERSED, RUNS, NEAR, RANDOM, EQUAL, SHAPES };

static void fill(struct row *rows, size_t n, enum shape shape, uint64_t *random)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t r = random_next(random);
		uint32_t keys[SHAPES] = {
			[SORTED] = (uint32_t)i,		 [REVERSED] = (uint32_t)(n - i),
			[RUNS] = (uint32_t)(i % 97),	 [NEAR] = (uint32_t)(i + r % 8),
			[RANDOM] = (uint32_t)(r % 1000), [EQUAL] = 5,
		};
		rows[i] = (struct row){keys[shape], (uint32_t)i};
	}
}

static void check(size_t n, enum shape shape, uint64_t *random)
{
	struct row *want = malloc((n + 1) * sizeof(*want));
	struct row *runs = malloc((n + 1) * sizeof(*runs));
	struct row *near = malloc((n + 1) * sizeof(*near));
	fill(want, n, shape, random);
	memcpy(runs, want, n * sizeof(*want));
	memcpy(near, want, n * sizeof(*want));
	qsort(want, n, sizeof(*want), by_key_and_place);
	sort_runs(runs, n, sizeof(*runs), by_key, NULL);
	sort_near(near, n, sizeof(*near), by_key, NULL);
	assert_memory_equal(runs, want, n * sizeof(*want));
	assert_memory_equal(near, want, n * sizeof(*want));
	free(want);
	free(runs);
	free(near);
}

static void sorts_are_qsort(void **state)
{
	uint64_t random = 7;
	(void)state;
	for (enum shape shape = SORTED; shape < SHAPES; shape++)
		for (size_t n = 0; n < 3000; n = n < 20 ? n + 1 : n * 3)
			check(n, shape, &random);
}

/* What is in order costs a look at each row; what is far from it no more than merging. */
static void comparisons_are_few(void **state)
{
	enum { N = 4096 };
	static struct row rows[N];
	uint64_t random = 9, compared = 0;
	(void)state;
	fill(rows, N, SORTED, &random);
	sort_runs(rows, N, sizeof(*rows), by_key, &compared);
	assert_int_equal(compared, N - 1);
	compared = 0;
	fill(rows, N, REVERSED, &random);
	sort_near(rows, N, sizeof(*rows), by_key, &compared);
	assert_true(compared < 100 * N);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorts_are_qsort),
		cmocka_unit_test(comparisons_are_few),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
