/* sort.h - sorting of rows that are nearly in order already, as those of a recording are:
 * qsort_r(3) takes all of its comparisons and a copy of everything all the same. */
#pragma once

#include <stddef.h>

typedef int row_order(const void *a, const void *b, void *arg);

/* Merges runs that are in order, two by two: n log2(runs) comparisons. Stable. Takes memory for
 * half of the rows at most, none when they are in order. */
void sort_runs(void *rows, size_t n, size_t size, row_order *compare, void *arg);

/* Moves each row back to its place: for rows that are few places from it, as a caller is from what
 * it called. Where it turns out that they are far it is sort_runs. Stable. */
void sort_near(void *rows, size_t n, size_t size, row_order *compare, void *arg);

/* Of uint64_t, for qsort(3). */
int sort_compare_u64(const void *a, const void *b);
