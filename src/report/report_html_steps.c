/* report_html_steps.c - every loop's steps over time, as so many points. Of several steps in one
 * point the longest is shown: what is slow must not be averaged away. */
#include <string.h>

#include "analyze/steps.h"
#include "report/report_html.h"
#include "report/report_section.h"

#define LOOPS	     16
#define POINTS	     2000 /* of the main process's loops */
#define POINTS_OTHER 250  /* of each other one */

static const char *const kind_names[STEPS_KINDS] = STEPS_KIND_NAMES;

static const struct steps_step *longest_of(const struct steps_step *first, uint32_t n)
{
	const struct steps_step *ret = first;
	for (uint32_t i = 1; i < n; i++)
		if (first[i].end_ns - first[i].start_ns > ret->end_ns - ret->start_ns)
			ret = &first[i];
	return ret;
}

static json_t *ms_json(uint64_t ns)
{
	uint64_t us = ns / 1000; /* digits enough for a chart */
	return json_real((double)us / 1e3);
}

/* Steps may begin before the recording's clock does. */
static double since_s(uint64_t time_ns, uint64_t start_ns)
{
	return ((double)time_ns - (double)start_ns) / 1e9;
}

struct points {
	json_t *index, *start_s, *ms, *phases[STEPS_PHASES];
	bool any[STEPS_PHASES];
};

static void add_point(struct points *p, const struct steps_step *s, uint64_t start_ns)
{
	json_array_append_new(p->index, report_number_json(s->index));
	json_array_append_new(p->start_s, json_real(since_s(s->start_ns, start_ns)));
	json_array_append_new(p->ms, ms_json(s->end_ns - s->start_ns));
	for (int i = 0; i < STEPS_PHASES; i++) {
		json_array_append_new(p->phases[i], ms_json(s->phase_ns[i]));
		p->any[i] |= s->phase_ns[i] != 0;
	}
}

static json_t *phases_json(const struct points *p, const struct steps_process *process)
{
	json_t *ret = json_object();
	for (int i = 0; i < STEPS_PHASES; i++) {
		if (p->any[i])
			json_object_set(ret, steps_phase_words(process, (enum steps_phase)i),
					p->phases[i]);
		json_decref(p->phases[i]);
	}
	return ret;
}

static json_t *loop_json(const struct steps_process *process, const struct steps_loop *l,
			 uint32_t most, uint64_t start_ns)
{
	uint32_t each = (l->steps + most - 1) / most;
	struct points p = {.index = json_array(), .start_s = json_array(), .ms = json_array()};
	const struct steps_step *steps = &process->steps.data[l->first];
	for (int i = 0; i < STEPS_PHASES; i++)
		p.phases[i] = json_array();
	for (uint32_t i = 0; i < l->steps; i += each) {
		uint32_t left = l->steps - i;
		add_point(&p, longest_of(&steps[i], left < each ? left : each), start_ns);
	}
	return json_pack("{s:I, s:I, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "pid",
			 (json_int_t)process->pid, "tid", (json_int_t)process->tid, "kind",
			 kind_names[l->kind], "count", (json_int_t)l->steps, "each",
			 (json_int_t)each, "index", p.index, "start_s", p.start_s, "ms", p.ms,
			 "phases", phases_json(&p, process));
}

struct writer {
	json_t *list;
	uint64_t start_ns, steps, points, loops;
};

static void add_loops(struct writer *w, const struct steps_process *p, bool loading, uint32_t most)
{
	for (size_t i = 0; i < p->loops.len; i++) {
		const struct steps_loop *l = &p->loops.data[i];
		if ((l->kind == STEPS_LOADING) != loading || !l->steps)
			continue;
		w->loops++;
		if (json_array_size(w->list) >= LOOPS)
			continue;
		json_t *loop = loop_json(p, l, most, w->start_ns);
		w->steps += l->steps;
		w->points += json_array_size(json_object_get(loop, "ms"));
		json_array_append_new(w->list, loop);
	}
}

json_t *report_html_steps(const struct report *r, json_t *left_out)
{
	const struct steps *s = report_section_state(r, &report_steps);
	struct writer w = {.list = json_array(),
			   .start_ns = report_number(r->tables, "start_monotonic_ns")};
	if (!s || s->main == SIZE_MAX)
		return w.list;
	add_loops(&w, &s->processes.data[s->main], false, POINTS);
	for (int loading = 0; loading < 2; loading++)
		for (size_t i = 0; i < s->processes.len; i++)
			if (i != s->main || loading)
				add_loops(&w, &s->processes.data[i], loading, POINTS_OTHER);
	report_html_left_out(left_out, "points of charts of steps", w.points, w.steps);
	report_html_left_out(left_out, "charts of steps", json_array_size(w.list), w.loops);
	return w.list;
}
