/* table.c - reads a table of numbers, with libcsv; knows no more of the file than one line.
 *
 * Lines are handed to libcsv one by one, so that an error can say where it is also where cells
 * hold line breaks. */
#include "detect/table.h"

#include <csv.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

#define CELL_MOST   ((size_t)1 << 20) /* bytes: beyond it a quote is missing */
#define CELLS_FIRST 1024

struct reading {
	struct csv_parser parser;
	struct table t;
	const char *name;
	size_t cells, cells_cap;
	bool begun;
	uint64_t line;	 /* from 1 */
	uint32_t column; /* of the cell to come, from 0 */
	bool header_done;
	bool row_not_finite;
	int rc; /* of the first error: what comes after it is not looked at */
	struct err *e;
};

static void free_names(struct table *t)
{
	for (uint32_t i = 0; i < t->columns; i++)
		free(t->names[i]);
}

void table_free(struct table *t)
{
	free_names(t);
	free(t->cells);
	*t = (struct table){0};
}

/* ---- the header ---- */

static bool is_number(const char *s, double *ret)
{
	char *end;
	*ret = strtod(s, &end);
	return end != s && !*end;
}

static int check_name(const struct reading *r, const char *s, size_t len)
{
	double number;
	if (!len)
		return err_set(r->e, EINVAL, "'%s' has no name for column %u", r->name,
			       r->column + 1);
	if (len > TABLE_NAME_MOST || strlen(s) != len)
		return err_set(r->e, EINVAL, "'%s' has no usable name for column %u", r->name,
			       r->column + 1);
	if (is_number(s, &number))
		return err_set(r->e, EINVAL,
			       "'%s' begins with a row of numbers: the first row must hold the "
			       "columns' names",
			       r->name);
	for (uint32_t i = 0; i < r->t.columns; i++)
		if (!strcmp(r->t.names[i], s))
			return err_set(r->e, EINVAL, "'%s' has two columns '%.64s'", r->name, s);
	return 0;
}

static void header_cell(struct reading *r, const char *s, size_t len)
{
	if (r->column >= TABLE_COLUMNS) {
		r->rc = err_set(r->e, EINVAL, "'%s' has more than %d columns", r->name,
				TABLE_COLUMNS);
		return;
	}
	r->rc = check_name(r, s, len);
	if (!r->rc)
		r->t.names[r->t.columns++] = xstrdup(s);
	r->column++;
}

/* ---- rows ---- */

/* An eighth more at a time; what is moved is pages, not bytes. */
static void add_cell(struct reading *r, double x)
{
	if (r->cells == r->cells_cap) {
		r->cells_cap += r->cells_cap < CELLS_FIRST * 8 ? CELLS_FIRST : r->cells_cap / 8;
		r->t.cells = xrealloc(r->t.cells, r->cells_cap, sizeof(double));
	}
	r->t.cells[r->cells++] = x;
}

static void number_cell(struct reading *r, const char *s, size_t len)
{
	double x = NAN;
	if (r->column >= r->t.columns) {
		r->rc = err_set(r->e, EINVAL, "'%s', line %llu: more than %u cells", r->name,
				(unsigned long long)r->line, r->t.columns);
		return;
	}
	if (len && (strlen(s) != len || !is_number(s, &x))) {
		r->rc = err_set(r->e, EINVAL, "'%s', line %llu, column %u (%.64s): not a number",
				r->name, (unsigned long long)r->line, r->column + 1,
				r->t.names[r->column]);
		return;
	}
	r->row_not_finite |= !isfinite(x);
	add_cell(r, x);
	r->column++;
}

static void on_cell(void *cell, size_t len, void *ctx)
{
	struct reading *r = ctx;
	if (r->rc)
		return;
	if (r->header_done)
		number_cell(r, cell ? cell : "", len);
	else
		header_cell(r, cell ? cell : "", len);
}

