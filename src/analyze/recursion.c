/* recursion.c - calls inside calls of the same function.
 *
 * Within a block the calls of a thread are gone through from the one that ended last: then each
 * comes behind those around it, and a count for each function tells whether one of them is of the
 * same. What lies in a later block's call of the same function is found at the end. */
#include "analyze/recursion.h"

#include "analyze/pass.h"
#include "base/map64.h"

void recursion_free(struct recursion *r)
{
	vec_free(&r->calls);
	vec_free(&r->tails);
	vec_free(&r->around);
	vec_free(&r->starts);
}

/* ---- in a block ---- */

static void leave_last(struct pass *p)
{
	struct recursion *r = &p->recursion;
	pass_sums(p, r->around.data[--r->around.len])->recursion.open--;
	r->starts.len--;
}

static void add_tail(struct recursion *r, struct recursion_state *s, const struct recursion_call *c)
{
	uint64_t ns = c->end_ns - c->start_ns;
	if (s->tails == RECURSION_TAILS) {
		struct recursion_tail *last = &r->tails.data[s->last_tail];
		last->sum_ns += ns;
		last->first_start_ns = c->start_ns;
		return;
	}
	s->tails++;
	s->last_tail = r->tails.len;
	*vec_push(&r->tails) = (struct recursion_tail){ns, c->start_ns, c->end_ns, c->fn};
}

static void take_call(struct pass *p, const struct recursion_call *c)
{
	struct recursion *r = &p->recursion;
	struct fn_sums *f = pass_sums(p, c->fn);
	while (r->starts.len && r->starts.data[r->starts.len - 1] > c->start_ns)
		leave_last(p);
	if (f->recursion.open++)
		f->again_ns += c->end_ns - c->start_ns;
	else
		add_tail(r, &f->recursion, c);
	*vec_push(&r->around) = c->fn;
	*vec_push(&r->starts) = c->start_ns;
}

void recursion_end_segment(struct pass *p)
{
	struct recursion *r = &p->recursion;
	for (size_t i = r->calls.len; i-- > 0;)
		take_call(p, &r->calls.data[i]);
	while (r->around.len)
		leave_last(p);
	for (size_t i = 0; i < r->calls.len; i++)
		pass_sums(p, r->calls.data[i].fn)->recursion.tails = 0;
	r->calls.len = 0;
}

/* ---- across blocks ---- */

/* What of a function ended so far on a thread. */
struct ended {
	VEC(struct pending) list;
	uint32_t thread;
};

/* The functions that have a call around calls of earlier blocks. */
struct joining {
	struct map64 place_of; /* function -> place */
	VEC(struct ended) functions;
};

/* The functions of calls that began before what ended in the blocks before theirs. */
static void find_crossing(struct joining *j, const struct edge_ref *refs, size_t n)
{
	uint64_t last_end_ns = 0, place;
	for (size_t i = 0; i < n; i++) {
		const struct edge *e = refs[i].edge;
		if (!i || e->thread != refs[i - 1].edge->thread)
			last_end_ns = 0;
		for (uint32_t k = 0; k < e->heads_len; k++) {
			const struct edge_head *h = &refs[i].pass->heads.data[e->heads + k];
			if (!h->counted || h->start_ns >= last_end_ns ||
			    map64_get(&j->place_of, h->same_fn, &place))
				continue;
			map64_set(&j->place_of, h->same_fn, j->functions.len);
			vec_push(&j->functions);
		}
		if (e->tails_len)
			last_end_ns =
				refs[i].pass->tails.data[e->tails + e->tails_len - 1].last_end_ns;
	}
}

/* NULL: it has no such call. */
static struct ended *ended_of(struct joining *j, uint32_t fn, uint32_t thread)
{
	uint64_t place;
	if (!map64_get(&j->place_of, fn, &place))
		return NULL;
	struct ended *ret = &j->functions.data[place];
	ret->list.len = ret->thread == thread ? ret->list.len : 0;
	ret->thread = thread;
	return ret;
}

static void claim_earlier(struct pass *into, struct joining *j, const struct edge_head *h,
			  uint32_t thread)
{
	struct ended *f = h->counted ? ended_of(j, h->same_fn, thread) : NULL;
	if (f)
		pass_sums(into, h->same_fn)->again_ns +=
			pending_claim(f->list.data, &f->list.len, h->start_ns);
}

static void add_ended(struct joining *j, const struct recursion_tail *t, uint32_t thread)
{
	struct ended *f = ended_of(j, t->fn, thread);
	if (!f)
		return;
	if (f->list.len == PASS_MOST_PENDING)
		f->list.len = pending_thin_out(f->list.data, f->list.len);
	*vec_push(&f->list) = (struct pending){t->sum_ns, t->first_start_ns, t->last_end_ns};
}

void recursion_join(struct pass *into, const struct edge_ref *refs, size_t n)
{
	struct joining j = {0};
	find_crossing(&j, refs, n);
	for (size_t i = 0; j.functions.len && i < n; i++) {
		const struct edge *e = refs[i].edge;
		const struct pass *from = refs[i].pass;
		for (uint32_t k = 0; k < e->heads_len; k++)
			claim_earlier(into, &j, &from->heads.data[e->heads + k], e->thread);
		for (size_t k = e->recursion_tails_len; k-- > 0;)
			add_ended(&j, &from->recursion.tails.data[e->recursion_tails + k],
				  e->thread);
	}
	for (size_t i = 0; i < j.functions.len; i++)
		vec_free(&j.functions.data[i].list);
	vec_free(&j.functions);
	map64_free(&j.place_of);
}
