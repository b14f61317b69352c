/* cmd_learn.c - eacgm learn: from recordings of normal running, or a table of numbers, to a model.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/files.h"
#include "cli/detect_cli.h"
#include "base/human.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "detect/learn_rows.h"
#include "detect/learn_table.h"
#include "detect/model_file.h"
#include "report/report_json.h"
#include "report/report_model.h"

#define MOST_COMPONENTS 8 /* where BIC chooses */

static const char *const table_only[] = {"init",      "trim",	    "starts",
					 "tolerance", "iterations", "covariance-floor"};
static const char *const recordings_only[] = {"window", "warm-up", "without", "events"};

/* In the order of enum learn_without's bits. */
static const char *const ingredients[] = {"keys",    "sizes", "gaps", "regimes", "cleaning",
					  "mixture", "cusum", "tail", "pace"};
#define INGREDIENTS "keys|sizes|gaps|regimes|cleaning|mixture|cusum|tail|pace"

static bool ends_in(const char *path, const char *end)
{
	size_t len = strlen(path), n = strlen(end);
	return len >= n && !strcmp(path + len - n, end);
}

bool path_is_table(const char *path)
{
	return ends_in(path, ".csv");
}

bool path_is_rows(const char *path)
{
	return ends_in(path, ".jsonl");
}

static enum gmm_covariance covariance_of(const struct args *a)
{
	static const char *const names[GMM_COVARIANCES] = GMM_COVARIANCE_NAMES;
	const char *name = args_get(a, "covariance");
	for (int i = 0; name && i < GMM_COVARIANCES; i++)
		if (!strcmp(name, names[i]))
			return (enum gmm_covariance)i;
	return GMM_FULL;
}

/* ---- a table ---- */

static int table_options(const struct args *a, struct gmm_options *ret, struct err *e)
{
	uint64_t components = 0, starts = 4, iterations = 0;
	*ret = (struct gmm_options){.covariance = covariance_of(a), .covariance_floor = -1};
	int rc = args_u64(a, "components", 1, GMM_MAX_K, &components, e);
	if (!rc)
		rc = args_u64(a, "seed", 0, UINT64_MAX, &ret->seed, e);
	if (!rc)
		rc = args_u64(a, "starts", 1, 1000, &starts, e);
	if (!rc)
		rc = args_u64(a, "iterations", 1, 1000000, &iterations, e);
	if (!rc)
		rc = args_real(a, "trim", 0, 0.5, &ret->trim_ratio, e);
	if (!rc)
		rc = args_real(a, "tolerance", 1e-300, 1e300, &ret->tolerance, e);
	if (!rc)
		rc = args_real(a, "covariance-floor", 0, 1e300, &ret->covariance_floor, e);
	ret->components = (uint32_t)components;
	ret->starts = (uint32_t)starts;
	ret->iterations = (uint32_t)iterations;
	return rc;
}

/* The means to begin with: a row for each component, columns by name. *ret is malloc'ed. */
static int read_means(const char *path, const struct table *t, struct gmm_options *o, double **ret,
		      struct err *e)
{
	struct table means;
	uint32_t columns[TABLE_COLUMNS];
	int rc = table_read(&means, path, e);
	if (rc)
		return rc;
	rc = table_columns(&means, t->names, t->columns, columns, path, e);
	if (!rc && (means.rows > GMM_MAX_K || (o->components && means.rows != o->components)))
		rc = err_set(e, EINVAL,
			     "'%s' has %zu rows, and there must be one for each of %u "
			     "components",
			     path, means.rows, o->components ? o->components : GMM_MAX_K);
	if (!rc && means.rows_not_finite)
		rc = err_set(e, EINVAL, "'%s' has means that are not finite", path);
	if (!rc) {
		o->components = (uint32_t)means.rows;
		*ret = xcalloc(means.rows * t->columns, sizeof(**ret));
		for (size_t i = 0; i < means.rows; i++)
			for (uint32_t c = 0; c < t->columns; c++)
				(*ret)[i * t->columns + c] =
					means.cells[i * means.columns + columns[c]];
	}
	table_free(&means);
	return rc;
}

static int learn_mixture_of(const struct args *a, struct model *ret, struct table *t,
			    struct gmm_options *o, struct err *e)
{
	double *means = NULL;
	const char *init = args_get(a, "init");
	int rc = init ? read_means(init, t, o, &means, e) : 0;
	o->means = means;
	if (!rc)
		rc = learn_table(ret, t, o, MOST_COMPONENTS, e);
	free(means);
	return rc;
}

static int learn_from_table(const struct args *a, struct gmm_options *o, struct model *ret,
			    struct err *e)
{
	const char *path = a->words.data[0];
	struct table t;
	int rc = table_read(&t, path, e);
	if (rc)
		return rc;
	size_t rows = t.rows;
	uint32_t columns = t.columns;
	rc = learn_mixture_of(a, ret, &t, o, e);
	table_free(&t);
	if (!rc)
		ret->origin = xasprintf("%s: %zu rows of %u columns", path, rows, columns);
	return rc;
}

/* ---- recordings ---- */

