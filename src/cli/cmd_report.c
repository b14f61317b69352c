/* cmd_report.c - eacgm report: where the time of a recording went. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "analyze/gpu.h"
#include "analyze/profile.h"
#include "analyze/summary.h"
#include "cli/options.h"
#include "report/report.h"
#include "cli/terminal.h"
#include "export/output.h"
#include "recording/recording.h"
#include "report/report_html.h"
#include "symbolize/demangle.h"
#include "web/web_page.h"

static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
	progress_step(ctx, done, total);
}

static int sort_from_name(const char *name)
{
	static const char *const names[] = {"total", "self", "calls", "p99", "max"};
	for (int i = 0; name && i < 5; i++)
		if (!strcmp(name, names[i]))
			return i;
	return SORT_TOTAL;
}

static bool layer_known(const struct rec_tables *t, const char *layer)
{
	for (size_t i = 0; i < t->probes.len; i++)
		if (!strcmp(strtab_get(&t->strings, t->probes.data[i].layer, NULL), layer))
			return true;
	return false;
}

static bool process_known(const struct rec_tables *t, uint32_t pid)
{
	for (size_t i = 0; i < t->processes.len; i++)
		if (t->processes.data[i].pid == pid)
			return true;
	for (size_t i = 0; i < t->threads.len; i++)
		if (t->threads.data[i].pid == pid)
			return true;
	return false;
}

/* What the options ask for must be in the recording: an empty report explains nothing. */
static int check_wanted(const struct report_options *o, const struct rec_tables *t, struct err *e)
{
	for (size_t i = 0; i < o->layers.len; i++)
		if (!layer_known(t, o->layers.data[i]))
			return err_set(e, ENOENT, "layer '%s' is not in the recording",
				       o->layers.data[i]);
	if (o->pid && !process_known(t, o->pid))
		return err_set(e, ENOENT, "process %u is not in the recording", o->pid);
	return report_check_from(t, o->from_ns, e);
}

/* What was asked for has all its lines. */
static bool is_brief(const struct args *a)
{
	return !args_has(a, "json") && !args_has(a, "html") && !args_has(a, "full") &&
	       !args_has(a, "section");
}

static int check_forms(const struct args *a, struct err *e)
{
	if (args_has(a, "html") && args_has(a, "json"))
		return err_set(e, EINVAL, "'--html' and '--json' cannot both be given");
	if (args_has(a, "section") && (args_has(a, "json") || args_has(a, "html")))
		return err_set(e, EINVAL, "'--section' is for the text: %s has all of them",
			       args_has(a, "json") ? "JSON" : "the page");
	if (args_has(a, "html") && !web_page_is_there())
		return err_set(e, ENOTSUP, WEB_PAGE_MISSING);
	return 0;
}

static int options_from(struct report_options *o, const struct args *a, struct err *e)
{
	uint64_t pid = 0;
	*o = (struct report_options){
		.sort = (enum report_sort)sort_from_name(args_get(a, "sort")),
		.top = is_brief(a) ? REPORT_BRIEF_TOP : 0,
		.brief = is_brief(a) && !args_has(a, "top"),
		.width = terminal_width(stdout),
		.colour = terminal_colour(stdout),
		.sections = args_get(a, "section"),
		.steps = args_has(a, "steps"),
	};
	int rc = args_u64(a, "top", 0, 1000000, &o->top, e);
	if (!rc)
		rc = args_u64(a, "process", 1, UINT32_MAX, &pid, e);
	if (!rc)
		rc = args_time(a, "from", 0, TIME_TEXT_MOST_NS, &o->from_ns, e);
	if (!rc)
		rc = args_time(a, "to", 1, TIME_TEXT_MOST_NS, &o->to_ns, e);
	if (!rc && o->to_ns && o->to_ns <= o->from_ns)
		rc = err_set(e, EINVAL, "'--to' must be later than '--from'");
	if (rc)
		return rc;
	o->pid = (uint32_t)pid;
	for (size_t i = 0; i < args_count(a, "layer"); i++)
		*vec_push(&o->layers) = args_nth(a, "layer", i);
	return 0;
}

/* From the recording's clock to that of its rows. */
static void shift_times(struct report_options *o, const struct rec_tables *t)
{
	uint64_t start = report_number(t, "start_monotonic_ns");
	if (o->from_ns)
		o->from_ns += start;
	if (o->to_ns)
		o->to_ns += start;
}

/* The page appears under its name when it is whole. */
static int write_page(const struct report *r, const char *path, struct err *e)
{
	struct output output;
	struct output_owner owner = output_owner_from_sudo();
	signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error like a full disk */
	int rc = output_open(&output, strcmp(path, "-") != 0 ? path : "/dev/stdout", &owner, e);
	return rc ? rc : output_close(&output, report_html(output.stream, r, e), e);
}

