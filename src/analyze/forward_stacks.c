/* forward_stacks.c - gives nodes of backward passes the stacks of their operators. */
#include "analyze/forward_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/autograd.h"
#include "analyze/flame_impl.h"
#include "analyze/profile.h"
#include "base/sort.h"

#define NO_NODE	       UINT32_MAX
#define MOST_STACKS_OF 16  /* that are looked at in one operator */
#define LIKES_LEAST    2   /* operators with the same neighbours and stack, to tell others by */
#define MOST_NESTED    256 /* nodes; PyTorch has some 60 at most */

/* A call that carries a stack. */
struct stacked_call {
	uint64_t start_ns;
	uint32_t thread;
	uint32_t stack;
};
typedef VEC(struct stacked_call) stacked_calls_t;

/* A node of a backward pass. */
struct node {
	uint64_t start_ns, end_ns;
	uint32_t thread;
	uint32_t outer; /* the node around it; NO_NODE */
	struct forward_stack under;
};

struct forward_stacks {
	VEC(struct node) nodes; /* by thread, then start */
};

/* Operators with the same neighbours, of those that have a stack. */
struct like {
	size_t link; /* one whose stack ends as most do */
	uint32_t same, all;
};

struct making {
	struct row_visitor visitor; /* of stacked calls */
	const struct rec_tables *t;
	uint32_t pid;
	stacked_calls_t stacked; /* by thread, then start */
	struct torch_calls calls;
	struct autograd_links links;
	struct map64 operators; /* see flame_operators */
	struct map64 at_place;	/* pid and place -> index into links */
	struct map64 likes_of;	/* pid and neighbours -> index into likes */
	VEC(struct like) likes;
	struct forward_stack *of_link;
};

/* ---- reading ---- */

static void take_stacked(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct making *m = (const struct making *)v;
	const struct m_call *calls = rows->rows;
	stacked_calls_t *stacked = state;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		if (c->stack && (!m->pid || m->t->threads.data[c->thread].pid == m->pid))
			*vec_push(stacked) =
				(struct stacked_call){c->start_ns, c->thread, c->stack};
	}
}

static void end_stacked(struct row_visitor *v, void *states, size_t n)
{
	struct making *m = (struct making *)v;
	for (size_t i = 0; i < n; i++) {
		stacked_calls_t *of = visitor_state(v, states, i);
		for (size_t k = 0; k < of->len; k++)
			*vec_push(&m->stacked) = of->data[k];
		vec_free(of);
	}
}

