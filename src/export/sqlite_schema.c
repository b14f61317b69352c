/* sqlite_schema.c - tables and views of a database of rows, from the list of kinds.
 *
 * Strings are numbers in the tables, and texts in the views: a million calls have few names, and a
 * look-up by a row's number costs less than to read the name a million times. Makes text alone:
 * sqlite.c runs it. */
#include "export/sqlite_schema.h"

#include <stdio.h>
#include <string.h>

#include "events/metric.h"
#include "events/tables.h"
#include "export/call_view.h"
#include "wire/event.h"

/* ---- tables ---- */

static void add_column(struct sqlite_table *t, const struct row_field *f, unsigned k,
		       enum sqlite_column_kind kind)
{
	*vec_push(&t->columns) =
		(struct sqlite_column){.field = f, .k = (uint8_t)k, .kind = (uint8_t)kind};
}

static void add_field(struct sqlite_table *t, const struct row_field *f)
{
	if (f->means == MEANS_VALUE && f->count > 1)
		for (unsigned k = 0; k < f->count; k++)
			add_column(t, f, k, COLUMN_VALUE);
	else if (f->means == MEANS_VALUE)
		add_column(t, f, 0, COLUMN_NAME);
	else if (f->count > 1)
		add_column(t, f, 0, COLUMN_LIST);
	else
		add_column(t, f, 0, f->type == FIELD_F64 ? COLUMN_REAL : COLUMN_INTEGER);
}

static void add_table(sqlite_tables_t *tables, unsigned number, const char *view, bool is_bulk)
{
	struct sqlite_table *t = vec_push(tables);
	t->number = number;
	t->info = row_kind_info(number);
	t->view = view;
	t->is_bulk = is_bulk;
	if (t->info->keeping == ROWS_INDEXED)
		add_column(t, NULL, 0, COLUMN_ID);
	for (uint32_t i = 0; i < t->info->nfields; i++)
		add_field(t, &t->info->fields[i]);
	if (number == ROW_METRIC)
		add_column(t, NULL, 0, COLUMN_ENTITY);
	if (number != ROW_CALL)
		return;
	add_column(t, NULL, 0, COLUMN_NAME);
	add_column(t, NULL, 0, COLUMN_CODE);
}

/* What views are called where it is not what the program calls such rows. */
static const char *view_name(unsigned number, const char *members)
{
	switch (number) {
	case ROW_META: /* the view "recording" */
	case ROW_CALL:
		return NULL;
	case ROW_HIST:
		return "histograms";
	case ROW_DISK_IO:
		return "disk_io";
	default:
		return members;
	}
}

void sqlite_tables_make(sqlite_tables_t *ret)
{
#define X(number, NAME, stem, members) add_table(ret, number, view_name(number, #members), false);
	ROW_TABLES(X)
#undef X
#define X(number, NAME, stem, members) add_table(ret, number, view_name(number, #members), true);
	ROW_BULKS(X)
#undef X
}

void sqlite_tables_free(sqlite_tables_t *tables)
{
	for (size_t i = 0; i < tables->len; i++)
		vec_free(&tables->data[i].columns);
	vec_free(tables);
}

static void column_sql(struct buf *sql, const struct sqlite_column *c)
{
	const char *name = c->field ? c->field->name : NULL;
	switch ((enum sqlite_column_kind)c->kind) {
	case COLUMN_ID:
		buf_printf(sql, "id INTEGER PRIMARY KEY");
		break;
	case COLUMN_INTEGER:
		buf_printf(sql, "\"%s\" INTEGER", name);
		break;
	case COLUMN_REAL:
		buf_printf(sql, "\"%s\" REAL", name);
		break;
	case COLUMN_LIST:
		buf_printf(sql, "\"%s\" TEXT", name);
		break;
	case COLUMN_VALUE: /* of no type, so that digits of a text stay a text */
		buf_printf(sql, "\"%s_%u\"", name, c->k);
		break;
	case COLUMN_NAME:
		buf_printf(sql, "\"%s\" INTEGER", name ? name : "name");
		break;
	case COLUMN_CODE:
		buf_printf(sql, "code INTEGER");
		break;
	case COLUMN_ENTITY:
		buf_printf(sql, "entity TEXT");
		break;
	}
}

