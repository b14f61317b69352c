/* diagnosis_path.c - incidents' paths of blame: the dearest first, until there are enough pieces.
 */
#include <stdlib.h>

#include "incident/diagnosis_impl.h"

struct dear {
	double cost_ns;
	size_t at;
};

static int by_cost(const void *a, const void *b)
{
	const struct dear *x = a, *y = b;
	if (x->cost_ns != y->cost_ns)
		return x->cost_ns > y->cost_ns ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

void diagnosis_paths(struct diagnosis *d, const struct evidence_question *questions,
		     const struct blame_world *w, const struct diagnosis_options *options)
{
	size_t n = d->incidents.len, left = options->path_most;
	struct dear *order = xcalloc(n + 1, sizeof(*order));
	for (size_t i = 0; i < n; i++)
		order[i] = (struct dear){d->incidents.data[i].cost_ns, i};
	qsort(order, n, sizeof(*order), by_cost);
	for (size_t i = 0; i < n; i++) {
		struct diagnosed *in = &d->incidents.data[order[i].at];
		struct blame_path *p = &in->path;
		if (!in->blamed || in->beside)
			continue;
		const struct evidence_question *q = &questions[in->question];
		p->least_ns = options->path_least_ns;
		p->most = left;
		for (size_t k = 0; k < q->slow.len; k++)
			blame_path_add(p, w, q->slow.data[k].thread, q->slow.data[k].from_ns,
				       q->slow.data[k].to_ns);
		left -= p->pieces.len;
	}
	free(order);
}
