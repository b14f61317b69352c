/* sort.c - natural merge sort, and insertion within bounds. */
#include "base/sort.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

/* Rows that may be passed for each that is put in its place, on average, until it is no use. */
#define NEAR_MOVES 64

struct sorting {
	uint8_t *rows;
	size_t size;
	row_order *compare;
	void *arg;
	uint8_t *copy; /* of the first of two runs */
	size_t copy_cap;
};

static uint8_t *row_at(const struct sorting *s, size_t i)
{
	return s->rows + i * s->size;
}

static void copy_rows(struct sorting *s, size_t from, size_t n)
{
	if (!n)
		return;
	if (n > s->copy_cap) {
		free(s->copy);
		s->copy = xrealloc(NULL, n, s->size);
		s->copy_cap = n;
	}
	memcpy(s->copy, row_at(s, from), n * s->size);
}

/* Rows [from, middle) and [middle, to) are in order; after it all are. */
static void merge_runs(struct sorting *s, size_t from, size_t middle, size_t to)
{
	while (from < middle && s->compare(row_at(s, from), row_at(s, middle), s->arg) <= 0)
		from++;
	size_t n = middle - from, taken = 0, out = from;
	if (!n)
		return;
	copy_rows(s, from, n);
	while (taken < n && middle < to) {
		const uint8_t *first = s->copy + taken * s->size, *second = row_at(s, middle);
		bool second_next = s->compare(first, second, s->arg) > 0;
		memcpy(row_at(s, out++), second_next ? second : first, s->size);
		middle += second_next;
		taken += !second_next;
	}
	memcpy(row_at(s, out), s->copy + taken * s->size, (n - taken) * s->size);
}

/* Where each run ends. */
static size_t find_runs(const struct sorting *s, size_t n, size_t **ret_ends)
{
	VEC(size_t) ends = {0};
	for (size_t i = 1; i < n; i++)
		if (s->compare(row_at(s, i - 1), row_at(s, i), s->arg) > 0)
			*vec_push(&ends) = i;
	*vec_push(&ends) = n;
	*ret_ends = ends.data;
	return ends.len;
}

void sort_runs(void *rows, size_t n, size_t size, row_order *compare, void *arg)
{
	struct sorting s = {.rows = rows, .size = size, .compare = compare, .arg = arg};
	size_t *ends;
	if (n < 2)
		return;
	size_t runs = find_runs(&s, n, &ends);
	while (runs > 1) {
		size_t left = 0, from = 0;
		for (size_t i = 0; i < runs; i += 2) {
			size_t to = i + 1 < runs ? ends[i + 1] : ends[i];
			if (i + 1 < runs)
				merge_runs(&s, from, ends[i], to);
			ends[left++] = from = to;
		}
		runs = left;
	}
	free(ends);
	free(s.copy);
}

void sort_near(void *rows, size_t n, size_t size, row_order *compare, void *arg)
{
	struct sorting s = {.rows = rows, .size = size, .compare = compare, .arg = arg};
	uint64_t moves = 0;
	copy_rows(&s, 0, n ? 1 : 0);
	for (size_t i = 1; i < n; i++) {
		size_t to = i;
		if (compare(row_at(&s, i - 1), row_at(&s, i), arg) <= 0)
			continue;
		while (to > 0 && compare(row_at(&s, to - 1), row_at(&s, i), arg) > 0 &&
		       moves <= NEAR_MOVES * (uint64_t)n) {
			to--;
			moves++;
		}
		if (moves > NEAR_MOVES * (uint64_t)n)
			break;
		memcpy(s.copy, row_at(&s, i), size);
		memmove(row_at(&s, to + 1), row_at(&s, to), (i - to) * size);
		memcpy(row_at(&s, to), s.copy, size);
	}
	free(s.copy);
	if (moves > NEAR_MOVES * (uint64_t)n)
		sort_runs(rows, n, size, compare, arg);
}

/* ---- numbers ---- */

int sort_compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}
