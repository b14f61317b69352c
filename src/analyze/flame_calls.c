/* flame_calls.c - goes through all calls as the flame graph's options ask. */
#include <string.h>

#include "analyze/flame_impl.h"

struct calls_visitor {
	struct row_visitor visitor;
	flame_take *take;
	void *ctx;
	void *states; /* returned */
	size_t n;
};

static void visit_calls(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct calls_visitor *c = (const struct calls_visitor *)v;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		c->take(state, c->ctx, &calls[i], (uint64_t)rows->block << 32 | i);
}

static void end_visit(struct row_visitor *v, void *states, size_t n)
{
	struct calls_visitor *c = (struct calls_visitor *)v;
	c->n = n;
	c->states = xcalloc(n, v->state_bytes);
	memcpy(c->states, states, n * v->state_bytes);
}

void *flame_calls(struct flame_job *job, size_t state_bytes, flame_take *take, void *ctx,
		  size_t *ret_states)
{
	struct calls_visitor c = {.visitor = {.kinds = 1u << ROW_CALL,
					      .state_bytes = state_bytes,
					      .rows = visit_calls,
					      .end = end_visit},
				  .take = take,
				  .ctx = ctx};
	struct row_visitor *v = &c.visitor;
	rows_visit(job->source, &v, 1, &job->o->visit);
	*ret_states = c.n;
	return c.states;
}
