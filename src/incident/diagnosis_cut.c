/* diagnosis_cut.c - cuts an incident's time where its cause changes.
 *
 * Several faults may follow each other so soon that nothing usual lies between. Slices of a second,
 * or more where there is much time, are explained one by one; of all ways to give each slice a
 * cause, or none, that is taken which explains most, where each change costs CHANGE_NS of it
 * (Viterbi's algorithm, IEEE Trans. Inf. Theory 13, 1967). A slice that is as usual counts what
 * usual time may vary by, one that no cause explains a part of its excess. At both ends of such a
 * stretch of slices steps are looked at one by one (diagnosis_edges.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "incident/causes_memory.h"
#include "incident/causes_owners.h"
#include "incident/diagnosis_impl.h"

#define CHANGE_NS     3.5e8
#define USUAL_SHARE   0.1 /* of usual time: a slice whose excess is less is as usual */
#define UNKNOWN_SHARE 0.3 /* of a slice's excess: what it counts that no cause explains it */
#define NET_SHARE     0.7 /* of what the network explains: what each of its causes does */
#define FILLING_SHARE 0.7 /* likewise of the disk and of memory, where a cgroup is filled */
#define QUOTA_SHARE                                                                                \
	0.7 /* likewise of waits behind the job's own threads, where a quota is used up */
#define AS_USUAL CAUSE_COUNT /* the state of a slice that is no part of an incident */
#define STATES	 (CAUSE_COUNT + 1)

void diagnosis_slice(const struct evidence_question *whole, uint64_t slice_ns, questions_t *ret)
{
	struct evidence_question *q = NULL; /* the last */
	for (size_t i = 0; i < whole->slow.len; i++) {
		const struct blame_span *s = &whole->slow.data[i];
		if (!q || s->to_ns - q->slow.data[0].from_ns > slice_ns) {
			q = vec_push(ret);
			q->usual = whole->usual;
			q->by_steps = whole->by_steps;
		}
		*vec_push(&q->slow) = *s;
	}
}

/* In a slice the network's counters were read once: that it was waited for is known, by which of
 * its causes is known better of all slices together. */
static void level_network(double ret[STATES])
{
	static const enum cause causes[] = {CAUSE_NETWORK, CAUSE_NET_BANDWIDTH, CAUSE_NET_LOSS,
					    CAUSE_NET_FOREIGN};
	const size_t n = sizeof(causes) / sizeof(causes[0]);
	double most = 0;
	for (size_t i = 0; i < n; i++)
		most = fmax(most, ret[causes[i]]);
	for (size_t i = 0; i < n; i++)
		ret[causes[i]] = fmax(ret[causes[i]], NET_SHARE * most);
}

/* What fills a cgroup is read before its counters say that it is full: what was read then is told
 * by the slice behind. */
static void level_memory(double ret[STATES], const struct evidence *e,
			 const struct evidence *behind)
{
	if (!causes_full_cgroup(e) && causes_full_cgroup(behind))
		ret[CAUSE_MEMORY_RECLAIM] =
			fmax(ret[CAUSE_MEMORY_RECLAIM], FILLING_SHARE * ret[CAUSE_DISK]);
}

/* How much a quota held back is read once a second, and who ran last stands for who is held back:
 * what began within a slice looks as if the job's own threads had taken its CPUs, until the slice
 * behind. */
static void level_quota(double ret[STATES], const double behind[STATES], const struct evidence *e)
{
	if (behind[CAUSE_CPU_THROTTLE] > behind[CAUSE_CPU_CONTENTION])
		ret[CAUSE_CPU_THROTTLE] =
			fmax(ret[CAUSE_CPU_THROTTLE], QUOTA_SHARE * causes_own_ready(e));
}

static void scores(double ret[STATES], const struct evidence *e)
{
	double excess = evidence_excess(e), varies = USUAL_SHARE * e->blame.usual_ns;
	cause_explains(ret, e);
	level_network(ret);
	ret[CAUSE_UNKNOWN] = excess > varies ? UNKNOWN_SHARE * excess : 0;
	ret[AS_USUAL] = excess < 2 * varies ? varies : 0;
}

