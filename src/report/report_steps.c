/* report_steps.c - the steps of the job, as text and JSON: how many, how long, which were slow
 * and what in them was longer. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/steps.h"
#include "base/kernel_name.h"
#include "base/human.h"
#include "report/report_section.h"

static const char *const kind_names[STEPS_KINDS] = STEPS_KIND_NAMES;
static const char *const phase_names[STEPS_PHASES] = STEPS_PHASE_NAMES;

/* Of a step: what is less is no news. */
#define LEAST_SHARE_SHOWN 0.001

enum { COLUMN_STEPS = 9, PHASES_INDENT = COLUMN_STEPS + 2, SLOW_SHOWN = 5 };

/* ---- text ---- */

static const char *signed_ns(char ret[HUMAN_BYTES + 1], int64_t ns)
{
	char text[HUMAN_BYTES];
	human_ns(text, (uint64_t)(ns < 0 ? -ns : ns));
	snprintf(ret, HUMAN_BYTES + 1, "%c%s", ns < 0 ? '-' : '+', text);
	return ret;
}

static void head_text(const struct page *p, bool pids)
{
	static const char *const columns[] = {"mean", "median", "p99", "max"};
	if (pids)
		page_right(p, "pid", COLUMN_STEPS);
	page_right(p, "steps", COLUMN_STEPS);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		page_right(p, columns[i], COLUMN_TIME);
	page_right(p, "slow", COLUMN_STEPS);
	fputs("  kind, and its phases on average\n", p->out);
}

/* Behind the kind, or below it where the page is too narrow. */
static void phases_text(const struct page *p, const struct steps_process *process,
			const struct steps_loop *l, bool pids)
{
	struct buf line = {0};
	size_t used = (pids ? 3 : 2) * COLUMN_STEPS + 4 * COLUMN_TIME + 2;
	for (int i = 0; i < STEPS_PHASES; i++) {
		char text[HUMAN_BYTES];
		double ns = l->phase_mean_ns[i];
		if (ns >= LEAST_SHARE_SHOWN * l->mean_ns)
			buf_printf(&line, "%s%s %s (%.0f %%)", line.len ? ", " : "",
				   steps_phase_words(process, (enum steps_phase)i),
				   human_ns(text, (uint64_t)ns), 100 * ns / l->mean_ns);
	}
	buf_byte(&line, 0);
	fprintf(p->out, "  %s", kind_names[l->kind]);
	if (line.len > 1)
		used += strlen(kind_names[l->kind]) + 2 + text_columns((char *)line.data);
	if (line.len > 1 && used > p->r->options->width) {
		fprintf(p->out, "\n%*s", PHASES_INDENT, "");
		page_wrapped(p, PHASES_INDENT, PHASES_INDENT, "%s", (char *)line.data);
	} else {
		fprintf(p->out, "%s%s\n", line.len > 1 ? ": " : "", (char *)line.data);
	}
	buf_free(&line);
}

static void loop_text(const struct page *p, const struct steps_process *process,
		      const struct steps_loop *l, bool pids)
{
	char text[HUMAN_BYTES];
	if (pids) {
		snprintf(text, sizeof(text), "%u", process->pid);
		page_right(p, text, COLUMN_STEPS);
	}
	page_count(p, l->steps, COLUMN_STEPS);
	page_ns(p, (uint64_t)l->mean_ns, COLUMN_TIME);
	page_ns(p, l->median_ns, COLUMN_TIME);
	page_ns(p, l->p99_ns, COLUMN_TIME);
	page_ns(p, l->max_ns, COLUMN_TIME);
	page_count(p, l->slow_total, COLUMN_STEPS);
	phases_text(p, process, l, pids);
}

/* Children that make batches in a line: with every epoch there are new ones. */
static void loaders_text(const struct page *p, const struct steps *s)
{
	uint64_t processes = 0, batches = 0, waited_ns = 0, total_ns = 0;
	char n[HUMAN_BYTES], each[HUMAN_BYTES], wait[HUMAN_BYTES];
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_process *process = &s->processes.data[i];
		bool loads = false;
		for (size_t k = 0; k < process->loops.len; k++) {
			const struct steps_loop *l = &process->loops.data[k];
			if (l->kind != STEPS_LOADING)
				continue;
			loads = true;
			batches += l->steps;
			total_ns += l->total_ns;
			waited_ns += (uint64_t)(l->phase_mean_ns[STEPS_OTHER] * l->steps);
		}
		processes += loads;
	}
	if (!batches)
		return;
	fputs("  ", p->out);
	page_wrapped(p, 2, 2, "%s loader %s: %s a batch%s%s", human_count(n, processes),
		     processes == 1 ? "process" : "processes",
		     human_ns(each, (total_ns - waited_ns) / batches),
		     waited_ns ? ", then a wait of " : "",
		     waited_ns ? human_ns(wait, waited_ns / batches) : "");
}