void sqlite_create_tables(struct buf *sql, const sqlite_tables_t *tables)
{
	buf_printf(sql,
		   "CREATE TABLE eacgm(version TEXT, schema_version INTEGER, damage TEXT);\n"
		   "CREATE TABLE strings(id INTEGER PRIMARY KEY, text TEXT);\n"
		   "CREATE TABLE demangled(id INTEGER PRIMARY KEY, text TEXT);\n"
		   "CREATE TABLE raw_argument(probe INTEGER, number INTEGER, name INTEGER,"
		   " type INTEGER, enum INTEGER, PRIMARY KEY(probe, number)) WITHOUT ROWID;\n");
	for (size_t i = 0; i < tables->len; i++) {
		const struct sqlite_table *t = &tables->data[i];
		buf_printf(sql, "CREATE TABLE raw_%s(", t->info->id);
		for (size_t k = 0; k < t->columns.len; k++) {
			buf_printf(sql, k ? ", " : "");
			column_sql(sql, &t->columns.data[k]);
		}
		buf_printf(sql, ");\n");
	}
	buf_printf(sql, "CREATE INDEX raw_enum_value ON raw_enum(type, value);\n");
}

void sqlite_insert(struct buf *sql, const struct sqlite_table *t)
{
	buf_printf(sql, "INSERT INTO raw_%s VALUES(", t->info->id);
	for (size_t k = 0; k < t->columns.len; k++)
		buf_printf(sql, k ? ",?" : "?");
	buf_printf(sql, ")");
}

/* ---- views ---- */

/* Numbers that have names: a word for each, or an expression in the place of the column. */
static const char *const wait_reasons[] = WAIT_REASON_NAMES;
static const char *const stall_kinds[] = STALL_KIND_NAMES;
static const char *const sample_kinds[] = {"cpu", "offcpu"};
static const char *const gpu_works[] = {"kernel", "copy", "set", "sync", "graph"};
static const char *const frame_kinds[] = {"native", "python", "kernel", "cut", "own"};

#define WORDS(names) names, sizeof(names) / sizeof(*(names)), NULL
#define AS(sql)	     NULL, 0, sql
#define DIM3(column)                                                                               \
	"CASE WHEN r." column " THEN printf('%d,%d,%d', r." column " & 0x7fffffff, r." column      \
	" >> 31 & 0xffff, r." column " >> 47 & 0xffff) END"
static const struct shown {
	unsigned kind;
	const char *field;
	const char *const *words;
	size_t nwords;
	const char *sql;
} shown[] = {
	{ROW_WAIT, "reason", WORDS(wait_reasons)},
	{ROW_WAIT_TOTAL, "reason", WORDS(wait_reasons)},
	{ROW_STALL, "kind", WORDS(stall_kinds)},
	{ROW_STALL_TOTAL, "kind", WORDS(stall_kinds)},
	{ROW_SAMPLE, "kind", WORDS(sample_kinds)},
	{ROW_FRAME, "kind", WORDS(frame_kinds)},
	{ROW_GPU_SPAN, "work", WORDS(gpu_works)},
	{ROW_GPU_SPAN, "name",
	 AS("coalesce((SELECT text FROM demangled WHERE id = r.name), (SELECT text FROM strings "
	    "WHERE id = r.name))")},
	{ROW_GPU_SPAN, "grid", AS(DIM3("grid"))},
	{ROW_GPU_SPAN, "block", AS(DIM3("block"))},
	{ROW_PROCESS, "exit_code", AS("CASE WHEN r.end_ns THEN r.exit_code END")},
	{ROW_PROCESS, "rank", AS("nullif(r.rank, -1)")},
	{ROW_PROCESS, "cpu_limit", AS("nullif(r.cpu_limit, 0)")},
	{ROW_GPU, "parent", AS("nullif(r.parent, -1)")},
	{ROW_COMM, "rank", AS("nullif(r.rank, -1)")},
	{ROW_COMM, "size", AS("nullif(r.size, 0)")},
	{ROW_COMM, "device", AS("nullif(r.device, -1)")},
	{ROW_WAIT, "syscall", AS("nullif(r.syscall, -1)")},
};

