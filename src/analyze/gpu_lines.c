/* gpu_lines.c - sums the tree of GPU time by its Python frames. */
#include "analyze/gpu_lines.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/flame.h"
#include "analyze/flame_impl.h"
#include "analyze/profile.h"

/* What is known of a node by the frames above it. */
struct where {
	uint32_t own;	 /* frame of the job's code, 0 = none */
	uint32_t python; /* frame of any Python, 0 = none */
	bool backward;
};

static struct where below(const struct calltree *t, struct where above, uint32_t frame)
{
	const struct calltree_frame *f = &t->frames.data[frame];
	const char *name = strtab_get(&t->strings, f->name, NULL);
	if (f->kind == CALLTREE_PYTHON)
		above.python = frame;
	if (f->kind == CALLTREE_PYTHON &&
	    !profile_is_library(strtab_get(&t->strings, f->file, NULL)))
		above.own = frame;
	above.backward |= f->kind == CALLTREE_OPERATOR &&
			  !strncmp(name, FLAME_BACKWARD_PREFIX, strlen(FLAME_BACKWARD_PREFIX));
	return above;
}

static int by_time(const void *a, const void *b)
{
	const struct gpu_line *x = a, *y = b;
	uint64_t p = x->forward_ns + x->backward_ns, q = y->forward_ns + y->backward_ns;
	if (p != q)
		return p > q ? -1 : 1;
	int by_file = strcmp(x->file, y->file);
	return by_file ? by_file : strcmp(x->name, y->name);
}

static void take_rows(struct gpu_lines *l, const struct gpu_line *sums)
{
	const struct calltree *t = &l->tree;
	for (size_t i = 1; i < t->frames.len; i++) {
		struct gpu_line row = sums[i];
		if (!(row.forward_ns + row.backward_ns))
			continue;
		row.name = strtab_get(&t->strings, t->frames.data[i].name, NULL);
		row.file = strtab_get(&t->strings, t->frames.data[i].file, NULL);
		row.line = t->frames.data[i].line;
		*vec_push(&l->rows) = row;
	}
	if (l->rows.len)
		qsort(l->rows.data, l->rows.len, sizeof(*l->rows.data), by_time);
}

/* Parents come before their children. */
static void sum_up(struct gpu_lines *l)
{
	const struct calltree *t = &l->tree;
	struct where *of = xcalloc(t->nodes.len, sizeof(*of));
	struct gpu_line *sums = xcalloc(t->frames.len + 1, sizeof(*sums));
	for (size_t i = 1; i < t->nodes.len; i++) {
		const struct calltree_node *n = &t->nodes.data[i];
		of[i] = below(t, of[n->parent], n->frame);
		uint32_t frame = of[i].own ? of[i].own : of[i].python;
		uint64_t *sum = !frame		 ? &l->elsewhere_ns
				: of[i].backward ? &sums[frame].backward_ns
						 : &sums[frame].forward_ns;
		*sum += (uint64_t)n->self[0];
	}
	take_rows(l, sums);
	free(of);
	free(sums);
}

void gpu_lines_make(struct gpu_lines *ret, const struct row_source *s,
		    const struct gpu_lines_options *options)
{
	uint64_t start = flame_start_ns(s->tables);
	struct flame_options o = {.kind = FLAME_GPU,
				  .pid = options->pid,
				  .lines = true,
				  .demangle = options->demangle};
	*ret = (struct gpu_lines){0};
	o.from_ns = options->from_ns > start ? options->from_ns - start : 0;
	o.to_ns = options->to_ns > start ? options->to_ns - start : 0;
	if (!s->tables->gpu_spans || !s->tables->stacks.len || flame_make(&ret->tree, s, &o, NULL))
		return;
	ret->total_ns = (uint64_t)ret->tree.nodes.data[0].total[0];
	sum_up(ret);
}

void gpu_lines_free(struct gpu_lines *l)
{
	vec_free(&l->rows);
	calltree_free(&l->tree);
}
