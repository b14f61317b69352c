/* report_profile.c - what samples say, in the report's text and JSON. */
#include <inttypes.h>
#include <string.h>

#include "base/files.h"
#include "base/human.h"
#include "report/report_json.h"
#include "report/report_section.h"

#define MANY_STOP   0.1
#define LEAST_SHARE 0.01 /* of the CPU time: below it the user's code is no better than other */

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* ---- text ---- */

/* " (no_rules 12, no_table 3)"; nothing where all that were taken are whole. */
static void ends_text(struct buf *ret, const struct profile *f)
{
	char count[HUMAN_BYTES];
	bool any = false;
	for (size_t i = 0; i < f->ends.len; i++) {
		const struct profile_end *e = &f->ends.data[i];
		if (!strcmp(e->reason, PROFILE_NOT_TAKEN))
			continue;
		buf_printf(ret, "%s%s %s", any ? ", " : " (", e->reason,
			   human_count(count, e->samples));
		any = true;
	}
	buf_printf(ret, "%s", any ? ")" : "");
	buf_byte(ret, 0);
}

/* Files whose rules were made in this recording are known in the next. */
static bool next_knows_more(const struct report *r)
{
	return report_number(r->tables, "unwind_files") >
		       report_number(r->tables, "unwind_files_cached") &&
	       !report_number(r->tables, "unwind_files_refused");
}

static bool made_code_has_names(const struct rec_tables *t)
{
	for (size_t i = 0; i < t->frames.len; i++)
		if (t->frames.data[i].name &&
		    !strcmp(strtab_get(&t->strings, t->frames.data[i].library, NULL),
			    LIBRARY_OF_MADE_CODE))
			return true;
	return false;
}

/* With which options a runtime that is in the recording writes down what the code that it makes is
 * called. */
static const char *naming_options(const struct rec_tables *t)
{
	static const struct {
		const char *program, *options;
	} known[] = {
		{"java", "java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions "
			 "-XX:+DumpPerfMapAtExit names it"},
		{"node", "node --perf-basic-prof --interpreted-frames-native-stack names it"},
	};
	if (made_code_has_names(t))
		return "their callers are not known";
	for (size_t i = 0; i < t->processes.len; i++)
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (!strcmp(path_file_name(strtab_get(&t->strings,
							      t->processes.data[i].command, NULL)),
				    known[k].program))
				return known[k].options;
	return "docs/profiling.md says with which options node and Java name it";
}

/* In plain words why many stacks stop, and whether recording once more would help. */
static void end_text(const struct page *p, const struct profile_end *e)
{
	const struct profile *f = p->r->profile;
	char count[HUMAN_BYTES];
	if (!strcmp(e->reason, "no_table") && next_knows_more(p->r) &&
	    ratio(e->samples, f->samples) >= LEAST_SHARE)
		page_wrapped(p, 0, 4,
			     "  %s stacks stop in files whose unwind rules were still being made: "
			     "a second recording has those rules",
			     human_count(count, e->samples));
	bool in_no_file = !strcmp(e->reason, "no_mapping");
	bool no_rules = !strcmp(e->reason, "no_rules");
	bool made = in_no_file || (no_rules && !strcmp(e->library, LIBRARY_OF_MADE_CODE));
	uint64_t n = in_no_file ? e->samples : e->library_samples;
	if (ratio(n, f->samples) < MANY_STOP || !(made || (no_rules && *e->library)))
		return;
	if (made)
		page_wrapped(p, 0, 4,
			     "  %s stacks stop in code that was made while the program ran: %s",
			     human_count(count, n), naming_options(p->r->tables));
	else
		page_wrapped(p, 0, 4,
			     "  %s stacks stop in code of %s that has no unwind rules: their "
			     "callers are not known, and recording again will not help",
			     human_count(count, n), path_file_name(e->library));
}

/* Of the stacks that were taken. */
static double whole_ratio(const struct profile *f)
{
	return ratio(f->whole, f->samples - f->no_stack);
}

