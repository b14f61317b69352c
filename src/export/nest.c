/* nest.c - from calls in order of end to nested spans in order of time.
 *
 * A call comes after all that it called, often in a later block. So blocks are gone
 * through twice. The plan notes, for each thread and block, the horizon: the latest end
 * seen so far. A call that begins before the horizon of an earlier block belongs to the
 * time of that block, and a copy of it is kept until then ("carried"). These are the
 * calls that were open across the edge of a block: few. In the second round each block
 * has all that begins in its time, which is sorted by start and swept with a stack.
 *
 * Partial overlap cannot happen in a correct trace, but the end of a call that was left
 * by an exception is only an upper bound. Of two calls that overlap in part, the deeper
 * one, which cannot outlast the other, is cut: a callee to the end of its caller, and a
 * call that another of the same or a smaller depth follows, to the start of that.
 *
 * Arrows go from an operator to the launches in it. Their number must be known when the
 * operator begins, so what begins in a block's time is swept twice: the first time only
 * counts. Launches of an operator that began in the time of an earlier block, which has been
 * written, are few; their arrow leaves from the launch itself. */
#include "export/nest.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "export/launches.h"
#include "wire/event.h"

struct horizon {
	size_t block;
	uint64_t end_ns;
};

#define EARLIER SIZE_MAX

struct open_span {
	struct m_call call;
	uint64_t end_ns;
	size_t slot; /* its place in nest.order, or EARLIER */
};
typedef VEC(struct open_span) span_stack_t;

/* The arrows of a call in nest.order. */
struct arrows {
	uint32_t leave; /* how many begin at it */
	uint64_t next;	/* the next of them to be taken */
	size_t from;	/* of a launch: the slot of its operator */
};

struct nest_thread {
	VEC(struct horizon) horizons;
	span_stack_t stack;
	size_t current; /* index into horizons of the block that is swept */
};

struct carried {
	size_t block;
	struct m_call call;
};

struct nest {
	struct nest_thread *threads;
	size_t threads_len;
	VEC(struct carried) carried; /* sorted by block and thread before the sweep */
	bool sorted;
	VEC(const struct m_call *) order; /* scratch, as the next two */
	VEC(struct arrows) arrows;	  /* by slot */
	span_stack_t counted;		  /* the stack of the sweep that only counts */
	struct launch_probes launches;
	uint64_t flows; /* how many arrows there are so far */
};

struct nest *nest_new(const struct rec_tables *t)
{
	struct nest *n = xcalloc(1, sizeof(*n));
	n->threads_len = t->threads.len;
	n->threads = xcalloc(n->threads_len + 1, sizeof(*n->threads));
	launch_probes_make(&n->launches, t);
	return n;
}

void nest_free(struct nest *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->threads_len; i++) {
		vec_free(&n->threads[i].horizons);
		vec_free(&n->threads[i].stack);
	}
	free(n->threads);
	vec_free(&n->carried);
	vec_free(&n->order);
	vec_free(&n->arrows);
	vec_free(&n->counted);
	launch_probes_free(&n->launches);
	free(n);
}

/* The end of a call; a damaged duration does not wrap around. */
static uint64_t end_of(const struct m_call *c)
{
	return c->dur_ns > UINT64_MAX - c->start_ns ? UINT64_MAX : c->start_ns + c->dur_ns;
}

static size_t same_thread(const struct m_call *rows, size_t len)
{
	size_t n = 1;
	while (n < len && rows[n].thread == rows[0].thread)
		n++;
	return n;
}

/* The first block of the thread whose horizon lies after start. */
static size_t block_of_start(const struct nest_thread *t, uint64_t start_ns)
{
	size_t low = 0, high = t->horizons.len - 1;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (t->horizons.data[mid].end_ns > start_ns)
			high = mid;
		else
			low = mid + 1;
	}
	return t->horizons.data[low].block;
}

