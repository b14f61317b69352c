/* learn_facts.c - one visit of a recording, for its steps and for the begin of its work. */
#include "detect/learn_facts.h"

#include <stdlib.h>

#include "base/layer.h"
#include "detect/world.h"

/* What a thread of the visit has seen. */
struct seen {
	uint64_t first_ns, first_work_ns; /* of a call, + 1; 0 none */
	uint64_t *calls_of;		  /* of work, by thread of the recording */
};

struct beginning {
	struct row_visitor visitor;
	size_t threads;
	bool *of_work; /* by probe */
	struct seen all;
};

static void first_of(uint64_t *first, uint64_t start_ns)
{
	if (!*first || start_ns + 1 < *first)
		*first = start_ns + 1;
}

static void see_calls(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct beginning *b = (const struct beginning *)v;
	const struct m_call *calls = rows->rows;
	struct seen *s = state;
	if (!s->calls_of)
		s->calls_of = xcalloc(b->threads + 1, sizeof(*s->calls_of));
	for (size_t i = 0; i < rows->len; i++) {
		first_of(&s->first_ns, calls[i].start_ns);
		if (!b->of_work[calls[i].probe])
			continue;
		first_of(&s->first_work_ns, calls[i].start_ns);
		s->calls_of[calls[i].thread]++;
	}
}

static void put_together(struct row_visitor *v, void *states, size_t n)
{
	struct beginning *b = (struct beginning *)v;
	for (size_t i = 0; i < n; i++) {
		struct seen *s = visitor_state(v, states, i);
		if (s->first_ns)
			first_of(&b->all.first_ns, s->first_ns - 1);
		if (s->first_work_ns)
			first_of(&b->all.first_work_ns, s->first_work_ns - 1);
		for (size_t t = 0; s->calls_of && t < b->threads; t++)
			b->all.calls_of[t] += s->calls_of[t];
		free(s->calls_of);
	}
}

static uint64_t work_begins(const struct beginning *b, const struct rec_tables *t)
{
	const char *begin = rec_meta(t, "start_monotonic_ns");
	if (b->all.first_work_ns)
		return b->all.first_work_ns - 1;
	if (b->all.first_ns)
		return b->all.first_ns - 1;
	return begin ? strtoull(begin, NULL, 10) : 0;
}

void learn_facts_make(struct learn_facts *ret, const struct row_source *r,
		      const struct row_source *waits)
{
	const struct rec_tables *t = r->tables;
	struct beginning b = {.visitor = {.kinds = 1u << ROW_CALL,
					  .state_bytes = sizeof(struct seen),
					  .rows = see_calls,
					  .end = put_together},
			      .threads = t->threads.len,
			      .of_work = xcalloc(t->probes.len + 1, sizeof(*b.of_work))};
	b.all.calls_of = xcalloc(b.threads + 1, sizeof(*b.all.calls_of));
	for (size_t p = 0; p < t->probes.len; p++) {
		const char *layer = strtab_get(&t->strings, t->probes.data[p].layer, NULL);
		b.of_work[p] = layer_traits_of_name(layer) & LAYER_IS_WORK;
	}
	struct row_visitor *visitors[] = {&b.visitor, steps_visitor(&ret->steps, r, NULL)};
	rows_visit(r, visitors, 2, NULL);
	ret->work_ns = work_begins(&b, t);
	ret->irregular = world_is_irregular(waits, b.all.calls_of, b.threads, ret->work_ns);
	free(b.of_work);
	free(b.all.calls_of);
}

void learn_facts_free(struct learn_facts *f)
{
	steps_free(&f->steps);
}