/* "99.8 % of the stacks are whole"; 100.0 where none is not. */
static void whole_text(char *ret, size_t size, const struct profile *f)
{
	double percent = 100 * whole_ratio(f);
	if (percent > 99.9 && f->whole < f->samples - f->no_stack)
		percent = 99.9;
	if (f->samples == f->no_stack)
		snprintf(ret, size, "no stack was taken");
	else
		snprintf(ret, size, "%.1f %% of the stacks are whole", percent);
}

/* "; 0.1 % of the samples have no stack" */
static void no_stack_text(char *ret, size_t size, const struct profile *f)
{
	double percent = 100 * ratio(f->no_stack, f->samples);
	*ret = 0;
	if (f->no_stack && f->no_stack < f->samples)
		snprintf(ret, size, "; %s%.1f %% of the samples have no stack",
			 percent < 0.1 ? "below " : "", percent < 0.1 ? 0.1 : percent);
}

static void head_text(const struct page *p)
{
	const struct profile *f = p->r->profile;
	char samples[HUMAN_BYTES], total[HUMAN_BYTES], guessed[64] = "", whole[64], none[64];
	struct buf ends = {0};
	fputc('\n', p->out);
	page_styled(p, BOLD, "profile");
	if (!p->r->options->brief)
		ends_text(&ends, f);
	else
		buf_byte(&ends, 0);
	if (f->guessed && !p->r->options->brief)
		snprintf(guessed, sizeof(guessed), "; %.1f %% go through code without unwind rules",
			 100 * ratio(f->guessed, f->samples));
	whole_text(whole, sizeof(whole), f);
	no_stack_text(none, sizeof(none), f);
	page_wrapped(p, 7, 2, ": %s %s, %s of CPU time; %s%s%s%s", human_count(samples, f->samples),
		     f->samples == 1 ? "sample" : "samples", human_ns(total, f->total_ns), whole,
		     (char *)ends.data, none, guessed);
	buf_free(&ends);
	for (size_t i = 0; i < f->ends.len; i++)
		end_text(p, &f->ends.data[i]);
	if (f->own_ns)
		fprintf(p->out,
			"  [eacgm]: %s took %s more, %.1f %% of all; they are in no row below\n",
			p->r->programs->own.processes ? "the probes and eACGM's own processes"
						      : "the probes",
			human_ns(total, f->own_ns),
			100 * ratio(f->own_ns, f->own_ns + f->total_ns));
}

static void share_text(const struct page *p, uint64_t ns)
{
	char text[HUMAN_BYTES];
	page_right(p, human_ns(text, ns), COLUMN_TIME);
	snprintf(text, sizeof(text), "%.1f %%", 100 * ratio(ns, p->r->profile->total_ns));
	page_right(p, text, COLUMN_TIME);
}

/* "matmul (libx.so)", "D.__getitem__ (train.py:7)" */
static void function_text(const struct page *p, const struct profile_function *f)
{
	char full[1024];
	const char *library = path_file_name(f->library);
	size_t len = strlen(f->name);
	share_text(p, f->self_ns);
	share_text(p, f->total_ns);
	if (*library && f->name[0] != '[')
		snprintf(full, sizeof(full), "%s (%s)", f->name, library);
	else if (f->line && len && f->name[len - 1] == ')')
		snprintf(full, sizeof(full), "%.*s:%u)", (int)(len - 1), f->name, f->line);
	else
		snprintf(full, sizeof(full), "%s", f->name);
	page_rest(p, full, 4 * COLUMN_TIME);
}

/* Whose code comes first: the user's, as far as it has a part in the time that is worth a line. */
static unsigned group_of(const struct profile *p, const struct profile_function *f)
{
	if (f->code != PROFILE_START && ratio(f->total_ns, p->total_ns) < LEAST_SHARE)
		return PROFILE_START;
	return f->code == PROFILE_START ? PROFILE_CODES : f->code;
}

