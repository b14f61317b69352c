/* profile.c - sums of samples by function, by why stacks end, and by why threads waited.
 *
 * Functions are those of the flame graph of CPU time: the interpreter's own frames between
 * Python frames are left out, and the others are one function. */
#include "analyze/profile.h"

#include <string.h>

#include "analyze/flame.h"
#include "analyze/flame_impl.h"
#include "analyze/programs.h"

/* ---- stacks and waits ---- */

struct counts {
	struct profile *p;
	const struct profile_options *o;
	const struct rec_tables *t;
	uint32_t *root_of;	     /* by stack: its root's frame */
	uint32_t *outer_of;	     /* by stack: string, the library next to its root; 0 none */
	struct map64 stops;	     /* index into p->ends << 32 | library -> samples */
	uint8_t *traits;	     /* by stack: HAS_GUESSED, HAS_UNKNOWN */
	uint64_t *weight_of;	     /* by stack: CPU time */
	bool *thread_own;	     /* by thread: eACGM's */
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

/* The libraries of the frames that called all others, where the root only says why there are no
 * more. */
static uint32_t *make_outers(const struct rec_tables *t)
{
	uint32_t *outers = xcalloc(t->stacks.len + 1, sizeof(*outers));
	for (size_t i = 1; i < t->stacks.len; i++) {
		uint32_t parent = t->stacks.data[i].parent;
		bool is_next = parent && !t->stacks.data[parent].parent;
		outers[i] =
			is_next ? t->frames.data[t->stacks.data[i].frame].library : outers[parent];
	}
	return outers;
}

/* What is known of a stack's frames, from its root to its leaf. */
enum { HAS_GUESSED = 1, HAS_UNKNOWN = 2 };

static uint8_t *make_traits(const struct rec_tables *t)
{
	uint8_t *traits = xcalloc(t->stacks.len + 1, sizeof(*traits));
	for (size_t i = 1; i < t->stacks.len; i++) {
		const struct m_stack *s = &t->stacks.data[i];
		const struct m_frame *f = &t->frames.data[s->frame];
		bool unknown = f->kind == FRAME_NATIVE && !f->name && !f->library;
		traits[i] = traits[s->parent] | (f->guessed ? HAS_GUESSED : 0) |
			    (unknown ? HAS_UNKNOWN : 0);
	}
	return traits;
}

static void count_stop(struct counts *n, uint64_t end, uint32_t library)
{
	struct profile_end *e = &n->p->ends.data[end];
	uint64_t samples = 0, key = end << 32 | library;
	map64_get(&n->stops, key, &samples);
	map64_set(&n->stops, key, ++samples);
	if (samples <= e->library_samples)
		return;
	e->library_samples = samples;
	e->library = strtab_get(&n->t->strings, library, NULL);
}

static void count_end(struct counts *n, uint32_t stack)
{
	const struct m_frame *root = &n->t->frames.data[n->root_of[stack]];
	uint64_t at, key = UINT64_MAX;
	const char *reason = PROFILE_NOT_TAKEN;
	bool unknown = stack && root->kind != FRAME_CUT && n->traits[stack] & HAS_UNKNOWN;
	if (stack && root->kind != FRAME_CUT && !unknown) {
		n->p->whole++;
		return;
	}
	if (unknown) {
		key = UINT64_MAX - 1;
		reason = "unknown_frame";
	} else if (!stack) {
		n->p->no_stack++;
	} else {
		key = root->name;
		reason = strtab_get(&n->t->strings, root->name, NULL);
	}
	if (!map64_get(&n->end_of, key, &at)) {
		at = n->p->ends.len;
		map64_set(&n->end_of, key, at);
		((struct profile_end *)vec_push(&n->p->ends))->reason = reason;
	}
	n->p->ends.data[at].samples++;
	count_stop(n, at, n->outer_of[stack]);
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
	if (s->stack)
		return;
	n->p->waits_no_stack++;
	n->p->waited_no_stack_ns += s->weight_ns;
}

static void count_samples(void *ctx, const struct visited_rows *rows)
{
	struct counts *n = ctx;
	const struct profile_options *o = n->o;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_sample *s = &samples[i];
		if ((o->pid && n->t->threads.data[s->thread].pid != o->pid) ||
		    n->thread_own[s->thread] || s->time_ns < o->from_ns ||
		    (o->to_ns && s->time_ns >= o->to_ns))
			continue;
		if (s->kind == SAMPLE_OFFCPU)
			count_wait(n, s);
		if (s->kind != SAMPLE_CPU)
			continue;
		n->p->samples++;
		n->p->guessed += n->traits[s->stack] & HAS_GUESSED;
		n->weight_of[s->stack] += s->weight_ns;
		count_end(n, s->stack);
	}
}

/* ---- lines of Python ---- */

static uint64_t function_key(const char *name, const char *file)
{
	return hash_u64(hash_bytes(name, strlen(name))) ^ hash_bytes(file, strlen(file));
}

/* Of each Python function the line that most time was spent at, with what it called. */
static void make_lines(struct counts *n, struct map64 *ret_line_of)
{
	const struct rec_tables *t = n->t;
	uint64_t *weight_of_frame = xcalloc(t->frames.len + 1, sizeof(*weight_of_frame));
	struct map64 most_of = {0};
	for (size_t i = t->stacks.len; i-- > 1;) {
		const struct m_stack *s = &t->stacks.data[i];
		weight_of_frame[s->frame] += n->weight_of[i];
		n->weight_of[s->parent] += n->weight_of[i];
	}
	for (size_t i = 0; i < t->frames.len; i++) {
		const struct m_frame *f = &t->frames.data[i];
		enum calltree_kind kind;
		uint64_t most = 0;
		if (f->kind != FRAME_PYTHON || !f->line || !weight_of_frame[i])
			continue;
		char *name = flame_frame_name(t, NULL, f, false, &kind);
		uint64_t key = function_key(name, strtab_get(&t->strings, f->file, NULL));
		free(name);
		if (map64_get(&most_of, key, &most) && most >= weight_of_frame[i])
			continue;
		map64_set(&most_of, key, weight_of_frame[i]);
		map64_set(ret_line_of, key, f->line);
	}
	map64_free(&most_of);
	free(weight_of_frame);
}

