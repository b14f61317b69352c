/* pass.c - sums one call block at a time, and joins what crosses blocks.
 *
 * Within a thread children come before their caller (order of end time), and lie in its time.
 * So finished calls that nobody has claimed are a stack in the order of time: a call claims those
 * at its top that began after it, and is put there itself. Callers that were not recorded are
 * simply skipped: their children count for the next caller that was. A call's depth is not
 * needed: calls of one thread may come from several sources, each of which knows its own alone
 * (pipeline/shim_ops.c).
 *
 * What nobody claims would fill memory: the older half of a full stack is put together two by
 * two. A call that began within such a pair claims as much of it as has room after its start. */
#include "analyze/pass.h"

#include "wire/event.h"

void pass_init(struct pass *p)
{
	p->tables = p->ids->tables;
	p->sums = xcalloc(p->ids->len + 1, sizeof(struct fn_sums *));
	p->thread_calls = xcalloc(p->tables->threads.len + 1, sizeof(*p->thread_calls));
}

void pass_free(struct pass *p)
{
	for (uint32_t i = 0; i < p->ids->len; i++) {
		if (!p->sums[i])
			continue;
		hist_free(&p->sums[i]->durations);
		free(p->sums[i]);
	}
	free(p->sums);
	free(p->thread_calls);
	vec_free(&p->edges);
	vec_free(&p->heads);
	vec_free(&p->tails);
	recursion_free(&p->recursion);
	vec_free(&p->open_calls);
}

struct fn_sums *pass_sums(struct pass *p, uint32_t fn)
{
	if (__builtin_expect(!p->sums[fn], 0))
		p->sums[fn] = xcalloc(1, sizeof(struct fn_sums));
	return p->sums[fn];
}

void fn_sums_merge(struct fn_sums *a, const struct fn_sums *b)
{
	a->calls += b->calls;
	a->errors += b->errors;
	a->nested += b->nested;
	a->instants += b->instants;
	a->open += b->open;
	a->unwound += b->unwound;
	a->total_ns += b->total_ns;
	a->inside_ns += b->inside_ns;
	a->again_ns += b->again_ns;
	a->from_histogram |= b->from_histogram;
	if (b->max_ns > a->max_ns)
		a->max_ns = b->max_ns;
	hist_merge(&a->durations, &b->durations);
}

size_t pending_thin_out(struct pending *stack, size_t len)
{
	size_t half = len / 2 & ~(size_t)1, to = 0;
	for (size_t i = 0; i < half; i += 2)
		stack[to++] = (struct pending){stack[i].sum_ns + stack[i + 1].sum_ns,
					       stack[i].first_start_ns, stack[i + 1].last_end_ns};
	memmove(stack + to, stack + half, (len - half) * sizeof(*stack));
	return to + len - half;
}

uint64_t pending_claim(struct pending *stack, size_t *len, uint64_t start_ns)
{
	uint64_t inside = 0;
	while (*len) {
		struct pending *top = &stack[*len - 1];
		if (top->last_end_ns <= start_ns)
			break;
		if (top->first_start_ns >= start_ns) {
			inside += top->sum_ns;
			--*len;
			continue;
		}
		/* it began before: one call is not inside, of several some may be */
		uint64_t room = top->last_end_ns - start_ns;
		if (top->sum_ns < top->last_end_ns - top->first_start_ns) {
			uint64_t part = top->sum_ns < room ? top->sum_ns : room;
			inside += part;
			top->sum_ns -= part;
			top->last_end_ns = start_ns;
		}
		break;
	}
	return inside;
}

static void note_open(struct pass *p, const struct m_call *c)
{
	p->open_calls_total++;
	if (p->open_calls.len < PASS_MAX_OPEN)
		*vec_push(&p->open_calls) = *c;
}

static inline void count_call(struct pass *p, struct fn_sums *f, const struct m_call *c,
			      uint64_t inside_ns)
{
	f->calls++;
	f->errors += (c->flags & (CALL_ERROR | CALL_UNWOUND)) != 0;
	f->nested += (c->flags & CALL_NESTED) != 0;
	if (__builtin_expect(c->flags & (CALL_INSTANT | CALL_OPEN | CALL_UNWOUND), 0)) {
		f->unwound += (c->flags & CALL_UNWOUND) != 0;
		if (c->flags & CALL_OPEN) {
			f->open++;
			note_open(p, c);
		}
		if (c->flags & CALL_INSTANT) {
			f->instants++;
			return;
		}
	}
	f->total_ns += c->dur_ns;
	f->inside_ns += inside_ns;
	if (c->dur_ns > f->max_ns)
		f->max_ns = c->dur_ns;
	hist_add(&f->durations, c->dur_ns, 1);
}

/* True when a kernel histogram has counted the call already. It counts at return, so not
 * the calls that were open. */
static inline bool in_histogram(const struct pass *p, const struct m_call *c)
{
	if (__builtin_expect(!p->thread_counted, 1))
		return false;
	const uint8_t *bits = p->thread_counted[c->thread];
	return bits && bits[c->probe / 8] & 1u << c->probe % 8 && !(c->flags & CALL_OPEN);
}

