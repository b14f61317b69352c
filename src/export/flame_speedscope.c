/* flame_speedscope.c - call trees in speedscope's file format
 * (https://www.speedscope.app/file-format-schema.json), profiles of type "sampled".
 *
 * Where the tree has its samples in order of time, each thread is a profile: what it did, one after
 * the other, and nothing where it did nothing. Behind these, or where there are none, the tree:
 * each node that weighs something by itself is one sample. The samples of a large tree are
 * many times longer than the tree: they are written one by one and never held. A base that is
 * compared with is a second profile. Weights below 0 have no place in the format and are left
 * out; so are the middle frames of stacks that are deeper than speedscope can read. */
#include <errno.h>
#include <inttypes.h>

#include "base/json_out.h"
#include "base/utf8.h"
#include "export/flame.h"
#include "export/flame_order.h"
#include "export/json_call.h"

/* speedscope 1.25 reads trees by recursion and fails at 5,000 frames, not at 3,500. */
#define MAX_DEPTH 2000

static json_t *text(const char *s, size_t len)
{
	struct buf clean = {0};
	utf8_append(&clean, s, len);
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

static void write_text(FILE *out, const char *s)
{
	json_t *v = json_text_z(s);
	json_out_file(v, out, JSON_ENCODE_ANY);
	json_decref(v);
}

static json_t *string(const struct calltree *t, uint32_t number)
{
	size_t len;
	const char *s = strtab_get(&t->strings, number, &len);
	return text(s, len);
}

/* speedscope shows one file per frame: the source, or the library where there is none. */
static json_t *frame(const struct calltree *t, const struct calltree_frame *f)
{
	json_t *o = json_object();
	uint32_t file = f->file ? f->file : f->library;
	json_object_set_new(o, "name", f->name ? string(t, f->name) : json_string("[unknown]"));
	if (file)
		json_object_set_new(o, "file", string(t, file));
	if (f->file && f->line)
		json_object_set_new(o, "line", json_integer(f->line));
	return o;
}

static const char *unit_name(const char *unit)
{
	return !strcmp(unit, "ns") ? "nanoseconds" : !strcmp(unit, "bytes") ? "bytes" : "none";
}

static void add_frames(json_t *list, const uint32_t *leaf_first, size_t from, size_t to)
{
	for (size_t i = from; i-- > to;)
		json_array_append_new(list, json_integer(leaf_first[i]));
}

/* The frames of a node from the root on; the root itself has none. path is scratch. */
static json_t *stack(const struct calltree *t, uint32_t node, struct buf *path)
{
	json_t *list = json_array();
	path->len = 0;
	for (; node; node = t->nodes.data[node].parent)
		buf_add(path, &t->nodes.data[node].frame, sizeof(uint32_t));
	const uint32_t *frames = (const uint32_t *)(const void *)path->data;
	size_t len = path->len / sizeof(*frames);
	if (len <= MAX_DEPTH) {
		add_frames(list, frames, len, 0);
	} else {
		add_frames(list, frames, len, len - MAX_DEPTH / 2);
		json_array_append_new(list, json_integer((json_int_t)t->frames.len));
		add_frames(list, frames, MAX_DEPTH / 2, 0);
	}
	return list;
}

static void write_samples(FILE *out, const struct calltree *t, const uint32_t *order, int which)
{
	struct buf path = {0};
	const char *before = "\n";
	for (size_t i = 0; i < t->nodes.len; i++) {
		if (t->nodes.data[order[i]].self[which] <= 0)
			continue;
		fputs(before, out);
		json_write(out, stack(t, order[i], &path));
		before = ",\n";
	}
	buf_free(&path);
}

/* Returns their sum. */
static int64_t write_weights(FILE *out, const struct calltree *t, const uint32_t *order, int which)
{
	const char *before = "";
	int64_t sum = 0;
	for (size_t i = 0; i < t->nodes.len; i++) {
		int64_t weight = t->nodes.data[order[i]].self[which];
		if (weight <= 0)
			continue;
		fprintf(out, "%s%" PRId64, before, weight);
		sum += weight;
		before = ",";
	}
	return sum;
}

static void write_profile(FILE *out, const struct calltree *t, const uint32_t *order, int which)
{
	char *name = xasprintf("%s%s", t->title ? t->title : "", which ? " (base)" : "");
	fputs("{\"type\":\"sampled\",\"name\":", out);
	write_text(out, name);
	fputs(",\"unit\":", out);
	write_text(out, unit_name(t->unit));
	fputs(",\"samples\":[", out);
	write_samples(out, t, order, which);
	fputs("],\n\"weights\":[", out);
	int64_t sum = write_weights(out, t, order, which);
	fprintf(out, "],\n\"startValue\":0,\"endValue\":%" PRId64 "}", sum);
	free(name);
}

/* ---- in order of time ---- */

#define LEAST_GAP_NS 1000	 /* the clock of the samples is no better */
#define MOST_ENTRIES (64u << 20) /* frames of all samples together: what a file may be */

/* What is written of a lane: a stack, or nothing, for so long. */
struct run {
	uint32_t node; /* 0: nothing */
	uint64_t ns;
};
typedef VEC(struct run) runs_t;

static void add_run(runs_t *runs, uint32_t node, uint64_t ns)
{
	if (runs->len && runs->data[runs->len - 1].node == node)
		runs->data[runs->len - 1].ns += ns;
	else if (ns)
		*vec_push(runs) = (struct run){node, ns};
}

static void lane_runs(runs_t *runs, const struct calltree_moment *m, size_t n)
{
	uint64_t now = 0;
	runs->len = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t ns = (uint64_t)m[i].weight;
		uint64_t start = m[i].end_ns > ns ? m[i].end_ns - ns : 0;
		if (start > now + LEAST_GAP_NS) {
			add_run(runs, 0, start - now);
			now = start;
		}
		add_run(runs, m[i].node, ns);
		now += ns;
	}
}

