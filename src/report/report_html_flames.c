/* report_html_flames.c - flame graphs for the page: of each kind the tree without its smallest
 * frames, as arrays by frame. A frame stays only with its parent, whose weight is its at least. */
#include <stdlib.h>

#include "analyze/flame.h"
#include "base/map64.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "symbolize/demangle.h"

#define FRAMES_MOST 5000
#define SHARE_LEAST 5000 /* one part in so many of the whole; what is less is not seen */

static const char *const kinds[FLAME_KINDS] = FLAME_KIND_NAMES;

struct writer {
	const struct calltree *tree;
	struct map64 name_of; /* frame -> number of its name */
	json_t *names, *parent, *name, *is, *value;
};

void report_html_frame_name(char ret[static REPORT_FRAME_BYTES], const struct calltree *t,
			    const struct calltree_frame *f)
{
	const char *name = strtab_get(&t->strings, f->name, NULL);
	const char *file = strtab_get(&t->strings, f->file, NULL);
	if (f->kind == CALLTREE_PYTHON && *file && f->line)
		snprintf(ret, REPORT_FRAME_BYTES, "%s (%s:%u)", name, file, f->line);
	else
		snprintf(ret, REPORT_FRAME_BYTES, "%s", name);
}

static uint64_t name_number(struct writer *w, uint32_t frame)
{
	uint64_t ret;
	char name[REPORT_FRAME_BYTES];
	if (map64_get(&w->name_of, frame, &ret))
		return ret;
	ret = json_array_size(w->names);
	map64_set(&w->name_of, frame, ret);
	report_html_frame_name(name, w->tree, &w->tree->frames.data[frame]);
	json_array_append_new(w->names, report_text_json(name));
	return ret;
}

static void add_node(struct writer *w, const struct calltree_node *n, uint64_t parent)
{
	json_array_append_new(w->parent, report_number_json(parent));
	json_array_append_new(w->name, report_number_json(name_number(w, n->frame)));
	json_array_append_new(w->is, json_integer(w->tree->frames.data[n->frame].kind));
	json_array_append_new(w->value, json_integer(n->total[0]));
}

json_t *report_html_flame(const struct calltree *t, const char *kind, json_t *left_out)
{
	struct writer w = {.tree = t,
			   .names = json_array(),
			   .parent = json_array(),
			   .name = json_array(),
			   .is = json_array(),
			   .value = json_array()};
	int64_t least = calltree_least(t, FRAMES_MOST, SHARE_LEAST);
	uint64_t *place = xcalloc(t->nodes.len, sizeof(*place)); /* + 1; 0: left out */
	char what[64];
	for (size_t i = 0; i < t->nodes.len; i++) {
		const struct calltree_node *n = &t->nodes.data[i];
		if (i && (n->total[0] < least || !place[n->parent]))
			continue;
		add_node(&w, n, i ? place[n->parent] - 1 : 0);
		place[i] = json_array_size(w.parent);
	}
	snprintf(what, sizeof(what), "frames of the flame graph %s", kind);
	report_html_left_out(left_out, what, json_array_size(w.parent), t->nodes.len);
	free(place);
	map64_free(&w.name_of);
	return json_pack("{s:s, s:o, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "kind", kind, "title",
			 report_text_json(t->title), "unit", t->unit, "total",
			 (json_int_t)t->nodes.data[0].total[0], "names", w.names, "parent",
			 w.parent, "name", w.name, "is", w.is, "value", w.value);
}

json_t *report_html_flames(const struct report *r, json_t *left_out)
{
	const struct report_options *o = r->options;
	uint64_t start_ns = report_number(r->tables, "start_monotonic_ns");
	json_t *ret = json_array();
	for (int kind = 0; kind < FLAME_KINDS; kind++) {
		struct calltree tree;
		struct flame_options options = {
			.kind = (enum flame_kind)kind,
			.pid = o->pid,
			.from_ns = o->from_ns ? o->from_ns - start_ns : 0,
			.to_ns = o->to_ns ? o->to_ns - start_ns : 0,
			.at = kind == FLAME_GPU_INUSE ? FLAME_AT_PEAK : FLAME_AT_END,
			.demangle = demangle,
		};
		if (flame_make(&tree, r->source, &options, NULL))
			continue; /* the recording has none */
		if (tree.nodes.data[0].total[0] > 0)
			json_array_append_new(ret, report_html_flame(&tree, kinds[kind], left_out));
		calltree_free(&tree);
	}
	return ret;
}
