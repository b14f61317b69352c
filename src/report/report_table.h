/* report_table.h - rows of a table of numbers that are not normal, as JSON and as text. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "detect/table_judge.h"

struct report_table {
	const struct table_judged *judged;
	const char *path;
	size_t top;	/* rows that text has: the rarest */
	unsigned width; /* of text, in columns */
};

/* A row as `detect --rows` writes it. */
json_t *table_row_json(const struct table_row *row);
json_t *report_table_json(const struct report_table *r);
void report_table_text(FILE *out, const struct report_table *r);
