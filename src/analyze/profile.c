/* profile.c - sums of samples by function, by why stacks end, and by why threads waited.
 *
 * Functions are those of the flame graph of CPU time: the interpreter's own frames between
 * Python frames are left out. */
#include "analyze/profile.h"

#include <string.h>

#include "analyze/flame.h"
#include "analyze/flame_impl.h"

/* ---- stacks and waits ---- */

struct counts {
	struct profile *p;
	const struct profile_options *o;
	const struct rec_tables *t;
	uint32_t *root_of;	     /* by stack: its root's frame */
	bool *guessed;		     /* by stack: goes through code without unwind rules */
	struct map64 end_of;	     /* string -> index into p->ends */
	int reason_of[WAIT_REASONS]; /* index into p->reasons + 1 */
};

/* A parent's number is smaller than its children's. */
static uint32_t *make_roots(const struct rec_tables *t)
{
	uint32_t *roots = xcalloc(t->stacks.len + 1, sizeof(*roots));
	for (size_t i = 1; i < t->stacks.len; i++) {
		const struct m_stack *s = &t->stacks.data[i];
		roots[i] = s->parent ? roots[s->parent] : s->frame;
	}
	return roots;
}

/* Which stacks go through code without unwind rules. */
static bool *make_guessed(const struct rec_tables *t)
{
	bool *guessed = xcalloc(t->stacks.len + 1, sizeof(*guessed));
	for (size_t i = 1; i < t->stacks.len; i++) {
		const struct m_stack *s = &t->stacks.data[i];
		guessed[i] = guessed[s->parent] || t->frames.data[s->frame].guessed;
	}
	return guessed;
}

static void count_end(struct counts *n, uint32_t stack)
{
	const struct m_frame *root = &n->t->frames.data[n->root_of[stack]];
	uint64_t at, key = UINT64_MAX;
	const char *reason = "not_taken";
	if (stack && root->kind != FRAME_CUT) {
		n->p->whole++;
		return;
	}
	if (stack) {
		key = root->name;
		reason = strtab_get(&n->t->strings, root->name, NULL);
	}
	if (!map64_get(&n->end_of, key, &at)) {
		at = n->p->ends.len;
		map64_set(&n->end_of, key, at);
		((struct profile_end *)vec_push(&n->p->ends))->reason = reason;
	}
	n->p->ends.data[at].samples++;
}

static void count_wait(struct counts *n, const struct m_sample *s)
{
	static const char *const names[] = WAIT_REASON_NAMES;
	int *at = &n->reason_of[s->reason];
	if (!*at) {
		((struct profile_wait *)vec_push(&n->p->reasons))->reason = names[s->reason];
		*at = (int)n->p->reasons.len;
	}
	struct profile_wait *w = &n->p->reasons.data[*at - 1];
	w->waits++;
	w->total_ns += s->weight_ns;
	n->p->waits++;
	n->p->waited_ns += s->weight_ns;
}

static void count_samples(void *ctx, const struct visited_rows *rows)
{
	struct counts *n = ctx;
	const struct profile_options *o = n->o;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *s = &samples[i];
		if ((o->pid && n->t->threads.data[s->thread].pid != o->pid) ||
		    s->time_ns < o->from_ns || (o->to_ns && s->time_ns >= o->to_ns))
			continue;
		if (s->kind == SAMPLE_OFFCPU)
			count_wait(n, s);
		if (s->kind != SAMPLE_CPU)
			continue;
		n->p->samples++;
		n->p->guessed += n->guessed[s->stack];
		count_end(n, s->stack);
	}
}

/* ---- functions ---- */