/* "before aten::linear +3.2 ms" */
static void cause_text(char *ret, size_t size, const struct steps_process *process,
		       const struct steps_cause *c, size_t columns)
{
	char name[KERNEL_NAME_BYTES], fitted[KERNEL_NAME_BYTES], grew[HUMAN_BYTES + 1];
	const char *before = c->before ? "before " : "";
	if (process->from_launches)
		kernel_name_short(name, sizeof(name), c->name);
	else
		snprintf(name, sizeof(name), "%s", c->name);
	signed_ns(grew, c->more_ns);
	size_t beside = strlen(before) + 1 + text_columns(grew);
	text_fit(fitted, sizeof(fitted), name, columns > beside + 8 ? columns - beside : 8);
	snprintf(ret, size, "%s%s %s", before, fitted, grew);
}

/* As many as fit, and one. */
static void causes_text(struct buf *ret, const struct steps_process *process,
			const struct steps_slow *slow, size_t columns)
{
	char text[KERNEL_NAME_BYTES + 64];
	size_t used = 0;
	for (uint32_t i = 0; i < slow->causes_len; i++) {
		cause_text(text, sizeof(text), process, &slow->causes[i], columns);
		used += text_columns(text) + (i ? 2 : 0);
		if (i && used > columns)
			break;
		buf_printf(ret, "%s%s", i ? ", " : "", text);
	}
	buf_byte(ret, 0);
}

static void slow_text(const struct page *p, const struct steps_process *process,
		      const struct steps_slow *slow)
{
	const struct steps_step *s = &process->steps.data[slow->step];
	char text[HUMAN_BYTES], more[HUMAN_BYTES + 1];
	size_t used = 3 * COLUMN_STEPS + COLUMN_TIME + 24, width = p->r->options->width;
	struct buf causes = {0};
	causes_text(&causes, process, slow, width > used + 24 ? width - used : 24);
	snprintf(text, sizeof(text), "%u", process->pid);
	page_right(p, text, COLUMN_STEPS);
	page_right(p, human_count(text, s->index), COLUMN_STEPS);
	page_ns(p, s->end_ns - s->start_ns, COLUMN_TIME);
	snprintf(text, sizeof(text), "%.1f", slow->z < 999 ? slow->z : 999);
	page_right(p, text, COLUMN_STEPS);
	fputs("  ", p->out);
	page_wrapped(p, 3 * COLUMN_STEPS + COLUMN_TIME + 2, 3 * COLUMN_STEPS + COLUMN_TIME + 2,
		     "%s %s: %s", steps_phase_words(process, slow->phase),
		     signed_ns(more, slow->phase_more_ns), (char *)causes.data);
	buf_free(&causes);
}

static void slow_table(const struct page *p, const struct steps *s)
{
	static const char *const columns[] = {"pid", "step", "time", "z"};
	bool any = false;
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct steps_process *process = &s->processes.data[i];
		const struct steps_loop *l = steps_main_loop(process);
		for (size_t k = 0;
		     l && l->kind <= STEPS_INFERENCE && k < l->slow.len && k < SLOW_SHOWN; k++) {
			for (size_t c = 0; !any && c < sizeof(columns) / sizeof(columns[0]); c++)
				page_right(p, columns[c], COLUMN_STEPS);
			if (!any)
				fputs("  slow steps: what was longer than usual\n", p->out);
			any = true;
			slow_text(p, process, &l->slow.data[k]);
		}
	}
}

/* Which steps are not counted, or "". */
static void left_out_text(char *ret, size_t size, const struct steps_process *process)
{
	char n[HUMAN_BYTES];
	*ret = 0;
	if (process->untraced)
		snprintf(ret, size, "; %s in which probes were off %s left out",
			 human_count(n, process->untraced), process->untraced == 1 ? "is" : "are");
	else if (process->partial_first || process->partial_last)
		snprintf(ret, size, "; those cut by the recording's ends are left out");
}

