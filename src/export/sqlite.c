/* sqlite.c - a database of SQLite: a table for each kind of row, and views to ask
 * (sqlite_schema.c, docs/export.md).
 *
 * One transaction and no journal: the file is nobody's until it is whole (output.h), so there is
 * nothing to come back to. Makes no index: what is asked once reads all rows anyway. */
#include "export/sqlite.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "events/metric.h"
#include "export/call_view.h"
#include "export/sqlite_schema.h"

#define CACHE_KIB 32768

struct sink {
	sqlite3 *db;
	struct sqlite_file *file; /* NULL: the database is the caller's */
	const struct rec_tables *t;
	demangle_fn *demangle;
	sqlite_tables_t tables;
	sqlite3_stmt *inserts[ROW_KINDS];
	const struct sqlite_table *table_of[ROW_KINDS];
	struct buf text, clean; /* scratch */
	int failed;		/* errno */
};

/* ---- statements ---- */

static void fail(struct sink *s, int rc)
{
	int code = s->file ? sqlite_file_errno(s->file) : 0;
	if (rc != SQLITE_OK && rc != SQLITE_DONE && rc != SQLITE_ROW && !s->failed)
		s->failed = code ? code : sqlite_errno(s->db, rc);
}

static void execute(struct sink *s, const char *sql)
{
	if (!s->failed)
		fail(s, sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

static void execute_text(struct sink *s)
{
	buf_byte(&s->text, 0);
	execute(s, (const char *)s->text.data);
	s->text.len = 0;
}

static sqlite3_stmt *prepare(struct sink *s, const char *sql)
{
	sqlite3_stmt *ret = NULL;
	if (!s->failed)
		fail(s, sqlite3_prepare_v2(s->db, sql, -1, &ret, NULL));
	return ret;
}

/* Puts in the row whose values are bound. */
static void insert(struct sink *s, sqlite3_stmt *stmt)
{
	if (!s->failed)
		fail(s, sqlite3_step(stmt));
	sqlite3_reset(stmt);
}

/* A text as whoever reads it may see it: UTF-8, without controls. It is copied. */
static void bind_text(struct sink *s, sqlite3_stmt *stmt, int at, const char *text, size_t len)
{
	s->clean.len = 0;
	utf8_append_clean(&s->clean, text, len, '?');
	sqlite3_bind_text(stmt, at, (const char *)s->clean.data, (int)s->clean.len,
			  SQLITE_TRANSIENT);
}

/* ---- a row ---- */

static double real_of(uint64_t bits)
{
	double ret;
	memcpy(&ret, &bits, sizeof(ret));
	return ret;
}

static bool ends_list(const struct row_field *f, uint64_t v)
{
	return f->type == FIELD_F64 ? !(fabs(real_of(v)) > 0) : v == 0;
}

static void list_string(struct sink *s, uint32_t string)
{
	size_t len;
	const char *text = strtab_get(&s->t->strings, string, &len);
	s->clean.len = 0;
	utf8_append_clean(&s->clean, text, len, '?');
	json_t *v = json_stringn((const char *)s->clean.data, s->clean.len);
	char *json = json_dumps(v, JSON_ENCODE_ANY);
	buf_printf(&s->text, "%s", json ? json : "null");
	free(json);
	json_decref(v);
}

static void list_value(struct sink *s, const struct row_field *f, uint64_t v)
{
	if (f->means == MEANS_STRING)
		list_string(s, (uint32_t)v);
	else if (f->type == FIELD_F64 && isfinite(real_of(v)))
		buf_printf(&s->text, "%.15g", real_of(v));
	else if (f->type == FIELD_F64)
		buf_printf(&s->text, "null");
	else
		buf_printf(&s->text, "%" PRId64, (int64_t)v);
}

static void bind_list(struct sink *s, sqlite3_stmt *stmt, int at, const struct row_field *f,
		      const void *row)
{
	unsigned n = f->count;
	while (n && ends_list(f, row_value(f, row, n - 1)))
		n--;
	s->text.len = 0;
	buf_byte(&s->text, '[');
	for (unsigned k = 0; k < n; k++) {
		if (k)
			buf_byte(&s->text, ',');
		list_value(s, f, row_value(f, row, k));
	}
	buf_byte(&s->text, ']');
	sqlite3_bind_text(stmt, at, (const char *)s->text.data, (int)s->text.len, SQLITE_TRANSIENT);
	s->text.len = 0;
}

/* Numbers stay numbers; what has no number that says more than its bits is a text. */
static void bind_argument(struct sink *s, sqlite3_stmt *stmt, int at, const struct m_call *c,
			  unsigned k)
{
	const struct m_probe *p = &s->t->probes.data[c->probe];
	uint64_t v = c->args[k];
	char text[SHAPE_TEXT_BYTES];
	if (k >= c->nargs || !call_shows_arg(s->t, c, k)) {
		sqlite3_bind_null(stmt, at);
		return;
	}
	if (p->arg_types[k] == ARG_TYPE_SHAPE)
		call_shape_text(v, text);
	else if (p->arg_types[k] == ARG_TYPE_DIM3)
		snprintf(text, sizeof(text), "%u,%u,%u", dim3_x(v), dim3_y(v), dim3_z(v));
	else if (p->arg_types[k] <= ARG_TYPE_BYTES && v > INT64_MAX &&
		 p->arg_types[k] != ARG_TYPE_I64 && p->arg_types[k] != ARG_TYPE_PTR)
		snprintf(text, sizeof(text), "%" PRIu64, v);
	else {
		sqlite3_bind_int64(stmt, at, (sqlite3_int64)v);
		return;
	}
	sqlite3_bind_text(stmt, at, text, -1, SQLITE_TRANSIENT);
}

/* Of counts, whose probe a damaged file may not have. */
static uint32_t hist_name(const struct sink *s, const struct m_hist *h)
{
	const struct m_code *code;
	if (h->probe >= s->t->probes.len)
		return 0;
	const struct m_probe *p = &s->t->probes.data[h->probe];
	struct m_call named = {.probe = h->probe, .nargs = p->nargs};
	if (p->name_arg >= 0 && p->name_arg < MODEL_MAX_ARGS)
		named.args[p->name_arg] = h->name;
	return call_name(s->t, &named, &code);
}

static void bind_entity(struct sink *s, sqlite3_stmt *stmt, int at, const struct m_metric *m)
{
	struct entity e = metric_entity(m, &s->t->strings);
	s->text.len = 0;
	entity_print(&s->text, &e);
	bind_text(s, stmt, at, (const char *)s->text.data, s->text.len);
	s->text.len = 0;
}

static void bind_call_name(struct sink *s, sqlite3_stmt *stmt, int at, const struct m_call *c,
			   enum sqlite_column_kind kind)
{
	const struct m_code *code;
	uint32_t name = call_name(s->t, c, &code);
	if (kind == COLUMN_NAME)
		sqlite3_bind_int64(stmt, at, name);
	else if (code)
		sqlite3_bind_int64(stmt, at, code - s->t->codes.data);
	else
		sqlite3_bind_null(stmt, at);
}

static void bind_value(struct sink *s, sqlite3_stmt *stmt, int at, const struct sqlite_table *t,
		       const struct sqlite_column *c, const void *row)
{
	switch ((enum sqlite_column_kind)c->kind) {
	case COLUMN_ID: /* bound by whoever counts */
		break;
	case COLUMN_INTEGER:
		sqlite3_bind_int64(stmt, at, (sqlite3_int64)row_value(c->field, row, 0));
		break;
	case COLUMN_REAL:
		sqlite3_bind_double(stmt, at, real_of(row_value(c->field, row, 0)));
		break;
	case COLUMN_LIST:
		bind_list(s, stmt, at, c->field, row);
		break;
	case COLUMN_VALUE:
		bind_argument(s, stmt, at, row, c->k);
		break;
	case COLUMN_NAME:
		if (t->number == ROW_HIST)
			sqlite3_bind_int64(stmt, at, hist_name(s, row));
		else
			bind_call_name(s, stmt, at, row, COLUMN_NAME);
		break;
	case COLUMN_CODE:
		bind_call_name(s, stmt, at, row, COLUMN_CODE);
		break;
	case COLUMN_ENTITY:
		bind_entity(s, stmt, at, row);
		break;
	}
}

/* All rows of a table, or a block of bulk rows. */
static void put_rows(struct sink *s, unsigned kind, const void *rows, size_t n)
{
	const struct sqlite_table *t = s->table_of[kind];
	sqlite3_stmt *stmt = s->inserts[kind];
	const uint8_t *row = rows;
	for (size_t i = 0; i < n && !s->failed; i++, row += t->info->row_bytes) {
		if (t->info->keeping == ROWS_INDEXED)
			sqlite3_bind_int64(stmt, 1, (sqlite3_int64)i);
		for (size_t k = 0; k < t->columns.len; k++)
			bind_value(s, stmt, (int)k + 1, t, &t->columns.data[k], row);
		insert(s, stmt);
	}
}

static void sqlite_rows(struct sink *s, enum row_kind kind, const void *rows, size_t n)
{
	put_rows(s, kind, rows, n);
}

/* ---- what is few ---- */

static void put_strings(struct sink *s)
{
	sqlite3_stmt *stmt = prepare(s, "INSERT INTO strings VALUES(?,?)");
	for (size_t i = 0; i < strtab_len(&s->t->strings) && !s->failed; i++) {
		size_t len;
		const char *text = strtab_get(&s->t->strings, (uint32_t)i, &len);
		sqlite3_bind_int64(stmt, 1, (sqlite3_int64)i);
		bind_text(s, stmt, 2, text, len);
		insert(s, stmt);
	}
	sqlite3_finalize(stmt);
}

/* The arguments of each probe, one a row, by which those of calls are shown. */
static void put_arguments(struct sink *s)
{
	sqlite3_stmt *stmt = prepare(s, "INSERT INTO raw_argument VALUES(?,?,?,?,?)");
	for (size_t i = 0; i < s->t->probes.len; i++) {
		const struct m_probe *p = &s->t->probes.data[i];
		for (unsigned k = 0; k < p->nargs && k < MODEL_MAX_ARGS && !s->failed; k++) {
			sqlite3_bind_int64(stmt, 1, (sqlite3_int64)i);
			sqlite3_bind_int64(stmt, 2, k);
			sqlite3_bind_int64(stmt, 3, p->arg_names[k]);
			sqlite3_bind_int64(stmt, 4, p->arg_types[k]);
			sqlite3_bind_int64(stmt, 5, p->arg_enums[k]);
			insert(s, stmt);
		}
	}
	sqlite3_finalize(stmt);
}

static void put_about(struct sink *s)
{
	sqlite3_stmt *stmt = prepare(s, "INSERT INTO eacgm VALUES(?,?,?)");
	if (s->failed)
		return;
	sqlite3_bind_text(stmt, 1, EACGM_VERSION, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, SQLITE_SCHEMA_VERSION);
	if (s->t->damaged_at)
		bind_text(s, stmt, 3, s->t->damage, strlen(s->t->damage));
	insert(s, stmt);
	sqlite3_finalize(stmt);
}

static void make_schema(struct sink *s)
{
	buf_printf(&s->text,
		   "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;PRAGMA locking_mode=EXCLUSIVE;"
		   "PRAGMA application_id=%d;PRAGMA user_version=%d;BEGIN;",
		   SQLITE_APPLICATION_ID, SQLITE_SCHEMA_VERSION);
	sqlite_create_tables(&s->text, &s->tables);
	sqlite_create_views(&s->text, &s->tables);
	execute_text(s);
	for (size_t i = 0; i < s->tables.len; i++) {
		const struct sqlite_table *t = &s->tables.data[i];
		sqlite_insert(&s->text, t);
		buf_byte(&s->text, 0);
		s->inserts[t->number] = prepare(s, (const char *)s->text.data);
		s->table_of[t->number] = t;
		s->text.len = 0;
	}
}

static void sqlite_tables(struct sink *s)
{
	put_about(s);
	put_strings(s);
	put_arguments(s);
	for (size_t i = 0; i < s->tables.len; i++) {
		const struct sqlite_table *t = &s->tables.data[i];
		if (t->is_bulk)
			continue;
		const struct row_vec *rows = rec_rows(s->t, t->info);
		put_rows(s, t->number, rows->data, rows->len);
	}
}

static void create_steps(struct sink *s, const struct step_slices *slices)
{
	buf_printf(&s->text, "CREATE TABLE steps(pid INTEGER, loop INTEGER, kind TEXT, step "
			     "INTEGER, start_ns INTEGER, end_ns INTEGER, duration_ns INTEGER, "
			     "operations INTEGER, launches INTEGER");
	for (size_t i = 0; i < slices->phases; i++)
		buf_printf(&s->text, ", %s_ns INTEGER", slices->phase_names[i]);
	buf_printf(&s->text, ");");
	execute_text(s);
	buf_printf(&s->text, "INSERT INTO steps VALUES(?,?,?,?,?,?,?,?,?");
	for (size_t i = 0; i < slices->phases; i++)
		buf_printf(&s->text, ",?");
	buf_printf(&s->text, ")%c", 0);
}

static void sqlite_steps(struct sink *s, const struct step_slices *slices)
{
	create_steps(s, slices);
	sqlite3_stmt *stmt = prepare(s, (const char *)s->text.data);
	s->text.len = 0;
	for (size_t i = 0; i < slices->rows.len && !s->failed; i++) {
		const struct step_slice *x = &slices->rows.data[i];
		sqlite3_bind_int64(stmt, 1, x->pid);
		sqlite3_bind_int64(stmt, 2, x->loop);
		sqlite3_bind_text(stmt, 3, x->kind, -1, SQLITE_STATIC);
		sqlite3_bind_int64(stmt, 4, x->index);
		sqlite3_bind_int64(stmt, 5, (sqlite3_int64)x->start_ns);
		sqlite3_bind_int64(stmt, 6, (sqlite3_int64)x->end_ns);
		sqlite3_bind_int64(stmt, 7, (sqlite3_int64)(x->end_ns - x->start_ns));
		sqlite3_bind_int64(stmt, 8, x->ops);
		sqlite3_bind_int64(stmt, 9, (sqlite3_int64)x->launches);
		for (size_t k = 0; k < slices->phases; k++)
			sqlite3_bind_int64(stmt, 10 + (int)k, (sqlite3_int64)x->phase_ns[k]);
		insert(s, stmt);
	}
	sqlite3_finalize(stmt);
}

/* Readable names of the kernels that ran. */
static void put_demangled(struct sink *s)
{
	sqlite3_stmt *names = prepare(s, "SELECT DISTINCT name FROM raw_gpu_span");
	sqlite3_stmt *stmt = prepare(s, "INSERT INTO demangled VALUES(?,?)");
	int rc = SQLITE_OK;
	while (!s->failed && (rc = sqlite3_step(names)) == SQLITE_ROW) {
		sqlite3_int64 number = sqlite3_column_int64(names, 0);
		const char *text = strtab_get(&s->t->strings, (uint32_t)number, NULL);
		char *readable = !strncmp(text, "_Z", 2) ? s->demangle(text, 1) : NULL;
		if (!readable)
			continue;
		sqlite3_bind_int64(stmt, 1, number);
		bind_text(s, stmt, 2, readable, strlen(readable));
		insert(s, stmt);
		free(readable);
	}
	fail(s, rc);
	sqlite3_finalize(names);
	sqlite3_finalize(stmt);
}

static void sqlite_finish(struct sink *s)
{
	if (s->demangle)
		put_demangled(s);
	execute(s, "COMMIT");
}

/* ---- the sink ---- */

static struct sink *new_sink(sqlite3 *db, struct sqlite_file *file, const struct rec_tables *t)
{
	struct sink *s = xcalloc(1, sizeof(*s));
	s->db = db;
	s->file = file;
	s->t = t;
	sqlite_tables_make(&s->tables);
	return s;
}

struct sink *sqlite_sink(sqlite3 *db, const struct rec_tables *t)
{
	struct sink *s = new_sink(db, NULL, t);
	make_schema(s);
	return s;
}

static struct sink *sqlite_open(FILE *out, const struct rec_tables *t)
{
	struct sqlite_file *file = sqlite_file_open(fileno(out));
	int code = errno;
	struct sink *s = new_sink(file ? sqlite_file_db(file) : NULL, file, t);
	if (!file)
		s->failed = code ? code : EIO;
	buf_printf(&s->text, "PRAGMA cache_size=-%d;", CACHE_KIB);
	execute_text(s);
	if (file)
		make_schema(s);
	return s;
}

static void sqlite_demangler(struct sink *s, demangle_fn *demangle)
{
	s->demangle = demangle;
}

static int sqlite_failure(const struct sink *s)
{
	return s->failed;
}

static void sqlite_close(struct sink *s)
{
	for (size_t i = 0; i < ROW_KINDS; i++)
		sqlite3_finalize(s->inserts[i]);
	if (s->file)
		sqlite_file_close(s->file);
	sqlite_tables_free(&s->tables);
	buf_free(&s->text);
	buf_free(&s->clean);
	free(s);
}

const struct sink_format sink_sqlite = {
	.name = "sqlite",
	.extension = "db",
	.needs_file = true,
	.open = sqlite_open,
	.demangler = sqlite_demangler,
	.tables = sqlite_tables,
	.rows = sqlite_rows,
	.steps = sqlite_steps,
	.failure = sqlite_failure,
	.finish = sqlite_finish,
	.close = sqlite_close,
};
