/* store_read_cpu.c - the call tree of a process over a stretch, put together of stacks' numbers. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/calltree.h"
#include "base/map64.h"
#include "store/store_read_impl.h"

#define DEPTH_MOST   1024 /* of a stack; what is deeper, or leads nowhere, is the process's own */
#define SECONDS_MOST 1e9

struct trees {
	struct calltree *tree;
	struct map64 seconds_of; /* stack -> place in seconds */
	VEC(double) seconds;
	VEC(sqlite3_int64) stacks; /* the same places */
	struct map64 node_of;	   /* stack -> its node */
	double *points;		   /* seconds */
	sqlite3_stmt *above;
};

/* Minutes are kept for a day, tens of them for as long as the rest. */
static int cpu_range(struct reader *r, struct range *ret)
{
	int64_t fine_s = INT64_MAX, coarse_s = INT64_MAX;
	*ret = r->range;
	int rc = reader_number(r, xasprintf("SELECT min(time) FROM cpu_60s"), &fine_s);
	if (rc == SQLITE_OK)
		rc = reader_number(r, xasprintf("SELECT min(time) FROM cpu_600s"), &coarse_s);
	bool reaches = fine_s <= ret->from_s || (fine_s != INT64_MAX && fine_s - 600 < coarse_s);
	range_by(ret, ret->each_s <= 60 && reaches ? 60 : 600);
	return rc;
}

static void on_row(void *ctx, const struct range *g, int64_t time_s, sqlite3_stmt *s)
{
	struct trees *t = ctx;
	sqlite3_int64 stack = sqlite3_column_int64(s, 0);
	double seconds = sqlite3_column_double(s, 1);
	uint64_t at;
	if (!(seconds > 0 && seconds < SECONDS_MOST))
		return;
	t->points[(time_s - g->from_s) / g->bucket_s] += seconds;
	if (map64_get(&t->seconds_of, (uint64_t)stack, &at)) {
		t->seconds.data[at] += seconds;
		return;
	}
	map64_set(&t->seconds_of, (uint64_t)stack, t->seconds.len);
	*vec_push(&t->seconds) = seconds;
	*vec_push(&t->stacks) = stack;
}

/* A stack's frame, and what it is below of; 0: it is not there. */
static int above_of(struct trees *t, sqlite3_int64 stack, sqlite3_int64 *parent, uint32_t *frame)
{
	sqlite3_bind_int64(t->above, 1, stack);
	int rc = sqlite3_step(t->above);
	*parent = 0;
	*frame = 0;
	if (rc == SQLITE_ROW) {
		int kind = sqlite3_column_int(t->above, 1);
		const char *name = (const char *)sqlite3_column_text(t->above, 2);
		*parent = sqlite3_column_int64(t->above, 0);
		*frame = calltree_frame(t->tree,
					kind >= 0 && kind < CALLTREE_KINDS ? kind : CALLTREE_OTHER,
					name ? name : "", "", 0, "");
	}
	sqlite3_reset(t->above);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The node of a stack: those above it first. */
static int node_of(struct trees *t, sqlite3_int64 stack, uint32_t *ret)
{
	struct {
		sqlite3_int64 stack;
		uint32_t frame;
	} path[DEPTH_MOST];
	size_t depth = 0;
	uint64_t known = 0;
	int rc = SQLITE_OK;
	while (stack > 0 && !map64_get(&t->node_of, (uint64_t)stack, &known) && rc == SQLITE_OK) {
		if (depth == DEPTH_MOST) {
			*ret = 0;
			return SQLITE_OK;
		}
		path[depth].stack = stack;
		rc = above_of(t, stack, &stack, &path[depth].frame);
		depth++;
	}
	*ret = (uint32_t)known;
	while (depth-- > 0 && rc == SQLITE_OK) {
		if (path[depth].frame)
			*ret = calltree_child(t->tree, *ret, path[depth].frame);
		map64_set(&t->node_of, (uint64_t)path[depth].stack, *ret);
	}
	return rc;
}

static int fill_tree(struct reader *r, struct trees *t)
{
	int rc = reader_prepare(r, &t->above,
				xasprintf("SELECT s.parent, f.kind, f.name FROM stacks s JOIN"
					  " frames f ON f.id = s.frame WHERE s.id = ?1"));
	for (size_t i = 0; i < t->stacks.len && rc == SQLITE_OK; i++) {
		uint32_t node = 0;
		rc = reader_is_late(r) ? SQLITE_INTERRUPT : node_of(t, t->stacks.data[i], &node);
		calltree_add(t->tree, node, (int64_t)(1e9 * fmin(t->seconds.data[i], SECONDS_MOST)),
			     0);
	}
	sqlite3_finalize(t->above);
	calltree_sum(t->tree);
	return rc;
}

/* Of a point what is over. */
static double point_s(const struct range *g, uint32_t i)
{
	int64_t past_s = g->newest_s + 1 - (g->from_s + (int64_t)i * g->bucket_s);
	return past_s > 0 && past_s < g->bucket_s ? (double)past_s : g->bucket_s;
}

/* How many CPUs it kept busy. */
static json_t *cpus_json(const struct trees *t, const struct range *g)
{
	json_t *ret = json_array();
	for (uint32_t i = 0; i < g->points; i++)
		json_array_append_new(ret, t->points[i] > 0
						   ? json_real(t->points[i] / point_s(g, i))
						   : json_null());
	return ret;
}

int read_cpu(struct reader *r, json_t *answer)
{
	struct trees t = {.tree = r->q->tree};
	struct range g;
	int rc = cpu_range(r, &g);
	t.points = xcalloc(g.points + 1, sizeof(*t.points));
	if (rc == SQLITE_OK)
		rc = reader_each_time(r, &g,
				      xasprintf("SELECT stack, seconds FROM cpu_%ds WHERE time ="
						" ?1 AND process = ?2",
						g.each_s),
				      on_row, &t);
	if (rc == SQLITE_OK)
		rc = fill_tree(r, &t);
	range_to_json(&g, answer);
	json_object_set_new(answer, "cpus", cpus_json(&t, &g));
	free(t.points);
	map64_free(&t.seconds_of);
	map64_free(&t.node_of);
	vec_free(&t.seconds);
	vec_free(&t.stacks);
	return rc;
}
