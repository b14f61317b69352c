/* report_account.c - the head of the report: what ran, where the time of its main thread went, and
 * what stands out. */
#include "report/report_account.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "report/report_section.h"
#include "report/steps_words.h"

#define ROW_LEAST      100  /* one part in so many of the time: smaller rows are put together */
#define LOOP_ROW_LEAST 20   /* likewise: there are more lines of other things */
#define NONE_LEAST     2000 /* what would be 0.0 % has no row */
#define OTHERS	       3    /* groups of other processes that have a line */
#define OTHERS_OF_LOOP 2    /* there are more lines of other things */
#define TOP_OWNERS     2
#define START_OWNERS   3  /* of a time that has no table */
#define START_LEAST    20 /* one part in so many of it */

/* ids: for programs */
static const struct {
	const char *id, *words;
} owners[ACCOUNT_OWNERS] = {
	[ACCOUNT_PYTHON] = {"python", "running Python code"},
	[ACCOUNT_IMPORT] = {"import", "importing Python modules"},
	[ACCOUNT_COMPILE] = {"compile", "compiling"},
	[ACCOUNT_OPERATORS] = {"operators", "running PyTorch's operators"},
	[ACCOUNT_MPI] = {"mpi", "in MPI, which polls for other ranks"},
	[ACCOUNT_NATIVE] = {"native", "running native code"},
	[ACCOUNT_KERNEL] = {"kernel", "running in the Linux kernel"},
	[ACCOUNT_CPU] = {"cpu", "running on the CPU"},
	[ACCOUNT_GPU] = {"gpu", "waiting for the GPU"},
	[ACCOUNT_DATA] = {"data", "waiting for data of its child processes"},
	[ACCOUNT_COMPILERS] = {"compilers", "waiting for compilers that it started"},
	[ACCOUNT_LOCK] = {"lock", "waiting for locks and conditions"},
	[ACCOUNT_DISK] = {"disk", "waiting for the disk"},
	[ACCOUNT_NETWORK] = {"network", "waiting for the network"},
	[ACCOUNT_PIPE] = {"pipe", "waiting for pipes"},
	[ACCOUNT_POLL] = {"poll", "waiting for events (poll, epoll, select)"},
	[ACCOUNT_SLEEP] = {"sleep", "sleeping"},
	[ACCOUNT_SIGNAL] = {"signal", "waiting for signals"},
	[ACCOUNT_CHILD] = {"child", "waiting for child processes to end"},
	[ACCOUNT_MEMORY] = {"memory", "waiting for pages of memory"},
	[ACCOUNT_RUNNABLE] = {"runnable", "ready to run, but no CPU was free"},
	[ACCOUNT_HELD] = {"held", "stopped by eACGM while it attached"},
	[ACCOUNT_STOPPED] = {"stopped", "stopped by a signal or a debugger"},
	[ACCOUNT_OTHER] = {"other", "anything else"},
};

const char *account_owner_words(enum account_owner owner)
{
	return owners[owner].words;
}

const char *account_owner_id(enum account_owner owner)
{
	return owners[owner].id;
}

/* ---- the section ---- */

static void *begin(const struct report *r, struct report_visitors *v)
{
	(void)v;
	if (!r->tables->wait_totals.len || r->options->only || r->options->from_ns ||
	    r->options->to_ns)
		return NULL;
	struct account_state *s = xcalloc(1, sizeof(*s));
	s->r = r;
	return s;
}

static bool make(const struct report *r, void *state)
{
	struct account_state *s = state;
	account_make(&s->account, r->source, r->timeline, r->summary, r->options->pid);
	account_loop_find(s);
	account_groups_make(s);
	const struct account_thread *th = account_main(&s->account);
	account_users_make(&s->users, r->tables, th ? th->pid : 0);
	account_advise(s);
	if (s->loop.steps)
		slow_stretches_find(
			&s->slow, &s->loop.process->steps.data[s->loop.steps->first + s->loop.slow],
			s->loop.count);
	return s->account.threads.len;
}

static void end(void *state)
{
	struct account_state *s = state;
	account_free(&s->account);
	account_idle_free(&s->devices);
	account_users_free(&s->users);
	slow_stretches_free(&s->slow);
	vec_free(&s->groups);
	vec_free(&s->left);
	free(s);
}

/* ---- text ---- */

/* "train.py ended after 3.10 s; yes (42) went on for 56.9 s more" */
static void left_over(const struct page *p, const struct account_state *s, const char *name)
{
	struct buf line = {0};
	char took[HUMAN_BYTES], more[HUMAN_BYTES];
	if (!s->left.len)
		return;
	buf_printf(&line, "%s ended after %s; ", name, human_ns(took, s->command_ns));
	for (size_t i = 0; i < s->left.len && i < OTHERS; i++) {
		buf_printf(&line, "%s", i ? ", " : "");
		account_say_group(&line, &s->left.data[i]);
	}
	if (s->left.len > OTHERS)
		buf_printf(&line, " and others");
	buf_printf(&line, ", which it had started, went on for %s more",
		   human_ns(more, s->left_ns));
	if (s->left_open)
		buf_printf(&line, ", and did not end before the recording did");
	buf_byte(&line, 0);
	page_wrapped(p, 0, 2, "%s", (char *)line.data);
	buf_free(&line);
}

