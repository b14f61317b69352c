/* watch_learn.c - of the steps in a window of calls, a call that marks them. */
#include "cli/watch_learn.h"

#include <stdio.h>
#include <string.h>

#include "analyze/functions.h"
#include "base/map64.h"
#include "wire/event.h"

#define LEAST_STEPS  3
#define STEADY_RATIO 0.9 /* of the steps have as many of a marker as the others */

/* How often a function was called in each step. */
struct candidate {
	uint32_t fn;
	uint32_t probe;
	uint32_t name;
	uint32_t first;	    /* in the first step that it was in */
	uint32_t step, now; /* the last one, and how often so far */
	uint32_t same;	    /* steps with as many as the first */
};

struct counting {
	const struct steps_step *steps;
	uint32_t len;
	uint32_t pid, tid;
	struct fn_ids ids;
	struct map64 of; /* function -> index */
	VEC(struct candidate) rows;
};

/* The step that a time is in, UINT32_MAX none. */
static uint32_t step_at(const struct counting *c, uint64_t ns)
{
	uint32_t low = 0, high = c->len;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (c->steps[middle].end_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->len && ns > c->steps[low].start_ns ? low : UINT32_MAX;
}

static void end_step(struct candidate *k)
{
	if (!k->first)
		k->first = k->now;
	k->same += k->now == k->first;
	k->now = 0;
}

static void count_call(struct counting *c, const struct fn_ids *ids, const struct m_call *call)
{
	uint32_t fn = fn_id(ids, call), step = step_at(c, call->start_ns + call->dur_ns);
	int8_t name_arg = ids->probes[call->probe].name_arg;
	uint64_t at;
	if (step == UINT32_MAX || call->flags & CALL_NESTED)
		return;
	if (!map64_get(&c->of, fn, &at)) {
		at = c->rows.len;
		*vec_push(&c->rows) = (struct candidate){
			.fn = fn,
			.probe = call->probe,
			.name = name_arg < 0 ? 0 : (uint32_t)call->args[name_arg],
			.step = step};
		map64_set(&c->of, fn, at);
	}
	struct candidate *k = &c->rows.data[at];
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what the map has is in rows */
	if (k->probe != call->probe) /* of another library's probe of the same name */
		return;
	if (k->step != step) {
		end_step(k);
		k->step = step;
	}
	k->now++;
}

/* The calls of the process's main thread. */
static void count_calls(void *ctx, const struct visited_rows *rows)
{
	struct counting *c = ctx;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_thread *thread = &c->ids.tables->threads.data[calls[i].thread];
		if (thread->pid == c->pid && thread->tid == c->tid)
			count_call(c, &c->ids, &calls[i]);
	}
}

/* The loop's own anchor if it is steady; else what is steady and rarest. */
static const struct candidate *choose(const struct counting *c, const struct fn_ids *ids,
				      const char *anchor)
{
	const struct candidate *best = NULL;
	for (size_t i = 0; i < c->rows.len; i++) {
		const struct candidate *k = &c->rows.data[i];
		if (k->same < STEADY_RATIO * c->len)
			continue;
		struct fn_label label;
		fn_label_make(ids, k->fn, &label);
		bool is_anchor = !strcmp(label.name, anchor);
		free(label.name);
		if (is_anchor)
			return k;
		if (!best || k->first < best->first)
			best = k;
	}
	return best;
}

bool watch_learn_find(const struct session_window *w, const struct row_source *source,
		      const struct steps_process *p, struct watch_marker *ret)
{
	static const char *const kinds[] = STEPS_KIND_NAMES;
	const struct steps_loop *loop = steps_main_loop(p);
	struct counting c = {.steps = p->steps.data + loop->first,
			     .len = loop->steps,
			     .pid = p->pid,
			     .tid = p->tid};
	if (loop->steps < LEAST_STEPS)
		return false;
	fn_ids_make(&c.ids, source->tables);
	rows_read(source, ROW_CALL, count_calls, &c);
	for (size_t i = 0; i < c.rows.len; i++)
		end_step(&c.rows.data[i]);
	const struct candidate *k = choose(&c, &c.ids, loop->anchor);
	if (k) {
		struct fn_label label;
		fn_label_make(&c.ids, k->fn, &label);
		*ret = (struct watch_marker){.pid = p->pid,
					     .tid = p->tid,
					     .probe = k->probe,
					     .name = session_window_string(w, k->name),
					     .per_step = k->first,
					     .usual_ns = loop->median_ns};
		snprintf(ret->kind, sizeof(ret->kind), "%s", kinds[loop->kind]);
		snprintf(ret->label, sizeof(ret->label), "%s", label.name);
		free(label.name);
	}
	fn_ids_free(&c.ids);
	map64_free(&c.of);
	vec_free(&c.rows);
	return k != NULL;
}
