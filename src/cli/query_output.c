/* query_output.c - rows of a query as an aligned table, JSON or CSV.
 *
 * Rows are printed as they come: those of a table are kept until there are LOOK_ROWS or LOOK_BYTES,
 * by which its columns are as wide as they are. What comes later and is wider is printed whole. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/json_out.h"
#include "base/utf8.h"
#include "cli/query.h"

#define LOOK_ROWS  1000
#define LOOK_BYTES (4u << 20)
#define WIDEST	   60
#define BLOB_BYTES 64

/* Lines of a text are parted by semicolons: a row is a line. */
static char *in_one_line(const char *text)
{
	struct buf lines = {0};
	for (; *text; text++)
		if (*text != '\n')
			buf_byte(&lines, (uint8_t)*text);
		else if (text[1])
			buf_add(&lines, "; ", 2);
	buf_byte(&lines, 0);
	char *ret = text_clean((const char *)lines.data);
	buf_free(&lines);
	return ret;
}

/* A value as text without controls; NULL of null. */
static char *value_text(sqlite3_stmt *stmt, int column)
{
	if (sqlite3_column_type(stmt, column) == SQLITE_NULL)
		return NULL;
	if (sqlite3_column_type(stmt, column) != SQLITE_BLOB) {
		const char *text = (const char *)sqlite3_column_text(stmt, column);
		return in_one_line(text ? text : "");
	}
	const uint8_t *bytes = sqlite3_column_blob(stmt, column);
	int n = sqlite3_column_bytes(stmt, column);
	struct buf hex = {0};
	for (int i = 0; i < n && i < BLOB_BYTES; i++)
		buf_printf(&hex, "%02x", bytes[i]);
	buf_printf(&hex, n > BLOB_BYTES ? "..." : "");
	buf_byte(&hex, 0);
	return (char *)hex.data;
}

static bool is_number(sqlite3_stmt *stmt, int column)
{
	int type = sqlite3_column_type(stmt, column);
	return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* ---- a table ---- */

struct cell {
	char *text;
	bool number;
};

struct table {
	int columns;
	size_t *widths;
	VEC(struct cell) cells; /* rows that wait for widths; the first is the names */
	size_t bytes;		/* of these */
	bool looked;
};

static void print_row(const struct table *t, const struct cell *row)
{
	for (int i = 0; i < t->columns; i++) {
		size_t has = text_columns(row[i].text);
		int pad = has < t->widths[i] ? (int)(t->widths[i] - has) : 0;
		if (row[i].number)
			printf("%*s", pad, "");
		fputs(row[i].text, stdout);
		if (i + 1 < t->columns)
			printf("%*s  ", row[i].number ? 0 : pad, "");
	}
	putchar('\n');
}

static void free_row(const struct table *t, struct cell *row)
{
	for (int i = 0; i < t->columns; i++)
		free(row[i].text);
}

/* From here on widths stay. */
static void print_waiting(struct table *t)
{
	for (size_t at = 0; at < t->cells.len; at += (size_t)t->columns) {
		print_row(t, &t->cells.data[at]);
		free_row(t, &t->cells.data[at]);
	}
	vec_free(&t->cells);
	t->looked = true;
}

static void take_row(struct table *t, struct cell *row)
{
	if (t->looked) {
		print_row(t, row);
		free_row(t, row);
		return;
	}
	for (int i = 0; i < t->columns; i++) {
		size_t has = text_columns(row[i].text);
		has = has < WIDEST ? has : WIDEST;
		t->widths[i] = has > t->widths[i] ? has : t->widths[i];
		t->bytes += strlen(row[i].text);
		*vec_push(&t->cells) = row[i];
	}
	if (t->cells.len / (size_t)t->columns > LOOK_ROWS || t->bytes > LOOK_BYTES)
		print_waiting(t);
}

static void table_row(struct table *t, sqlite3_stmt *stmt)
{
	struct cell *row = xcalloc((size_t)t->columns, sizeof(*row));
	for (int i = 0; i < t->columns; i++) {
		char *text = value_text(stmt, i);
		row[i] = (struct cell){text ? text : xstrdup("NULL"), is_number(stmt, i)};
		if (t->cells.len == (size_t)t->columns) /* names stand as the first row does */
			t->cells.data[i].number = row[i].number;
	}
	take_row(t, row);
	free(row);
}

static void table_end(struct table *t)
{
	print_waiting(t);
	free(t->widths);
}

static void table_begin(struct table *t, sqlite3_stmt *stmt)
{
	t->columns = sqlite3_column_count(stmt);
	t->widths = xcalloc((size_t)t->columns, sizeof(*t->widths));
	struct cell *row = xcalloc((size_t)t->columns, sizeof(*row));
	for (int i = 0; i < t->columns; i++)
		row[i].text = text_clean(sqlite3_column_name(stmt, i));
	take_row(t, row);
	free(row);
}

/* ---- JSON ---- */

struct json_rows {
	bool any;
	char **keys;
	int columns;
};

/* Columns of one name: all but the first have their number behind it. */
static void json_begin(struct json_rows *j, sqlite3_stmt *stmt)
{
	j->columns = sqlite3_column_count(stmt);
	j->keys = xcalloc((size_t)j->columns, sizeof(*j->keys));
	for (int i = 0; i < j->columns; i++) {
		bool taken = false;
		j->keys[i] = text_clean(sqlite3_column_name(stmt, i));
		for (int k = 0; k < i; k++)
			taken = taken || !strcmp(j->keys[k], j->keys[i]);
		if (!taken)
			continue;
		char *numbered = xasprintf("%s:%d", j->keys[i], i + 1);
		free(j->keys[i]);
		j->keys[i] = numbered;
	}
	putchar('[');
}

static json_t *json_of(sqlite3_stmt *stmt, int column)
{
	struct buf text = {0};
	json_t *ret;
	char *plain;
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_NULL:
		return json_null();
	case SQLITE_INTEGER:
		return json_integer(sqlite3_column_int64(stmt, column));
	case SQLITE_FLOAT:
		ret = json_real(sqlite3_column_double(stmt, column));
		return ret ? ret : json_null();
	case SQLITE_BLOB:
		plain = value_text(stmt, column);
		ret = json_string(plain);
		free(plain);
		return ret;
	default:
		plain = (char *)sqlite3_column_text(stmt, column);
		utf8_append(&text, plain ? plain : "", plain ? strlen(plain) : 0);
		ret = json_stringn((const char *)text.data, text.len);
		buf_free(&text);
		return ret;
	}
}