/* By node: whether its frame is on the stack already, nearer to the root. */
static bool *make_recursive(const struct calltree *t)
{
	const struct calltree_node *nodes = t->nodes.data;
	bool *ret = xcalloc(t->nodes.len, sizeof(*ret));
	uint32_t *child = xcalloc(t->nodes.len, sizeof(*child)); /* the first of each; 0 none */
	uint32_t *next = xcalloc(t->nodes.len, sizeof(*next));	 /* of the same parent */
	uint32_t *times = xcalloc(t->frames.len + 1, sizeof(*times)); /* on the way from the root */
	for (uint32_t i = (uint32_t)t->nodes.len; i-- > 1;) {
		next[i] = child[nodes[i].parent];
		child[nodes[i].parent] = i;
	}
	for (uint32_t i = child[0]; i;) {
		ret[i] = times[nodes[i].frame]++ != 0;
		if (child[i]) {
			i = child[i];
			continue;
		}
		while (i && !next[i]) {
			times[nodes[i].frame]--;
			i = nodes[i].parent;
		}
		times[nodes[i].frame] -= i != 0;
		i = next[i];
	}
	free(child);
	free(next);
	free(times);
	return ret;
}

static int compare_functions(const void *a, const void *b)
{
	const struct profile_function *x = a, *y = b;
	if (x->self_ns != y->self_ns)
		return x->self_ns > y->self_ns ? -1 : 1;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	int by_name = strcmp(x->name, y->name);
	return by_name ? by_name : strcmp(x->library, y->library);
}

static void make_functions(struct profile *p)
{
	const struct calltree *t = &p->tree;
	struct profile_function *of = xcalloc(t->frames.len + 1, sizeof(*of));
	bool *recursive = make_recursive(t);
	for (size_t i = 1; i < t->nodes.len; i++) {
		const struct calltree_node *n = &t->nodes.data[i];
		of[n->frame].self_ns += (uint64_t)n->self[0];
		if (!recursive[i])
			of[n->frame].total_ns += (uint64_t)n->total[0];
	}
	for (size_t i = 1; i < t->frames.len; i++) {
		const struct calltree_frame *f = &t->frames.data[i];
		if (f->kind == CALLTREE_OTHER || !of[i].total_ns)
			continue;
		of[i].name = strtab_get(&t->strings, f->name, NULL);
		of[i].file = strtab_get(&t->strings, f->file, NULL);
		of[i].library = strtab_get(&t->strings, f->library, NULL);
		of[i].kind = f->kind;
		*vec_push(&p->functions) = of[i];
	}
	free(recursive);
	free(of);
	if (p->functions.len)
		qsort(p->functions.data, p->functions.len, sizeof(*p->functions.data),
		      compare_functions);
}

/* ---- all of it ---- */

static int compare_ends(const void *a, const void *b)
{
	const struct profile_end *x = a, *y = b;
	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return strcmp(x->reason, y->reason);
}

static int compare_waits(const void *a, const void *b)
{
	const struct profile_wait *x = a, *y = b;
	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	return strcmp(x->reason, y->reason);
}

static void make_tree(struct profile *p, const struct row_source *source,
		      const struct profile_options *o)
{
	struct flame_options flame = {.kind = FLAME_CPU, .pid = o->pid};
	uint64_t start = flame_start_ns(source->tables);
	flame.from_ns = o->from_ns > start ? o->from_ns - start : 0;
	flame.to_ns = o->to_ns > start ? o->to_ns - start : 0;
	if (!p->samples || flame_make(&p->tree, source, &flame, NULL))
		return;
	p->total_ns = (uint64_t)p->tree.nodes.data[0].total[0];
	p->period_ns = p->tree.period_ns;
	make_functions(p);
}

void profile_make(struct profile *ret, const struct row_source *source,
		  const struct profile_options *options)
{
	*ret = (struct profile){0};
	if (!source->tables->samples)
		return;
	struct counts n = {.p = ret,
			   .o = options,
			   .t = source->tables,
			   .root_of = make_roots(source->tables),
			   .guessed = make_guessed(source->tables)};
	rows_read(source, ROW_SAMPLE, count_samples, &n);
	free(n.root_of);
	free(n.guessed);
	map64_free(&n.end_of);
	make_tree(ret, source, options);
	if (ret->ends.len)
		qsort(ret->ends.data, ret->ends.len, sizeof(*ret->ends.data), compare_ends);
	if (ret->reasons.len)
		qsort(ret->reasons.data, ret->reasons.len, sizeof(*ret->reasons.data),
		      compare_waits);
}

void profile_free(struct profile *p)
{
	vec_free(&p->ends);
	vec_free(&p->functions);
	vec_free(&p->reasons);
	calltree_free(&p->tree);
	*p = (struct profile){0};
}
