/* diagnosis_beside.c - a cause that came beside another one.
 *
 * A host that is slow for a minute hides what happens to the job meanwhile: the slowness explains
 * more of each second than, say, the collections that began in its middle. In slices of one cause
 * another one came where it explains much more than in the others, which is no fluctuation of what
 * was there all the time: the stretch of the largest sum above its median (Bentley, Programming
 * Pearls, "maximum subarray"), with as much more excess. It is then compared with the slices around
 * instead of usual time. */
#include <math.h>
#include <stdlib.h>

#include "incident/diagnosis_impl.h"

#define LEAST_SLICES 2	   /* that it has, and that lie before it; and behind it, if any do */
#define LEAST_NS     3.5e8 /* what it costs: CHANGE_NS of diagnosis_cut.c */
#define LEAST_SHARE  0.1   /* likewise, of usual time */
#define TIMES	     3	   /* as much as around it */
#define ADDED	     0.5   /* of what it explains: so much more excess there is */
#define USUAL_NS     2e9   /* of slices around, to compare with */

/* Causes that are told by what nothing else leaves. What is left over, or slower alike, changes
 * with the cause that stands. */
static bool comes_beside(enum cause c)
{
	switch (c) {
	case CAUSE_UNKNOWN:
	case CAUSE_MEM_BANDWIDTH:
	case CAUSE_CPU_SLOW:
	case CAUSE_NUMA:
	case CAUSE_SLOW_CODE:
	case CAUSE_SLOW_CALL:
	case CAUSE_OTHER_WORK:
	case CAUSE_NETWORK:
	case CAUSE_NET_BANDWIDTH:
	case CAUSE_NET_LOSS:
	case CAUSE_NET_FOREIGN:
		return false;
	default:
		return true;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Of what a cause explains of each slice, by usual time. */
static double median_share(const struct slice_judged *s, size_t n, enum cause c)
{
	double *shares = xcalloc(n, sizeof(*shares));
	for (size_t i = 0; i < n; i++)
		shares[i] = s[i].explains[c] / s[i].usual_ns;
	qsort(shares, n, sizeof(*shares), by_value);
	double ret = shares[n / 2];
	free(shares);
	return ret;
}

static void largest_sum(struct beside *ret, const struct slice_judged *s, size_t n, double median)
{
	double best = 0, sum = 0;
	size_t from = 0;
	for (size_t i = 0; i < n; i++) {
		if (sum <= 0) {
			sum = 0;
			from = i;
		}
		sum += s[i].explains[ret->cause] - (median + LEAST_SHARE / 2) * s[i].usual_ns;
		if (sum > best) {
			best = sum;
			ret->first = from;
			ret->end = i + 1;
		}
	}
}

struct sums {
	double explains, excess, usual;
};

static struct sums sum_of(const struct slice_judged *s, size_t from, size_t to, enum cause c)
{
	struct sums ret = {0};
	for (size_t i = from; i < to; i++) {
		ret.explains += s[i].explains[c];
		ret.excess += s[i].excess_ns;
		ret.usual += s[i].usual_ns;
	}
	return ret;
}

/* What it explains in its slices beyond what it does around them; 0: it is none. */
static double added_ns(const struct beside *b, const struct slice_judged *s, size_t n)
{
	struct sums in = sum_of(s, b->first, b->end, b->cause), all = sum_of(s, 0, n, b->cause);
	double usual = all.usual - in.usual;
	if (usual < USUAL_NS || in.usual <= 0)
		return 0;
	double around = (all.explains - in.explains) / usual * in.usual;
	double more = in.excess - (all.excess - in.excess) / usual * in.usual;
	double added = in.explains - around;
	bool is_one = added >= fmax(LEAST_NS, LEAST_SHARE * in.usual) &&
		      in.explains >= TIMES * around && more >= ADDED * added;
	return is_one ? added : 0;
}

bool diagnosis_beside(struct beside *ret, const struct slice_judged *slices, size_t n,
		      enum cause stands)
{
	double most = 0;
	for (size_t i = 0; i < n; i++)
		if (!(slices[i].usual_ns > 0))
			return false;
	for (unsigned c = 0; c < CAUSE_COUNT && n > 2 * LEAST_SLICES; c++) {
		struct beside b = {.cause = (enum cause)c};
		if (c == stands || !comes_beside((enum cause)c))
			continue;
		largest_sum(&b, slices, n, median_share(slices, n, (enum cause)c));
		if (n - b.end < LEAST_SLICES)
			b.end = n;
		if (b.end - b.first < LEAST_SLICES || b.first < LEAST_SLICES)
			continue;
		double added = added_ns(&b, slices, n);
		if (added > most) {
			most = added;
			*ret = b;
		}
	}
	return most > 0;
}

/* ---- compared with what is around ---- */

static bool is_in(const struct evidence_question *q, const struct blame_span *s)
{
	return s->from_ns >= q->slow.data[0].from_ns &&
	       s->to_ns <= q->slow.data[q->slow.len - 1].to_ns;
}

/* Of the piece that it came to, what no cause came to. */
static const struct evidence_usual *rest_of(struct diagnosing *x, const questions_t *all,
					    size_t first)
{
	const struct evidence_question *piece = &all->data[first];
	blame_spans_t rest = {0};
	for (size_t i = 0; i < piece->slow.len; i++) {
		bool in = false;
		for (size_t k = first + 1; k < all->len && all->data[k].stretch == piece->stretch;
		     k++)
			in |= is_in(&all->data[k], &piece->slow.data[i]);
		if (!in)
			*vec_push(&rest) = piece->slow.data[i];
	}
	uint32_t pid = x->s->tables->threads.data[piece->slow.data[0].thread].pid;
	const struct evidence_usual *ret = diagnosis_usual_of(x, pid, &rest);
	vec_free(&rest);
	return ret;
}

/* As usual time: what it came to, without it. */
static void compare(struct evidence_question *q, const struct evidence_usual *rest)
{
	double usual_ns = diagnosis_mean_length(&rest->spans);
	q->usual = rest;
	for (size_t i = 0; i < q->slow.len; i++)
		q->slow.data[i].usual_ns = usual_ns;
}

static bool is_of(const struct evidence *e, uint8_t cause)
{
	struct cause_found found;
	cause_find(&found, e);
	bool is = found.cause == (enum cause)cause;
	cause_free(&found);
	return is;
}

/* e: of those beside another. */
static void drop_refused(questions_t *all, const struct evidence *e)
{
	size_t left = 0, asked = 0;
	for (size_t i = 0; i < all->len; i++) {
		struct evidence_question *q = &all->data[i];
		if (q->beside && !is_of(&e[asked++], q->beside))
			vec_free(&q->slow);
		else
			all->data[left++] = *q;
	}
	all->len = left;
}

void diagnosis_compare_beside(struct diagnosing *x, questions_t *all)
{
	questions_t asked = {0}; /* share their stretches with all */
	size_t first = 0;
	const struct evidence_usual *rest = NULL;
	for (size_t i = 0; i < all->len; i++) {
		struct evidence_question *q = &all->data[i];
		if (!q->beside) {
			first = i;
			rest = NULL;
			continue;
		}
		if (!rest)
			rest = rest_of(x, all, first);
		compare(q, rest);
		*vec_push(&asked) = *q;
	}
	if (!asked.len)
		return;
	struct evidence *e = xcalloc(asked.len, sizeof(*e));
	evidence_make(e, NULL, x->s, x->t, x->w, asked.data, asked.len);
	drop_refused(all, e);
	for (size_t i = 0; i < asked.len; i++)
		evidence_free(&e[i]);
	free(e);
	vec_free(&asked);
}