/* record --all: no process is what it is about. */
bool account_is_whole_host(const struct report *r)
{
	const char *target = rec_meta(r->tables, "target");
	return target && !strcmp(target, TARGET_ALL);
}

static void what_ran(const struct page *p, const struct account_state *s,
		     const struct account_thread *th)
{
	const struct report *r = p->r;
	char duration[HUMAN_BYTES], processes[HUMAN_BYTES], lost[HUMAN_BYTES] = "";
	const char *host = rec_meta(r->tables, "host"), *command = rec_meta(r->tables, "command");
	const char *program = rec_meta(r->tables, "program");
	uint64_t n = r->programs->processes;
	bool all = account_is_whole_host(r);
	char *name = text_clean(all		      ? "the whole host"
				: program && *program ? program
						      : th->program);
	page_styled(p, BOLD, name);
	if (!command && !all)
		fprintf(p->out, " (pid %u)", th->pid);
	fprintf(p->out, "%s %s%s%s, %s %s; ", command ? " ran for" : " was watched for",
		human_ns(duration, r->duration_ns), host ? " on " : "", host ? host : "",
		human_count(processes, n), n == 1 ? "process" : "processes");
	if (r->lost)
		fprintf(p->out, "%s %s lost\n", human_count(lost, r->lost),
			r->lost == 1 ? "event was" : "events were");
	else
		fputs("nothing was lost\n", p->out);
	left_over(p, s, name);
	free(name);
}

static void row(const struct page *p, uint64_t ns, uint64_t whole, const char *words)
{
	char share[HUMAN_BYTES];
	snprintf(share, sizeof(share), "%.1f %%", account_percent(ns, whole));
	page_right(p, share, COLUMN_TIME);
	page_ns(p, ns, COLUMN_TIME);
	fprintf(p->out, "  %s\n", words);
}

struct owned {
	enum account_owner owner;
	uint64_t ns;
};

static int compare_owned(const void *a, const void *b)
{
	const struct owned *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->owner < y->owner ? -1 : x->owner > y->owner;
}

/* Most first. */
static void sort_owners(struct owned ret[static ACCOUNT_OWNERS],
			const uint64_t ns[static ACCOUNT_OWNERS])
{
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		ret[i] = (struct owned){i, ns[i]};
	qsort(ret, ACCOUNT_OWNERS, sizeof(*ret), compare_owned);
}

void account_say_owners(struct buf *to, const struct account_thread *th)
{
	struct owned of[ACCOUNT_OWNERS];
	char time[HUMAN_BYTES];
	int named = 0;
	sort_owners(of, th->ns);
	for (int i = 0; i < ACCOUNT_OWNERS && named < START_OWNERS; i++)
		if (of[i].ns && of[i].ns * START_LEAST >= th->wall_ns)
			buf_printf(to, "%s%s %s", named++ ? ", " : "", owners[of[i].owner].words,
				   human_ns(time, of[i].ns));
}

static void main_title(const struct page *p, const struct account_thread *th)
{
	char wall[HUMAN_BYTES];
	char *name = text_clean(th->program);
	fputc('\n', p->out);
	page_styled(p, BOLD, "where the time went");
	fprintf(p->out, ": the main thread of %s (%u)", name, th->pid);
	if (th->process && th->process->rank >= 0)
		fprintf(p->out, ", rank %d", th->process->rank);
	fprintf(p->out, ", %s\n", human_ns(wall, th->wall_ns));
	free(name);
}

static void main_table(const struct page *p, const struct account_thread *th, uint64_t least)
{
	struct owned of[ACCOUNT_OWNERS];
	uint64_t rest_ns = 0;
	sort_owners(of, th->ns);
	for (int i = 0; i < ACCOUNT_OWNERS; i++) {
		if (of[i].owner == ACCOUNT_OTHER || of[i].ns * least < th->wall_ns)
			rest_ns += of[i].ns;
		else if (of[i].ns)
			row(p, of[i].ns, th->wall_ns, owners[of[i].owner].words);
	}
	if (rest_ns * NONE_LEAST >= th->wall_ns)
		row(p, rest_ns, th->wall_ns, owners[ACCOUNT_OTHER].words);
}

