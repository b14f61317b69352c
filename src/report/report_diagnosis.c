/* report_diagnosis.c - incidents with their causes as text: why first, then whose the time was. */
#include "report/report_diagnosis.h"

#include <math.h>
#include <stdlib.h>

#include "base/human.h"
#include "incident/anomaly_text.h"
#include "incident/cause_words.h"
#include "incident/diagnosis_words.h"
#include "report/report_page.h"

enum { INDENT = 4, PARTS_SHOWN = 5, TIME_COLUMN = 10, SHARE_COLUMN = 7 };
#define SMALL_SHARE 0.02 /* of the excess: parts below it are put together */

static uint64_t whole_ns(double ns)
{
	return ns > 0 ? (uint64_t)ns : 0;
}

static const char *judged_by(const struct report_diagnosis *r)
{
	if (r->told)
		return "what was told while it was recorded";
	return r->model_path ? r->model_path : "what came before";
}

static void print_head(FILE *out, const struct report_diagnosis *r)
{
	char cost[HUMAN_BYTES], all[HUMAN_BYTES], n[HUMAN_BYTES];
	uint64_t length = r->end_ns > r->start_ns ? r->end_ns - r->start_ns : 0;
	if (!r->d->incidents.len) {
		text_printf(out, "%s: nothing was abnormal, by %s\n", r->path, judged_by(r));
		return;
	}
	text_printf(out, "%s: %s %s cost the job %s of %s, by %s\n", r->path,
		    human_count(n, r->d->incidents.len),
		    r->d->incidents.len == 1 ? "incident" : "incidents",
		    human_ns(cost, whole_ns(r->d->cost_ns)), human_ns(all, length), judged_by(r));
}

static void print_part(const struct page *p, double ns, double of, const char *text)
{
	char share[16];
	snprintf(share, sizeof(share), "%.0f %%", of > 0 ? 100 * ns / of : 0);
	fprintf(p->out, "%*s", INDENT, "");
	page_ns(p, whole_ns(ns), TIME_COLUMN);
	page_right(p, share, SHARE_COLUMN);
	fputs("  ", p->out);
	page_rest(p, text, INDENT + TIME_COLUMN + SHARE_COLUMN + 2);
}

/* Processes that call themselves alike and had the CPU are one line. */
struct shown_part {
	struct blame_owner owner;
	double ns;
	size_t alike;
};

static size_t group_parts(struct shown_part *ret, const struct blame *blame)
{
	size_t n = 0;
	for (size_t i = 0; i < blame->parts.len; i++) {
		const struct blame_part *p = &blame->parts.data[i];
		size_t k = 0;
		while (k < n &&
		       !(p->owner.kind == BLAME_RIVAL && ret[k].owner.kind == BLAME_RIVAL &&
			 ret[k].owner.name == p->owner.name))
			k++;
		if (k == n)
			ret[n++] = (struct shown_part){.owner = p->owner};
		ret[k].ns += p->ns;
		ret[k].alike += ret[k].owner.pid != p->owner.pid;
	}
	return n;
}