/* Where stretches that were not learned from go. */
struct suspect_sink {
	struct learned *learned;
	const char *const *paths;
};

static void left_out(void *ctx, enum detect_layer layer, const char *why)
{
	struct learned *l = ctx;
	free(l->left_out[layer]);
	l->left_out[layer] = xstrdup(why);
}

static void suspect(void *ctx, size_t recording, double from_s, double to_s)
{
	struct suspect_sink *to = ctx;
	*vec_push(&to->learned->suspects) =
		(struct learned_suspect){to->paths[recording], from_s, to_s};
}

static unsigned without_of(const struct args *a)
{
	unsigned ret = 0;
	for (size_t i = 0; i < args_count(a, "without"); i++)
		for (size_t k = 0; k < sizeof(ingredients) / sizeof(ingredients[0]); k++)
			if (!strcmp(args_nth(a, "without", i), ingredients[k]))
				ret |= 1u << k;
	return ret;
}

static int recording_options(const struct args *a, struct learn_options *ret, struct err *e)
{
	uint64_t components = 0;
	double window_s = 1;
	*ret = (struct learn_options){
		.covariance = covariance_of(a), .warmup_s = -1, .without = without_of(a)};
	int rc = args_u64(a, "components", 1, MOST_COMPONENTS, &components, e);
	rc = rc ? rc : args_u64(a, "seed", 0, UINT64_MAX, &ret->seed, e);
	rc = rc ? rc : args_real(a, "window", 0.01, 3600, &window_s, e);
	rc = rc ? rc : args_real(a, "warm-up", 0, 1e6, &ret->warmup_s, e);
	rc = rc ? rc : args_u64(a, "events", 1, UINT64_MAX, &ret->events, e);
	ret->components = (uint32_t)components;
	ret->window_ns = (uint64_t)(window_s * 1e9);
	return rc;
}

static void step(void *ctx, uint64_t done, uint64_t total)
{
	progress_step(ctx, done, total);
}

static int open_recordings(const struct args *a, struct rec_reader **readers, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < a->words.len && !rc; i++) {
		rc = rec_open(&readers[i], a->words.data[i], e);
		if (!rc)
			tell_damage("learn", a->words.data[i], readers[i]);
	}
	return rc;
}

static int learn_from_recordings(const struct args *a, const struct learn_options *options,
				 struct learned *ret, struct err *e)
{
	struct progress progress;
	struct learn_options o = *options;
	struct suspect_sink sink = {ret, a->words.data};
	size_t n = a->words.len;
	struct rec_reader **readers = xcalloc(n, sizeof(struct rec_reader *));
	const struct row_source **sources = xcalloc(n, sizeof(*sources));
	int rc = open_recordings(a, readers, e);
	for (size_t i = 0; i < n && !rc; i++)
		sources[i] = rec_source(readers[i]);
	progress_begin(&progress, "learning");
	o.progress = step;
	o.progress_ctx = &progress;
	o.left_out = left_out;
	o.left_out_ctx = ret;
	o.suspect = suspect;
	o.suspect_ctx = &sink;
	if (!rc)
		rc = learn_model(&ret->model, sources, n, &o, e);
	progress_end(&progress);
	for (size_t i = 0; i < n && readers[i]; i++)
		rec_close(readers[i]);
	free(readers);
	free(sources);
	return rc;
}

/* ---- rows ---- */

static int learn_from_rows(const struct args *a, struct learn_options *o, struct learned *ret,
			   struct err *e)
{
	size_t n = a->words.len;
	struct rows_file *files = xcalloc(n, sizeof(*files));
	struct detect_layers layers = {0};
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = rows_file_read(&files[i], &layers, a->words.data[i], o->window_ns, e);
	o->left_out = left_out;
	o->left_out_ctx = ret;
	if (!rc)
		rc = learn_rows(&ret->model, files, n, o, e);
	for (size_t i = 0; i < n; i++)
		rows_file_free(&files[i]);
	free(files);
	return rc;
}

/* ---- the command ---- */

/* Ctrl-C before this ends the program, and nothing has been written; during it, it waits. */
static int write_model(const struct model *m, const char *path, struct err *e)
{
	sigset_t set, old;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &set, &old);
	struct output_owner owner = output_owner_from_sudo();
	int rc = model_write(m, path, &owner, e);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static int print_result(const struct args *a, const struct learned *l, struct err *e)
{
	const char *output = args_get(a, "output");
	if (!args_has(a, "json")) {
		text_printf(stdout, "%s: learned from %s\n", output, l->model.origin);
		learned_text(stdout, terminal_width(stdout), l);
		return 0;
	}
	json_t *o = learned_json(l);
	json_object_set_new(o, "model", report_text_json(output));
	return terminal_json(o, JSON_REAL_PRECISION(17), e);
}

