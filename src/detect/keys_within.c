/* keys_within.c - the shapes of the operator that was called last within another one.
 *
 * Operators that are made of others (linear, matmul, conv2d) are called with no shapes that a probe
 * reads, and take as long as what they call. Of each thread the last call with shapes is kept, in a
 * place that another thread may take: then nothing is known. */
#include "base/buffer.h"
#include "detect/keys_impl.h"

#define PLACES 256 /* a power of two */

struct within {
	uint64_t thread; /* + 1, 0 none */
	uint64_t start_ns;
	struct key_shapes shapes;
};

struct key_within {
	struct within of[PLACES];
};

struct key_within *key_within_new(void)
{
	return xcalloc(1, sizeof(struct key_within));
}

void key_within_free(struct key_within *w)
{
	free(w);
}

void key_within_call(struct key_within *w, const struct key_plan *plan, const struct m_call *c)
{
	struct within *of = &w->of[c->thread % PLACES];
	of->thread = (uint64_t)c->thread + 1;
	of->start_ns = c->start_ns;
	of->shapes.n = 0;
	for (uint8_t i = 0; i < plan->parts_len && of->shapes.n < SHAPES_MOST; i++)
		if (plan->parts[i].how == PART_SHAPE && plan->parts[i].arg < c->nargs)
			of->shapes.shape[of->shapes.n++] = c->args[plan->parts[i].arg];
}

/* Calls of a thread come in order of their ends: what began later was within. */
const struct key_shapes *key_within_of(const struct key_within *w, const struct m_call *c)
{
	const struct within *of = &w->of[c->thread % PLACES];
	bool inside = of->thread == (uint64_t)c->thread + 1 && of->start_ns >= c->start_ns &&
		      of->start_ns - c->start_ns <= c->dur_ns;
	return inside && of->shapes.n ? &of->shapes : NULL;
}
