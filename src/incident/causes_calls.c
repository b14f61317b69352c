/* causes_calls.c - which calls became slower, as many as usual and each by itself. */
#include "incident/causes_calls.h"

#include <math.h>
#include <string.h>

#define AS_MANY 1.1 /* times the usual number, at most, and at least the reverse of that */

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

/* Whether a call of it has its time for itself: it runs no code of Python, of which lines tell, and
 * waits neither for the GPU nor for other ranks. */
static bool works_itself(const struct rec_tables *t, const struct m_probe *p)
{
	static const char *const layers[] = {"torch", "cuda", NULL};
	static const char *const waits[] = {"sync", "copy", "copy_htod", "copy_dtoh", NULL};
	static const char *const reads[] = {"aten::item", "aten::_local_scalar_dense", NULL};
	return p->name_arg < 0 && is_one_of(strtab_get(&t->strings, p->layer, NULL), layers) &&
	       !is_one_of(strtab_get(&t->strings, p->role, NULL), waits) &&
	       !is_one_of(strtab_get(&t->strings, p->name, NULL), reads);
}

static bool as_many(const struct call_growth *c)
{
	return c->outer_n > 0 && c->outer_n <= AS_MANY * c->usual_outer_n &&
	       c->outer_n * AS_MANY >= c->usual_outer_n;
}

double causes_slow_calls(const struct evidence *e, double alike_ns,
			 const struct call_growth **ret_top)
{
	double usual_ns = e->blame.usual_ns, ns = 0, most = 0;
	double times = 1 + (usual_ns > 0 ? fmax(0, alike_ns) / usual_ns : 0);
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		double more = c->own_ns - times * c->usual_own_ns;
		if (!as_many(c) || !works_itself(e->t, &e->t->probes.data[c->probe]) || more <= 0)
			continue;
		ns += more;
		if (ret_top && more > most)
			*ret_top = c;
		most = fmax(most, more);
	}
	return ns;
}

bool causes_has_role(const struct evidence *e, const struct call_growth *c,
		     const char *const *roles)
{
	const char *role = strtab_get(&e->t->strings, e->t->probes.data[c->probe].role, NULL);
	for (; *roles; roles++)
		if (!strcmp(role, *roles))
			return true;
	return false;
}

struct call_growth causes_calls_of(const struct evidence *e,
				   bool (*is)(const struct evidence *e,
					      const struct call_growth *c))
{
	struct call_growth ret = {0};
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (!is(e, c))
			continue;
		ret.n += c->n;
		ret.usual_n += c->usual_n;
		ret.ns += c->ns;
		ret.usual_ns += c->usual_ns;
	}
	return ret;
}