static inline void segment_call(struct pass *p, const struct m_call *c)
{
	uint32_t fn = fn_id(p->ids, c);
	uint32_t same_fn = fn < p->tables->probes.len ? p->same_name[fn] : fn;
	bool counted = !in_histogram(p, c);
	if (__builtin_expect(c->flags & CALL_INSTANT, 0)) {
		if (counted)
			count_call(p, pass_sums(p, fn), c, 0);
		return;
	}
	uint64_t inside = pending_claim(p->pending, &p->pending_len, c->start_ns);
	if (inside > c->dur_ns)
		inside = c->dur_ns;
	if (counted)
		count_call(p, pass_sums(p, fn), c, inside);
	if (!p->pending_len) /* what ended in earlier blocks may be inside */
		*vec_push(&p->heads) = (struct edge_head){.start_ns = c->start_ns,
							  .unclaimed_ns = c->dur_ns - inside,
							  .fn = fn,
							  .same_fn = same_fn,
							  .counted = counted};
	uint64_t end_ns = c->start_ns + c->dur_ns;
	if (counted)
		*vec_push(&p->recursion.calls) =
			(struct recursion_call){c->start_ns, end_ns, same_fn};
	if (p->first_ns > c->start_ns || !p->first_ns)
		p->first_ns = c->start_ns;
	if (p->last_ns < end_ns)
		p->last_ns = end_ns;
	if (!c->dur_ns)
		return;
	if (p->pending_len == PASS_MOST_PENDING)
		p->pending_len = pending_thin_out(p->pending, p->pending_len);
	p->pending[p->pending_len++] = (struct pending){c->dur_ns, c->start_ns, end_ns};
}

/* Sums the rows of one thread in a block; returns how many there were. */
static size_t pass_segment(struct pass *p, size_t block, const struct m_call *rows, size_t len)
{
	uint32_t thread = rows->thread;
	struct edge edge = {.thread = thread,
			    .block = block,
			    .heads = p->heads.len,
			    .tails = p->tails.len,
			    .recursion_tails = p->recursion.tails.len};
	size_t n = 0;
	p->pending_len = 0;
	bool wanted = !p->thread_wanted || p->thread_wanted[thread];
	for (; n < len && rows[n].thread == thread; n++)
		if (wanted)
			segment_call(p, &rows[n]);
	if (!wanted)
		return n;
	p->thread_calls[thread] += n;
	while (p->pending_len > PASS_MOST_TAILS)
		p->pending_len = pending_thin_out(p->pending, p->pending_len);
	for (size_t i = 0; i < p->pending_len; i++)
		*vec_push(&p->tails) = p->pending[i];
	recursion_end_segment(p);
	edge.recursion_tails_len = (uint32_t)(p->recursion.tails.len - edge.recursion_tails);
	edge.heads_len = (uint32_t)(p->heads.len - edge.heads);
	edge.tails_len = (uint32_t)(p->tails.len - edge.tails);
	*vec_push(&p->edges) = edge;
	return n;
}

void pass_block(struct pass *p, size_t block, const struct m_call *rows, size_t n)
{
	for (size_t i = 0; i < n;)
		i += pass_segment(p, block, rows + i, n - i);
}

/* ---- joining ---- */

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = ((const struct edge_ref *)a)->edge;
	const struct edge *y = ((const struct edge_ref *)b)->edge;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->heads < y->heads ? -1 : 1;
}

/* Takes one edge: its heads claim what earlier blocks left, then its own tails are left. */
static void join_edge(struct pass *into, const struct edge_ref *ref, struct pending *carried,
		      size_t *carried_len)
{
	const struct edge_head *heads = ref->pass->heads.data + ref->edge->heads;
	const struct pending *tails = ref->pass->tails.data + ref->edge->tails;
	for (uint32_t i = 0; i < ref->edge->heads_len; i++) {
		const struct edge_head *h = &heads[i];
		uint64_t inside = pending_claim(carried, carried_len, h->start_ns);
		if (inside > h->unclaimed_ns)
			inside = h->unclaimed_ns;
		if (h->counted && inside)
			pass_sums(into, h->fn)->inside_ns += inside;
	}
	while (*carried_len + ref->edge->tails_len > PASS_MOST_PENDING)
		*carried_len = pending_thin_out(carried, *carried_len);
	if (ref->edge->tails_len) /* there may be none at all to point to */
		memcpy(carried + *carried_len, tails, ref->edge->tails_len * sizeof(*tails));
	*carried_len += ref->edge->tails_len;
}

void pass_join_edges(struct pass *passes, size_t n)
{
	VEC(struct edge_ref) refs = {0};
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < passes[i].edges.len; k++)
			*vec_push(&refs) = (struct edge_ref){&passes[i], &passes[i].edges.data[k]};
	if (refs.len)
		qsort(refs.data, refs.len, sizeof(*refs.data), compare_edges);
	struct pending carried[PASS_MOST_PENDING];
	size_t carried_len = 0;
	for (size_t i = 0; i < refs.len; i++) {
		if (!i || refs.data[i].edge->thread != refs.data[i - 1].edge->thread)
			carried_len = 0;
		join_edge(&passes[0], &refs.data[i], carried, &carried_len);
	}
	recursion_join(&passes[0], refs.data, refs.len);
	vec_free(&refs);
}
