/* cmd_detect.c - eacgm detect: what was not normal in a recording or a table of
 * numbers. */
#include <math.h>
#include <string.h>

#include "cli/alarm_options.h"
#include "base/files.h"
#include "cli/detect_cli.h"
#include "detect/model_file.h"
#include "incident/excuses.h"

#define EXIT_FOUND 3
#define USUAL_TOP  20
#define USUAL_P	   0.001

static const char *const table_only[] = {"p", "delta"};
static const char *const written[] = {"rows", "events"};
static const char *const recording_only[] = {"alarms-per-hour", "least-effect",	  "events",
					     "follow",		"without-excuse", "told"};

static const char *const judging_only[] = {
	"model", "rows", "events", "alarms-per-hour", "least-effect", "follow", "without-excuse"};
#define LEN(a) (sizeof(a) / sizeof(*(a)))

static int check_usage(const struct args *a, bool table)
{
	const char *wrong = table ? args_first(a, recording_only, LEN(recording_only))
				  : args_first(a, table_only, LEN(table_only));
	if (wrong)
		return usage_error(a->command, "--%s is for %s", wrong,
				   table ? "recordings" : "tables (.csv)");
	bool rows = path_is_rows(a->words.data[0]);
	if ((table || rows) && !args_has(a, "model"))
		return usage_error(a->command, "%s a model: say it with -m",
				   table ? "a table (.csv) needs" : "rows (.jsonl) need");
	if (rows && (args_has(a, "events") || args_has(a, "told")))
		return usage_error(a->command, "rows (.jsonl) have no events, nor what was told");
	wrong = args_has(a, "told") ? args_first(a, judging_only, LEN(judging_only)) : NULL;
	if (wrong)
		return usage_error(a->command, "--told judges nothing: --%s is for judging", wrong);
	if (args_has(a, "p") && args_has(a, "delta"))
		return usage_error(a->command, "--p and --delta exclude each other");
	if (args_has(a, "rows") && args_has(a, "events") &&
	    !strcmp(args_get(a, "rows"), args_get(a, "events")))
		return usage_error(a->command, "--rows and --events need a file each");
	for (size_t i = 0; i < LEN(written); i++)
		for (size_t k = 0; args_has(a, written[i]) && k < 2; k++) {
			const char *read = k ? args_get(a, "model") : a->words.data[0];
			if (read && files_same(args_get(a, written[i]), read))
				return usage_error(a->command, "--%s would replace '%s'",
						   written[i], read);
		}
	return 0;
}

static uint32_t without_excuses(const struct args *a)
{
	uint32_t ret = 0;
	for (size_t i = 0; i < args_count(a, "without-excuse"); i++)
		ret |= excuse_bit(args_nth(a, "without-excuse", i));
	return ret;
}

static int read_options(const struct args *a, struct detect_options *ret, struct err *e)
{
	uint64_t top = USUAL_TOP;
	*ret = (struct detect_options){.path = a->words.data[0],
				       .model_path = args_get(a, "model"),
				       .json = args_has(a, "json"),
				       .rows = args_get(a, "rows"),
				       .events = args_get(a, "events"),
				       .p = args_has(a, "delta") ? NAN : USUAL_P,
				       .delta = NAN,
				       .alarms_per_hour = 1,
				       .told = args_has(a, "told"),
				       .follow = args_has(a, "follow"),
				       .without_excuses = without_excuses(a)};
	int rc = args_u64(a, "top", 0, SIZE_MAX, &top, e);
	if (!rc)
		rc = args_real(a, "p", 1e-300, 1, &ret->p, e);
	if (!rc)
		rc = args_real(a, "delta", 1e-300, 1e300, &ret->delta, e);
	if (!rc)
		rc = alarm_limits_of(a, &ret->alarms_per_hour, &ret->least_effect, e);
	ret->top = top ? (size_t)top : SIZE_MAX;
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct model m;
	struct detect_options o;
	uint64_t found = 0;
	bool table = path_is_table(a->words.data[0]);
	int rc = check_usage(a, table);
	if (rc)
		return rc;
	if (read_options(a, &o, &e))
		return usage_error(a->command, "%s", e.msg);
	model_init(&m);
	if (o.model_path)
		rc = model_read_for(&m, o.model_path, table ? MODEL_TABLE : MODEL_JOB,
				    table ? "a table" : "a recording", &e);
	if (!rc)
		rc = table ? detect_table(&o, &m, &found, &e)
		     : path_is_rows(o.path)
			     ? detect_rows(&o, &m, &found, &e)
			     : detect_recording(&o, o.model_path ? &m : NULL, &found, &e);
	model_free(&m);
	if (rc)
		return command_failed(a->command, &e);
	return found && args_has(a, "exit-code") ? EXIT_FOUND : 0;
}

static const struct opt_def options[] = {
	{'m', "model", "MODEL",
	 "What is normal, from 'eacgm learn'. Without it a recording is judged by "
	 "its own "
	 "beginning.",
	 NULL, OPT_FILE},
	{0, "json", NULL, "Print one JSON object.", NULL, 0},
	{'n', "top", "N",
	 "How many incidents are shown: the rarest, in order of time; 0 = all. 20 unless told. "
	 "JSON "
	 "has all.",
	 NULL, 0},
	ALARM_OPTIONS("Of a recording: "),
	{0, "follow", NULL,
	 "Of a recording: let what is usual follow slow drift, except where there "
	 "is an anomaly. "
	 "Always without a model.",
	 NULL, 0},
	{0, "told", NULL,
	 "Of a recording: show what 'eacgm record --detect' told while it was made, instead of "
	 "judging it.",
	 NULL, 0},
	{0, "without-excuse", "NAME",
	 "Of a recording: judge also what is excused for that reason: " EXCUSES_HELP
	 ". May be repeated.",
	 EXCUSE_NAMES, OPT_REPEAT},
	{0, "p", "P",
	 "Of a table: a row is not normal where rows like it are rarer than that. "
	 "0.001 unless "
	 "told.",
	 NULL, 0},
	{0, "delta", "D",
	 "Of a table: instead, where its density under its likeliest component is "
	 "below D.",
	 NULL, 0},
	{0, "rows", "OUT.jsonl", "Write every window, step or row of the table as it was judged.",
	 NULL, OPT_FILE},
	{0, "events", "OUT",
	 "Of a recording: write every event as it was judged: as CSV, or where OUT ends in .npy "
	 "as arrays of numpy.",
	 NULL, OPT_FILE},
	{0, "exit-code", NULL, "End with status 3 where something was not normal.", NULL, 0},
	{0},
};

static const char *const description[] = {
	"Says what was not normal in a recording: when and how long, in which "
	"layer, process and "
	"function, by which of its features and how much, with the calls that took "
	"longer than "
	"they usually do and the lines of Python that ran.",
	"Of a table of numbers (a file that ends in .csv) it says which rows are "
	"unlikely, and "
	"which columns make them so.",
	"The exit status is 0 also where something was found, unless --exit-code "
	"is given.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm detect run.eacgm -m job.model", "What was not as in the recordings of the model."},
	{"eacgm detect run.eacgm", "What was not as in the recording's own beginning."},
	{"eacgm detect run.eacgm -m job.model --json | jq -r '.anomalies[].why'",
	 "One sentence for each."},
	{"eacgm detect rows.csv -m rows.model --p 1e-4", "The rows that are unlikely."},
	{0},
};

const struct command cmd_detect = {
	.name = "detect",
	.synopsis = "FILE [-m MODEL] [--json]",
	.summary = "say what was not normal in a recording or a table of numbers",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
