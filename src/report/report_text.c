/* report_text.c - the report as plain text: a header, a table per layer, remarks.
 *
 * Fits the width it is given; colour only where it is asked for. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/kernel_name.h"
#include "base/map64.h"
#include "report/report_section.h"
#include "base/human.h"
#include "report/report.h"
#include "report/report_page.h"

#define OPEN_SHOWN   10
#define LAYERS_SHOWN 100

/* One line of the header: a label, then a text that is cut to the width. */
static void header_line(const struct page *p, const char *label, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void header_line(const struct page *p, const char *label, const char *fmt, ...)
{
	char text[1024], fitted[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	char padded[16];
	snprintf(padded, sizeof(padded), "  %-11s", label);
	page_styled(p, DIM, padded);
	text_fit(fitted, sizeof(fitted), text, p->r->options->width - 13);
	fprintf(p->out, "%s\n", fitted);
}

static void header_recorded(const struct page *p)
{
	const struct rec_tables *t = p->r->tables;
	char duration[HUMAN_BYTES], when[64] = "", sites[HUMAN_BYTES];
	time_t seconds = (time_t)(p->r->start_realtime_ns / 1000000000);
	struct tm tm;
	if (seconds && localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S, ", &tm);
	const char *mode = rec_meta(t, "mode");
	header_line(p, "recorded", "%s%s%s%s", when, human_ns(duration, p->r->duration_ns),
		    mode ? ", mode " : "", mode ? mode : "");
	if (rec_meta(t, "attach_sites")) {
		const char *ms = rec_meta(t, "attach_ms"), *how = rec_meta(t, "attach_method");
		header_line(p, "probes", "%s sites%s%s%s%s%s",
			    human_count(sites, report_number(t, "attach_sites")),
			    ms ? " attached in " : "", ms ? ms : "", ms ? " ms" : "",
			    how ? " by " : "", how ? how : "");
	}
}

static void header_losses(const struct page *p)
{
	const struct report *r = p->r;
	char count[HUMAN_BYTES];
	struct buf lost = {0}, kept = {0};
	for (size_t i = 0; i < r->losses.len; i++) {
		const struct report_loss *l = &r->losses.data[i];
		struct buf *b = l->call_kept ? &kept : &lost;
		buf_printf(b, "%s%s %s", b->len ? ", " : "", l->cause,
			   human_count(count, l->count));
	}
	buf_byte(&lost, 0);
	buf_byte(&kept, 0);
	if (r->lost)
		header_line(p, "lost", "%s (%s)", human_count(count, r->lost), (char *)lost.data);
	else
		header_line(p, "lost", "0");
	if (r->incomplete)
		header_line(p, "incomplete", "%s of the calls kept (%s)",
			    human_count(count, r->incomplete), (char *)kept.data);
	buf_free(&lost);
	buf_free(&kept);
}

static void header_cost(const struct page *p)
{
	const struct report *r = p->r;
	char held[64] = "", own[96] = "";
	if (r->held_s >= 0.001)
		snprintf(held, sizeof(held), "; held for %.3f s in sum", r->held_s);
	if (r->collector_cpu_s > 0)
		snprintf(own, sizeof(own), "; eacgm itself %.2f s of CPU time, its start %.2f s",
			 r->collector_cpu_s, r->start_cpu_s);
	if (r->cpu_ratio >= 0)
		header_line(p, "cost", "%.2f %% of the job's CPU time%s%s", r->cpu_ratio * 100,
			    held, own);
	else
		header_line(p, "cost", "unknown: too little of the job's own CPU time was seen%s",
			    own);
}

static void header(const struct page *p)
{
	const struct report *r = p->r;
	const struct rec_tables *t = r->tables;
	char a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES], d[HUMAN_BYTES];
	const char *command = rec_meta(t, "command"), *target = rec_meta(t, "target");
	const char *host = rec_meta(t, "host"), *kernel = rec_meta(t, "kernel");
	page_styled(p, BOLD, r->path);
	fputc('\n', p->out);
	if (command && *command)
		header_line(p, "command", "%s", command);
	else if (target)
		header_line(p, "target", "%s", target);
	header_line(p, "host", "%s%s%s", host ? host : "unknown", kernel ? ", Linux " : "",
		    kernel ? kernel : "");
	header_recorded(p);
	size_t functions = r->summary->functions.len, processes = r->summary->processes.len;
	header_line(p, "events", "%s calls of %s %s, %s %s, %s %s", human_count(a, t->calls),
		    human_count(b, functions), functions == 1 ? "function" : "functions",
		    human_count(c, processes), processes == 1 ? "process" : "processes",
		    human_count(d, t->threads.len), t->threads.len == 1 ? "thread" : "threads");
	if (t->calls)
		header_line(p, "file", "%s, %.1f bytes an event", human_bytes(a, t->file_bytes),
			    (double)t->file_bytes / (double)t->calls);
	else
		header_line(p, "file", "%s", human_bytes(a, t->file_bytes));
	const char *stop_ms = rec_meta(t, "gpu_attach_stop_ms");
	if (stop_ms)
		header_line(p, "stopped", "%s ms at most, for CUPTI to come in", stop_ms);
	if (r->options->pid)
		header_line(p, "shown", "process %u only", r->options->pid);
	header_losses(p);
	header_cost(p);
}

/* ---- tables ---- */

static void processes_table(const struct page *p)
{
	const struct summary *s = p->r->summary;
	char count[HUMAN_BYTES];
	if (s->processes.len < 2)
		return;
	fputc('\n', p->out);
	page_styled(p, BOLD, "processes");
	fprintf(p->out, "\n%9s  %-16s %6s %9s %14s\n", "pid", "comm", "rank", "threads", "calls");
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct summary_process *q = &s->processes.data[i];
		char comm[64], rank[16] = "-";
		size_t n = text_fit(comm, sizeof(comm),
				    strtab_get(&p->r->tables->strings, q->row->comm, NULL), 16);
		if (q->row->rank >= 0)
			snprintf(rank, sizeof(rank), "%d", q->row->rank);
		fprintf(p->out, "%9u  %s%*s %6s %9" PRIu64 " %14s\n", q->row->pid, comm,
			(int)(16 - n), "", rank, q->threads, human_count(count, q->calls));
	}
}

static void function_row(const struct page *p, const struct summary_function *f, bool errors)
{
	char text[HUMAN_BYTES];
	size_t used = COLUMN_CALLS + 6 * COLUMN_TIME + (errors ? COLUMN_TIME : 0);
	page_right(p, human_count(text, f->calls), COLUMN_CALLS);
	if (errors && f->errors && p->r->options->colour)
		fputs(RED, p->out);
	if (errors)
		page_count(p, f->errors, COLUMN_TIME);
	if (errors && f->errors && p->r->options->colour)
		fputs(RESET, p->out);
	bool timed = f->calls > f->instants;
	const uint64_t times[] = {f->total_ns, f->self_ns, f->mean_ns,
				  f->p50_ns,   f->p99_ns,  f->max_ns};
	for (size_t i = 0; i < 6; i++) {
		bool known = timed && (i != 1 || f->self_known);
		page_right(p, known ? human_ns(text, times[i]) : "-", COLUMN_TIME);
	}
	char shorter[KERNEL_NAME_BYTES];
	page_rest(p, report_function_name(p->r, f, shorter, sizeof(shorter)), used);
}

static void layer_head(const struct page *p, const char *layer, bool errors)
{
	char calls[HUMAN_BYTES], functions[HUMAN_BYTES];
	uint64_t total = 0, n = 0;
	for (size_t i = 0; i < p->r->functions.len; i++) {
		if (p->r->functions.data[i]->layer != layer)
			continue;
		total += p->r->functions.data[i]->calls;
		n++;
	}
	fputc('\n', p->out);
	page_styled(p, BOLD, *layer ? layer : "(no layer)");
	fprintf(p->out, ": %s calls of %s %s\n", human_count(calls, total),
		human_count(functions, n), n == 1 ? "function" : "functions");
	page_right(p, "calls", COLUMN_CALLS);
	if (errors)
		page_right(p, "errors", COLUMN_TIME);
	static const char *const names[] = {"total", "self", "mean", "p50", "p99", "max"};
	for (size_t i = 0; i < 6; i++)
		page_right(p, names[i], COLUMN_TIME);
	fputs("  function\n", p->out);
}

static void layer_table(const struct page *p, const char *layer)
{
	bool errors = false;
	for (size_t i = 0; i < p->r->functions.len; i++)
		errors |=
			p->r->functions.data[i]->layer == layer && p->r->functions.data[i]->errors;
	layer_head(p, layer, errors);
	uint64_t shown = 0, all = 0;
	for (size_t i = 0; i < p->r->functions.len; i++) {
		const struct summary_function *f = p->r->functions.data[i];
		if (f->layer != layer)
			continue;
		all++;
		if (p->r->options->top && shown == p->r->options->top)
			continue;
		function_row(p, f, errors);
		shown++;
	}
	page_more(p, all, shown, COLUMN_CALLS);
}

/* A table for each layer, that of the first function first. */
static void layer_tables(const struct page *p)
{
	struct map64 seen = {0}; /* layers are few: what has more names them for nothing else */
	for (size_t i = 0; i < p->r->functions.len && seen.len < LAYERS_SHOWN; i++) {
		const char *layer = p->r->functions.data[i]->layer;
		uint64_t unused;
		if (map64_get(&seen, (uintptr_t)layer, &unused))
			continue;
		map64_set(&seen, (uintptr_t)layer, 1);
		layer_table(p, layer);
	}
	if (seen.len == LAYERS_SHOWN)
		fprintf(p->out, "\nonly the first %d layers are shown\n", LAYERS_SHOWN);
	map64_free(&seen);
	if (!p->r->functions.len)
		fputs("\nNo calls.\n", p->out);
}

/* ---- remarks ---- */

static void open_calls(const struct page *p)
{
	const struct summary *s = p->r->summary;
	char text[HUMAN_BYTES], name[1024];
	if (!s->open_calls_total)
		return;
	fputc('\n', p->out);
	page_styled(p, BOLD, "open when the recording ended");
	fprintf(p->out, ": %s %s\n", human_count(text, s->open_calls_total),
		s->open_calls_total == 1 ? "call" : "calls");
	for (size_t i = 0; i < s->open_calls.len && i < OPEN_SHOWN; i++) {
		const struct summary_open_call *c = &s->open_calls.data[i];
		fputs("  for", p->out);
		page_right(p, human_ns(text, c->dur_ns), COLUMN_TIME);
		size_t used = 5 + COLUMN_TIME;
		used += text_printf(p->out, "  thread %u of %u  %s ", c->tid, c->pid, c->layer);
		text_fit(name, sizeof(name), c->name, page_room(p, used));
		fprintf(p->out, "%s\n", name);
	}
}

static uint64_t note_key(const struct m_note *n)
{
	return (uint64_t)n->subject << 32 | n->reason;
}

static void notes(const struct page *p)
{
	const struct rec_tables *t = p->r->tables;
	if (!t->notes.len)
		return;
	fputc('\n', p->out);
	page_styled(p, BOLD, "notes");
	fputc('\n', p->out);
	struct map64 times = {0}; /* that are still to be told */
	for (size_t i = 0; i < t->notes.len; i++) {
		uint64_t n = 0;
		map64_get(&times, note_key(&t->notes.data[i]), &n);
		map64_set(&times, note_key(&t->notes.data[i]), n + 1);
	}
	for (size_t i = 0; i < t->notes.len; i++) {
		const struct m_note *n = &t->notes.data[i];
		char often[48] = "";
		uint64_t same = 0;
		map64_get(&times, note_key(n), &same);
		if (!same)
			continue;
		map64_set(&times, note_key(n), 0);
		if (same > 1)
			snprintf(often, sizeof(often), " (%" PRIu64 " times)", same);
		page_wrapped(p, 0, 4, "  %s: %s%s", strtab_get(&t->strings, n->subject, NULL),
			     strtab_get(&t->strings, n->reason, NULL), often);
	}
	map64_free(&times);
}

static void damage(const struct page *p)
{
	const struct rec_tables *t = p->r->tables;
	if (t->damaged_at) {
		fputc('\n', p->out);
		page_styled(p, RED, "damaged");
		page_wrapped(p, 7, 2, " at byte %" PRIu64 ": %s", t->damaged_at, t->damage);
	} else if (!t->complete) {
		fputc('\n', p->out);
		page_styled(p, RED, "cut short");
		page_wrapped(p, 9, 2,
			     ": the file has no end block; eacgm or the machine was stopped, and "
			     "what was flushed until then is here");
	}
	if (p->r->summary->blocks_unread) {
		fputc('\n', p->out);
		page_wrapped(p, 0, 2, "%" PRIu64 " blocks of calls could not be read: %s",
			     p->r->summary->blocks_unread, p->r->summary->unread.msg);
	}
}

void report_verdict_text(FILE *out, const struct report *r)
{
	struct page p = {out, r};
	header_losses(&p);
	header_cost(&p);
}

void report_text(FILE *out, const struct report *r)
{
	struct page p = {out, r};
	report_sections_head(&p);
	header(&p);
	processes_table(&p);
	report_gpu_text(&p);
	report_sections_text(&p);
	report_profile_text(&p);
	layer_tables(&p);
	open_calls(&p);
	notes(&p);
	damage(&p);
}