/* The best cause of each slice. */
static void best_path(uint8_t *ret, double (*score)[STATES], size_t n)
{
	uint8_t(*from)[STATES] = xcalloc(n, sizeof(*from));
	double sum[STATES] = {0};
	for (size_t i = 0; i < n; i++) {
		unsigned top = 0;
		for (unsigned c = 1; c < STATES; c++)
			if (sum[c] > sum[top])
				top = c;
		double changed = sum[top] - CHANGE_NS;
		for (unsigned c = 0; c < STATES; c++) {
			bool stays = !i || sum[c] >= changed;
			from[i][c] = (uint8_t)(stays ? c : top);
			sum[c] = (stays ? sum[c] : changed) + score[i][c];
		}
	}
	unsigned at = 0;
	for (unsigned c = 1; c < STATES; c++)
		if (sum[c] > sum[at])
			at = c;
	for (size_t i = n; i-- > 0; at = from[i][at])
		ret[i] = (uint8_t)at;
	free(from);
}

/* Whether a slice is as usual, or slow by something that its cause has no part in. */
static bool is_none_of_it(const double score[STATES], uint8_t cause)
{
	return score[cause] < fmax(score[AS_USUAL], score[CAUSE_UNKNOWN]);
}

/* Leaves off those at the ends of a stretch of slices with one cause that are none of it. */
static void trim(uint8_t *cause, double (*score)[STATES], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((!i || cause[i - 1] != cause[i]) && is_none_of_it(score[i], cause[i]))
			cause[i] = AS_USUAL;
	for (size_t i = n; i-- > 0;)
		if ((i + 1 == n || cause[i + 1] != cause[i]) && is_none_of_it(score[i], cause[i]))
			cause[i] = AS_USUAL;
}

static bool is_left_over(uint8_t cause)
{
	return cause == CAUSE_UNKNOWN || cause == CAUSE_MEM_BANDWIDTH || cause == CAUSE_CPU_SLOW ||
	       cause == CAUSE_SLOW_CODE;
}

/* Whether a slice at an end says less than its neighbour. */
static bool says_less(uint8_t end, uint8_t neighbour)
{
	return is_left_over(end) && neighbour != AS_USUAL && !is_left_over(neighbour);
}

/* Plain time begins and ends with a window, of which a part is as usual; but it is taken to be as
 * slow as the rest. So what is left over of the one at either end says nothing. */
static void join_ends(uint8_t *cause, size_t n)
{
	if (n > 1 && says_less(cause[0], cause[1]))
		cause[0] = cause[1];
	if (n > 1 && says_less(cause[n - 1], cause[n - 2]))
		cause[n - 1] = cause[n - 2];
}

/* The cause that explains most of all slices together. */
static uint8_t best_of_all(double (*score)[STATES], size_t n)
{
	double sum[CAUSE_COUNT] = {0};
	unsigned top = CAUSE_UNKNOWN;
	for (size_t i = 0; i < n; i++)
		for (unsigned c = 0; c < CAUSE_COUNT; c++)
			sum[c] += score[i][c];
	for (unsigned c = 0; c < CAUSE_COUNT; c++)
		top = c != CAUSE_UNKNOWN && sum[c] > sum[top] ? c : top;
	return (uint8_t)top;
}

static bool is_all_usual(const uint8_t *cause, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (cause[i] != AS_USUAL)
			return false;
	return true;
}

static void join(struct evidence_question *to, const struct evidence_question *q)
{
	to->usual = q->usual;
	to->by_steps = q->by_steps;
	for (size_t i = 0; i < q->slow.len; i++)
		*vec_push(&to->slow) = q->slow.data[i];
}

/* Slices, and what is known of them. */
struct cutting {
	const struct evidence_question *slices;
	const struct slice_judged *judged;
	size_t n;
	const uint8_t *cause;
	questions_t *ret;
	uint32_t stretch;
	bool besides;
	uint64_t taken_ns; /* until then steps are of a stretch before */
};

static void add_piece(const struct cutting *c, size_t from, size_t to, enum cause beside)
{
	struct evidence_question *piece = vec_push(c->ret);
	piece->stretch = c->stretch;
	piece->beside = (uint8_t)beside;
	for (size_t i = from; i < to; i++)
		join(piece, &c->slices[i]);
}