static int write_form(const struct report *r, const struct args *a, struct err *e)
{
	if (args_has(a, "html"))
		return write_page(r, args_get(a, "html"), e);
	if (args_has(a, "json"))
		return report_json(stdout, r) ? err_set(e, EIO, "cannot write the report") : 0;
	report_text(stdout, r);
	return 0;
}

static int print_report(const char *path, const struct rec_reader *reader,
			const struct report_options *o, const struct args *a, struct err *e)
{
	struct progress progress;
	struct report r;
	/* what blocks were read into goes back to the system once it is put together (mallopt(3))
	 */
	mallopt(M_MMAP_THRESHOLD, 32 << 10);
	progress_begin(&progress, "reading");
	report_make(&r, path, rec_source(reader), o,
		    &(struct visit_options){.progress = show_progress, .progress_ctx = &progress});
	progress_end(&progress);
	int rc = report_check_sections(&r, e);
	if (!rc)
		rc = write_form(&r, a, e);
	report_free(&r);
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct report_options o;
	if (options_from(&o, a, &e))
		return usage_error(a->command, "%s", e.msg);
	int rc = check_forms(a, &e);
	if (rc)
		return rc == -EINVAL ? usage_error(a->command, "%s", e.msg)
				     : command_failed(a->command, &e);
	struct rec_reader *reader = NULL;
	const char *path = a->words.data[0];
	rc = rec_open(&reader, path, &e);
	if (!rc)
		rc = check_wanted(&o, rec_tables(reader), &e);
	if (!rc)
		shift_times(&o, rec_tables(reader));
	if (!rc)
		rc = print_report(path, reader, &o, a, &e);
	rec_close(reader);
	vec_free(&o.layers);
	if (rc == -EINVAL && o.sections)
		return usage_error(a->command, "%s", e.msg);
	return rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{0, "full", NULL, "Show all of every section; ten lines of each are shown unless told.",
	 NULL, 0},
	{0, "section", "NAME[,NAME]",
	 "Show these sections alone, with all their lines: steps, profile, kernels, notes, a "
	 "layer's name and so on. A name that is none prints those that the recording has.",
	 NULL, 0},
	{'n', "top", "N",
	 "Rows to show of each table, 0 for all: so many, instead of ten lines of each section.",
	 NULL, 0},
	{'s', "sort", "KEY",
	 "What to sort by: total (time in the function and all it calls), self "
	 "(without the traced functions that it calls), calls, p99 or max.",
	 "total|self|calls|p99|max", 0},
	{'l', "layer", "LAYER", "Show this layer only; may be given more than once.", NULL,
	 OPT_REPEAT},
	{'p', "process", "PID", "Count the calls of this process only.", NULL, 0},
	{0, "from", "TIME",
	 "Count kernels, copies, waits, collectives, errors, GPU counters and samples from this "
	 "time of the recording on: seconds, or with a unit, as 1.5, 200ms or 3m.",
	 NULL, 0},
	{0, "to", "TIME", "Likewise, up to before this time.", NULL, 0},
	{0, "json", NULL, "Print one JSON object.", NULL, 0},
	{0, "html", "OUT",
	 "Write a page for the browser: one file with all figures of --json, charts and flame "
	 "graphs, that asks nobody for anything; '-' is the standard output.",
	 NULL, OPT_FILE},
	{0, "steps", NULL,
	 "With --json: every step of each loop, not the loops' figures and slow steps alone.", NULL,
	 0},
	{0},
};

static const char *const description[] = {
	"Prints how the recording was made, what was lost and what tracing cost, then sections in "
	"the order of what they have to say about its time, ten lines of each; for each "
	"layer the functions that took most time: number of calls, total and own time, mean, "
	"median, 99th percentile and longest call. --full shows all lines, --section one section.",
	"Where the recording has samples (record --profile): the functions of all languages with "
	"most "
	"CPU time of their own and with all they call, and what threads waited for.",
	"Where GPUs are in use: their load, kernels by launches, copies, time the host waited, "
	"collectives, memory of each process, errors and events. --from and --to restrict these "
	"to a span of time.",
	"A call that had not returned when the recording ended counts with its time until then. "
	"Own time is shown as '-' where calls were counted in the kernel without being recorded "
	"(modes tail and stats).",
	"Reads a recording of any machine and needs no privileges. A damaged recording is read up "
	"to the damage.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm report run.eacgm", "Where the time went."},
	{"eacgm report run.eacgm --html run.html", "A page for the browser, to keep or to send."},
	{"eacgm report run.eacgm --section profile,notes", "All of these two sections."},
	{"eacgm report run.eacgm --layer torch --sort self --top 30",
	 "The 30 operators with the most time of their own."},
	{"eacgm report run.eacgm --json | jq '.functions[] | select(.errors > 0)'",
	 "Functions that failed."},
	{"eacgm report run.eacgm --json | jq '.kernels[:5][] | .short_name, .launches'",
	 "The kernels that were launched most."},
	{0},
};

const struct command cmd_report = {
	.name = "report",
	.synopsis = "FILE [OPTION...]",
	.summary = "show where the time of a recording went",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
