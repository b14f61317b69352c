/* cmd_export.c - eacgm export: a recording in another format. */
#include <stdlib.h>
#include <string.h>

#include "cli/detect_cli.h"
#include "base/human.h"
#include "cli/export_beside.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "export/export.h"
#include "recording/recording.h"

/* run.eacgm -> run.perfetto-trace, beside it. */
static char *default_output(const char *path, const struct sink_format *format)
{
	size_t len = strlen(path);
	static const char end[] = ".eacgm";
	if (len > sizeof(end) - 1 && !strcmp(path + len - (sizeof(end) - 1), end))
		len -= sizeof(end) - 1;
	return xasprintf("%.*s.%s", (int)len, path, format->extension);
}

static const struct sink_format *format_of(const struct args *a)
{
	const char *name = args_get(a, "format");
	return sink_format(name ? name : "perfetto");
}

static int export_to(const struct rec_reader *reader, const struct sink_format *format,
		     const char *path, const struct judged_slices *judged, const struct args *a,
		     struct err *e)
{
	struct progress progress;
	uint64_t skipped = 0;
	struct export_beside beside;
	struct export_options options = {.owner = output_owner_from_sudo(),
					 .progress = interrupt_go_on,
					 .progress_ctx = &progress,
					 .counters_only = args_has(a, "counters"),
					 .no_formulas = args_has(a, "csv-safe")};
	progress_begin(&progress, "exporting");
	export_beside_make(&beside, reader, format);
	export_beside_put(&beside, judged, &options);
	int rc = export_file(rec_source(reader), format, path, &options, &skipped, e);
	export_beside_free(&beside);
	progress_end(&progress);
	const struct rec_tables *t = rec_tables(reader);
	char count[HUMAN_BYTES];
	if (rc)
		return rc;
	if (skipped)
		fprintf(stderr, "eacgm export: %s blocks could not be decoded and are left out\n",
			human_count(count, skipped));
	if (t->damaged_at)
		fprintf(stderr,
			"eacgm export: the recording is damaged, what follows is left "
			"out: %s\n",
			t->damage);
	text_printf(stderr, "%s: %s calls\n", path, human_count(count, t->calls));
	return 0;
}

static int check_usage(const struct args *a, const struct sink_format *format)
{
	if (args_has(a, "model") && !args_has(a, "detect"))
		return usage_error(a->command, "--model is for --detect");
	if (args_has(a, "detect") && !format->anomalies)
		return usage_error(a->command, "%s has no place for --detect", format->name);
	if (args_has(a, "counters") && (format->span || format->rows))
		return usage_error(a->command, "--counters is for csv and jsonl");
	if (format->needs_file && (!args_has(a, "output") || !strcmp(args_get(a, "output"), "-")))
		return usage_error(a->command, "%s needs a file to write: --output FILE",
				   format->name);
	if (args_has(a, "csv-safe") && !format->no_formulas)
		return usage_error(a->command, "--csv-safe is for csv");
	return 0;
}

static int export_recording(const struct args *a, const struct rec_reader *reader,
			    const struct sink_format *format, struct err *e)
{
	struct judged_slices judged = {0};
	const char *path = a->words.data[0], *wanted = args_get(a, "output");
	int rc = 0;
	if (args_has(a, "detect"))
		rc = detect_slices(&judged, reader, path, args_get(a, "model"), e);
	else if (format->anomalies)
		told_slices(&judged, reader);
	if (rc)
		return rc;
	char *output = !wanted		      ? default_output(path, format)
		       : !strcmp(wanted, "-") ? xstrdup("/dev/stdout")
					      : xstrdup(wanted);
	interrupt_catch();
	rc = export_to(reader, format, output, &judged, a, e);
	free(output);
	judged_slices_free(&judged);
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct rec_reader *reader = NULL;
	const struct sink_format *format = format_of(a);
	int rc = check_usage(a, format);
	if (rc)
		return rc;
	rc = rec_open(&reader, a->words.data[0], &e);
	if (rc)
		return command_failed(a->command, &e);
	rc = export_recording(a, reader, format, &e);
	rec_close(reader);
	return rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{'f', "format", "FORMAT",
	 "perfetto (for ui.perfetto.dev; the default), chrome (Trace Event JSON), csv, jsonl or "
	 "sqlite (needs -o).",
	 "perfetto|chrome|csv|jsonl|sqlite", 0},
	{'o', "output", "FILE",
	 "Where to write; '-' is the standard output. Unless told, a file beside the recording, "
	 "with its name and the ending of the format.",
	 NULL, OPT_FILE},
	{0, "counters", NULL, "Leave all but the counters out (csv, jsonl).", NULL, 0},
	{0, "csv-safe", NULL,
	 "For spreadsheets: put a quote (') before what one would take for a formula (csv).", NULL,
	 0},
	{0, "detect", NULL,
	 "Mark what was not normal, as 'eacgm detect' finds it, and why, as 'eacgm diagnose' says, "
	 "on "
	 "tracks of their own (perfetto).",
	 NULL, 0},
	{'m', "model", "MODEL",
	 "With --detect: what is normal, from 'eacgm learn'. Unless told, a recording is judged by "
	 "its own beginning.",
	 NULL, OPT_FILE},
	{0},
};

static const char *const description[] = {
	"Writes a recording in a format that other tools read. perfetto and chrome are time lines: "
	"a track for each thread with properly nested calls, their arguments, and counters. csv "
	"and "
	"jsonl are rows for one's own analysis, sqlite is a database of all that is recorded, to "
	"be "
	"asked by 'eacgm query' or anything that reads SQLite.",
	"The file appears under its name when it is whole: a failure or Ctrl-C leaves nothing, and "
	"what was there before stays.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm export run.eacgm", "Writes run.perfetto-trace, to be opened at ui.perfetto.dev."},
	{"eacgm export run.eacgm --detect -m job.model", "With marks on what was not normal."},
	{"eacgm export run.eacgm -f sqlite -o run.db", "A database, for SQL."},
	{"eacgm export run.eacgm -f jsonl -o - | jq 'select(.flags[]? == \"error\")'",
	 "The calls that failed."},
	{0},
};

const struct command cmd_export = {
	.name = "export",
	.synopsis = "FILE [-f FORMAT] [-o OUT] [--detect]",
	.summary = "write a recording as Perfetto, Chrome, CSV, JSON lines or SQLite",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
