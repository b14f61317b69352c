/* evidence_queue.c - launches that waited for room in a GPU's queue.
 *
 * Whoever hands a GPU more than it does waits in a launch, copy or memset for as long as the GPU is
 * behind, and runs on the CPU meanwhile: whatever hands over work then seems to run slower alike.
 * Where those calls took longer by much more than the rest of what the job does, that time is a
 * wait for the GPU. What the GPU itself did is told by a timeline alone; this needs none. */
#include <math.h>
#include <stdlib.h>

#include "incident/causes_calls.h"
#include "incident/causes_owners.h"
#include "incident/evidence_impl.h"

#define LONGER 1.5 /* so many times as the rest: what slows all code slows these alike */

static bool hands_over(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {
		"launch",    "graph_launch", "set",	  "copy", "copy_htod",
		"copy_dtoh", "copy_dtod",    "copy_ptop", NULL,
	};
	return causes_has_role(e, c, roles);
}

/* How many times as long as usual the rest took, at least 1. */
static double rest_growth(const struct evidence *e, const struct call_growth *c)
{
	double rest = e->blame.whole_ns - c->ns, usual = e->blame.usual_ns - c->usual_ns;
	return rest > usual && usual > 0 ? rest / usual : 1;
}

/* Of what ran slower alike, ns. */
static double spread_ns(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++)
		if (owner_is_spread(&e->blame.parts.data[i].owner))
			ns += e->blame.parts.data[i].ns;
	return ns;
}

static int by_ns(const void *a, const void *b)
{
	const struct blame_part *x = a, *y = b;
	return (x->ns < y->ns) - (x->ns > y->ns);
}

/* A share of each part that ran slower alike becomes a wait of the same thread. */
static void move(struct blame *b, double share)
{
	size_t n = b->parts.len;
	for (size_t i = 0; i < n; i++) {
		if (!owner_is_spread(&b->parts.data[i].owner))
			continue;
		struct blame_part waited = b->parts.data[i];
		struct blame_part *ran = &b->parts.data[i];
		waited.owner.kind = BLAME_GPU;
		waited.owner.frame = BLAME_NO_FRAME;
		waited.ns = waited.whole_ns = share * ran->ns;
		waited.usual_ns = 0;
		ran->ns -= waited.ns;
		ran->whole_ns -= waited.ns;
		*vec_push(&b->parts) = waited;
	}
	size_t left = 0;
	for (size_t i = 0; i < b->parts.len; i++)
		if (b->parts.data[i].ns > 0)
			b->parts.data[left++] = b->parts.data[i];
	b->parts.len = left;
	if (left)
		qsort(b->parts.data, left, sizeof(*b->parts.data), by_ns);
}

void evidence_full_queue(struct evidence *e)
{
	struct call_growth c = causes_calls_of(e, hands_over);
	double spread = spread_ns(e);
	if (c.n < 1 || c.usual_n < 1 || !(c.usual_ns > 0) || !(spread > 0))
		return;
	double usual = c.usual_ns / c.usual_n * rest_growth(e, &c);
	if (c.ns / c.n < LONGER * usual)
		return;
	e->handed_ns = c.ns / c.n;
	e->usual_handed_ns = c.usual_ns / c.usual_n;
	move(&e->blame, fmin(1, (c.ns - c.n * usual) / spread));
}
