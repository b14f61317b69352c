/* report_text.c - the report as plain text: how it was recorded, open calls, damage; the rest are
 * sections.
 *
 * Fits the width it is given; colour only where it is asked for. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report/report_section.h"
#include "base/human.h"
#include "report/report.h"
#include "report/report_page.h"

#define OPEN_SHOWN    10
#define SHARES_FROM_S 0.05 /* of CPU time */

/* A label, then a text that goes on in more lines where it is too wide: no number is cut. */
static void header_line(const struct page *p, const char *label, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void header_line(const struct page *p, const char *label, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	char padded[16];
	snprintf(padded, sizeof(padded), "  %-11s", label);
	page_styled(p, DIM, padded);
	page_wrapped(p, 13, 13, "%s", text);
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

/* A share of little is noise: it is told in time. */
static void header_running_cost(const struct page *p)
{
	const struct report *r = p->r;
	const struct cost *c = &r->cost;
	char own[64] = "";
	if (r->collector_cpu_s >= 0.005)
		snprintf(own, sizeof(own), "; eacgm itself %.2f s beside it", r->collector_cpu_s);
	if (!r->cost_known)
		header_line(p, "cost", "unknown: the recording does not say it");
	else if (c->ran_cpu_s < 0)
		header_line(p, "cost",
			    "while it ran %.1f ms of CPU time; what the job used is "
			    "not known%s",
			    c->running_cpu_s * 1e3, own);
	else if (c->ratio < 0 || c->ran_cpu_s < SHARES_FROM_S)
		header_line(p, "cost", "while it ran %.1f ms of the job's %.1f ms of CPU time%s",
			    c->running_cpu_s * 1e3, c->ran_cpu_s * 1e3, own);
	else
		header_line(p, "cost",
			    "while it ran %.1f %% of the job's CPU time (%.2f of %.2f s)%s",
			    c->ratio * 100, c->running_cpu_s, c->ran_cpu_s, own);
}

/* Of the budget's own reckoning, which has eacgm's time on busy CPUs in it, and no start-ups. */
static void header_budget(const struct page *p)
{
	const struct rec_tables *t = p->r->tables;
	const char *budget = rec_meta(t, "budget_ratio"), *used = rec_meta(t, "budget_cost_ratio");
	size_t n = t->coverages.len;
	if (budget && used)
		header_line(p, "budget", "%.3g %%, used %.1f %%%s", 100 * strtod(budget, NULL),
			    100 * strtod(used, NULL),
			    n ? "; calls behind a '>' were not all seen" : "");
	if (n)
		header_line(p, "",
			    "%zu function%s on in bursts alone, for a time or to the end: "
			    "see notes",
			    n, n == 1 ? " was" : "s were");
}

static void header_cost(const struct page *p)
{
	const struct report *r = p->r;
	char held[96] = "";
	header_running_cost(p);
	header_budget(p);
	if (r->held_s >= 0.001)
		snprintf(held, sizeof(held), "the job was held for %.2f s in sum%s", r->held_s,
			 r->start_cpu_s > 0 ? "; " : "");
	if (r->start_cpu_s > 0)
		header_line(p, "start-up", "once: %seacgm used %.2f s of CPU time", held,
			    r->start_cpu_s);
	else if (held[0])
		header_line(p, "start-up", "once: %s", held);
}

static void header(const struct page *p, const void *unused)
{
	const struct report *r = p->r;
	const struct rec_tables *t = r->tables;
	char a[HUMAN_BYTES], b[HUMAN_BYTES], c[HUMAN_BYTES], d[HUMAN_BYTES];
	const char *command = rec_meta(t, "command"), *target = rec_meta(t, "target");
	const char *host = rec_meta(t, "host"), *kernel = rec_meta(t, "kernel");
	(void)unused;
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

/* The report's head, or its end where an account opens it. */
static void recording(const struct page *p, const void *unused)
{
	if (report_section_state(p->r, &report_account))
		fputc('\n', p->out);
	header(p, unused);
}

/* ---- remarks ---- */

static void open_calls(const struct page *p, const void *unused)
{
	const struct summary *s = p->r->summary;
	char text[HUMAN_BYTES], name[1024];
	(void)unused;
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
	struct page p = {.out = out, .r = r};
	header_losses(&p);
	header_cost(&p);
}

void report_text_parts(const struct report *r, struct report_parts *ret)
{
	bool opens = !report_section_state(r, &report_account);
	report_part_add(ret,
			&(struct report_part){.name = "recording",
					      .relevance = opens ? RELEVANT_HEAD : RELEVANT_LAST,
					      .whole = true,
					      .text = recording});
	report_part_add(ret, &(struct report_part){.name = "open",
						   .relevance = r->summary->open_calls_total
									? RELEVANT_DETAIL
									: RELEVANT_NOT,
						   .text = open_calls});
}

void report_text(FILE *out, const struct report *r)
{
	struct page p = {.out = out, .r = r};
	report_sections_text(&p);
	damage(&p);
}