static const struct shown *shown_of(unsigned kind, const char *field)
{
	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
		if (shown[i].kind == kind && !strcmp(shown[i].field, field))
			return &shown[i];
	return NULL;
}

/* The text of a string's number; the number is an expression. */
static void text_sql(struct buf *sql, const char *row, const char *column)
{
	buf_printf(sql, "(SELECT text FROM strings WHERE id = %s.\"%s\")", row, column);
}

static void words_sql(struct buf *sql, const char *column, const char *const *words, size_t n)
{
	buf_printf(sql, "CASE r.\"%s\"", column);
	for (size_t i = 0; i < n; i++)
		if (words[i])
			buf_printf(sql, " WHEN %zu THEN '%s'", i, words[i]);
	buf_printf(sql, " ELSE r.\"%s\" END", column);
}

static void reason_sql(struct buf *sql)
{
	buf_printf(sql, "CASE WHEN r.kind = %d THEN ", SAMPLE_OFFCPU);
	words_sql(sql, "reason", wait_reasons, sizeof(wait_reasons) / sizeof(*wait_reasons));
	buf_printf(sql, " END");
}

static bool has_field(const struct row_kind_info *k, const char *name)
{
	for (uint32_t i = 0; i < k->nfields; i++)
		if (!strcmp(k->fields[i].name, name))
			return true;
	return false;
}

static void unit_sql(struct buf *sql, const char *row)
{
	buf_printf(sql, "CASE %s.unit", row);
	for (unsigned i = 0; i < METRIC_UNITS; i++)
		if (metric_unit_text((uint8_t)i))
			buf_printf(sql, " WHEN %u THEN '%s'", i, metric_unit_text((uint8_t)i));
	buf_printf(sql, " END");
}

/* What a number of another row is shown as: that row's columns. false: it is no such number. */
static bool joined_sql(struct buf *sql, const struct row_kind_info *k, uint8_t means)
{
	if (means == MEANS_THREAD) {
		buf_printf(sql, "t.pid AS pid, t.tid AS tid, ");
		text_sql(sql, "t", "comm");
		buf_printf(sql, " AS thread");
	} else if (means == MEANS_PROBE) {
		text_sql(sql, "p", "layer");
		buf_printf(sql, " AS layer, ");
		text_sql(sql, "p", "name");
		buf_printf(sql, " AS %s", has_field(k, "name") ? "function" : "name");
	} else if (means == MEANS_METRIC) {
		buf_printf(sql, "m.entity AS entity, nullif(m.pid, 0) AS pid, ");
		text_sql(sql, "m", "name");
		buf_printf(sql, " AS name, ");
		unit_sql(sql, "m");
		buf_printf(sql, " AS unit");
	} else if (means == MEANS_FRAME) {
		text_sql(sql, "f", "name");
		buf_printf(sql, " AS function, ");
		text_sql(sql, "f", "file");
		buf_printf(sql, " AS file, nullif(f.line, 0) AS line, ");
		text_sql(sql, "f", "library");
		buf_printf(sql, " AS library");
	} else {
		return false;
	}
	return true;
}