static int compare_totals(const void *a, const void *b, void *profile)
{
	const struct profile_function *x = *(const struct profile_function *const *)a;
	const struct profile_function *y = *(const struct profile_function *const *)b;
	unsigned group_x = group_of(profile, x), group_y = group_of(profile, y);
	if (group_x != group_y)
		return group_x < group_y ? -1 : 1;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void functions_text(const struct page *p, const struct profile_function *const *order,
			   size_t n, const char *by)
{
	static const char *const columns[] = {"self", "share", "total", "share"};
	size_t shown = page_shown(p, n);
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		page_right(p, columns[i], COLUMN_TIME);
	page_rest(p, by, 4 * COLUMN_TIME);
	for (size_t i = 0; i < shown; i++)
		function_text(p, order[i]);
	page_more(p, n, shown, COLUMN_TIME);
}

static const struct profile_function **all_functions(const struct profile *f)
{
	const struct profile_function **order = xcalloc(f->functions.len + 1, sizeof(*order));
	for (size_t i = 0; i < f->functions.len; i++)
		order[i] = &f->functions.data[i];
	return order;
}

/* What starts programs is on every stack: only the whole table has it. */
static void by_total(const struct page *p, const void *unused)
{
	const struct profile *f = p->r->profile;
	const struct profile_function **order = all_functions(f);
	size_t n = f->functions.len;
	(void)unused;
	head_text(p);
	qsort_r(order, n, sizeof(*order), compare_totals, (void *)f);
	while (p->r->options->brief && n && order[n - 1]->code == PROFILE_START)
		n--;
	functions_text(p, order, n, "function: the user's own code first, then by total time");
	free(order);
}

/* Those without own time come last, and only call others. */
static void by_own(const struct page *p, const void *unused)
{
	const struct profile *f = p->r->profile;
	const struct profile_function **order = all_functions(f);
	size_t n = f->functions.len;
	(void)unused;
	while (n && !order[n - 1]->self_ns)
		n--;
	fputc('\n', p->out);
	functions_text(p, order, n, "function, by own time");
	free(order);
}

static void waits_text(const struct page *p, const void *unused)
{
	const struct profile *f = p->r->profile;
	char waits[HUMAN_BYTES], total[HUMAN_BYTES];
	(void)unused;
	fputc('\n', p->out);
	page_styled(p, BOLD, "off the CPU");
	fprintf(p->out, ": %s in %s %s, all threads together\n", human_ns(total, f->waited_ns),
		human_count(waits, f->waits), f->waits == 1 ? "wait" : "waits");
	page_right(p, "waits", COLUMN_CALLS);
	page_right(p, "time", COLUMN_TIME);
	page_right(p, "share", COLUMN_TIME);
	fputs("  for\n", p->out);
	for (size_t i = 0; i < f->reasons.len; i++) {
		const struct profile_wait *w = &f->reasons.data[i];
		char share[HUMAN_BYTES];
		snprintf(share, sizeof(share), "%.1f %%", 100 * ratio(w->total_ns, f->waited_ns));
		page_right(p, human_count(waits, w->waits), COLUMN_CALLS);
		page_right(p, human_ns(total, w->total_ns), COLUMN_TIME);
		page_right(p, share, COLUMN_TIME);
		text_printf(p->out, "  %s\n", w->reason);
	}
	if (f->waits_no_stack && f->waits_no_stack < f->waits)
		page_wrapped(p, 0, 4,
			     "  [stack not taken]: %s of it, in %s waits that were short, or too "
			     "many for stacks",
			     human_ns(total, f->waited_no_stack_ns),
			     human_count(waits, f->waits_no_stack));
}

/* Threads that wait are mostly idle: what they wait for is less than what runs. */
void report_profile_parts(const struct report *r, struct report_parts *ret)
{
	const struct profile *f = r->profile;
	double cpu = f->samples ? report_share(r, f->total_ns) : RELEVANT_NOT;
	double waits = !f->waits    ? RELEVANT_NOT
		       : f->samples ? cpu * 0.9
				    : RELEVANT_AFTER * report_share(r, f->waited_ns);
	report_part_add(
		ret, &(struct report_part){.name = "profile", .relevance = cpu, .text = by_total});
	report_part_add(ret,
			&(struct report_part){.name = "profile", .relevance = cpu, .text = by_own});
	report_part_add(ret, &(struct report_part){
				     .name = "off-cpu", .relevance = waits, .text = waits_text});
}

/* ---- JSON ---- */

static json_t *function_json(const struct profile *p, const struct profile_function *f)
{
	static const char *const codes[] = PROFILE_CODE_NAMES;
	static const char *const kinds[CALLTREE_KINDS] = {"native",   "python", "kernel",
							  "operator", "gpu",	"other"};
	json_t *o = json_object();
	json_object_set_new(o, "name", report_text_json(f->name));
	json_object_set_new(o, "file", *f->file ? report_text_json(f->file) : json_null());
	json_object_set_new(o, "library", *f->library ? report_text_json(f->library) : json_null());
	json_object_set_new(o, "kind", json_string(kinds[f->kind]));
	json_object_set_new(o, "line", f->line ? report_number_json(f->line) : json_null());
	json_object_set_new(o, "code", json_string(codes[f->code]));
	json_object_set_new(o, "self_ns", report_number_json(f->self_ns));
	json_object_set_new(o, "total_ns", report_number_json(f->total_ns));
	json_object_set_new(o, "self_ratio", json_real(ratio(f->self_ns, p->total_ns)));
	json_object_set_new(o, "total_ratio", json_real(ratio(f->total_ns, p->total_ns)));
	return o;
}

static json_t *waits_json(const struct profile *p)
{
	json_t *o = json_object(), *reasons = json_object();
	json_object_set_new(o, "waits", report_number_json(p->waits));
	json_object_set_new(o, "total_ns", report_number_json(p->waited_ns));
	for (size_t i = 0; i < p->reasons.len; i++) {
		const struct profile_wait *w = &p->reasons.data[i];
		json_object_set_new(reasons, w->reason,
				    json_pack("{s:o,s:o}", "waits", report_number_json(w->waits),
					      "total_ns", report_number_json(w->total_ns)));
	}
	json_object_set_new(o, "reasons", reasons);
	return o;
}

void report_profile_json(struct json_stream *out, const struct report *r)
{
	const struct profile *p = r->profile;
	uint64_t top = r->options->top;
	if (!p->samples && !p->waits) {
		json_stream_put(out, "profile", json_null());
		return;
	}
	json_t *ends = json_object();
	for (size_t i = 0; i < p->ends.len; i++)
		json_object_set_new(ends, p->ends.data[i].reason,
				    report_number_json(p->ends.data[i].samples));
	json_stream_object(out, "profile");
	json_stream_put(out, "samples", report_number_json(p->samples));
	json_stream_put(out, "period_ns",
			p->period_ns ? report_number_json(p->period_ns) : json_null());
	json_stream_put(out, "total_ns", report_number_json(p->total_ns));
	json_stream_put(out, "own_ns", report_number_json(p->own_ns));
	json_stream_put(out, "end_reasons", ends);
	json_stream_put(out, "whole_ratio",
			p->samples > p->no_stack ? json_real(whole_ratio(p)) : json_null());
	json_stream_put(out, "no_stack_ratio",
			p->samples ? json_real(ratio(p->no_stack, p->samples)) : json_null());
	json_stream_put(out, "guessed_ratio",
			p->samples ? json_real(ratio(p->guessed, p->samples)) : json_null());
	json_stream_array(out, "functions");
	for (size_t i = 0; i < p->functions.len && (!top || i < top); i++)
		json_stream_put(out, NULL, function_json(p, &p->functions.data[i]));
	json_stream_close(out);
	json_stream_put(out, "offcpu", p->waits ? waits_json(p) : json_null());
	json_stream_close(out);
}
