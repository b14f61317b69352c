/* report_layers.c - a table of functions for each layer, by time. Where ranks wait for each other
 * in a function, how long each did stands below it. */
#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/kernel_name.h"
#include "report/report_section.h"

#define LAYERS_SHOWN 100
#define LAYER_WORTH  0.002 /* of the recording's time: of layers with less a line is enough */
#define RANKS_NAMED  6	   /* of more the extremes */

/* ---- by rank ---- */

static void rank_name(char ret[static 32], const struct rank_time *t)
{
	if (t->rank >= 0)
		snprintf(ret, 32, "rank %d", t->rank);
	else
		snprintf(ret, 32, "process %u", t->pid);
}

static void add_rank(struct buf *line, const struct rank_time *t)
{
	char name[32], ns[HUMAN_BYTES];
	rank_name(name, t);
	buf_printf(line, " %s %s", name, human_ns(ns, t->total_ns));
}

static void add_extremes(struct buf *line, const struct rank_function *f)
{
	const struct rank_time *least = &f->ranks.data[0], *most = least;
	for (size_t i = 1; i < f->ranks.len; i++) {
		const struct rank_time *t = &f->ranks.data[i];
		least = t->total_ns < least->total_ns ? t : least;
		most = t->total_ns > most->total_ns ? t : most;
	}
	buf_printf(line, " of %zu least", f->ranks.len);
	add_rank(line, least);
	buf_printf(line, ", most");
	add_rank(line, most);
}

/* "waits: rank 0 2.01 s, rank 1 0.40 s: rank 1 is the slow one" */
static void ranks_line(const struct page *p, const struct rank_function *f)
{
	struct buf line = {0};
	char name[32];
	buf_printf(&line, "  by rank:");
	if (f->ranks.len > RANKS_NAMED)
		add_extremes(&line, f);
	for (size_t i = 0; f->ranks.len <= RANKS_NAMED && i < f->ranks.len; i++) {
		buf_printf(&line, "%s", i ? "," : "");
		add_rank(&line, &f->ranks.data[i]);
	}
	if (f->slow != RANK_TIMES_NONE) {
		rank_name(name, &f->ranks.data[f->slow]);
		buf_printf(&line, ": %s is the slow one, the others wait for it", name);
	}
	buf_byte(&line, 0);
	page_wrapped(p, 0, COLUMN_CALLS, "%*s%s", COLUMN_CALLS - 2, "", (char *)line.data);
	buf_free(&line);
}

/* ---- a table ---- */

enum { TIMES = 6 };
static const char *const time_names[TIMES] = {"total", "self", "mean", "p50", "p99", "max"};

/* Which times have room; a name is to have 24 columns. */
static unsigned times_shown(const struct page *p, bool errors)
{
	static const unsigned rarer[] = {3, 2, 4, 5}; /* p50, mean, p99, max: so they go */
	unsigned shown = (1u << TIMES) - 1, n = TIMES;
	for (size_t i = 0; i < sizeof(rarer) / sizeof(rarer[0]); i++) {
		size_t used = COLUMN_CALLS + (n + errors) * COLUMN_TIME;
		if (used + 24 <= p->r->options->width)
			break;
		shown &= ~(1u << rarer[i]);
		n--;
	}
	return shown;
}

static void function_row(const struct page *p, const struct summary_function *f, bool errors)
{
	char text[HUMAN_BYTES], shorter[KERNEL_NAME_BYTES];
	unsigned shown = times_shown(p, errors);
	size_t used = COLUMN_CALLS + (errors ? COLUMN_TIME : 0);
	bool timed = f->calls > f->instants, red = f->errors && p->r->options->colour;
	char calls[HUMAN_BYTES + 4];
	snprintf(calls, sizeof(calls), "%s%s", f->on_ratio < 1 ? ">" : "",
		 human_count(text, f->calls));
	page_right(p, calls, COLUMN_CALLS);
	if (errors && red)
		fputs(RED, p->out);
	if (errors)
		page_count(p, f->errors, COLUMN_TIME);
	if (errors && red)
		fputs(RESET, p->out);
	const uint64_t times[TIMES] = {f->total_ns, f->self_ns, f->mean_ns,
				       f->p50_ns,   f->p99_ns,	f->max_ns};
	for (size_t i = 0; i < TIMES; i++) {
		bool known = timed && (i != 1 || f->self_known);
		if (!(shown & 1u << i))
			continue;
		page_right(p, known ? human_ns(text, times[i]) : "-", COLUMN_TIME);
		used += COLUMN_TIME;
	}
	page_rest(p, report_function_name(p->r, f, shorter, sizeof(shorter)), used);
	const struct rank_function *ranks = rank_times_of(p->r->rank_times, f->layer, f->name);
	if (ranks && (ranks->slow != RANK_TIMES_NONE || !p->r->options->brief))
		ranks_line(p, ranks);
}

