/* watch_learn.c - a window of calls, its steps, and a call that marks them. */
#include "cli/watch_learn.h"

#include <stdio.h>
#include <string.h>

#include "analyze/functions.h"
#include "analyze/steps.h"
#include "base/layer.h"
#include "base/map64.h"
#include "events/window.h"
#include "wire/event.h"

#define LEAST_STEPS  3
#define LEAST_CALLS  32
#define STEADY_RATIO 0.9 /* of the steps have as many of a marker as the others */

struct watch_learn {
	struct row_window *window;
	uint64_t calls;
	struct map64 string_of;	   /* live string -> the window's */
	VEC(uint32_t) live_of;	   /* back */
	struct map64 thread_of;	   /* live index -> the window's */
	VEC(uint8_t) probe_wanted; /* by number, which is the live one */
};

struct watch_learn *watch_learn_new(void)
{
	struct watch_learn *l = xcalloc(1, sizeof(*l));
	l->window = row_window_new(WATCH_LEARN_CALLS * sizeof(struct m_call));
	return l;
}

void watch_learn_free(struct watch_learn *l)
{
	if (!l)
		return;
	row_window_free(l->window);
	map64_free(&l->string_of);
	map64_free(&l->thread_of);
	vec_free(&l->live_of);
	vec_free(&l->probe_wanted);
	free(l);
}

/* ---- into the window ---- */

static uint32_t string_of(struct watch_learn *l, const struct session_view *v, uint32_t live)
{
	uint64_t number;
	if (!live)
		return 0;
	if (map64_get(&l->string_of, live, &number))
		return (uint32_t)number;
	number = strtab_add_z(&row_window_tables(l->window)->strings,
			      v->names->string(v->names->ctx, live));
	map64_set(&l->string_of, live, number);
	while (l->live_of.len <= number)
		vec_push(&l->live_of);
	l->live_of.data[number] = live;
	return (uint32_t)number;
}

static void put_probe(struct watch_learn *l, const struct session_view *v,
		      const struct m_probe *live)
{
	const char *layer = v->names->string(v->names->ctx, live->layer);
	struct m_probe row = *live;
	row.layer = string_of(l, v, live->layer);
	row.name = string_of(l, v, live->name);
	row.library = string_of(l, v, live->library);
	row.symbol = string_of(l, v, live->symbol);
	row.role = string_of(l, v, live->role);
	for (unsigned i = 0; i < row.nargs && i < MODEL_MAX_ARGS; i++) {
		row.arg_names[i] = string_of(l, v, live->arg_names[i]);
		row.arg_enums[i] = string_of(l, v, live->arg_enums[i]);
	}
	*vec_push(&row_window_tables(l->window)->probes) = row;
	*vec_push(&l->probe_wanted) = layer_traits_of_name(layer) & LAYER_IS_WORK;
}

static bool thread_of(struct watch_learn *l, const struct session_view *v, uint32_t live,
		      uint32_t *ret)
{
	uint64_t index;
	if (!map64_get(&l->thread_of, live, &index)) {
		const struct m_thread *t = v->names->thread(v->names->ctx, live);
		if (!t)
			return false;
		struct rec_tables *tables = row_window_tables(l->window);
		index = tables->threads.len;
		*vec_push(&tables->threads) = (struct m_thread){.pid = t->pid, .tid = t->tid};
		map64_set(&l->thread_of, live, index);
	}
	*ret = (uint32_t)index;
	return true;
}

static void put_call(struct watch_learn *l, const struct session_view *v, const struct m_call *live)
{
	const struct m_probe *probe = v->names->probe(v->names->ctx, live->probe);
	struct m_call row = *live;
	if (!thread_of(l, v, live->thread, &row.thread))
		return;
	row.stack = 0;
	for (unsigned i = 0; i < row.nargs && i < MODEL_MAX_ARGS; i++)
		if (probe->arg_types[i] == ARG_TYPE_STRING)
			row.args[i] = string_of(l, v, (uint32_t)row.args[i]);
	row_window_add(l->window, ROW_CALL, &row, 1);
	l->calls++;
}

bool watch_learn_take(struct watch_learn *l, const struct session_view *v)
{
	const struct m_probe *probe;
	while ((probe = v->names->probe(v->names->ctx, (uint32_t)l->probe_wanted.len)))
		put_probe(l, v, probe);
	for (size_t i = 0; i < v->batch->calls.len && l->calls < WATCH_LEARN_CALLS; i++) {
		const struct m_call *c = &v->batch->calls.data[i];
		if (c->probe < l->probe_wanted.len && l->probe_wanted.data[c->probe])
			put_call(l, v, c);
	}
	return l->calls >= WATCH_LEARN_CALLS;
}

/* ---- what marks the steps ---- */

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

static bool marker_of(struct watch_learn *l, const struct row_source *source, const struct steps *s,
		      struct watch_marker *ret)
{
	static const char *const kinds[] = STEPS_KIND_NAMES;
	const struct steps_process *p = &s->processes.data[s->main];
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
		*ret = (struct watch_marker){
			.pid = p->pid,
			.tid = p->tid,
			.probe = k->probe,
			.name = k->name < l->live_of.len ? l->live_of.data[k->name] : 0,
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

bool watch_learn_find(struct watch_learn *l, struct watch_marker *ret)
{
	struct steps steps;
	if (l->calls < LEAST_CALLS)
		return false;
	const struct row_source *source = row_window_source(l->window);
	steps_make(&steps, source, NULL);
	bool found = steps.main != SIZE_MAX && marker_of(l, source, &steps, ret);
	steps_free(&steps);
	return found;
}