static int by_thread(const void *a, const void *b, void *arg)
{
	const struct stacked_call *x = a, *y = b;
	(void)arg;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void nothing_more(void *ctx)
{
	(void)ctx;
}

static void read_calls(struct making *m, const struct row_source *s,
		       const struct visit_options *options)
{
	m->visitor = (struct row_visitor){.kinds = 1u << ROW_CALL,
					  .state_bytes = sizeof(stacked_calls_t),
					  .rows = take_stacked,
					  .end = end_stacked};
	struct row_visitor *v[2] = {torch_calls_visitor(&m->calls, s, m->pid, nothing_more, NULL),
				    &m->visitor};
	rows_visit(s, v, 2, options);
	sort_runs(m->stacked.data, m->stacked.len, sizeof(*m->stacked.data), by_thread, NULL);
}

/* ---- stacks of operators ---- */

static const struct m_frame *frame_of(const struct making *m, uint32_t stack)
{
	return &m->t->frames.data[m->t->stacks.data[stack].frame];
}

/* What a stack has of the operator: the stack up to it, or to the innermost Python frame. */
static struct forward_stack cut(const struct making *m, uint32_t stack, uint32_t name)
{
	const char *wanted = strtab_get(&m->t->strings, name, NULL);
	uint32_t python = 0;
	for (; stack; stack = m->t->stacks.data[stack].parent) {
		if (flame_is_operator(m->t, &m->operators, frame_of(m, stack), wanted))
			return (struct forward_stack){.stack = stack};
		if (!python && frame_of(m, stack)->kind == FRAME_PYTHON)
			python = stack;
	}
	return (struct forward_stack){.stack = python, .operator_name = python ? name : 0};
}

static size_t first_stacked(const struct making *m, uint32_t thread, uint64_t start_ns)
{
	size_t low = 0, high = m->stacked.len;
	const struct stacked_call key = {.thread = thread, .start_ns = start_ns};
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (by_thread(&m->stacked.data[mid], &key, NULL) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint64_t operator_end(const struct making *m, const struct autograd_link *l)
{
	const struct torch_calls *c = &m->calls;
	size_t low = c->first[l->operator_thread], high = c->first[l->operator_thread + 1];
	size_t end = high;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (c->rows.data[mid].start_ns < l->operator_start_ns)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < end && c->rows.data[low].start_ns == l->operator_start_ns; low++)
		if (c->rows.data[low].probe == l->operator_probe)
			return torch_call_end(&c->rows.data[low]);
	return l->operator_start_ns;
}

/* The stack of a call within the link's operator: one that shows the operator, if any does. */
static struct forward_stack stack_within(const struct making *m, const struct autograd_link *l)
{
	struct forward_stack best = {0};
	uint64_t end_ns = operator_end(m, l);
	uint32_t name = m->t->probes.data[l->operator_probe].name;
	size_t first = first_stacked(m, l->operator_thread, l->operator_start_ns);
	for (size_t i = first; i < m->stacked.len && i < first + MOST_STACKS_OF; i++) {
		const struct stacked_call *c = &m->stacked.data[i];
		if (c->thread != l->operator_thread || c->start_ns >= end_ns)
			break;
		struct forward_stack of = cut(m, c->stack, name);
		if (of.stack && !of.operator_name)
			return of;
		best = best.stack ? best : of;
	}
	return best;
}

static uint64_t in_process(const struct making *m, const struct autograd_link *l, uint64_t what)
{
	return hash_u64(what ^ m->t->threads.data[l->operator_thread].pid);
}

static uint64_t place_of(const struct making *m, const struct autograd_link *l)
{
	return in_process(m, l, l->place);
}

/* Stacks of operators themselves: those at their places have the best of them. */
static void find_own(struct making *m)
{
	uint64_t at;
	m->of_link = xcalloc(m->links.rows.len + 1, sizeof(*m->of_link));
	for (size_t i = 0; i < m->links.rows.len; i++) {
		const struct autograd_link *l = &m->links.rows.data[i];
		uint64_t place = place_of(m, l);
		m->of_link[i] = stack_within(m, l);
		if (m->of_link[i].stack &&
		    (!map64_get(&m->at_place, place, &at) ||
		     (m->of_link[at].operator_name && !m->of_link[i].operator_name)))
			map64_set(&m->at_place, place, i);
	}
}

/* Of a stack, from its leaf up to the line of the job's own code that led there. Who called that is
 * another matter: a training's first steps are often called from another line. */
static uint64_t inner_part(const struct making *m, const struct forward_stack *of)
{
	uint64_t h = hash_u64(of->operator_name);
	for (uint32_t stack = of->stack; stack; stack = m->t->stacks.data[stack].parent) {
		const struct m_frame *f = frame_of(m, stack);
		h = hash_u64(h ^ ((uint64_t)f->name << 32 | f->file));
		h = hash_u64(h ^ f->line);
		if (f->kind == FRAME_PYTHON &&
		    !profile_is_library(strtab_get(&m->t->strings, f->file, NULL)))
			break;
	}
	return h;
}

static void find_likes(struct making *m)
{
	struct map64 same = {0}; /* neighbours and inner part -> how many */
	for (size_t i = 0; i < m->links.rows.len; i++) {
		const struct autograd_link *l = &m->links.rows.data[i];
		const struct forward_stack *of = &m->of_link[i];
		uint64_t at, n = 0, key = in_process(m, l, l->neighbours);
		if (!of->stack)
			continue;
		if (!map64_get(&m->likes_of, key, &at)) {
			map64_set(&m->likes_of, key, at = m->likes.len);
			*vec_push(&m->likes) = (struct like){0};
		}
		struct like *like = &m->likes.data[at];
		uint64_t part = hash_u64(key ^ inner_part(m, of));
		(void)map64_get(&same, part, &n);
		map64_set(&same, part, ++n);
		like->all++;
		if (n > like->same) {
			like->same = (uint32_t)n;
			like->link = i;
		}
	}
	map64_free(&same);
}

/* NULL: not known. */
static const struct forward_stack *stack_of_like(const struct making *m,
						 const struct autograd_link *l)
{
	uint64_t at;
	if (map64_get(&m->at_place, place_of(m, l), &at))
		return &m->of_link[at];
	if (!map64_get(&m->likes_of, in_process(m, l, l->neighbours), &at))
		return NULL;
	const struct like *like = &m->likes.data[at];
	return like->same < LIKES_LEAST || like->same * 5 < like->all * 4 ? NULL
									  : &m->of_link[like->link];
}

/* First those of their own operators, then those of others: see forward_stacks.h. */
static void link_stacks(struct making *m)
{
	find_own(m);
	find_likes(m);
	for (size_t i = 0; i < m->links.rows.len; i++) {
		const struct forward_stack *other =
			m->of_link[i].stack ? NULL : stack_of_like(m, &m->links.rows.data[i]);
		if (other)
			m->of_link[i] = *other;
	}
}

/* ---- nodes ---- */

/* The innermost of a node and those around it that lasts beyond the time. */
static uint32_t outer_of(const struct forward_stacks *f, uint32_t node, uint32_t thread,
			 uint64_t time_ns)
{
	for (int i = 0; i < MOST_NESTED && node != NO_NODE; i++) {
		const struct node *n = &f->nodes.data[node];
		if (n->thread != thread)
			return NO_NODE;
		if (n->end_ns > time_ns)
			return node;
		node = n->outer;
	}
	return NO_NODE;
}

static void add_nodes(struct forward_stacks *f, const struct making *m)
{
	for (size_t i = 0; i < m->calls.rows.len; i++) {
		const struct torch_call *c = &m->calls.rows.data[i];
		if (c->node == TORCH_NO_NODE)
			continue;
		const struct autograd_link *l = autograd_link_of(&m->links, c->thread, c->start_ns);
		uint32_t last = f->nodes.len ? (uint32_t)f->nodes.len - 1 : NO_NODE;
		struct node node = {.start_ns = c->start_ns,
				    .end_ns = torch_call_end(c),
				    .thread = c->thread,
				    .outer = outer_of(f, last, c->thread, c->start_ns)};
		if (l)
			node.under = m->of_link[l - m->links.rows.data];
		node.under.node = m->calls.nodes.data[c->node].name;
		*vec_push(&f->nodes) = node;
	}
}

/* ---- all of it ---- */

static bool has_backward(const struct rec_tables *t)
{
	for (size_t i = 0; i < t->probes.len; i++)
		if (!strcmp(strtab_get(&t->strings, t->probes.data[i].role, NULL), "backward"))
			return true;
	return false;
}

struct forward_stacks *forward_stacks_new(const struct row_source *s, uint32_t pid,
					  const struct visit_options *options)
{
	struct making m = {.t = s->tables, .pid = pid};
	if (!has_backward(s->tables) || !s->tables->stacks.len)
		return NULL;
	struct forward_stacks *f = xcalloc(1, sizeof(*f));
	read_calls(&m, s, options);
	autograd_links_find(&m.links, &m.calls);
	flame_operators(&m.operators, m.t);
	link_stacks(&m);
	add_nodes(f, &m);
	map64_free(&m.operators);
	map64_free(&m.at_place);
	map64_free(&m.likes_of);
	vec_free(&m.likes);
	free(m.of_link);
	vec_free(&m.stacked);
	autograd_links_free(&m.links);
	torch_calls_free(&m.calls);
	return f;
}

void forward_stacks_free(struct forward_stacks *f)
{
	if (f)
		vec_free(&f->nodes);
	free(f);
}

const struct forward_stack *forward_stack_of(const struct forward_stacks *f, uint32_t thread,
					     uint64_t time_ns)
{
	size_t low = 0, high = f->nodes.len;
	while (low < high) { /* the first that begins later */
		size_t mid = low + (high - low) / 2;
		const struct node *n = &f->nodes.data[mid];
		if (n->thread < thread || (n->thread == thread && n->start_ns <= time_ns))
			low = mid + 1;
		else
			high = mid;
	}
	uint32_t node = outer_of(f, low ? (uint32_t)low - 1 : NO_NODE, thread, time_ns);
	if (node == NO_NODE || !f->nodes.data[node].under.stack)
		return NULL;
	return &f->nodes.data[node].under;
}
