/* cmd_diagnose.c - eacgm diagnose: why a recording's job was slow. */
#include <string.h>

#include "cli/alarm_options.h"
#include "cli/detect_cli.h"
#include "cli/terminal.h"
#include "detect/model_file.h"
#include "report/report.h"
#include "report/report_anomalies.h"
#include "report/report_diagnosis.h"
#include "symbolize/demangle.h"

#define USUAL_TOP 10

struct diagnose_options {
	const char *path, *model_path;
	bool json, steps, told, no_walk;
	uint64_t top;
	double alarms_per_hour, least_effect;
};

static int print_found(const struct diagnose_options *o, const struct rec_reader *reader,
		       const struct anomaly_list *list, struct err *e)
{
	const struct row_source *s = rec_source(reader);
	struct timeline timeline;
	struct steps steps;
	struct diagnosis d;
	timeline_make(&timeline, s, &(struct timeline_options){.demangle = demangle});
	steps_make(&steps, s, NULL);
	diagnosis_make(&d, s, &timeline, &steps, list,
		       &(struct diagnosis_options){.each = o->steps || o->json,
						   .besides = true,
						   .no_walk = o->no_walk});
	uint64_t start_ns = report_number(s->tables, "start_monotonic_ns");
	const struct report_diagnosis report = {
		.d = &d,
		.list = list,
		.t = s->tables,
		.path = o->path,
		.model_path = o->model_path,
		.start_ns = start_ns,
		.end_ns = s->tables->last_ns > start_ns ? s->tables->last_ns : start_ns,
		.told = o->told,
		.steps = o->steps,
		.top = o->top ? (size_t)o->top : SIZE_MAX,
		.width = terminal_width(stdout),
		.colour = terminal_colour(stdout)};
	int rc = 0;
	if (o->json)
		rc = terminal_json(report_diagnosis_json(&report), 0, e);
	else
		report_diagnosis_text(stdout, &report);
	diagnosis_free(&d);
	steps_free(&steps);
	timeline_free(&timeline);
	return rc;
}

static int diagnose(const struct diagnose_options *o, struct err *e)
{
	struct rec_reader *reader = NULL;
	struct anomaly_list list = {0};
	struct model m;
	model_init(&m);
	int rc = o->model_path ? model_read_for(&m, o->model_path, MODEL_JOB, "a recording", e) : 0;
	if (!rc)
		rc = rec_open(&reader, o->path, e);
	if (rc) {
		model_free(&m);
		return rc;
	}
	tell_damage("diagnose", o->path, reader);
	if (o->told)
		anomaly_list_told(&list, rec_tables(reader), rec_source(reader));
	else
		detect_anomalies(
			&list, reader,
			&(struct anomaly_list_options){.model = o->model_path ? &m : NULL,
						       .alarms_per_hour = o->alarms_per_hour,
						       .least_effect = o->least_effect});
	rc = report_anomalies_check(&(struct report_anomalies){.found = &list,
							       .path = o->path,
							       .model_path = o->model_path,
							       .told = o->told},
				    e);
	if (!rc)
		rc = print_found(o, reader, &list, e);
	anomaly_list_free(&list);
	rec_close(reader);
	model_free(&m);
	return rc;
}

static int run(const struct args *a)
{
	struct err e = {0};
	struct diagnose_options o = {.path = a->words.data[0],
				     .model_path = args_get(a, "model"),
				     .json = args_has(a, "json"),
				     .steps = args_has(a, "steps"),
				     .told = args_has(a, "told"),
				     .no_walk = args_has(a, "no-walk"),
				     .top = USUAL_TOP,
				     .alarms_per_hour = 1};
	if (o.told && o.model_path)
		return usage_error(a->command, "--told judges nothing: --model is for judging");
	int rc = args_u64(a, "top", 0, SIZE_MAX, &o.top, &e);
	if (!rc)
		rc = alarm_limits_of(a, &o.alarms_per_hour, &o.least_effect, &e);
	if (rc)
		return usage_error(a->command, "%s", e.msg);
	rc = diagnose(&o, &e);
	return rc ? command_failed(a->command, &e) : 0;
}

static const struct opt_def options[] = {
	{'m', "model", "MODEL",
	 "What is normal, from 'eacgm learn'. Without it a recording is judged by its own "
	 "beginning.",
	 NULL, OPT_FILE},
	{0, "json", NULL, "Print one JSON object.", NULL, 0},
	{0, "steps", NULL, "Of each incident's slow steps say whose each millisecond is.", NULL, 0},
	{'n', "top", "N",
	 "How many incidents are shown: those that cost most, in order of time; 0 = all. 10 "
	 "unless told. JSON has all.",
	 NULL, 0},
	ALARM_OPTIONS(""),
	{0, "no-walk", NULL,
	 "Put what a thread waited for down to the wait itself, not to who ended it: to see what "
	 "following waits brings.",
	 NULL, 0},
	{0, "told", NULL,
	 "Of what 'eacgm record --detect' told while it was made, instead of judging it.", NULL, 0},
	{0},
};

static const char *const description[] = {
	"Says why the job of a recording was slow at times: each incident's cause, with who or "
	"what is to blame, what it cost, and what to do.",
	"The time by which an incident's steps took longer than usual is put down to owners: "
	"each millisecond to one, along what the job waited for. What cannot be put down to "
	"anything is shown as unexplained.",
	NULL,
};

static const struct cmd_example examples[] = {
	{"eacgm diagnose run.eacgm -m job.model", "Why it was not as in the model's recordings."},
	{"eacgm diagnose run.eacgm --steps", "Step by step."},
	{"eacgm diagnose run.eacgm --json | jq -r '.incidents[].cause'", "The causes alone."},
	{0},
};

const struct command cmd_diagnose = {
	.name = "diagnose",
	.synopsis = "FILE [-m MODEL] [--steps] [--json]",
	.summary = "say why a recording's job was slow: causes, culprits, blame",
	.description = description,
	.options = options,
	.examples = examples,
	.min_args = 1,
	.max_args = 1,
	.run = run,
};