static void json_row(struct json_rows *j, sqlite3_stmt *stmt)
{
	json_t *o = json_object();
	for (int i = 0; i < j->columns; i++)
		json_object_set_new(o, j->keys[i], json_of(stmt, i));
	fputs(j->any ? ",\n  " : "\n  ", stdout);
	json_out_file(o, stdout, JSON_REAL_PRECISION(15));
	json_decref(o);
	j->any = true;
}

static void json_end(struct json_rows *j)
{
	fputs(j->any ? "\n]\n" : "]\n", stdout);
	for (int i = 0; i < j->columns; i++)
		free(j->keys[i]);
	free(j->keys);
}

/* ---- CSV, as export writes it ---- */

static void csv_field(const char *text)
{
	if (!strpbrk(text, ",\"")) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static void csv_row(sqlite3_stmt *stmt)
{
	int columns = sqlite3_column_count(stmt);
	for (int i = 0; i < columns; i++) {
		char *text = value_text(stmt, i);
		csv_field(text ? text : "");
		free(text);
		fputs(i + 1 < columns ? "," : "\r\n", stdout);
	}
}

static void csv_begin(sqlite3_stmt *stmt)
{
	int columns = sqlite3_column_count(stmt);
	for (int i = 0; i < columns; i++) {
		char *text = text_clean(sqlite3_column_name(stmt, i));
		csv_field(text);
		free(text);
		fputs(i + 1 < columns ? "," : "\r\n", stdout);
	}
}

/* ---- all ---- */

struct output {
	enum query_format format;
	struct table table;
	struct json_rows json;
};

static void begin(struct output *o, sqlite3_stmt *stmt)
{
	if (o->format == QUERY_TEXT)
		table_begin(&o->table, stmt);
	else if (o->format == QUERY_JSON)
		json_begin(&o->json, stmt);
	else
		csv_begin(stmt);
}

static void put_row(struct output *o, sqlite3_stmt *stmt)
{
	if (o->format == QUERY_TEXT)
		table_row(&o->table, stmt);
	else if (o->format == QUERY_JSON)
		json_row(&o->json, stmt);
	else
		csv_row(stmt);
}

static void end(struct output *o)
{
	if (o->format == QUERY_TEXT)
		table_end(&o->table);
	else if (o->format == QUERY_JSON)
		json_end(&o->json);
}

/* A failure before the first row leaves the standard output empty. */
int query_print(struct query_db *q, sqlite3_stmt *stmt, enum query_format format, struct err *e)
{
	struct output o = {.format = format};
	int rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return query_failed(q, rc, e);
	begin(&o, stmt);
	for (; rc == SQLITE_ROW && !ferror(stdout); rc = sqlite3_step(stmt))
		put_row(&o, stmt);
	end(&o);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : query_failed(q, rc, e);
}
