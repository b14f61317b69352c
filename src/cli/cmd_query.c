/* cmd_query.c - eacgm query: SQL over a recording, or over a database that export made. */
#include <string.h>

#include "cli/options.h"
#include "cli/query.h"

#define TIMEOUT_LEAST_NS 1000000ULL

/* What there is to ask: views first, then the tables that they are made of. */
static const char listing[] =
	"SELECT s.name AS name, s.type AS type, (SELECT group_concat(name, ', ') FROM "
	"pragma_table_xinfo(s.name)) AS columns FROM sqlite_schema s WHERE s.type IN "
	"('table', 'view') AND s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
	"ORDER BY s.name LIKE 'raw\\_%' ESCAPE '\\', s.name";

static int print(struct query_db *q, const struct args *a, struct err *e)
{
	sqlite3_stmt *stmt;
	enum query_format format = args_has(a, "json")	? QUERY_JSON
				   : args_has(a, "csv") ? QUERY_CSV
							: QUERY_TEXT;
	int rc = query_prepare(q, a->words.len > 1 ? a->words.data[1] : listing, &stmt, e);
	if (rc)
		return rc;
	rc = query_print(q, stmt, format, e);
	sqlite3_finalize(stmt);
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct query_db q;
	uint64_t timeout_ns = 0;
	if (args_has(a, "json") && args_has(a, "csv"))
		return usage_error(a->command, "'--json' and '--csv' exclude each other");
	if (args_time(a, "timeout", TIMEOUT_LEAST_NS, TIME_TEXT_MOST_NS, &timeout_ns, &e))
		return usage_error(a->command, "%s", e.msg);
	int rc = query_open(&q, a->words.data[0], timeout_ns, &e);
	if (rc)
		return command_failed(a->command, &e);
	rc = print(&q, a, &e);
	query_close(&q);
	return rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{0, "json", NULL, "An array of objects, one for each row.", NULL, 0},
	{0, "csv", NULL, "Comma-separated values, with a line of names.", NULL, 0},
	{0, "timeout", "TIME",
	 "End after this time: seconds, or with a unit of ns, us, ms, s, m or h. Unless told, it "
	 "takes what it takes.",
	 NULL, 0},
	{0},
};

static const char *const description[] = {
	"Runs a query in SQL over a recording, or over a database that 'eacgm export -f sqlite' "
	"made. The tables and views are those of such a database. Or over the store of an agent, "
	"also while it is written. Without SQL it lists tables and views with their columns.",
	"A recording is loaded for each query; for several, export it once. A query may only "
	"read: nothing of the file is changed.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm query run.eacgm", "What can be asked for."},
	{"eacgm query run.eacgm 'SELECT * FROM functions ORDER BY total_ns DESC LIMIT 10'",
	 "Where the time of calls went."},
	{"eacgm query run.db --json 'SELECT name, count(*) AS n FROM gpu_kernels GROUP BY name'",
	 "How often each kernel ran."},
	{0},
};

const struct command cmd_query = {
	.name = "query",
	.synopsis = "FILE ['SQL'] [--json|--csv]",
	.summary = "ask a recording in SQL",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = 2,
	.run = run,
};