static void field_sql(struct buf *sql, const struct sqlite_table *t, const struct row_field *f)
{
	const struct shown *as = shown_of(t->number, f->name);
	if (joined_sql(sql, t->info, f->means))
		return;
	if (t->number == ROW_SAMPLE && !strcmp(f->name, "reason"))
		reason_sql(sql);
	else if (t->number == ROW_METRIC && !strcmp(f->name, "unit"))
		unit_sql(sql, "r");
	else if (as && as->words)
		words_sql(sql, f->name, as->words, as->nwords);
	else if (as)
		buf_printf(sql, "%s", as->sql);
	else if (f->count > 1 || f->means == MEANS_NUMBER)
		buf_printf(sql, "r.\"%s\"", f->name);
	else if (f->means == MEANS_STRING || f->means == MEANS_ENTITY || f->means == MEANS_VALUE)
		text_sql(sql, "r", f->name);
	else
		buf_printf(sql, "nullif(r.\"%s\", 0)", f->name);
	buf_printf(sql, " AS \"%s\"", f->name);
}

static void join_sql(struct buf *sql, const struct row_field *f)
{
	static const struct {
		uint8_t means;
		const char *sql;
	} joins[] = {{MEANS_THREAD, "raw_thread t ON t.id"},
		     {MEANS_PROBE, "raw_probe p ON p.id"},
		     {MEANS_METRIC, "raw_metric m ON m.id"},
		     {MEANS_FRAME, "raw_frame f ON f.id"}};
	for (size_t i = 0; i < sizeof(joins) / sizeof(*joins); i++)
		if (joins[i].means == f->means)
			buf_printf(sql, " LEFT JOIN %s = r.\"%s\"", joins[i].sql, f->name);
}

static void view_sql(struct buf *sql, const struct sqlite_table *t)
{
	const struct row_kind_info *k = t->info;
	buf_printf(sql, "CREATE VIEW %s AS SELECT ", t->view);
	if (k->keeping == ROWS_INDEXED)
		buf_printf(sql, "r.id AS id, ");
	for (uint32_t i = 0; i < k->nfields; i++) {
		buf_printf(sql, i ? ", " : "");
		field_sql(sql, t, &k->fields[i]);
	}
	if (t->number == ROW_METRIC)
		buf_printf(sql, ", r.entity AS entity");
	if (has_field(k, "start_ns") && has_field(k, "end_ns"))
		buf_printf(sql, ", nullif(r.end_ns, 0) - r.start_ns AS duration_ns");
	buf_printf(sql, " FROM raw_%s r", k->id);
	for (uint32_t i = 0; i < k->nfields; i++)
		join_sql(sql, &k->fields[i]);
	buf_printf(sql, ";\n");
}

static void flags_sql(struct buf *sql)
{
	buf_printf(sql, "rtrim(");
	for (size_t i = 0; i < CALL_FLAGS; i++)
		buf_printf(sql, "%siif(r.flags & %d, '%s;', '')", i ? " || " : "",
			   call_flag_names[i].flag, call_flag_names[i].name);
	buf_printf(sql, ", ';')");
}

/* Each argument of each call as a row; it is what `args` of calls is made of. */
static void arguments_sql(struct buf *sql)
{
	buf_printf(sql, "CREATE VIEW call_arguments AS SELECT c.call AS call, c.number AS number, "
			"(SELECT text FROM strings WHERE id = c.name) AS name, coalesce("
			"CASE WHEN c.enum THEN (SELECT s.text FROM raw_enum e JOIN strings s ON "
			"s.id = e.name WHERE e.type = c.enum AND e.value = c.v) END, CASE c.type");
	buf_printf(sql,
		   " WHEN %d THEN printf('0x%%x', c.v)"
		   " WHEN %d THEN (SELECT text FROM strings WHERE id = c.v)"
		   " WHEN %d THEN (SELECT s.text FROM raw_code k JOIN strings s ON s.id = k.name "
		   "WHERE k.id = c.v) ELSE c.v END) AS value",
		   ARG_TYPE_PTR, ARG_TYPE_STRING, ARG_TYPE_CODE);
	buf_printf(sql, " FROM (SELECT r.rowid AS call, a.number, a.name, a.type, a.enum, "
			"CASE a.number");
	for (unsigned k = 0; k < MODEL_MAX_ARGS; k++)
		buf_printf(sql, " WHEN %u THEN r.args_%u", k, k);
	buf_printf(sql, " END AS v FROM raw_call r CROSS JOIN raw_argument a ON a.probe = r.probe "
			"AND a.number < r.nargs) c WHERE c.v IS NOT NULL;\n");
}

