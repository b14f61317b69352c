/* table_fuzz.c - hostile tables of numbers.
 *
 * What is accepted has as many cells as rows x columns, and names that are different.
 *
 * links: base analyze detect */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "detect/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void check_table(const struct table *t)
{
	size_t not_finite = 0;
	check(t->columns >= 1 && t->columns <= TABLE_COLUMNS && t->rows);
	for (uint32_t i = 0; i < t->columns; i++) {
		check(t->names[i][0] && strlen(t->names[i]) <= TABLE_NAME_MOST);
		for (uint32_t k = 0; k < i; k++)
			check(strcmp(t->names[i], t->names[k]) != 0);
	}
	for (size_t i = 0; i < t->rows; i++) {
		int finite = 1;
		for (uint32_t c = 0; c < t->columns; c++)
			finite &= !!isfinite(t->cells[i * t->columns + c]);
		not_finite += !finite;
	}
	check(not_finite == t->rows_not_finite);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct table t;
	struct err e = {0};
	if (table_parse(&t, (const char *)data, size, "fuzz", &e)) {
		check(e.msg[0] != 0);
		return 0;
	}
	check_table(&t);
	table_free(&t);
	return 0;
}