static int check_usage(const struct args *a, bool table)
{
	size_t tables = 0, rows = 0;
	for (size_t i = 0; i < a->words.len; i++) {
		tables += path_is_table(a->words.data[i]);
		rows += path_is_rows(a->words.data[i]);
	}
	if (tables && a->words.len > 1)
		return usage_error(a->command, "a table (.csv) is learned alone");
	if (rows && rows < a->words.len)
		return usage_error(a->command, "rows (.jsonl) are learned by themselves");
	const char *wrong =
		table ? args_first(a, recordings_only,
				   sizeof(recordings_only) / sizeof(*recordings_only))
		      : args_first(a, table_only, sizeof(table_only) / sizeof(*table_only));
	if (wrong)
		return usage_error(a->command, "--%s is for %s", wrong,
				   table ? "recordings" : "tables (.csv)");
	if (!args_has(a, "output") && !args_has(a, "json"))
		return usage_error(a->command, "say with -o where to write the model");
	for (size_t i = 0; args_has(a, "output") && i < a->words.len; i++)
		if (files_same(args_get(a, "output"), a->words.data[i]))
			return usage_error(a->command, "'%s' is what is to be learned from",
					   args_get(a, "output"));
	return 0;
}

static int learn_table_file(const struct args *a, struct learned *ret, struct err *e)
{
	struct gmm_options o;
	if (table_options(a, &o, e))
		return usage_error(a->command, "%s", e->msg);
	return learn_from_table(a, &o, &ret->model, e);
}

static int learn_recording_files(const struct args *a, struct learned *ret, struct err *e)
{
	struct learn_options o;
	if (recording_options(a, &o, e))
		return usage_error(a->command, "%s", e->msg);
	return path_is_rows(a->words.data[0]) ? learn_from_rows(a, &o, ret, e)
					      : learn_from_recordings(a, &o, ret, e);
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct learned l = {0};
	bool table = path_is_table(a->words.data[0]);
	int rc = check_usage(a, table);
	if (rc)
		return rc;
	rc = table ? learn_table_file(a, &l, &e) : learn_recording_files(a, &l, &e);
	if (!rc && args_has(a, "output"))
		rc = write_model(&l.model, args_get(a, "output"), &e);
	if (!rc)
		rc = print_result(a, &l, &e);
	learned_free(&l);
	return rc > 0 ? rc : rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{'o', "output", "MODEL", "The model to write. May be left out with --json.", NULL,
	 OPT_FILE},
	{0, "json", NULL,
	 "Print one JSON object: weights, means, covariances, log-likelihood, BIC.", NULL, 0},
	{'k', "components", "K",
	 "How many components a mixture has. Unless told, the best by BIC of 1 to 8.", NULL, 0},
	{0, "covariance", "KIND",
	 "full (a matrix for each component; the default), diagonal (a variance for each column) "
	 "or tied (one matrix for all).",
	 "full|diagonal|tied", 0},
	{0, "seed", "N", "Of what is chosen by chance: the same gives the same. 0 unless told.",
	 NULL, 0},
	{0, "window", "SECONDS", "Of recordings: how long a window is. 1 unless told.", NULL, 0},
	{0, "warm-up", "SECONDS",
	 "Of recordings: what is left out at the beginning of each. 5 unless told.", NULL, 0},
	{0, "events", "N", "Of recordings: most calls that are read. 24 million unless told.", NULL,
	 0},
	{0, "without", "INGREDIENT",
	 "Of recordings: leaves an ingredient of the method out, to see what it is worth; "
	 "detecting "
	 "by the model leaves it out too. May be repeated.",
	 INGREDIENTS, OPT_REPEAT},
	{0, "init", "FILE.csv",
	 "Of a table: the means to begin with, a row for each component, instead of k-means++.",
	 NULL, OPT_FILE},
	{0, "trim", "RATIO",
	 "Of a table: the share of rows, of the lowest density, that may be faults and are left "
	 "out "
	 "of the fit, up to 0.5. 0 unless told.",
	 NULL, 0},
	{0, "starts", "N", "Of a table: the best of so many beginnings is taken. 4 unless told.",
	 NULL, 0},
	{0, "tolerance", "X",
	 "Of a table: the fit ends when the mean log density grows by less. 0.001 unless told.",
	 NULL, 0},
	{0, "iterations", "N", "Of a table: steps of a fit, at most. 100 unless told.", NULL, 0},
	{0, "covariance-floor", "X",
	 "Of a table: is added to every variance, in the columns' units squared. 1e-6 unless told.",
	 NULL, 0},
	{0},
};

static const char *const description[] = {
	"Learns what normal looks like, from recordings of a job that ran well or from a table of "
	"numbers (a file that ends in .csv, with a header row), and writes a model that "
	"'eacgm detect' goes by.",
	"The model of a table is one Gaussian mixture of its rows, in the table's own units. Rows "
	"with a cell that is not finite are left out, and counted.",
	"The file appears under its name when it is whole: a failure or Ctrl-C leaves nothing, and "
	"what was there before stays.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm learn good1.eacgm good2.eacgm -o job.model", "What is normal for a job."},
	{"eacgm learn rows.csv -k 4 -o rows.model", "A mixture of four components."},
	{"eacgm learn rows.csv --json | jq .bics", "BIC by the number of components."},
	{0},
};

const struct command cmd_learn = {
	.name = "learn",
	.synopsis = "FILE... -o MODEL [--json]",
	.summary = "learn what is normal, from recordings or a table of numbers",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = -1,
	.run = run,
};
