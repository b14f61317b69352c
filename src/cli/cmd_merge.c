/* cmd_merge.c - eacgm merge: the recordings of a job's hosts become one. */
#include <errno.h>
#include <string.h>

#include "base/human.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "report/report_ranks.h"
#include "cli/terminal.h"
#include "merge/merge.h"
#include "recording/recording.h"
#include "symbolize/demangle.h"

/* ---- what came of it ---- */

static void print_sources(const char *output, const struct merge_result *m)
{
	char bytes[HUMAN_BYTES], calls[HUMAN_BYTES];
	text_printf(stdout, "%s: %zu recordings, %s\n", output, m->sources.len,
		    human_bytes(bytes, m->bytes));
	for (size_t i = 0; i < m->sources.len; i++) {
		const struct merge_source *s = &m->sources.data[i];
		text_printf(stdout, "  %s: %s calls", s->path, human_count(calls, s->calls));
		if (s->pid_shift)
			printf(", pids and tids + %u", s->pid_shift);
		if (s->collectives)
			printf(", its clock is aligned by %s collectives",
			       human_count(calls, s->collectives));
		putchar('\n');
		if (s->damage)
			text_printf(stdout, "    not all of it could be read: %s\n", s->damage);
	}
}

static json_t *merge_json(const char *output, const struct merge_result *m)
{
	json_t *o = json_object(), *list = json_array();
	for (size_t i = 0; i < m->sources.len; i++) {
		const struct merge_source *s = &m->sources.data[i];
		json_t *row = json_object();
		json_object_set_new(row, "file", report_text_json(s->path));
		json_object_set_new(row, "calls", report_number_json(s->calls));
		json_object_set_new(row, "clock", report_number_json(s->clock));
		json_object_set_new(row, "pid_shift", report_number_json(s->pid_shift));
		json_object_set_new(row, "collectives", report_number_json(s->collectives));
		json_object_set_new(row, "damage", report_text_json(s->damage));
		json_array_append_new(list, row);
	}
	json_object_set_new(o, "file", report_text_json(output));
	json_object_set_new(o, "bytes", report_number_json(m->bytes));
	json_object_set_new(o, "sources", list);
	return o;
}

/* 0, or -1 where it could not be written. */
static int print_json(const char *output, const struct merge_result *m, const struct report *r)
{
	struct json_stream out;
	json_stream_begin(&out, stdout, JSON_REAL_PRECISION(9));
	json_stream_put(&out, "merged", merge_json(output, m));
	report_sections_json(&out, r);
	int rc = json_stream_end(&out);
	putchar('\n');
	return rc;
}

/* The ranks of the output, as the report has them. */
static int print_result(const char *output, const struct merge_result *m, bool json, struct err *e)
{
	struct rec_reader *reader = NULL;
	int rc = rec_open(&reader, output, e);
	if (rc)
		return rc;
	struct report_options options = {.top = json ? 0 : 15,
					 .width = terminal_width(stdout),
					 .colour = terminal_colour(stdout),
					 .only = &report_ranks};
	struct report r;
	report_make(&r, output, rec_source(reader), &options, &(struct visit_options){0});
	if (json) {
		if (print_json(output, m, &r))
			rc = err_set(e, EIO, "cannot write to the standard output");
	} else {
		print_sources(output, m);
		report_sections_text(&(struct page){.out = stdout, .r = &r});
	}
	report_free(&r);
	rec_close(reader);
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct progress progress;
	struct merge_result result = {0};
	const char *output = args_get(a, "output");
	if (!output || !*output)
		return usage_error(a->command, "say with -o where to write");
	interrupt_catch();
	progress_begin(&progress, "merging");
	int rc = merge_recordings(&result, a->words.data, a->words.len, output,
				  &(struct merge_options){.owner = output_owner_from_sudo(),
							  .go_on = interrupt_go_on,
							  .ctx = &progress,
							  .demangle = demangle},
				  &e);
	progress_end(&progress);
	if (!rc)
		rc = print_result(output, &result, args_has(a, "json"), &e);
	merge_result_free(&result);
	return rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{'o', "output", "FILE", "The recording to write. Needed.", NULL, OPT_FILE},
	{0, "json", NULL, "Print one JSON object.", NULL, 0},
	{0},
};

static const char *const description[] = {
	"Makes one recording of several: of processes of one host, or of the hosts of a "
	"distributed job. Report, flame graphs and exports of it show all ranks on one time line.",
	"Clocks of several hosts are aligned: by CLOCK_REALTIME first, then by the collectives "
	"that "
	"their ranks took part in, whose beginnings and ends bound each other. How well that is "
	"known is told, and kept in the recording.",
	"Prints, as the report of the new recording does, what the ranks did side by side: how "
	"much "
	"of the collectives' time was waiting for the last rank, which rank is a straggler, "
	"collectives that ranks entered with other sizes or that some did not enter at all.",
	"The file appears under its name when it is whole: a failure or Ctrl-C leaves nothing, and "
	"what was there before stays. The recordings that are merged are not changed; one that is "
	"damaged is read up to the damage.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm merge node0.eacgm node1.eacgm -o job.eacgm", "All ranks of two hosts in one."},
	{"eacgm merge node*.eacgm -o job.eacgm --json | jq '.ranks.communicators[].straggler'",
	 "The rank that the others wait for."},
	{"eacgm export job.eacgm", "All ranks on one time line."},
	{0},
};

const struct command cmd_merge = {
	.name = "merge",
	.synopsis = "FILE FILE... -o OUT [--json]",
	.summary = "make one recording of those of several processes or hosts",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 2,
	.max_args = -1,
	.run = run,
};
