/* report_html_timeline.c - what GPUs did, what the host asked of them, and steps, side by side over
 * time: bounded however many spans there are. The whole time is drawn in blocks, each of spans that
 * are too short and too near to be told apart at that size; a moment of it with each span. */
#include <stdlib.h>
#include <string.h>

#include "analyze/steps.h"
#include "analyze/timeline.h"
#include "base/kernel_name.h"
#include "base/map64.h"
#include "report/report_html.h"
#include "report/report_section.h"
#include "symbolize/demangle.h"

#define LANES_MOST 24
#define BLOCKS	   16000	 /* of the whole, some two for each stretch that is told apart */
#define SPANS	   8000		 /* of the moment */
#define MOMENT_NS  1000000000ULL /* at most */
#define NAME_BYTES KERNEL_NAME_BYTES

enum lane_of { LANE_GPU, LANE_STEPS, LANE_CALLS };

static const char *const lane_names[] = {"gpu", "steps", "calls"};

struct item {
	enum lane_of of;
	uint32_t pid;
	uint64_t what; /* device and stream; thread; loop */
	uint64_t start_ns, end_ns;
	uint32_t kind; /* of a span or call: what it is called by; index of a step */
};

struct lane {
	enum lane_of of;
	uint32_t pid;
	uint64_t what, busy_ns, items;
};

struct drawn {
	json_t *start, *length, *name, *count;
	/* the block that is not written yet; 0: none */
	uint64_t start_ns, end_ns, longest_ns, items;
	uint32_t named;
};

struct timeline_writer {
	const struct report *r;
	VEC(struct lane) lanes;
	struct map64 lane_of; /* hash of a lane -> its number */
	uint64_t start_ns, first_ns, last_ns;
	json_t *names;
	struct map64 name_of; /* kind of an item -> its name's number */
	/* of what is drawn now: */
	uint64_t from_ns, to_ns, apart_ns; /* 0: each span by itself */
	struct drawn drawn[LANES_MOST];
};

typedef void item_fn(struct timeline_writer *w, const struct item *i);

/* ---- what there is ---- */

static void each_span(struct timeline_writer *w, item_fn *fn)
{
	const struct timeline *t = w->r->timeline;
	for (size_t i = 0; t && i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *k = timeline_kind_of(t, s);
		if (k->work != WORK_SYNC)
			fn(w, &(struct item){LANE_GPU, k->pid,
					     (uint64_t)(uint32_t)k->device << 32 | k->stream,
					     s->start_ns, s->end_ns, s->kind});
	}
	for (size_t i = 0; t && i < t->calls.len; i++) {
		const struct timeline_call *c = &t->calls.data[i];
		const struct timeline_call_kind *k = timeline_call_kind_of(t, c);
		if (c->parent == TIMELINE_NONE)
			fn(w, &(struct item){LANE_CALLS, k->pid, k->thread, c->start_ns, c->end_ns,
					     c->kind});
	}
}

static void each_step(struct timeline_writer *w, item_fn *fn)
{
	const struct steps *s = report_section_state(w->r, &report_steps);
	for (size_t i = 0; s && i < s->processes.len; i++) {
		const struct steps_process *p = &s->processes.data[i];
		for (size_t k = 0; k < p->steps.len; k++)
			fn(w, &(struct item){LANE_STEPS, p->pid, p->steps.data[k].loop,
					     p->steps.data[k].start_ns, p->steps.data[k].end_ns,
					     p->steps.data[k].index});
	}
}

static void each_item(struct timeline_writer *w, item_fn *fn)
{
	each_span(w, fn);
	each_step(w, fn);
}

/* ---- lanes ---- */

static uint64_t lane_key(enum lane_of of, uint32_t pid, uint64_t what)
{
	return hash_u64(hash_u64(what) ^ ((uint64_t)of << 32 | pid));
}