static void plan_segment(struct nest *n, size_t block, const struct m_call *rows, size_t len)
{
	struct nest_thread *t = &n->threads[rows->thread];
	uint64_t before = 0, horizon = 0;
	if (t->horizons.len)
		before = horizon = t->horizons.data[t->horizons.len - 1].end_ns;
	for (size_t i = 0; i < len; i++) {
		if (rows[i].start_ns < before) {
			struct carried *c = vec_push(&n->carried);
			c->block = block_of_start(t, rows[i].start_ns);
			c->call = rows[i];
		}
		uint64_t end = end_of(&rows[i]);
		if (end > horizon)
			horizon = end;
	}
	*vec_push(&t->horizons) = (struct horizon){block, horizon};
}

void nest_plan(struct nest *n, size_t block, const struct m_call *rows, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t k = same_thread(rows + i, len - i);
		plan_segment(n, block, rows + i, k);
		i += k;
	}
}

static int compare_carried(const void *a, const void *b)
{
	const struct carried *x = a, *y = b;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	if (x->call.thread != y->call.thread)
		return x->call.thread < y->call.thread ? -1 : 1;
	return 0;
}

/* Callers before what they call, also where both begin in the same nanosecond. */
static int compare_starts(const void *a, const void *b)
{
	const struct m_call *x = *(const struct m_call *const *)a;
	const struct m_call *y = *(const struct m_call *const *)b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	uint64_t x_end = end_of(x), y_end = end_of(y);
	if (x_end != y_end)
		return x_end > y_end ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* ---- arrows ---- */

/* The slot that the arrow to a launch leaves from: the nearest operator around it, else the
 * nearest Python function, else its own. */
static size_t arrow_source(const struct nest *n, const span_stack_t *stack, size_t own)
{
	static const uint8_t kinds[] = {LAUNCH_OPERATOR, LAUNCH_PYTHON};
	for (size_t k = 0; k < 2; k++)
		for (size_t i = stack->len; i-- > 0;) {
			const struct open_span *s = &stack->data[i];
			if (n->launches.rows[s->call.probe].kind == kinds[k])
				return s->slot == EARLIER ? own : s->slot;
		}
	return own;
}

static void arrows_count(struct nest *n, const span_stack_t *stack, const struct m_call *c,
			 size_t slot)
{
	if (!is_launch(&n->launches, c))
		return;
	size_t from = arrow_source(n, stack, slot);
	n->arrows.data[slot].from = from;
	n->arrows.data[from].leave++;
}

static void arrows_take(struct nest *n, struct span *span, size_t slot)
{
	if (!n->launches.any)
		return;
	struct arrows *a = &n->arrows.data[slot];
	if (a->leave) {
		span->flow_first = a->next = n->flows + 1;
		span->flows = a->leave;
		n->flows += a->leave;
	}
	if (is_launch(&n->launches, span->call))
		span->launch_flow = n->arrows.data[a->from].next++;
}

/* ---- the sweep ---- */

/* Where the spans of a sweep go; emit NULL: it only counts the arrows. */
struct visitor {
	struct nest *nest;
	nest_emit_fn *emit;
	void *ctx;
};

static void visit(const struct visitor *v, const struct span *span)
{
	if (v->emit)
		v->emit(v->ctx, span);
}

static void pop(span_stack_t *stack, uint64_t time_ns, const struct visitor *v)
{
	const struct open_span *top = &stack->data[--stack->len];
	visit(v, &(struct span){.kind = SPAN_END, .time_ns = time_ns, .call = &top->call});
}

static void sweep(span_stack_t *stack, const struct m_call *c, size_t slot, const struct visitor *v)
{
	bool instant = c->flags & CALL_INSTANT;
	uint64_t end_ns = instant ? c->start_ns : end_of(c);
	while (stack->len) {
		const struct open_span *top = &stack->data[stack->len - 1];
		bool follows = top->call.depth >= c->depth;
		/* What ends where a call of no length begins may still be its caller. */
		bool apart = top->end_ns == c->start_ns && (follows || end_ns > c->start_ns);
		if (top->end_ns < c->start_ns || apart)
			pop(stack, top->end_ns, v);
		else if (follows && (end_ns > top->end_ns || top->call.flags & CALL_UNWOUND))
			pop(stack, c->start_ns, v);
		else
			break;
	}
	struct span span = {.kind = SPAN_BEGIN, .time_ns = c->start_ns, .call = c};
	if (instant) {
		span.kind = SPAN_INSTANT;
		visit(v, &span);
		return;
	}
	if (v->emit)
		arrows_take(v->nest, &span, slot);
	else
		arrows_count(v->nest, stack, c, slot);
	if (stack->len && stack->data[stack->len - 1].end_ns < end_ns)
		end_ns = stack->data[stack->len - 1].end_ns;
	*(struct open_span *)vec_push(stack) = (struct open_span){*c, end_ns, slot};
	visit(v, &span);
}

/* Sweeps what is in order without emitting, so that each operator's arrows are known. */
static void count_arrows(struct nest *n, struct nest_thread *t)
{
	const struct visitor counting = {.nest = n};
	n->arrows.len = n->counted.len = 0;
	vec_reserve(&n->arrows, n->order.len);
	vec_reserve(&n->counted, t->stack.len);
	if (n->order.len)
		memset(n->arrows.data, 0, n->order.len * sizeof(*n->arrows.data));
	n->arrows.len = n->order.len;
	for (size_t i = 0; i < t->stack.len; i++) {
		t->stack.data[i].slot = EARLIER;
		*vec_push(&n->counted) = t->stack.data[i];
	}
	for (size_t i = 0; i < n->order.len; i++)
		sweep(&n->counted, n->order.data[i], i, &counting);
}

/* The carried calls of a block and thread: [*ret_first, returned index). */
static size_t carried_range(const struct nest *n, size_t block, uint32_t thread, size_t *ret_first)
{
	size_t low = 0, high = n->carried.len;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct carried *c = &n->carried.data[mid];
		if (c->block < block || (c->block == block && c->call.thread < thread))
			low = mid + 1;
		else
			high = mid;
	}
	*ret_first = low;
	while (high < n->carried.len && n->carried.data[high].block == block &&
	       n->carried.data[high].call.thread == thread)
		high++;
	return high;
}