/* Within quotes of JSON: texts here have no controls. It is not json_quote that makes it: who does
 * not trust a schema refuses JSON's functions in views, up to SQLite 3.40. */
#define QUOTED(sql) "replace(replace(" sql ", '\\', '\\\\'), '\"', '\\\"')"

static void calls_sql(struct buf *sql)
{
	buf_printf(sql, "CREATE VIEW calls AS SELECT r.rowid AS id, r.start_ns AS start_ns, "
			"r.dur_ns AS duration_ns, t.pid AS pid, t.tid AS tid, "
			"(SELECT text FROM strings WHERE id = t.comm) AS thread, "
			"(SELECT text FROM strings WHERE id = p.layer) AS layer, "
			"(SELECT text FROM strings WHERE id = r.name) AS name, "
			"(SELECT text FROM strings WHERE id = nullif(p.role, 0)) AS role, "
			"(SELECT text FROM strings WHERE id = k.file) AS file, k.line AS line, "
			"r.depth AS depth, ");
	flags_sql(sql);
	buf_printf(sql, " AS flags, nullif(r.stack, 0) AS stack, (SELECT '{' || "
			"coalesce(group_concat('\"' || " QUOTED(
				"a.name") " || '\":' || CASE typeof(a.value) WHEN 'text' THEN '\"' "
					  "|| " QUOTED("a.value") " || '\"' ELSE coalesce(a.value, "
								  "'null') END), '') || '}' "
								  "FROM call_arguments a WHERE "
								  "a.call = r.rowid) AS args "
								  "FROM raw_call r LEFT JOIN "
								  "raw_thread t ON t.id = r.thread "
								  "LEFT JOIN raw_probe p ON p.id = "
								  "r.probe LEFT JOIN raw_code k ON "
								  "k.id = r.code;\n");
}

/* By numbers first, which is soon done, then by the few texts. */
static void functions_sql(struct buf *sql)
{
	buf_printf(sql,
		   "CREATE VIEW functions AS SELECT s.text AS layer, n.text AS name, sum(g.calls) "
		   "AS calls, sum(g.errors) AS errors, sum(g.total_ns) AS total_ns, "
		   "sum(g.total_ns) * 1.0 / sum(g.calls) AS mean_ns, max(g.max_ns) AS max_ns FROM "
		   "(SELECT probe, name, count(*) AS calls, sum(flags & %d != 0) AS errors, "
		   "sum(dur_ns) AS total_ns, max(dur_ns) AS max_ns FROM raw_call GROUP BY probe, "
		   "name) g LEFT JOIN raw_probe p ON p.id = g.probe LEFT JOIN strings s ON "
		   "s.id = p.layer LEFT JOIN strings n ON n.id = g.name GROUP BY s.text, n.text;\n",
		   CALL_ERROR);
}

void sqlite_create_views(struct buf *sql, const sqlite_tables_t *tables)
{
	for (size_t i = 0; i < tables->len; i++)
		if (tables->data[i].view)
			view_sql(sql, &tables->data[i]);
	arguments_sql(sql);
	calls_sql(sql);
	functions_sql(sql);
	buf_printf(sql,
		   "CREATE VIEW gpu_kernels AS SELECT start_ns, end_ns, duration_ns, pid, device, "
		   "context, stream, name, correlation, grid, block, registers, shared_bytes, "
		   "graph, graph_node FROM gpu_spans WHERE work = 'kernel';\n"
		   "CREATE VIEW collectives AS SELECT * FROM calls WHERE role IN "
		   "('collective', 'p2p');\n"
		   "CREATE VIEW recording AS SELECT (SELECT text FROM strings WHERE id = r.key) "
		   "AS key, (SELECT text FROM strings WHERE id = r.value) AS value FROM raw_meta r "
		   "UNION ALL SELECT 'damage', damage FROM eacgm WHERE damage IS NOT NULL;\n");
}