static int by_part_ns(const void *a, const void *b)
{
	const struct shown_part *x = a, *y = b;
	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void print_owner(const struct page *p, const struct report_diagnosis *r,
			const struct shown_part *part, double excess)
{
	struct buf b = {0};
	blame_owner_words(&b, r->t, &part->owner);
	if (part->alike)
		buf_printf(&b, " (and %zu more of the name)", part->alike);
	buf_byte(&b, 0);
	print_part(p, part->ns, excess, (const char *)b.data);
	buf_free(&b);
}

static void print_blame(const struct page *p, const struct report_diagnosis *r,
			const struct blame *blame)
{
	double excess = blame->whole_ns - blame->usual_ns, rest = 0;
	if (excess <= 0)
		return;
	struct shown_part *parts = xcalloc(blame->parts.len + 1, sizeof(*parts));
	size_t n = group_parts(parts, blame), shown = 0;
	qsort(parts, n, sizeof(*parts), by_part_ns);
	for (size_t i = 0; i < n; i++) {
		if (shown == PARTS_SHOWN || parts[i].ns < SMALL_SHARE * excess) {
			rest += parts[i].ns;
			continue;
		}
		print_owner(p, r, &parts[i], excess);
		shown++;
	}
	if (rest > SMALL_SHARE * excess)
		print_part(p, rest, excess, "smaller parts together");
	if (blame->unexplained_ns > SMALL_SHARE / 4 * excess)
		print_part(p, blame->unexplained_ns, excess, "unexplained");
	free(parts);
}

static void print_steps(const struct page *p, const struct report_diagnosis *r,
			const struct diagnosed *in)
{
	for (size_t i = 0; i < in->steps.len; i++) {
		const struct diagnosed_step *s = &in->steps.data[i];
		char at[HUMAN_BYTES], took[HUMAN_BYTES], usual[HUMAN_BYTES];
		double excess = s->blame.whole_ns - s->blame.usual_ns;
		if (excess <= 0)
			continue;
		fprintf(p->out, "%*sstep at %s took %s, usually %s:\n", INDENT, "",
			human_ns(at, s->start_ns > r->start_ns ? s->start_ns - r->start_ns : 0),
			human_ns(took, whole_ns(s->blame.whole_ns)),
			human_ns(usual, whole_ns(s->blame.usual_ns)));
		print_blame(p, r, &s->blame);
	}
}

/* "30 steps took 2.10 x as long as usual, 3.1 s more". */
static void print_effect(const struct page *p, const struct report_diagnosis *r,
			 const struct diagnosed *in)
{
	const struct blame *b = &in->evidence.blame;
	char more[HUMAN_BYTES], longer[HUMAN_BYTES], usual[64] = "as usual";
	const struct diagnosed *other = in->beside ? diagnosis_came_to(r->d, in) : NULL;
	if (other)
		snprintf(usual, sizeof(usual), "as in the rest of incident %td",
			 other - r->d->incidents.data + 1);
	double times = b->usual_ns > 0 ? b->whole_ns / b->usual_ns : 1;
	human_ns(more, whole_ns(b->whole_ns - b->usual_ns));
	human_times(longer, times);
	fprintf(p->out, "%*s", INDENT, "");
	if (in->evidence.by_steps)
		page_wrapped(p, INDENT, INDENT,
			     "%zu %s took %s x as long %s, %s more:", in->evidence.n_slow,
			     in->evidence.n_slow == 1 ? "step" : "steps", longer, usual, more);
	else
		page_wrapped(p, INDENT, INDENT, "its work took %s x as long %s, %s more:", longer,
			     usual, more);
}

static void print_why(const struct page *p, const struct report_diagnosis *r,
		      const struct diagnosed *in)
{
	const struct cause_found *c = &in->cause;
	print_effect(p, r, in);
	print_blame(p, r, &in->evidence.blame);
	for (size_t i = 0; i < c->evidence_len; i++) {
		fprintf(p->out, "%*s", INDENT, "");
		page_wrapped(p, INDENT, INDENT, "%s", c->evidence[i]);
	}
	if (c->runner_up != CAUSE_UNKNOWN) {
		fprintf(p->out, "%*s", INDENT, "");
		page_wrapped(p, INDENT, INDENT, "less likely: %s, for %s",
			     cause_title(c->runner_up), c->against);
	}
	fprintf(p->out, "%*s", INDENT, "");
	page_wrapped(p, INDENT, INDENT, "do: %s", cause_found_advice(c));
}

/* "at 98.4 s for 11.6 s, 6.68 s lost, pid 4242, confidence 79 %" */
static void print_when(const struct page *p, const struct report_diagnosis *r,
		       const struct diagnosed *in)
{
	char at[HUMAN_BYTES], lasted[HUMAN_BYTES], cost[HUMAN_BYTES];
	uint64_t after = in->onset_ns > r->start_ns ? in->onset_ns - r->start_ns : 0;
	fprintf(p->out, "%*sat %s for %s, %s lost, pid %u", INDENT, "", human_ns(at, after),
		human_ns(lasted, in->end_ns - in->onset_ns), human_ns(cost, whole_ns(in->cost_ns)),
		in->pid);
	if (in->blamed && in->cause.cause != CAUSE_UNKNOWN)
		fprintf(p->out, ", confidence %.0f %%", 100 * in->cause.confidence);
	fputc('\n', p->out);
}

static void print_incident(const struct page *p, const struct report_diagnosis *r,
			   const struct diagnosed *in, size_t number)
{
	const struct anomaly *first = &r->list->rows.data[in->anomalies.data[in->first]].a;
	struct buf why = {0};
	buf_printf(&why, "%zu. ", number);
	diagnosed_words(&why, r->t, in);
	buf_byte(&why, 0);
	fputc('\n', p->out);
	page_styled(p, BOLD, (const char *)why.data);
	fputc('\n', p->out);
	buf_free(&why);
	print_when(p, r, in);
	if (in->blamed) {
		print_why(p, r, in);
		print_steps(p, r, in);
	} else if (first->why[0]) {
		fprintf(p->out, "%*s", INDENT, "");
		page_wrapped(p, INDENT, INDENT, "%s", first->why);
	}
}

/* How many incidents cost more. */
static size_t dearer_than(const struct diagnosis *d, const struct diagnosed *in)
{
	size_t ret = 0;
	for (size_t i = 0; i < d->incidents.len; i++)
		ret += d->incidents.data[i].cost_ns > in->cost_ns ||
		       (d->incidents.data[i].cost_ns == in->cost_ns && &d->incidents.data[i] < in);
	return ret;
}

void report_diagnosis_text(FILE *out, const struct report_diagnosis *r)
{
	const struct report_options options = {.width = r->width, .colour = r->colour};
	const struct report report = {.options = &options};
	const struct page page = {out, &report, NULL};
	size_t hidden = 0;
	print_head(out, r);
	for (size_t i = 0; i < r->d->incidents.len; i++) {
		const struct diagnosed *in = &r->d->incidents.data[i];
		if (dearer_than(r->d, in) < r->top)
			print_incident(&page, r, in, i + 1);
		else
			hidden++;
	}
	if (hidden)
		fprintf(out, "\n... and %zu more that cost less (--top 0 shows all)\n", hidden);
}