/* There may be as many threads as calls. */
static void keep_little(span_stack_t *stack)
{
	if (!stack->len || stack->len * 4 > stack->cap)
		return;
	stack->data = xrealloc(stack->data, stack->len, sizeof(*stack->data));
	stack->cap = stack->len;
}

static void sweep_segment(struct nest *n, size_t block, const struct m_call *rows, size_t len,
			  nest_emit_fn *emit, void *ctx)
{
	struct nest_thread *t = &n->threads[rows->thread];
	uint64_t before = t->current ? t->horizons.data[t->current - 1].end_ns : 0;
	size_t first, end = carried_range(n, block, rows->thread, &first);
	t->current++;
	n->order.len = 0;
	for (size_t i = first; i < end; i++)
		*vec_push(&n->order) = &n->carried.data[i].call;
	for (size_t i = 0; i < len; i++)
		if (rows[i].start_ns >= before)
			*vec_push(&n->order) = &rows[i];
	if (n->order.len)
		qsort(n->order.data, n->order.len, sizeof(*n->order.data), compare_starts);
	if (n->launches.any)
		count_arrows(n, t);
	for (size_t i = 0; i < n->order.len; i++)
		sweep(&t->stack, n->order.data[i], i, &(struct visitor){n, emit, ctx});
	keep_little(&t->stack);
}

void nest_block(struct nest *n, size_t block, const struct m_call *rows, size_t len,
		nest_emit_fn *emit, void *ctx)
{
	if (!n->sorted && n->carried.len)
		qsort(n->carried.data, n->carried.len, sizeof(*n->carried.data), compare_carried);
	n->sorted = true;
	for (size_t i = 0; i < len;) {
		size_t k = same_thread(rows + i, len - i);
		sweep_segment(n, block, rows + i, k, emit, ctx);
		i += k;
	}
}

void nest_finish(struct nest *n, nest_emit_fn *emit, void *ctx)
{
	for (size_t i = 0; i < n->threads_len; i++)
		while (n->threads[i].stack.len) {
			span_stack_t *stack = &n->threads[i].stack;
			pop(stack, stack->data[stack->len - 1].end_ns,
			    &(struct visitor){n, emit, ctx});
		}
}