static void note_item(struct timeline_writer *w, const struct item *i)
{
	uint64_t key = lane_key(i->of, i->pid, i->what), at;
	struct lane *l;
	if (map64_get(&w->lane_of, key, &at)) {
		l = &w->lanes.data[at];
	} else {
		map64_set(&w->lane_of, key, w->lanes.len);
		l = vec_push(&w->lanes);
		*l = (struct lane){i->of, i->pid, i->what, 0, 0};
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what was met has a lane */
	l->busy_ns += i->end_ns - i->start_ns;
	l->items++;
	w->first_ns = !w->first_ns || i->start_ns < w->first_ns ? i->start_ns : w->first_ns;
	w->last_ns = i->end_ns > w->last_ns ? i->end_ns : w->last_ns;
}

/* GPUs and steps before calls, then the busiest. */
static int compare_lanes(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;
	bool calls = x->of == LANE_CALLS, other = y->of == LANE_CALLS;
	if (calls != other)
		return calls ? 1 : -1;
	return x->busy_ns > y->busy_ns ? -1 : x->busy_ns < y->busy_ns;
}

static int compare_shown(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

static void choose_lanes(struct timeline_writer *w, json_t *left_out)
{
	size_t all = w->lanes.len, shown = all < LANES_MOST ? all : LANES_MOST;
	if (!all)
		return;
	qsort(w->lanes.data, all, sizeof(*w->lanes.data), compare_lanes);
	qsort(w->lanes.data, shown, sizeof(*w->lanes.data), compare_shown);
	w->lanes.len = shown;
	map64_free(&w->lane_of);
	for (size_t i = 0; i < shown; i++)
		map64_set(
			&w->lane_of,
			lane_key(w->lanes.data[i].of, w->lanes.data[i].pid, w->lanes.data[i].what),
			i);
	report_html_left_out(left_out, "lanes of the timeline", shown, all);
}

static json_t *lane_title(const struct report *r, const struct lane *l)
{
	char text[96];
	uint32_t device = (uint32_t)(l->what >> 32), stream = (uint32_t)l->what;
	const struct rec_tables *t = r->tables;
	if (l->of == LANE_GPU)
		snprintf(text, sizeof(text), "GPU %d stream %u", (int)device, stream);
	else if (l->of == LANE_STEPS)
		snprintf(text, sizeof(text), "steps");
	else
		snprintf(text, sizeof(text), "calls of thread %u",
			 l->what < t->threads.len ? t->threads.data[l->what].tid : 0);
	return report_text_json(text);
}

/* ---- names ---- */

static void span_name(char ret[static NAME_BYTES], const struct report *r,
		      const struct timeline_kind *k)
{
	const char *raw = strtab_get(&r->tables->strings, k->name, NULL);
	char *name = k->work == WORK_KERNEL ? demangle(raw, 0) : NULL;
	if (k->work == WORK_COPY)
		snprintf(ret, NAME_BYTES, "%s", copy_kind_name(k->copy_kind));
	else if (k->work == WORK_SET)
		snprintf(ret, NAME_BYTES, "set");
	else if (k->work == WORK_GRAPH)
		snprintf(ret, NAME_BYTES, "graph");
	else
		kernel_name_short(ret, NAME_BYTES, name ? name : raw);
	free(name);
}

static void item_name(char ret[static NAME_BYTES], const struct report *r, const struct item *i)
{
	const struct timeline *t = r->timeline;
	if (i->of == LANE_GPU)
		span_name(ret, r, &t->kinds.data[i->kind]);
	else if (i->of == LANE_CALLS)
		snprintf(ret, NAME_BYTES, "%s",
			 strtab_get(&r->tables->strings,
				    r->tables->probes.data[t->call_kinds.data[i->kind].probe].name,
				    NULL));
	else
		snprintf(ret, NAME_BYTES, "step %u", i->kind);
}

static uint32_t name_number(struct timeline_writer *w, const struct item *i)
{
	uint64_t key = (uint64_t)i->of << 32 | i->kind, ret;
	char name[NAME_BYTES];
	if (map64_get(&w->name_of, key, &ret))
		return (uint32_t)ret;
	item_name(name, w->r, i);
	ret = json_array_size(w->names);
	json_array_append_new(w->names, report_text_json(name));
	map64_set(&w->name_of, key, ret);
	return (uint32_t)ret;
}

/* ---- blocks ---- */

static json_t *us_json(uint64_t ns)
{
	return json_real((double)ns / 1e3);
}

static void write_block(const struct timeline_writer *w, struct drawn *d)
{
	if (!d->items)
		return;
	json_array_append_new(d->start, us_json(d->start_ns - w->from_ns));
	json_array_append_new(d->length, us_json(d->end_ns - d->start_ns));
	json_array_append_new(d->name, json_integer(d->named));
	json_array_append_new(d->count, json_integer((json_int_t)d->items));
	d->items = 0;
}

static bool is_one_with(const struct timeline_writer *w, const struct drawn *d,
			const struct item *i)
{
	return d->items && i->start_ns < d->end_ns + w->apart_ns &&
	       (d->end_ns - d->start_ns < w->apart_ns || i->end_ns - i->start_ns < w->apart_ns) &&
	       i->end_ns - d->start_ns < 2 * w->apart_ns;
}

static void draw_item(struct timeline_writer *w, const struct item *i)
{
	uint64_t at, ns = i->end_ns - i->start_ns;
	if (i->end_ns < w->from_ns || i->start_ns >= w->to_ns ||
	    !map64_get(&w->lane_of, lane_key(i->of, i->pid, i->what), &at))
		return;
	struct drawn *d = &w->drawn[at];
	if (!is_one_with(w, d, i)) {
		write_block(w, d);
		*d = (struct drawn){.start = d->start,
				    .length = d->length,
				    .name = d->name,
				    .count = d->count,
				    .start_ns =
					    i->start_ns > w->from_ns ? i->start_ns : w->from_ns};
	}
	d->end_ns = i->end_ns > d->end_ns ? i->end_ns : d->end_ns;
	d->items++;
	if (d->items == 1 || ns > d->longest_ns) {
		d->longest_ns = ns;
		d->named = name_number(w, i);
	}
}

static json_t *draw(struct timeline_writer *w, uint64_t from_ns, uint64_t to_ns, uint64_t apart_ns)
{
	json_t *lanes = json_array();
	w->from_ns = from_ns;
	w->to_ns = to_ns;
	w->apart_ns = apart_ns;
	for (size_t i = 0; i < w->lanes.len; i++)
		w->drawn[i] = (struct drawn){.start = json_array(),
					     .length = json_array(),
					     .name = json_array(),
					     .count = json_array()};
	each_item(w, draw_item);
	for (size_t i = 0; i < w->lanes.len; i++) {
		struct drawn *d = &w->drawn[i];
		write_block(w, d);
		json_array_append_new(lanes,
				      json_pack("{s:o, s:o, s:o, s:o}", "start_us", d->start, "us",
						d->length, "name", d->name, "count", d->count));
	}
	return json_pack("{s:f, s:f, s:o}", "from_s", ((double)from_ns - (double)w->start_ns) / 1e9,
			 "to_s", ((double)to_ns - (double)w->start_ns) / 1e9, "lanes", lanes);
}

/* ---- the moment ---- */

/* What the recording is of: what it was frozen for, its first incident, its longest step. */
static uint64_t moment_of(const struct timeline_writer *w)
{
	const struct rec_tables *t = w->r->tables;
	const struct steps *s = report_section_state(w->r, &report_steps);
	uint64_t frozen_ns = report_number(t, "frozen_at_ns"), ret = w->first_ns, longest_ns = 0;
	if (t->incidents.len)
		return t->incidents.data[0].onset_ns;
	if (frozen_ns)
		return frozen_ns;
	for (size_t i = 0; s && s->main != SIZE_MAX && i < s->processes.data[s->main].steps.len;
	     i++) {
		const struct steps_step *step = &s->processes.data[s->main].steps.data[i];
		if (step->end_ns - step->start_ns > longest_ns) {
			longest_ns = step->end_ns - step->start_ns;
			ret = step->start_ns + longest_ns / 2;
		}
	}
	return ret;
}

static void count_item(struct timeline_writer *w, const struct item *i)
{
	w->drawn[0].items += i->end_ns >= w->from_ns && i->start_ns < w->to_ns;
}

static json_t *draw_moment(struct timeline_writer *w)
{
	uint64_t at_ns = moment_of(w);
	at_ns = at_ns < w->first_ns ? w->first_ns : at_ns > w->last_ns ? w->last_ns : at_ns;
	for (uint64_t half_ns = MOMENT_NS / 2;; half_ns /= 2) {
		w->from_ns = at_ns - w->first_ns > half_ns ? at_ns - half_ns : w->first_ns;
		w->to_ns = w->last_ns - at_ns > half_ns ? at_ns + half_ns : w->last_ns + 1;
		w->drawn[0].items = 0;
		each_item(w, count_item);
		if (w->drawn[0].items <= SPANS || half_ns < 1000)
			break;
	}
	uint64_t apart_ns = w->drawn[0].items > SPANS ? w->to_ns - w->from_ns : 0;
	return draw(w, w->from_ns, w->to_ns, apart_ns);
}

/* ---- all ---- */

static json_t *lanes_json(const struct timeline_writer *w)
{
	json_t *ret = json_array();
	for (size_t i = 0; i < w->lanes.len; i++) {
		const struct lane *l = &w->lanes.data[i];
		json_array_append_new(ret, json_pack("{s:s, s:I, s:o, s:I}", "of",
						     lane_names[l->of], "pid", (json_int_t)l->pid,
						     "title", lane_title(w->r, l), "spans",
						     (json_int_t)l->items));
	}
	return ret;
}

json_t *report_html_timeline(const struct report *r, json_t *left_out)
{
	struct timeline_writer w = {.r = r,
				    .start_ns = report_number(r->tables, "start_monotonic_ns"),
				    .names = json_array()};
	each_item(&w, note_item);
	choose_lanes(&w, left_out);
	json_t *views = json_array();
	if (w.lanes.len) {
		uint64_t apart_ns = (w.last_ns - w.first_ns) * w.lanes.len * 2 / BLOCKS;
		json_array_append_new(views, draw(&w, w.first_ns, w.last_ns + 1, apart_ns));
		json_array_append_new(views, draw_moment(&w));
	}
	json_t *ret = json_pack("{s:o, s:o, s:o}", "lanes", lanes_json(&w), "names", w.names,
				"views", views);
	vec_free(&w.lanes);
	map64_free(&w.lane_of);
	map64_free(&w.name_of);
	return ret;
}