static void found_text(const struct page *p, const struct steps_process *process)
{
	const struct steps_loop *l = steps_main_loop(process);
	char n[HUMAN_BYTES], mean[HUMAN_BYTES], left_out[80];
	left_out_text(left_out, sizeof(left_out), process);
	page_styled(p, BOLD, "steps");
	page_wrapped(
		p, 5, 2, ": %s of %s, %s each on average; found in %s by '%s'; %.0f %% %s%s",
		human_count(n, l->steps), kind_names[l->kind], human_ns(mean, (uint64_t)l->mean_ns),
		process->from_launches ? "launches" : "operators", l->anchor,
		100 * l->confidence_ratio,
		process->from_launches ? "launch the usual kernels" : "run the usual operators",
		left_out);
}

/* Of fewer operations it is no news that nothing repeats. */
#define WORTH_SAYING 50

/* Why there are no steps; "" where that is no news, NULL where there are some. */
static const char *why_none(const struct steps *s)
{
	if (s->main != SIZE_MAX)
		return NULL;
	if (s->counted)
		return "calls were counted, not recorded one by one (modes tail and stats)";
	for (size_t i = 0; i < s->processes.len; i++)
		if (s->processes.data[i].ops >= WORTH_SAYING)
			return "no sequence of operations repeats";
	return "";
}

static void steps_text(const struct page *p, const void *state)
{
	const struct steps *s = state;
	const char *none = why_none(s);
	fputc('\n', p->out);
	if (none) {
		page_styled(p, BOLD, "steps");
		page_wrapped(p, 5, 2, ": none found: %s", none);
		return;
	}
	found_text(p, &s->processes.data[s->main]);
	bool pids = s->processes.len > 1;
	head_text(p, pids);
	for (size_t i = 0; i < s->processes.len; i++)
		for (size_t k = 0; k < s->processes.data[i].loops.len; k++)
			if (s->processes.data[i].loops.data[k].kind != STEPS_LOADING)
				loop_text(p, &s->processes.data[i],
					  &s->processes.data[i].loops.data[k], pids);
	loaders_text(p, s);
	slow_table(p, s);
}

/* ---- JSON ---- */

static json_t *ms_json(uint64_t ns)
{
	return json_real((double)ns / 1e6);
}

static json_t *phases_json(const uint64_t *ns)
{
	json_t *o = json_object();
	for (int i = 0; i < STEPS_PHASES; i++)
		json_object_set_new(o, phase_names[i], report_number_json(ns[i]));
	return o;
}

/* Means of phases, and their shares of the mean step: each adds up to the step. */
static void means_json(struct json_stream *out, const struct steps_loop *l)
{
	json_t *means = json_object(), *shares = json_object();
	for (int i = 0; i < STEPS_PHASES; i++) {
		double ns = l->phase_mean_ns[i];
		json_object_set_new(means, phase_names[i], json_real(ns));
		json_object_set_new(shares, phase_names[i],
				    json_real(l->mean_ns > 0 ? ns / l->mean_ns : 0));
	}
	json_stream_put(out, "mean_ms", json_real(l->mean_ns / 1e6));
	json_stream_put(out, "phases_mean_ns", means);
	json_stream_put(out, "phases_ratio", shares);
}

static json_t *slow_json(const struct steps_process *p, const struct steps_slow *slow)
{
	const struct steps_step *s = &p->steps.data[slow->step];
	json_t *o = json_object(), *causes = json_array();
	json_object_set_new(o, "index", report_number_json(s->index));
	json_object_set_new(o, "start_ns", report_number_json(s->start_ns));
	json_object_set_new(o, "duration_ns", report_number_json(s->end_ns - s->start_ns));
	json_object_set_new(o, "z", json_real(slow->z));
	json_object_set_new(o, "phase", json_string(phase_names[slow->phase]));
	json_object_set_new(o, "phase_more_ns", json_integer(slow->phase_more_ns));
	for (uint32_t i = 0; i < slow->causes_len; i++)
		json_array_append_new(causes, json_pack("{s:o,s:b,s:I}", "name",
							report_text_json(slow->causes[i].name),
							"before", slow->causes[i].before, "more_ns",
							(json_int_t)slow->causes[i].more_ns));
	json_object_set_new(o, "longer", causes);
	return o;
}

static json_t *step_json(const struct steps_step *s)
{
	json_t *o = json_object();
	json_object_set_new(o, "index", report_number_json(s->index));
	json_object_set_new(o, "start_ns", report_number_json(s->start_ns));
	json_object_set_new(o, "end_ns", report_number_json(s->end_ns));
	json_object_set_new(o, "operations", report_number_json(s->ops));
	json_object_set_new(o, "launches", report_number_json(s->launches));
	json_object_set_new(o, "phases_ns", phases_json(s->phase_ns));
	return o;
}

