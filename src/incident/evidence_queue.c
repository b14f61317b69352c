/* evidence_queue.c - launches that waited for room in a GPU's queue.
 *
 * Whoever hands a GPU more than it does waits in a launch or memset for as long as the GPU is
 * behind, and runs on the CPU meanwhile: whatever hands over work then seems to run slower alike.
 * Where those calls took longer by much more than the rest of what the job does, that time is a
 * wait for the GPU. What the GPU itself did is told by a timeline alone; this needs none. Copies
 * count where others use the way to the GPU, and then all that the calls took longer: the driver
 * makes those of pageable memory on the CPU. Calls are those of the process, not of a thread: of
 * one that launches in a thread that nobody waits for, too much is taken for a wait. */
#include <math.h>
#include <stdlib.h>

#include "incident/causes_calls.h"
#include "incident/causes_gpu.h"
#include "incident/causes_impl.h"
#include "incident/causes_owners.h"
#include "incident/evidence_impl.h"

#define LONGER 1.5 /* so many times as the rest: what slows all code slows these alike */

static bool hands_over(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"launch", "graph_launch", "set", NULL};
	return causes_has_role(e, c, roles);
}

/* How many times as long as usual the rest took, at least 1. */
static double rest_growth(const struct evidence *e, const struct call_growth *handed)
{
	double rest = e->blame.whole_ns - handed->ns;
	double usual = e->blame.usual_ns - handed->usual_ns;
	return rest > usual && usual > 0 ? rest / usual : 1;
}

/* What calls took beyond that, of functions whose own calls took so much longer. */
static double longer_ns(const struct evidence *e, double growth)
{
	double ns = 0;
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (!hands_over(e, c) || c->n < 1 || c->usual_n < 1 || !(c->usual_ns > 0))
			continue;
		double as_the_rest = c->n * c->usual_ns / c->usual_n * growth;
		ns += c->ns > LONGER * as_the_rest ? c->ns - as_the_rest : 0;
	}
	return ns;
}

static bool ran_alike(const struct evidence *e, const struct blame_part *p)
{
	return causes_is_looked_at(e, p) && owner_is_spread(&p->owner);
}

static double alike_ns(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++)
		if (ran_alike(e, &e->blame.parts.data[i]))
			ns += e->blame.parts.data[i].ns;
	return ns;
}

static int by_ns(const void *a, const void *b)
{
	const struct blame_part *x = a, *y = b;
	return (x->ns < y->ns) - (x->ns > y->ns);
}

static bool is_same(const struct blame_owner *a, const struct blame_owner *b)
{
	return a->kind == b->kind && a->via == b->via && a->pool == b->pool && a->peer == b->peer &&
	       a->thread == b->thread && a->pid == b->pid && a->name == b->name &&
	       a->frame == b->frame;
}

static void add(struct blame *b, const struct blame_part *part)
{
	for (size_t i = 0; i < b->parts.len; i++) {
		struct blame_part *p = &b->parts.data[i];
		if (!is_same(&p->owner, &part->owner))
			continue;
		p->ns += part->ns;
		p->whole_ns += part->whole_ns;
		return;
	}
	*vec_push(&b->parts) = *part;
}

/* A share of each part that ran slower alike becomes a wait of the same thread. */
static void move(struct blame *b, const struct evidence *e, double share)
{
	size_t n = b->parts.len, left = 0;
	for (size_t i = 0; i < n; i++) {
		struct blame_part *ran = &b->parts.data[i], waited = *ran;
		if (!ran_alike(e, ran))
			continue;
		waited.owner.kind = BLAME_GPU;
		waited.owner.frame = BLAME_NO_FRAME;
		waited.ns = waited.whole_ns = share * ran->ns;
		waited.usual_ns = 0;
		ran->ns -= waited.ns;
		ran->whole_ns -= waited.ns;
		add(b, &waited);
	}
	for (size_t i = 0; i < b->parts.len; i++)
		if (b->parts.data[i].ns > 0)
			b->parts.data[left++] = b->parts.data[i];
	b->parts.len = left;
	if (left)
		qsort(b->parts.data, left, sizeof(*b->parts.data), by_ns);
}

void evidence_full_queue(struct evidence *e, struct blame *each, size_t n)
{
	struct call_growth handed = causes_calls_of(e, hands_over);
	double alike = alike_ns(e), longer = longer_ns(e, rest_growth(e, &handed));
	double copied = causes_link_is_shared(e) ? causes_copy_calls_longer(e) : 0;
	if (!(alike > 0) || !(longer + copied > 0))
		return;
	double share = fmin(1, (longer + copied) / alike);
	if (longer > 0) {
		e->handed_ns = handed.ns / handed.n;
		e->usual_handed_ns = handed.usual_ns / handed.usual_n;
	}
	move(&e->blame, e, share);
	for (size_t i = 0; i < n; i++)
		move(&each[i], e, share);
}