static uint32_t line_of_function(const struct map64 *line_of, const char *name, const char *file)
{
	uint64_t line = 0;
	return map64_get(line_of, function_key(name, file), &line) ? (uint32_t)line : 0;
}

/* ---- functions ---- */

/* Whether the program is somebody's interpreter: Python, or a runtime that makes code. */
static bool has_scripts(const struct calltree *t)
{
	for (size_t i = 1; i < t->frames.len; i++) {
		const struct calltree_frame *f = &t->frames.data[i];
		if (f->kind == CALLTREE_PYTHON ||
		    !strcmp(strtab_get(&t->strings, f->library, NULL), LIBRARY_OF_MADE_CODE))
			return true;
	}
	return false;
}

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

/* The hashes of their paths. */
static void find_programs(struct map64 *ret, const struct rec_tables *t)
{
	for (size_t i = 0; i < t->processes.len; i++) {
		const char *path = strtab_get(&t->strings, t->processes.data[i].command, NULL);
		map64_set(ret, hash_bytes(path, strlen(path)), *path != 0);
	}
}

static bool is_program(const struct map64 *programs, const char *library)
{
	uint64_t is_one = 0;
	map64_get(programs, hash_bytes(library, strlen(library)), &is_one);
	return is_one;
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

/* By node: how much of its time is of probes at work. A node's number is greater than its parent's.
 */
static uint64_t *make_own(const struct calltree *t)
{
	uint64_t *own = xcalloc(t->nodes.len, sizeof(*own));
	for (size_t i = t->nodes.len; i-- > 1;) {
		const struct calltree_node *n = &t->nodes.data[i];
		const struct calltree_frame *f = &t->frames.data[n->frame];
		if (f->kind == CALLTREE_OTHER &&
		    !strcmp(strtab_get(&t->strings, f->name, NULL), FLAME_OWN))
			own[i] = (uint64_t)n->total[0];
		own[n->parent] += own[i];
	}
	return own;
}

static void make_functions(struct profile *p, const struct rec_tables *tables,
			   const struct map64 *line_of)
{
	const struct calltree *t = &p->tree;
	struct map64 programs = {0};
	uint64_t *own = make_own(t);
	if (!has_scripts(t))
		find_programs(&programs, tables);
	struct profile_function *of = xcalloc(t->frames.len + 1, sizeof(*of));
	bool *recursive = make_recursive(t);
	for (size_t i = 1; i < t->nodes.len; i++) {
		const struct calltree_node *n = &t->nodes.data[i];
		of[n->frame].self_ns += (uint64_t)n->self[0];
		if (!recursive[i])
			of[n->frame].total_ns += (uint64_t)n->total[0] - own[i];
	}
	for (size_t i = 1; i < t->frames.len; i++) {
		const struct calltree_frame *f = &t->frames.data[i];
		if (f->kind == CALLTREE_OTHER || !of[i].total_ns)
			continue;
		of[i].name = strtab_get(&t->strings, f->name, NULL);
		of[i].file = strtab_get(&t->strings, f->file, NULL);
		of[i].library = strtab_get(&t->strings, f->library, NULL);
		of[i].kind = f->kind;
		of[i].code = profile_code_of(&of[i], is_program(&programs, of[i].library));
		of[i].line = line_of_function(line_of, of[i].name, of[i].file);
		*vec_push(&p->functions) = of[i];
	}
	map64_free(&programs);
	p->own_ns = own[0];
	p->total_ns -= own[0];
	free(own);
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
		      const struct profile_options *o, const struct map64 *line_of)
{
	struct flame_options flame = {
		.kind = FLAME_CPU, .pid = o->pid, .interpreter = PROFILE_INTERPRETER};
	uint64_t start = flame_start_ns(source->tables);
	flame.from_ns = o->from_ns > start ? o->from_ns - start : 0;
	flame.to_ns = o->to_ns > start ? o->to_ns - start : 0;
	if (!p->samples || flame_make(&p->tree, source, &flame, NULL))
		return;
	p->total_ns = (uint64_t)p->tree.nodes.data[0].total[0];
	p->period_ns = p->tree.period_ns;
	make_functions(p, source->tables, line_of);
}

void profile_make(struct profile *ret, const struct row_source *source,
		  const struct profile_options *options)
{
	*ret = (struct profile){0};
	if (!source->tables->samples)
		return;
	struct map64 line_of = {0};
	struct counts n = {.p = ret,
			   .o = options,
			   .t = source->tables,
			   .root_of = make_roots(source->tables),
			   .outer_of = make_outers(source->tables),
			   .traits = make_traits(source->tables),
			   .thread_own = threads_of_own_processes(source->tables),
			   .weight_of =
				   xcalloc(source->tables->stacks.len + 1, sizeof(*n.weight_of))};
	rows_read(source, ROW_SAMPLE, count_samples, &n);
	free(n.root_of);
	free(n.outer_of);
	free(n.traits);
	free(n.thread_own);
	map64_free(&n.stops);
	map64_free(&n.end_of);
	make_lines(&n, &line_of);
	make_tree(ret, source, options, &line_of);
	map64_free(&line_of);
	free(n.weight_of);
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
