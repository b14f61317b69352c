/* pass.c - sums one call block at a time, and joins what crosses blocks.
 *
 * Within a thread children come before their caller (order of end time) and one level
 * deeper. So one pending sum per depth is enough: a call claims all that is pending
 * deeper than itself and began after it, and leaves its own duration pending. Callers
 * that were not recorded are simply skipped: their children count for the next caller
 * that was. */
#include "analyze/pass.h"

#include "wire/event.h"

#define DEPTHS 256

/* The state of one thread within one block. */
struct segment {
	struct pending pending[DEPTHS];
	unsigned top;	 /* nothing is pending deeper than this */
	unsigned lowest; /* the smallest depth of a call so far, DEPTHS before the first */
};

void pass_init(struct pass *p)
{
	p->tables = rec_tables(p->reader);
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
	vec_free(&p->open_calls);
	m_calls_free(&p->rows);
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
	a->from_histogram |= b->from_histogram;
	if (b->max_ns > a->max_ns)
		a->max_ns = b->max_ns;
	hist_merge(&a->durations, &b->durations);
}

/* How much of what is pending lies in a call that began at start. Mixed sums exist only
 * where a caller was not recorded; then all of it may be the caller's, at most. */
static uint64_t claimable(const struct pending *p, uint64_t start_ns)
{
	if (p->first_start_ns >= start_ns)
		return p->sum_ns;
	if (p->last_end_ns <= start_ns)
		return 0;
	uint64_t span = p->last_end_ns - start_ns;
	return p->sum_ns < span ? p->sum_ns : span;
}

static void pending_add(struct pending *p, const struct pending *more)
{
	if (!p->sum_ns) {
		*p = *more;
		return;
	}
	p->sum_ns += more->sum_ns;
	if (more->first_start_ns < p->first_start_ns)
		p->first_start_ns = more->first_start_ns;
	if (more->last_end_ns > p->last_end_ns)
		p->last_end_ns = more->last_end_ns;
}

/* Takes what is pending deeper than the call; returns the part that is inside it. */
static inline uint64_t claim_deeper(struct segment *s, const struct m_call *c)
{
	uint64_t inside = 0;
	for (unsigned d = s->top; d > c->depth; d--) {
		if (!s->pending[d].sum_ns)
			continue;
		inside += claimable(&s->pending[d], c->start_ns);
		s->pending[d].sum_ns = 0;
	}
	s->top = c->depth;
	return inside < c->dur_ns ? inside : c->dur_ns;
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

static inline void segment_call(struct pass *p, struct segment *s, const struct m_call *c)
{
	uint32_t fn = fn_id(p->ids, c);
	bool counted = !in_histogram(p, c);
	if (__builtin_expect(c->flags & CALL_INSTANT, 0)) {
		if (counted)
			count_call(p, pass_sums(p, fn), c, 0);
		return;
	}
	uint64_t inside = claim_deeper(s, c);
	if (counted)
		count_call(p, pass_sums(p, fn), c, inside);
	if (c->depth < s->lowest) {
		s->lowest = c->depth;
		struct edge_head *h = vec_push(&p->heads);
		*h = (struct edge_head){.start_ns = c->start_ns,
					.unclaimed_ns = c->dur_ns - inside,
					.fn = fn,
					.depth = c->depth,
					.counted = counted};
	}
	uint64_t end_ns = c->start_ns + c->dur_ns;
	if (p->first_ns > c->start_ns || !p->first_ns)
		p->first_ns = c->start_ns;
	if (p->last_ns < end_ns)
		p->last_ns = end_ns;
	if (c->depth && c->dur_ns) /* nobody claims what depth 0 took */
		pending_add(&s->pending[c->depth],
			    &(struct pending){c->dur_ns, c->start_ns, end_ns});
}

/* Sums the rows of one thread in a block; returns how many there were. */
static size_t pass_segment(struct pass *p, size_t block, const struct m_call *rows, size_t len)
{
	uint32_t thread = rows->thread;
	struct segment s = {.lowest = DEPTHS};
	struct edge edge = {
		.thread = thread, .block = block, .heads = p->heads.len, .tails = p->tails.len};
	size_t n = 0;
	bool wanted = !p->thread_wanted || p->thread_wanted[thread];
	for (; n < len && rows[n].thread == thread; n++)
		if (wanted)
			segment_call(p, &s, &rows[n]);
	if (!wanted)
		return n;
	p->thread_calls[thread] += n;
	for (unsigned d = 1; d <= s.top; d++)
		if (s.pending[d].sum_ns)
			*vec_push(&p->tails) = (struct edge_tail){s.pending[d], d};
	edge.heads_len = (uint32_t)(p->heads.len - edge.heads);
	edge.tails_len = (uint32_t)(p->tails.len - edge.tails);
	*vec_push(&p->edges) = edge;
	return n;
}

void pass_block(struct pass *p, size_t block)
{
	struct err e = {0};
	if (rec_read_calls(p->reader, block, &p->rows, &e) < 0) {
		if (!p->blocks_unread++)
			p->unread = e;
		return;
	}
	for (size_t i = 0; i < p->rows.len;)
		i += pass_segment(p, block, p->rows.rows + i, p->rows.len - i);
}

/* ---- joining ---- */

struct edge_ref {
	const struct pass *pass;
	const struct edge *edge;
};

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
static void join_edge(struct pass *into, const struct edge_ref *ref, struct pending *carried)
{
	const struct edge_head *heads = ref->pass->heads.data + ref->edge->heads;
	const struct edge_tail *tails = ref->pass->tails.data + ref->edge->tails;
	unsigned top = DEPTHS - 1;
	for (uint32_t i = 0; i < ref->edge->heads_len; i++) {
		const struct edge_head *h = &heads[i];
		uint64_t inside = 0;
		for (unsigned d = top; d > h->depth; d--) {
			if (carried[d].sum_ns)
				inside += claimable(&carried[d], h->start_ns);
			carried[d].sum_ns = 0;
		}
		top = h->depth;
		if (inside > h->unclaimed_ns)
			inside = h->unclaimed_ns;
		if (h->counted && inside)
			pass_sums(into, h->fn)->inside_ns += inside;
	}
	for (uint32_t i = 0; i < ref->edge->tails_len; i++)
		pending_add(&carried[tails[i].depth], &tails[i].pending);
}

void pass_join_edges(struct pass *passes, size_t n)
{
	VEC(struct edge_ref) refs = {0};
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < passes[i].edges.len; k++)
			*vec_push(&refs) = (struct edge_ref){&passes[i], &passes[i].edges.data[k]};
	if (refs.len)
		qsort(refs.data, refs.len, sizeof(*refs.data), compare_edges);
	struct pending carried[DEPTHS];
	for (size_t i = 0; i < refs.len; i++) {
		if (!i || refs.data[i].edge->thread != refs.data[i - 1].edge->thread)
			memset(carried, 0, sizeof(carried));
		join_edge(&passes[0], &refs.data[i], carried);
	}
	vec_free(&refs);
}