static void write_lane(FILE *out, const struct calltree *t, uint32_t lane, const runs_t *runs)
{
	struct buf path = {0};
	uint64_t sum = 0;
	fputs("{\"type\":\"sampled\",\"name\":", out);
	write_text(out, strtab_get(&t->strings, t->lanes.data[lane], NULL));
	fputs(",\"unit\":", out);
	write_text(out, unit_name(t->unit));
	fputs(",\"samples\":[", out);
	for (size_t i = 0; i < runs->len; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_write(out, stack(t, runs->data[i].node, &path));
	}
	fputs("],\n\"weights\":[", out);
	for (size_t i = 0; i < runs->len; i++) {
		fprintf(out, "%s%" PRIu64, i ? "," : "", runs->data[i].ns);
		sum += runs->data[i].ns;
	}
	fprintf(out, "],\n\"startValue\":0,\"endValue\":%" PRIu64 "}", sum);
	buf_free(&path);
}

/* Parents come before their children. */
static bool fits(const struct calltree *t)
{
	uint32_t *depth = xcalloc(t->nodes.len + 1, sizeof(*depth));
	uint64_t entries = 0;
	for (size_t i = 1; i < t->nodes.len; i++)
		depth[i] = depth[t->nodes.data[i].parent] + 1;
	for (size_t i = 0; i < t->moments.len; i++)
		entries += depth[t->moments.data[i].node];
	free(depth);
	return entries <= MOST_ENTRIES;
}

/* Returns how many profiles were written. */
static size_t write_lanes(FILE *out, const struct calltree *t)
{
	runs_t runs = {0};
	size_t at = 0, lane = 0;
	for (; at < t->moments.len; lane++) {
		size_t first = at;
		while (at < t->moments.len && t->moments.data[at].lane == lane)
			at++;
		lane_runs(&runs, &t->moments.data[first], at - first);
		fputs(lane ? ",\n" : "", out);
		write_lane(out, t, (uint32_t)lane, &runs);
	}
	vec_free(&runs);
	return lane;
}

static int speedscope_write(FILE *out, const struct calltree *t, struct err *e)
{
	if (!t->nodes.len)
		return err_set(e, EINVAL, "the call tree has no root");
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"eacgm " EACGM_VERSION "\",\"name\":",
	      out);
	write_text(out, t->title ? t->title : "");
	fputs(",\"activeProfileIndex\":0,\"shared\":{\"frames\":[", out);
	for (size_t i = 0; i < t->frames.len; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_write(out, frame(t, &t->frames.data[i]));
	}
	fputs(",\n", out); /* the one more that stacks which are too deep refer to */
	json_write(out, json_pack("{s:s}", "name", "[frames left out]"));
	fputs("]},\n\"profiles\":[", out);
	uint32_t *order = flame_preorder(t);
	size_t lanes = t->moments.len && fits(t) ? write_lanes(out, t) : 0;
	if (lanes > 1)
		fputs(",\n", out);
	if (lanes != 1)
		write_profile(out, t, order, 0);
	if (t->differential) {
		fputs(",\n", out);
		write_profile(out, t, order, 1);
	}
	fputs("]}\n", out);
	free(order);
	return 0;
}

const struct flame_format flame_speedscope = {
	.name = "speedscope",
	.extension = "speedscope.json",
	.write = speedscope_write,
};
