/* diagnosis_edges.c - from which step to which an incident goes.
 *
 * Windows are a second long, and an alarm needs some of them, so that slow steps lie on both sides
 * of what was told. Steps change from one mean length to another at an edge; both means are known,
 * that of the usual ones and that of the slow ones within. By the likelihood of normal lengths the
 * change lies where the sum of what each step has beyond the middle of both is largest (Page,
 * "Continuous inspection schemes", Biometrika 41, 1954). Only adds steps to an incident. */
#include <math.h>

#include "incident/diagnosis_impl.h"

#define NEAR_NS	 1000000000ULL /* slow steps that near to an edge say how long those beyond are */
#define QUIET_NS 1e9	       /* so long as usual on balance, and it is over */
/* A step that is so many times as long as the longest of those near is of another kind. */
#define OF_ANOTHER_KIND 2
/* The change lies within a step that is so many times as long as usual, and longer than is long
 * for usual ones: steps may vary as much by themselves. */
#define PARTLY_SLOW 1.1

/* What a step beyond an edge is compared with. */
struct edge {
	double partly_ns, middle_ns, most_ns, quiet_ns;
};

static double length_of(const struct blame_span *s)
{
	return (double)(s->to_ns - s->from_ns);
}

static uint64_t middle_of(const struct blame_span *s)
{
	return s->from_ns + (s->to_ns - s->from_ns) / 2;
}

/* By the steps of an incident from its first or last one on, step: 1 or -1. false: they are not
 * slow. */
static bool edge_make(struct edge *ret, const struct blame_span *first, size_t n, int step,
		      const struct usual_length *usual)
{
	double sum = 0, usual_ns = usual->mean_ns;
	size_t i = 0;
	*ret = (struct edge){.partly_ns = fmax(PARTLY_SLOW * usual_ns, usual->long_ns)};
	for (; i < n && sum < (double)NEAR_NS; i++) {
		double ns = length_of(first + step * (ptrdiff_t)i);
		ret->most_ns = ns > ret->most_ns ? ns : ret->most_ns;
		sum += ns;
	}
	if (!i || !(usual_ns > 0) || sum <= usual_ns * (double)i)
		return false;
	ret->middle_ns = (usual_ns + sum / (double)i) / 2;
	ret->quiet_ns = (ret->middle_ns - usual_ns) * QUIET_NS / usual_ns;
	return true;
}

static bool follow(const struct blame_span *a, const struct blame_span *b, double within_ns)
{
	return (double)(b->from_ns - a->to_ns) <= within_ns;
}

/* Whether a step goes on from the last one, and may be of the same. */
static bool goes_on(const struct edge *e, const struct blame_span *last,
		    const struct blame_span *at, int step)
{
	return length_of(at) <= OF_ANOTHER_KIND * e->most_ns &&
	       (step > 0 ? follow(last, at, e->middle_ns) : follow(at, last, e->middle_ns));
}

/* How many of the n steps beyond an edge are of the incident; last: the one at the edge. */
static size_t beyond(const struct edge *e, const struct blame_span *last, size_t n, int step)
{
	double sum = 0, best = 0;
	size_t ret = 0;
	const struct blame_span *at = last;
	for (size_t i = 0; i < n && goes_on(e, at, at + step, step); i++) {
		at += step;
		sum += length_of(at) - e->middle_ns;
		if (sum > best) {
			best = sum;
			ret = i + 1;
		}
		if (best - sum >= e->quiet_ns)
			break;
	}
	last += step * (ptrdiff_t)ret;
	if (ret < n && goes_on(e, last, last + step, step) && length_of(last + step) > e->partly_ns)
		ret++;
	return ret;
}

void diagnosis_edges(const blame_spans_t *steps, const struct usual_length *usual,
		     const struct diagnosis_range *free_ns, struct diagnosis_range *incident)
{
	size_t from = 0, to, low, high; /* of the incident; of what is free */
	struct edge e;
	while (from < steps->len && middle_of(&steps->data[from]) < incident->from_ns)
		from++;
	for (to = from; to < steps->len && middle_of(&steps->data[to]) < incident->to_ns;)
		to++;
	if (from == to)
		return;
	for (low = from; low > 0 && steps->data[low - 1].from_ns >= free_ns->from_ns;)
		low--;
	for (high = to; high < steps->len && steps->data[high].to_ns <= free_ns->to_ns;)
		high++;
	const struct blame_span *first = &steps->data[from], *last = &steps->data[to - 1];
	size_t before =
		edge_make(&e, first, to - from, 1, usual) ? beyond(&e, first, from - low, -1) : 0;
	size_t behind =
		edge_make(&e, last, to - from, -1, usual) ? beyond(&e, last, high - to, 1) : 0;
	if (before)
		incident->from_ns = first[-(ptrdiff_t)before].from_ns;
	if (behind)
		incident->to_ns = last[behind].to_ns;
}