/* "  cc1plus × 12: 33.1 s on the CPU; of its time 80 % running native code, 12 % ..." */
static void group_line(const struct page *p, const struct account_group *g)
{
	struct owned of[ACCOUNT_OWNERS];
	struct buf line = {0};
	char run[HUMAN_BYTES];
	sort_owners(of, g->ns);
	buf_printf(&line, "  ");
	account_say_group(&line, g);
	buf_printf(&line, "%s: %s on the CPU; of %s time",
		   !g->children	      ? ""
		   : g->processes > 1 ? ", its children"
				      : ", its child",
		   human_ns(run, g->run_ns), g->processes > 1 ? "their" : "its");
	for (int i = 0; i < TOP_OWNERS && of[i].ns * ROW_LEAST >= g->wall_ns && of[i].ns; i++)
		buf_printf(&line, "%s %.0f %% %s", i ? "," : "",
			   account_percent(of[i].ns, g->wall_ns), owners[of[i].owner].words);
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static void others(const struct page *p, const struct account_state *s)
{
	uint64_t run_ns = 0;
	for (size_t i = 0; i < s->groups.len; i++)
		run_ns += s->groups.data[i].run_ns;
	if (!s->groups.len)
		return;
	fputs("other main threads:\n", p->out);
	for (size_t i = 0; i < s->groups.len && i < (s->account.has_loop ? OTHERS_OF_LOOP : OTHERS);
	     i++)
		if (s->groups.data[i].run_ns * ROW_LEAST >= run_ns)
			group_line(p, &s->groups.data[i]);
}

static void steps_line(const struct page *p, const struct account_state *s)
{
	const struct account_loop *l = &s->loop;
	struct buf line = {0};
	if (!l->steps)
		return;
	struct steps_means means = {.process = l->process,
				    .count = l->count,
				    .further = l->slow,
				    .kind = l->steps->kind,
				    .mean_ns = l->mean_ns};
	memcpy(means.phase_mean_ns, l->phase_mean_ns, sizeof(means.phase_mean_ns));
	buf_printf(&line, "steps: ");
	steps_say_means(&line, &means);
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

/* "    do: num_workers=8 in its DataLoader: would save about 4.31 s of the loop (82 %)" */
static void remedy(const struct page *p, const struct account_state *s,
		   const struct account_finding *f)
{
	char saving[HUMAN_BYTES];
	if (!f->saving_ns)
		return;
	page_wrapped(p, 0, 8, "    do: %s: would save %sabout %s of the %s (%.0f %%)", f->remedy,
		     f->at_most ? "at most " : "", human_ns(saving, f->saving_ns),
		     f->of_run || !s->account.has_loop ? "run" : "loop",
		     account_percent(f->saving_ns, account_saving_of(s, f)));
}

static void stands_out(const struct page *p, const struct account_state *s)
{
	struct account_finding found[FINDINGS_ALL];
	size_t n = account_findings_told(s, account_findings(s, found));
	fputc('\n', p->out);
	page_styled(p, BOLD, "what stands out");
	if (s->groups.len) {
		const struct account_thread *th = account_main(&s->account);
		char *name = text_clean(th->program);
		fprintf(p->out, " of %s (%u)", name, th->pid);
		free(name);
	}
	fputc('\n', p->out);
	for (size_t i = 0; i < n; i++) {
		page_wrapped(p, 0, 4, "  - %s", found[i].text);
		remedy(p, s, &found[i]);
	}
	if (!n)
		fputs("  Nothing: no single wait or cost is large.\n", p->out);
}

static void text(const struct page *p, const void *state)
{
	const struct account_state *s = state;
	const struct account_thread *th = account_main(&s->account);
	if (!th)
		return;
	what_ran(p, s, th);
	main_title(p, th);
	account_say_phases(p, s);
	main_table(p, account_subject(&s->account),
		   s->account.has_loop ? LOOP_ROW_LEAST : ROW_LEAST);
	others(p, s);
	account_say_threads(p, s);
	account_say_cpus(p, s);
	account_gpu_lines(p, s);
	steps_line(p, s);
	stands_out(p, s);
}

/* ---- JSON ---- */

json_t *account_owners_json(const uint64_t ns[static ACCOUNT_OWNERS])
{
	json_t *ret = json_object();
	for (int i = 0; i < ACCOUNT_OWNERS; i++)
		if (ns[i])
			json_object_set_new(ret, owners[i].id, report_number_json(ns[i]));
	return ret;
}

static json_t *thread_json(const struct account_thread *th)
{
	double limit = account_cpu_limit(th);
	return json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "pid", (int)th->pid, "program",
			 report_text_json(th->program), "wall_ns", report_number_json(th->wall_ns),
			 "running_ns", report_number_json(th->run_ns), "samples",
			 report_number_json(th->samples), "owners", account_owners_json(th->ns),
			 "cpus", th->cpus ? report_number_json(th->cpus) : json_null(), "cpu_limit",
			 limit > 0 ? json_real(limit) : json_null());
}

/* null: it has no loop. */
static json_t *phases_json(const struct account_state *s)
{
	const struct account_thread *phases = s->account.phases;
	if (!s->account.has_loop)
		return json_null();
	return json_pack("{s:o,s:o,s:o,s:o}", "before", thread_json(&phases[ACCOUNT_BEFORE]),
			 "loop", thread_json(&phases[ACCOUNT_LOOP]), "after",
			 thread_json(&phases[ACCOUNT_AFTER]), "slow_first_steps",
			 report_number_json(s->loop.slow));
}

static json_t *left_json(const struct account_state *s)
{
	if (!s->left.len)
		return json_null();
	json_t *list = json_array();
	for (size_t i = 0; i < s->left.len; i++)
		json_array_append_new(list, json_pack("{s:o,s:o,s:i}", "program",
						      report_text_json(s->left.data[i].program),
						      "processes",
						      report_number_json(s->left.data[i].processes),
						      "pid", (int)s->left.data[i].pids[0]));
	return json_pack("{s:o,s:o,s:b,s:o}", "command_ns", report_number_json(s->command_ns),
			 "more_ns", report_number_json(s->left_ns), "open", s->left_open,
			 "programs", list);
}

static json_t *line_json(const struct account_line *l)
{
	return json_pack("{s:o,s:o,s:o,s:o}", "function", report_text_json(l->function), "file",
			 report_text_json(l->file), "line", report_number_json(l->line), "ns",
			 report_number_json(l->ns));
}

static json_t *place_json(const struct advice_place *at)
{
	return at->line ? json_pack("{s:o,s:o,s:o}", "function", report_text_json(at->function),
				    "file", report_text_json(at->file), "line",
				    report_number_json(at->line))
			: json_null();
}

static json_t *advice_json(const struct account_state *s, const struct account_finding *f)
{
	uint64_t of_ns = account_saving_of(s, f);
	return json_pack("{s:s,s:o,s:o,s:o,s:b,s:b,s:o,s:o}", "kind", f->name, "cost_ns",
			 report_number_json(f->cost_ns), "saving_ns",
			 report_number_json(f->saving_ns), "share",
			 json_real(of_ns ? (double)f->saving_ns / (double)of_ns : 0), "of_run",
			 f->of_run || !s->account.has_loop, "at_most", f->at_most, "remedy",
			 report_text_json(f->remedy), "place", place_json(&f->place));
}

static json_t *finding_json(const struct account_finding *f)
{
	json_t *o = json_pack("{s:s,s:o,s:o}", "name", f->name, "cost_ns",
			      report_number_json(f->cost_ns), "text", report_text_json(f->text));
	if (f->by)
		json_object_set_new(o, "by", account_peers_json(f->by));
	if (f->at && f->at->waits.ns)
		json_object_set_new(o, "waits_at", line_json(&f->at->waits));
	if (f->at && f->at->holds.ns)
		json_object_set_new(o, "holder_at", line_json(&f->at->holds));
	if (f->slow)
		json_object_set_new(o, "slow_steps", account_slow_steps_json(f->slow));
	return o;
}

static void json(struct json_stream *out, const struct report *r, const void *state)
{
	const struct account_state *s = state;
	struct account_finding found[FINDINGS_ALL];
	size_t n = account_findings(s, found), told = account_findings_told(s, n);
	json_t *o = json_object(), *list = json_array(), *threads = json_array();
	json_t *advice = json_array();
	(void)r;
	for (size_t i = 0; i < s->account.threads.len; i++)
		json_array_append_new(threads, thread_json(&s->account.threads.data[i]));
	for (size_t i = 0; i < told; i++)
		json_array_append_new(list, finding_json(&found[i]));
	for (size_t i = 0; i < n; i++)
		if (found[i].saving_ns)
			json_array_append_new(advice, advice_json(s, &found[i]));
	json_object_set_new(o, "main", thread_json(account_main(&s->account)));
	json_object_set_new(o, "threads", threads);
	json_object_set_new(o, "phases", phases_json(s));
	json_object_set_new(o, "cpu_users", account_users_json(s));
	json_object_set_new(o, "gpus", account_gpus_json(s));
	json_object_set_new(o, "stands_out", list);
	json_object_set_new(o, "advice", advice);
	json_object_set_new(o, "left_over", left_json(s));
	json_stream_put(out, "account", o);
}

static void parts(const struct report *r, const void *state, struct report_parts *ret)
{
	(void)r;
	report_part_add(ret, &(struct report_part){.name = "account",
						   .relevance = RELEVANT_ACCOUNT,
						   .whole = true,
						   .text = text,
						   .state = state});
}

const struct report_section report_account = {
	.name = "account", .begin = begin, .make = make, .parts = parts, .json = json, .end = end};