static void on_row(int terminator, void *ctx)
{
	struct reading *r = ctx;
	(void)terminator;
	if (r->rc)
		return;
	if (!r->header_done) {
		r->header_done = true;
	} else if (r->column < r->t.columns) {
		r->rc = err_set(r->e, EINVAL, "'%s', line %llu: %u cells instead of %u", r->name,
				(unsigned long long)r->line, r->column, r->t.columns);
	} else {
		r->t.rows++;
		r->t.rows_not_finite += r->row_not_finite;
	}
	r->column = 0;
	r->row_not_finite = false;
}

/* ---- lines ---- */

static int parser_error(struct reading *r)
{
	return err_set(r->e, EINVAL, "'%s', line %llu: %s", r->name, (unsigned long long)r->line,
		       csv_error(&r->parser) == CSV_EPARSE ? "a quote is missing, or one too many"
							   : csv_strerror(csv_error(&r->parser)));
}

static void feed_line(struct reading *r, const char *s, size_t len)
{
	if (csv_parse(&r->parser, s, len, on_cell, on_row, r) != len && !r->rc)
		r->rc = parser_error(r);
	if (!r->rc && csv_get_buffer_size(&r->parser) > CELL_MOST)
		r->rc = err_set(r->e, EINVAL, "'%s', line %llu: a cell of more than %zu bytes",
				r->name, (unsigned long long)r->line, CELL_MOST);
}

/* Lines, and perhaps the beginning of one. */
static void feed(struct reading *r, const char *s, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf"; /* that the text is UTF-8 */
	if (!r->begun && len >= 3 && !memcmp(s, mark, 3)) {
		s += 3;
		len -= 3;
	}
	r->begun = true;
	while (len && !r->rc) {
		const char *end = memchr(s, '\n', len);
		size_t n = end ? (size_t)(end - s) + 1 : len;
		feed_line(r, s, n);
		r->line += end != NULL;
		s += n;
		len -= n;
	}
}

static int begin(struct reading *r)
{
	r->line = 1;
	if (csv_init(&r->parser, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL))
		return err_set(r->e, EINVAL, "libcsv cannot be used");
	return 0;
}

static int finish(struct reading *r, struct table *ret)
{
	if (!r->rc && csv_fini(&r->parser, on_cell, on_row, r) && !r->rc)
		r->rc = parser_error(r);
	csv_free(&r->parser);
	if (!r->rc && !r->header_done)
		r->rc = err_set(r->e, EINVAL, "'%s' is empty", r->name);
	if (!r->rc && !r->t.rows)
		r->rc = err_set(r->e, EINVAL, "'%s' has no row of numbers", r->name);
	if (r->rc) {
		table_free(&r->t);
		return r->rc;
	}
	r->t.cells = xrealloc(r->t.cells, r->cells, sizeof(double));
	*ret = r->t;
	return 0;
}

static int read_error(const char *path, struct err *e)
{
	int code = errno ? errno : EIO;
	return err_set(e, code, "cannot read '%s': %s", path, strerror(code));
}

int table_read(struct table *ret, const char *path, struct err *e)
{
	static const size_t block = 1 << 16;
	struct reading r = {.name = path, .e = e};
	FILE *f = fopen(path, "re");
	if (!f)
		return read_error(path, e);
	int rc = begin(&r);
	if (rc) {
		fclose(f);
		return rc;
	}
	char *bytes = xcalloc(1, block);
	for (size_t n; !r.rc && (n = fread(bytes, 1, block, f)) > 0;)
		feed(&r, bytes, n);
	if (!r.rc && ferror(f))
		r.rc = read_error(path, e);
	free(bytes);
	fclose(f);
	return finish(&r, ret);
}

int table_parse(struct table *ret, const char *text, size_t len, const char *name, struct err *e)
{
	struct reading r = {.name = name, .e = e};
	int rc = begin(&r);
	if (rc)
		return rc;
	feed(&r, text, len);
	return finish(&r, ret);
}

int table_columns(const struct table *t, char *const *names, uint32_t n, uint32_t *ret_columns,
		  const char *name, struct err *e)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t c = 0;
		while (c < t->columns && strcmp(t->names[c], names[i]) != 0)
			c++;
		if (c == t->columns)
			return err_set(e, EINVAL, "'%s' has no column '%.64s'", name, names[i]);
		ret_columns[i] = c;
	}
	return 0;
}
