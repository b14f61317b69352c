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
#include <string.h>

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

/* A copy, with the other pieces of its stretch as usual time. */
static struct evidence_question compared(struct diagnosing *x, const questions_t *all,
					 const struct evidence_question *q)
{
	struct evidence_question ret = *q;
	blame_spans_t around = {0};
	for (size_t i = 0; i < all->len; i++) {
		const struct evidence_question *other = &all->data[i];
		if (other->stretch != q->stretch || other->beside)
			continue;
		for (size_t k = 0; k < other->slow.len; k++)
			*vec_push(&around) = other->slow.data[k];
	}
	memset(&ret.slow, 0, sizeof(ret.slow));
	ret.usual = diagnosis_usual_of(x, x->s->tables->threads.data[q->slow.data[0].thread].pid,
				       &around);
	double usual_ns = diagnosis_mean_length(&around);
	for (size_t i = 0; i < q->slow.len; i++) {
		struct blame_span *s = vec_push(&ret.slow);
		*s = q->slow.data[i];
		s->usual_ns = usual_ns;
	}
	vec_free(&around);
	return ret;
}

static bool is_of(const struct evidence *e, enum cause c)
{
	struct cause_found found;
	cause_find(&found, e);
	bool is = found.cause == c;
	cause_free(&found);
	return is;
}

/* Those that are none are of what was before and behind them. */
static void join_refused(questions_t *all, const bool *refused)
{
	size_t left = 0;
	for (size_t i = 0; i < all->len; i++) {
		struct evidence_question *q = &all->data[i];
		struct evidence_question *last = left ? &all->data[left - 1] : NULL;
		bool same = last && last->stretch == q->stretch && !last->beside && !q->beside;
		if (!same || !(refused[i] || refused[i - 1])) {
			all->data[left++] = *q;
			continue;
		}
		for (size_t k = 0; k < q->slow.len; k++)
			*vec_push(&last->slow) = q->slow.data[k];
		vec_free(&q->slow);
	}
	all->len = left;
}

void diagnosis_compare_beside(struct diagnosing *x, questions_t *all)
{
	questions_t asked = {0};
	VEC(size_t) at = {0};
	for (size_t i = 0; i < all->len; i++) {
		if (!all->data[i].beside)
			continue;
		*vec_push(&asked) = compared(x, all, &all->data[i]);
		*vec_push(&at) = i;
	}
	struct evidence *e = xcalloc(asked.len + 1, sizeof(*e));
	bool *refused = xcalloc(all->len + 1, sizeof(*refused));
	if (asked.len)
		evidence_make(e, NULL, x->s, x->t, x->w, asked.data, asked.len);
	for (size_t i = 0; i < asked.len; i++) {
		struct evidence_question *q = &all->data[at.data[i]];
		struct evidence_question given = asked.data[i];
		if (is_of(&e[i], (enum cause)q->beside)) {
			asked.data[i] = *q;
			*q = given;
		} else {
			refused[at.data[i]] = true;
			q->beside = CAUSE_UNKNOWN;
		}
		vec_free(&asked.data[i].slow);
		evidence_free(&e[i]);
	}
	join_refused(all, refused);
	free(refused);
	free(e);
	vec_free(&asked);
	vec_free(&at);
}