static void loop_json(struct json_stream *out, const struct steps_process *p,
		      const struct steps_loop *l)
{
	json_stream_put(out, "kind", json_string(kind_names[l->kind]));
	json_stream_put(out, "count", report_number_json(l->steps));
	json_stream_put(out, "stretches", report_number_json(l->stretches));
	json_stream_put(out, "median_ms", ms_json(l->median_ns));
	json_stream_put(out, "p99_ms", ms_json(l->p99_ns));
	json_stream_put(out, "min_ms", ms_json(l->min_ns));
	json_stream_put(out, "max_ms", ms_json(l->max_ns));
	json_stream_put(out, "total_ms", ms_json(l->total_ns));
	json_stream_put(out, "operations_mean", json_real(l->ops_mean));
	json_stream_put(out, "launches_mean", json_real(l->launches_mean));
	json_stream_put(out, "phases_ns", phases_json(l->phase_median_ns));
	means_json(out, l);
	json_stream_put(out, "anchor", report_text_json(l->anchor));
	json_stream_put(out, "confidence_ratio", json_real(l->confidence_ratio));
	json_stream_put(out, "slow_count", report_number_json(l->slow_total));
	json_stream_array(out, "slow");
	for (size_t i = 0; i < l->slow.len; i++)
		json_stream_put(out, NULL, slow_json(p, &l->slow.data[i]));
	json_stream_close(out);
}

/* Null where they were not asked for: a long training has a million. */
static void rows_json(struct json_stream *out, const struct steps_process *p,
		      const struct steps_loop *l, bool asked)
{
	if (!asked) {
		json_stream_put(out, "steps", json_null());
		return;
	}
	json_stream_array(out, "steps");
	for (uint32_t i = 0; i < l->steps; i++)
		json_stream_put(out, NULL, step_json(&p->steps.data[l->first + i]));
	json_stream_close(out);
}

static void process_json(struct json_stream *out, const struct steps_process *p, bool rows)
{
	json_stream_object(out, NULL);
	json_stream_put(out, "pid", report_number_json(p->pid));
	json_stream_put(out, "tid", report_number_json(p->tid));
	json_stream_put(out, "from", json_string(p->from_launches ? "launches" : "operators"));
	json_stream_put(out, "partial_first", json_boolean(p->partial_first));
	json_stream_put(out, "partial_last", json_boolean(p->partial_last));
	json_stream_put(out, "untraced_steps", report_number_json(p->untraced));
	json_stream_array(out, "loops");
	for (size_t i = 0; i < p->loops.len; i++) {
		json_stream_object(out, NULL);
		loop_json(out, p, &p->loops.data[i]);
		rows_json(out, p, &p->loops.data[i], rows);
		json_stream_close(out);
	}
	json_stream_close(out);
	json_stream_close(out);
}

static void steps_json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct steps *s = state;
	json_stream_object(out, "steps");
	if (s->main != SIZE_MAX) {
		const struct steps_process *p = &s->processes.data[s->main];
		json_stream_put(out, "pid", report_number_json(p->pid));
		loop_json(out, p, steps_main_loop(p));
	} else {
		const char *none = why_none(s);
		json_stream_put(out, "count", report_number_json(0));
		json_stream_put(out, "reason", *none ? json_string(none) : json_null());
	}
	json_stream_array(out, "processes");
	for (size_t i = 0; i < s->processes.len; i++)
		process_json(out, &s->processes.data[i], r->options->steps);
	json_stream_close(out);
	json_stream_close(out);
}

/* ---- section ---- */

static void steps_end(void *state)
{
	steps_free(state);
	free(state);
}

static void *steps_begin(const struct report *r, struct report_visitors *v)
{
	struct steps *s = xcalloc(1, sizeof(*s));
	v->before[v->nbefore++] =
		steps_visitor(s, r->source, &(struct steps_options){.pid = r->options->pid});
	return s;
}

static bool steps_are_there(const struct report *r, void *state)
{
	const struct steps *s = state;
	(void)r;
	return s->processes.len || s->counted;
}

static double steps_relevance(const struct report *r, const void *state)
{
	const struct steps *s = state;
	(void)r;
	const char *none = why_none(s);
	if (none)
		return *none ? RELEVANT_DETAIL : RELEVANT_NOT;
	return RELEVANT_STEPS;
}

const struct report_section report_steps = {.name = "steps",
					    .begin = steps_begin,
					    .make = steps_are_there,
					    .relevance = steps_relevance,
					    .text = steps_text,
					    .json = steps_json,
					    .end = steps_end};