static void layer_head(const struct page *p, const struct report_layer *l)
{
	char calls[HUMAN_BYTES], functions[HUMAN_BYTES];
	unsigned shown = times_shown(p, l->errors);
	fputc('\n', p->out);
	page_styled(p, BOLD, *l->name ? l->name : "(no layer)");
	fprintf(p->out, ": %s calls of %s %s\n", human_count(calls, l->calls),
		human_count(functions, l->functions), l->functions == 1 ? "function" : "functions");
	page_right(p, "calls", COLUMN_CALLS);
	if (l->errors)
		page_right(p, "errors", COLUMN_TIME);
	for (size_t i = 0; i < TIMES; i++)
		if (shown & 1u << i)
			page_right(p, time_names[i], COLUMN_TIME);
	fputs("  function\n", p->out);
}

static void layer_table(const struct page *p, const void *state)
{
	const struct report_layer *l = state;
	uint64_t shown = 0;
	layer_head(p, l);
	for (size_t i = 0; i < p->r->functions.len; i++) {
		const struct summary_function *f = p->r->functions.data[i];
		if (f->layer != l->name)
			continue;
		if (p->r->options->top && shown == p->r->options->top)
			break;
		function_row(p, f, l->errors);
		shown++;
	}
	page_more(p, l->functions, shown, COLUMN_CALLS);
}

/* ---- layers with next to no time ---- */

/* A brief report has a line of those. */
static bool is_small(const struct report *r, const struct report_layer *l)
{
	return r->options->brief && !l->errors && !r->options->layers.len && r->layers.len > 2 &&
	       report_share(r, l->total_ns) < LAYER_WORTH;
}

static void small_layers(const struct page *p, const void *unused)
{
	struct buf line = {0};
	char calls[HUMAN_BYTES], ns[HUMAN_BYTES];
	(void)unused;
	for (size_t i = 0; i < p->r->layers.len; i++) {
		const struct report_layer *l = &p->r->layers.data[i];
		if (is_small(p->r, l))
			buf_printf(&line, "%s %s %s calls in %s", line.len ? ";" : ":", l->name,
				   human_count(calls, l->calls), human_ns(ns, l->total_ns));
	}
	buf_byte(&line, 0);
	fputc('\n', p->out);
	page_styled(p, BOLD, "other layers");
	page_wrapped(p, 12, 2, "%s (--section layers)", (char *)line.data);
	buf_free(&line);
}

static void no_calls(const struct page *p, const void *unused)
{
	(void)unused;
	fputs("\nNo calls.\n", p->out);
}

/* ---- all ---- */

static double relevance(const struct report *r, const struct report_layer *l)
{
	for (size_t i = 0; i < r->rank_times->list.len; i++) {
		const struct rank_function *f = &r->rank_times->list.data[i];
		if (f->layer == l->name && f->slow != RANK_TIMES_NONE)
			return RELEVANT_RANKS;
	}
	return RELEVANT_AFTER * report_share(r, l->total_ns);
}

void report_layers_parts(const struct report *r, struct report_parts *ret)
{
	bool small = false;
	for (size_t i = 0; i < r->layers.len && i < LAYERS_SHOWN; i++) {
		const struct report_layer *l = &r->layers.data[i];
		struct report_part part = {.name = *l->name ? l->name : "layers",
					   .group = "layers",
					   .relevance = relevance(r, l),
					   .text = layer_table,
					   .state = l};
		if (is_small(r, l))
			small = true;
		else
			report_part_add(ret, &part);
	}
	if (small)
		report_part_add(ret, &(struct report_part){.name = "layers",
							   .relevance = 0,
							   .text = small_layers});
	if (!r->layers.len)
		report_part_add(ret, &(struct report_part){.name = "layers",
							   .relevance = r->profile->samples
										? RELEVANT_NOT
										: RELEVANT_DETAIL,
							   .text = no_calls});
}

/* Layers are few: what has more names them for nothing else. */
void report_layers_make(struct report *r)
{
	for (size_t i = 0; i < r->functions.len; i++) {
		const struct summary_function *f = r->functions.data[i];
		struct report_layer *l = NULL;
		for (size_t k = 0; k < r->layers.len && !l; k++)
			if (r->layers.data[k].name == f->layer)
				l = &r->layers.data[k];
		if (!l && r->layers.len == LAYERS_SHOWN)
			continue;
		if (!l) {
			l = vec_push(&r->layers);
			*l = (struct report_layer){.name = f->layer};
		}
		l->functions++;
		l->calls += f->calls;
		l->errors |= f->errors != 0;
		l->total_ns += f->self_known ? f->self_ns : f->total_ns;
	}
}
