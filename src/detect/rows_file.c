/* rows_file.c - reads the file line by line, and puts its rows in order. */
#include "detect/rows_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/row_json.h"

#define LINE_MOST ((size_t)1 << 20)

static int line_read(struct rows_file *ret, struct detect_layers *layers, const char *text,
		     size_t len, struct err *e)
{
	json_error_t bad;
	json_t *o = len < LINE_MOST ? json_loadb(text, len, 0, &bad) : NULL;
	struct filed_row row;
	int rc = o ? row_of_json(&row.row, layers, &row.p, o, e)
		   : err_set(e, EINVAL, "it is not JSON");
	json_decref(o);
	if (!rc)
		*vec_push(&ret->rows) = row;
	return rc;
}

static int by_due(const void *a, const void *b, void *window_ns)
{
	const struct filed_row *x = a, *y = b;
	return feature_rows_due_compare(&x->row, &y->row, *(const uint64_t *)window_ns);
}

int rows_file_read(struct rows_file *ret, struct detect_layers *layers, const char *path,
		   uint64_t window_ns, struct err *e)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0, number = 0;
	ret->layers = layers;
	int rc = f ? 0 : err_set(e, errno, "cannot open '%s': %s", path, strerror(errno));
	for (ssize_t len; !rc && (len = getline(&line, &room, f)) > 0;) {
		struct err why = {0};
		number++;
		if (line_read(ret, layers, line, (size_t)len, &why))
			rc = err_set(e, EINVAL, "'%s', line %zu: %s", path, number, why.msg);
	}
	if (!rc && ferror(f))
		rc = err_set(e, EIO, "cannot read '%s'", path);
	free(line);
	if (f)
		fclose(f);
	if (!rc && ret->rows.len)
		qsort_r(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), by_due, &window_ns);
	return rc;
}

void rows_file_free(struct rows_file *f)
{
	vec_free(&f->rows);
}