/* Of slices of one cause those that others came to. */
static void add_besides(const struct cutting *c, size_t from, size_t to, enum cause stands)
{
	struct beside b;
	if (!diagnosis_beside(&b, c->judged + from, to - from, stands))
		return;
	add_besides(c, from, from + b.first, stands);
	add_piece(c, from + b.first, from + b.end, b.cause);
	add_besides(c, from + b.end, to, stands);
}

/* Whether a slice that is in no stretch says what slowed it, and that it was not the cause of the
 * stretch beside it. */
static bool says_another(const struct slice_judged *s, enum cause stands)
{
	double least = fmax(s->explains[CAUSE_UNKNOWN], s->explains[stands]);
	least = fmax(least, s->explains[AS_USUAL]);
	for (unsigned c = 0; c < CAUSE_COUNT; c++)
		if (c != (unsigned)stands && !is_left_over((uint8_t)c) && s->explains[c] > least)
			return true;
	return false;
}

static bool is_free(const struct cutting *c, size_t slice, enum cause stands)
{
	return c->cause[slice] == AS_USUAL && !says_another(&c->judged[slice], stands);
}

/* A slice goes to a stretch, or not, as a whole: those of its steps do that are slow as those of
 * the stretch. */
static void refine(struct cutting *c, size_t from, size_t to, enum cause stands)
{
	struct evidence_question all = {0}, *piece = &c->ret->data[c->ret->len - 1];
	size_t first = from, last = to;
	struct diagnosis_range in = {piece->slow.data[0].from_ns,
				     piece->slow.data[piece->slow.len - 1].to_ns};
	while (first > 0 && is_free(c, first - 1, stands))
		first--;
	while (last < c->n && is_free(c, last, stands))
		last++;
	for (size_t i = first; i < last; i++)
		join(&all, &c->slices[i]);
	const struct diagnosis_range free_ns = {c->taken_ns, UINT64_MAX};
	const struct usual_length usual = {all.slow.data[0].usual_ns,
					   c->slices[from].usual->long_ns};
	diagnosis_edges(&all.slow, &usual, &free_ns, &in);
	piece->slow.len = 0;
	for (size_t i = 0; i < all.slow.len; i++)
		if (all.slow.data[i].from_ns >= in.from_ns && all.slow.data[i].to_ns <= in.to_ns)
			*vec_push(&piece->slow) = all.slow.data[i];
	c->taken_ns = in.to_ns;
	vec_free(&all.slow);
}

static void add_stretch(struct cutting *c, size_t from, size_t to, enum cause stands)
{
	c->stretch = (uint32_t)c->ret->len + 1;
	add_piece(c, from, to, CAUSE_UNKNOWN);
	if (c->slices[from].by_steps)
		refine(c, from, to, stands);
	if (c->besides && c->slices[from].by_steps)
		add_besides(c, from, to, stands);
}

void diagnosis_cut(const struct evidence_question *slices, const struct evidence *e, size_t n,
		   bool besides, questions_t *ret)
{
	double(*score)[STATES] = xcalloc(n + 1, sizeof(*score));
	struct slice_judged *judged = xcalloc(n + 1, sizeof(*judged));
	uint8_t *cause = xcalloc(n + 1, 1);
	struct cutting c = {.slices = slices,
			    .judged = judged,
			    .n = n,
			    .cause = cause,
			    .ret = ret,
			    .besides = besides};
	size_t before = ret->len;
	for (size_t i = 0; i < n; i++)
		scores(score[i], &e[i]);
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n) {
			level_memory(score[i], &e[i], &e[i + 1]);
			level_quota(score[i], score[i + 1], &e[i]);
		}
		judged[i] = (struct slice_judged){score[i], evidence_excess(&e[i]),
						  e[i].blame.usual_ns};
	}
	best_path(cause, score, n);
	if (n && is_all_usual(cause, n)) /* all alike little: it has a cause nevertheless */
		memset(cause, best_of_all(score, n), n);
	if (n && !slices[0].by_steps)
		join_ends(cause, n);
	trim(cause, score, n);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && cause[end] == cause[i];)
			end++;
		if (cause[i] != AS_USUAL)
			add_stretch(&c, i, end, (enum cause)cause[i]);
	}
	if (ret->len == before) {
		c.stretch = (uint32_t)ret->len + 1;
		add_piece(&c, 0, n, CAUSE_UNKNOWN);
	}
	free(judged);
	free(score);
	free(cause);
}
