/* diagnosis_spans.c - which stretches of an incident's process are slow, and which are usual. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "incident/diagnosis_impl.h"

#define BESIDE_NS 1000000000ULL /* of an incident: what lies so near to it is not usual */
/* Of an incident's time so much was usual at least: losses may add up to more. */
#define LEAST_RATIO	0.05
#define FIRST_STEPS	5 /* of a loop: libraries are loaded and kernels compiled in them */
#define SLICES_MOST	100000
#define LEAST_USUAL_NS	2e9		 /* to compare with */
#define LEAST_LEFT_NS	5e8		 /* likewise, where the rest may be slow itself */
#define OF_AN_INCIDENT	(UINT32_MAX - 1) /* a loop's number that none has */
#define LEAST_JUDGED_NS BESIDE_NS /* of an incident: where less was judged, all of it counts */
#define COVERED		0.5 /* of an incident's time: steps that have less of it do not stand for it */
#define LONG		0.9 /* so large a part of usual ones is no longer than what is long for them */

typedef VEC(struct diagnosis_range) ranges_t;

/* What lies near to an incident, with its own time. */
static struct diagnosis_range near_to(const struct diagnosed *in)
{
	return (struct diagnosis_range){in->onset_ns > BESIDE_NS ? in->onset_ns - BESIDE_NS : 0,
					in->end_ns + BESIDE_NS};
}

static int by_start(const void *a, const void *b)
{
	const struct diagnosis_range *x = a, *y = b;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* What lies near to any incident, in order; none overlap. */
static void near_incidents(const struct diagnosing *x, ranges_t *ret)
{
	size_t last = 0;
	for (size_t i = 0; i < x->ret->incidents.len; i++)
		*vec_push(ret) = near_to(&x->ret->incidents.data[i]);
	if (!ret->len)
		return;
	qsort(ret->data, ret->len, sizeof(*ret->data), by_start);
	for (size_t i = 1; i < ret->len; i++) {
		const struct diagnosis_range *r = &ret->data[i];
		if (r->from_ns >= ret->data[last].to_ns)
			ret->data[++last] = *r;
		else if (r->to_ns > ret->data[last].to_ns)
			ret->data[last].to_ns = r->to_ns;
	}
	ret->len = last + 1;
}

/* Whether a time overlaps with one of them; of times in order, *at: where the last one was. */
static bool is_in(const ranges_t *ranges, size_t *at, uint64_t from_ns, uint64_t to_ns)
{
	while (*at < ranges->len && ranges->data[*at].to_ns <= from_ns)
		++*at;
	return *at < ranges->len && ranges->data[*at].from_ns < to_ns;
}

static bool is_beside(const struct diagnosing *x, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		const struct diagnosed *in = &x->ret->incidents.data[i];
		if (from_ns < in->end_ns + BESIDE_NS && to_ns + BESIDE_NS > in->onset_ns)
			return true;
	}
	return false;
}

/* How much of a time is unjudged. */
static uint64_t unjudged_ns(const struct diagnosing *x, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < x->list->unjudged_len; i++) {
		const struct unjudged_time *u = &x->list->unjudged[i];
		uint64_t from = u->from_ns > from_ns ? u->from_ns : from_ns;
		uint64_t to = u->to_ns < to_ns ? u->to_ns : to_ns;
		sum += to > from ? to - from : 0;
	}
	return sum;
}

/* How much of an incident is passed over: what is unjudged of it, where enough is left. */
static uint64_t passed_ns(const struct diagnosing *x, const struct diagnosed *in)
{
	uint64_t ns = unjudged_ns(x, in->onset_ns, in->end_ns);
	return in->end_ns - in->onset_ns - ns >= LEAST_JUDGED_NS ? ns : 0;
}

static uint32_t thread_of(const struct rec_tables *t, uint32_t pid, uint32_t tid)
{
	for (size_t i = t->threads.len; i-- > 0;)
		if (t->threads.data[i].pid == pid && t->threads.data[i].tid == tid)
			return (uint32_t)i;
	return UINT32_MAX;
}

static const struct steps_process *steps_of(const struct diagnosing *x, uint32_t pid)
{
	for (size_t i = 0; i < x->steps->processes.len; i++)
		if (x->steps->processes.data[i].pid == pid && x->steps->processes.data[i].steps.len)
			return &x->steps->processes.data[i];
	return NULL;
}

static struct usual_time *usual_of(struct diagnosing *x, const struct usual_time *key,
				   bool *ret_is_new)
{
	for (size_t i = 0; i < x->usual.len; i++) {
		struct usual_time *u = x->usual.data[i];
		if (u->pid == key->pid && u->loop == key->loop && u->thread == key->thread &&
		    u->closely == key->closely)
			return u;
	}
	struct usual_time *u = xcalloc(1, sizeof(*u));
	*u = *key;
	*vec_push(&x->usual) = u;
	*ret_is_new = true;
	return u;
}

/* What is long for some: most of them are no longer. */
static double long_length(const struct blame_span *spans, size_t n)
{
	if (!n)
		return 0;
	double *ns = xcalloc(n, sizeof(*ns));
	for (size_t i = 0; i < n; i++)
		ns[i] = (double)(spans[i].to_ns - spans[i].from_ns);
	stats_sort(ns, n);
	double ret = stats_quantile_sorted(ns, n, LONG);
	free(ns);
	return ret;
}

static void usual_end(const struct diagnosing *x, struct usual_time *u)
{
	u->usual.blame = blame_usual_new(x->w, u->usual.spans.data, u->usual.spans.len);
	u->usual.long_ns = long_length(u->usual.spans.data, u->usual.spans.len);
}

double diagnosis_mean_length(const blame_spans_t *spans)
{
	double ns = 0;
	for (size_t i = 0; i < spans->len; i++)
		ns += (double)(spans->data[i].to_ns - spans->data[i].from_ns);
	return spans->len ? ns / (double)spans->len : 0;
}

const struct evidence_usual *diagnosis_usual_of(struct diagnosing *x, uint32_t pid,
						const blame_spans_t *spans)
{
	struct usual_time *u = xcalloc(1, sizeof(*u));
	*u = (struct usual_time){.pid = pid, .loop = OF_AN_INCIDENT};
	for (size_t i = 0; i < spans->len; i++)
		*vec_push(&u->usual.spans) = spans->data[i];
	usual_end(x, u);
	*vec_push(&x->usual) = u;
	return &u->usual;
}

/* ---- steps ---- */

static size_t end_of(const struct steps_process *p, uint32_t loop)
{
	return (size_t)p->loops.data[loop].first + p->loops.data[loop].steps;
}

/* The first of a loop's steps that ends after a time. */
static size_t first_after(const struct steps_process *p, uint32_t loop, uint64_t ns)
{
	size_t low = p->loops.data[loop].first;
	for (size_t high = end_of(p, loop); low < high;) {
		size_t middle = low + (high - low) / 2;
		if (p->steps.data[middle].end_ns > ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The loop that has most of the incident's time. */
static uint32_t loop_of(const struct steps_process *p, const struct diagnosed *in)
{
	uint32_t loop = UINT32_MAX;
	uint64_t most = 0;
	for (uint32_t l = 0; l < p->loops.len; l++) {
		uint64_t ns = 0;
		for (size_t i = first_after(p, l, in->onset_ns);
		     i < end_of(p, l) && p->steps.data[i].start_ns < in->end_ns; i++)
			ns += p->steps.data[i].end_ns - p->steps.data[i].start_ns;
		if (ns > most) {
			most = ns;
			loop = l;
		}
	}
	return loop;
}

/* Whether steps of a loop lie in a time. */
static bool has_steps(const struct steps_process *p, uint32_t loop, uint64_t from_ns,
		      uint64_t to_ns)
{
	size_t i = first_after(p, loop, from_ns);
	return i < end_of(p, loop) && p->steps.data[i].start_ns < to_ns;
}

/* A step with what lies between it and the one before, such as a checkpoint; but not where steps of
 * another loop, such as an evaluation, lie there. */
static uint64_t step_from(const struct steps_process *p, size_t i)
{
	const struct steps_step *s = &p->steps.data[i], *last = i ? s - 1 : NULL;
	if (!last || last->loop != s->loop || last->index + 1 != s->index ||
	    last->end_ns >= s->start_ns)
		return s->start_ns;
	for (uint32_t l = 0; l < p->loops.len; l++)
		if (l != s->loop && has_steps(p, l, last->end_ns, s->start_ns))
			return s->start_ns;
	return last->end_ns;
}

static double length_of(const blame_spans_t *spans)
{
	return diagnosis_mean_length(spans) * (double)spans->len;
}

/* Of a loop those that are usual, since a time; closely: without those before which it stood. */
struct usual_asked {
	const struct steps_process *p;
	uint32_t loop, thread;
	uint64_t since_ns;
	bool closely;
};

/* Whether the loop stood before a step, which begins with that, for longer than one takes. */
static bool stood_before(const struct steps_process *p, size_t i, uint64_t from_ns)
{
	const struct steps_step *s = &p->steps.data[i];
	return (double)(s->start_ns - from_ns) > p->loops.data[s->loop].mean_ns;
}

static void add_steps(const struct diagnosing *x, blame_spans_t *ret, const struct usual_asked *a)
{
	ranges_t near = {0};
	size_t at = 0;
	near_incidents(x, &near);
	for (size_t i = a->p->loops.data[a->loop].first; i < end_of(a->p, a->loop); i++) {
		const struct steps_step *s = &a->p->steps.data[i];
		uint64_t from_ns = step_from(a->p, i);
		if (s->index >= FIRST_STEPS && from_ns >= a->since_ns &&
		    !is_in(&near, &at, from_ns, s->end_ns) && !unjudged_ns(x, from_ns, s->end_ns) &&
		    !(a->closely && stood_before(a->p, i, from_ns)))
			*vec_push(ret) = (struct blame_span){
				.thread = a->thread, .from_ns = from_ns, .to_ns = s->end_ns};
	}
	vec_free(&near);
}

/* What comes before anything is judged is its launch. That is taken, too, where there is little
 * else; an incident that stands when judging begins may have begun in it, so that any rest is
 * better. */
static bool has_enough(const struct diagnosing *x, double usual_ns)
{
	uint64_t from_ns = x->list->judged_from_ns;
	bool may_be_slow = is_beside(x, from_ns, from_ns);
	return usual_ns >= (may_be_slow ? LEAST_LEFT_NS : LEAST_USUAL_NS);
}

/* What a loop stands for now and then, as for an evaluation, is part of its mean step. An incident
 * in which it did not is compared with steps before which it did not either. */
static struct usual_time *usual_steps(struct diagnosing *x, const struct steps_process *p,
				      uint32_t loop, uint32_t thread, bool closely)
{
	bool is_new = false;
	struct usual_asked a = {p, loop, thread, x->list->judged_from_ns, closely};
	struct usual_time *u =
		usual_of(x,
			 &(struct usual_time){
				 .pid = p->pid, .loop = loop, .thread = thread, .closely = closely},
			 &is_new);
	if (!is_new)
		return u;
	add_steps(x, &u->usual.spans, &a);
	if (!has_enough(x, length_of(&u->usual.spans))) {
		u->usual.spans.len = 0;
		a.since_ns = 0;
		add_steps(x, &u->usual.spans, &a);
	}
	usual_end(x, u);
	return u;
}

/* Whether slow steps do for an incident, by their length: not those that were found now and then
 * alone, nor a step with a long time before it in which none was found. */
static bool stand_for(double slow_ns, double length, double usual_ns)
{
	return slow_ns >= COVERED * length && slow_ns <= 2 * (length + usual_ns);
}

/* By its middle. */
static bool is_within(const struct diagnosed *in, const struct blame_span *s)
{
	uint64_t middle = s->from_ns + (s->to_ns - s->from_ns) / 2;
	return middle >= in->onset_ns && middle < in->end_ns;
}

static bool by_steps(struct diagnosing *x, const struct diagnosed *in,
		     struct evidence_question *ret)
{
	const struct steps_process *p = steps_of(x, in->pid);
	uint32_t thread = p ? thread_of(x->s->tables, p->pid, p->tid) : UINT32_MAX;
	uint32_t loop = thread != UINT32_MAX ? loop_of(p, in) : UINT32_MAX;
	if (loop == UINT32_MAX)
		return false;
	bool closely = true;
	uint64_t passed = passed_ns(x, in);
	for (size_t i = first_after(p, loop, in->onset_ns); i < end_of(p, loop); i++) {
		struct blame_span span = {thread, step_from(p, i), p->steps.data[i].end_ns, 0};
		if (span.from_ns >= in->end_ns)
			break;
		if (!is_within(in, &span) || (passed && unjudged_ns(x, span.from_ns, span.to_ns)))
			continue;
		closely &= !stood_before(p, i, span.from_ns);
		*vec_push(&ret->slow) = span;
	}
	const struct usual_time *u = usual_steps(x, p, loop, thread, closely);
	double usual_ns = diagnosis_mean_length(&u->usual.spans);
	for (size_t i = 0; i < ret->slow.len; i++)
		ret->slow.data[i].usual_ns = usual_ns;
	ret->usual = &u->usual;
	double length = (double)(in->end_ns - in->onset_ns - passed);
	return ret->slow.len && u->usual.spans.len &&
	       stand_for(length_of(&ret->slow), length, usual_ns);
}

/* ---- edges ---- */

/* What lies between an incident and others of its process. */
static struct diagnosis_range free_around(const struct diagnosing *x, const struct diagnosed *in)
{
	struct diagnosis_range ret = {0, UINT64_MAX};
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		const struct diagnosed *other = &x->ret->incidents.data[i];
		if (other == in || other->pid != in->pid)
			continue;
		if (other->onset_ns <= in->onset_ns && other->end_ns > ret.from_ns)
			ret.from_ns = other->end_ns;
		if (other->onset_ns > in->onset_ns && other->onset_ns < ret.to_ns)
			ret.to_ns = other->onset_ns;
	}
	return ret;
}

/* How many usual steps there are, and how long they are together. */
struct usual_sum {
	double ns, long_ns; /* long for one of them, as it was before any incident was spread */
	size_t n;
};

/* The steps of a loop, and of them those that are usual, far from incidents as far as these were
 * spread. */
struct loop_steps {
	uint32_t pid, loop;
	blame_spans_t all, judged; /* judged: without those of unjudged time */
	blame_spans_t usual;
	struct usual_sum ever, since_judged;
};

typedef VEC(struct loop_steps) loops_t;

static struct usual_sum sum_of(const struct blame_span *spans, size_t n)
{
	struct usual_sum ret = {.n = n, .long_ns = long_length(spans, n)};
	for (size_t i = 0; i < n; i++)
		ret.ns += (double)(spans[i].to_ns - spans[i].from_ns);
	return ret;
}

static struct loop_steps *loop_steps_of(const struct diagnosing *x, loops_t *loops,
					const struct steps_process *p, uint32_t loop)
{
	for (size_t i = 0; i < loops->len; i++)
		if (loops->data[i].pid == p->pid && loops->data[i].loop == loop)
			return &loops->data[i];
	struct loop_steps *ret = vec_push(loops);
	ret->pid = p->pid;
	ret->loop = loop;
	for (size_t i = p->loops.data[loop].first; i < end_of(p, loop); i++) {
		struct blame_span span = {.from_ns = step_from(p, i),
					  .to_ns = p->steps.data[i].end_ns};
		*vec_push(&ret->all) = span;
		if (!unjudged_ns(x, span.from_ns, span.to_ns))
			*vec_push(&ret->judged) = span;
	}
	blame_spans_t *usual = &ret->usual;
	size_t before = 0;
	add_steps(x, usual, &(struct usual_asked){p, loop, UINT32_MAX, 0, true});
	while (before < usual->len && usual->data[before].from_ns < x->list->judged_from_ns)
		before++;
	ret->ever = sum_of(usual->data, usual->len);
	ret->since_judged = sum_of(usual->data + before, usual->len - before);
	return ret;
}

static void loops_free(loops_t *loops)
{
	for (size_t i = 0; i < loops->len; i++) {
		vec_free(&loops->data[i].all);
		vec_free(&loops->data[i].judged);
		vec_free(&loops->data[i].usual);
	}
	vec_free(loops);
}

static void take_off(struct usual_sum *sum, const struct blame_span *s)
{
	sum->ns -= (double)(s->to_ns - s->from_ns);
	sum->n--;
}

/* What lies near to an incident that was spread is not usual. */
static void take_near(const struct diagnosing *x, struct loop_steps *l, const struct diagnosed *in)
{
	const struct diagnosis_range near = near_to(in);
	blame_spans_t *usual = &l->usual;
	size_t from = 0, to;
	while (from < usual->len && usual->data[from].to_ns <= near.from_ns)
		from++;
	for (to = from; to < usual->len && usual->data[to].from_ns < near.to_ns; to++) {
		take_off(&l->ever, &usual->data[to]);
		if (usual->data[to].from_ns >= x->list->judged_from_ns)
			take_off(&l->since_judged, &usual->data[to]);
	}
	if (to == from)
		return;
	memmove(usual->data + from, usual->data + to, (usual->len - to) * sizeof(*usual->data));
	usual->len -= to - from;
}

/* Of those that steps of an incident are compared with. false: there is not enough. */
static bool usual_length(const struct diagnosing *x, const struct loop_steps *l,
			 struct usual_length *ret)
{
	const struct usual_sum *sum =
		has_enough(x, l->since_judged.ns) ? &l->since_judged : &l->ever;
	if (!sum->n || !has_enough(x, sum->ns))
		return false;
	*ret = (struct usual_length){.mean_ns = sum->ns / (double)sum->n, .long_ns = sum->long_ns};
	return true;
}

static double length_within(const blame_spans_t *steps, const struct diagnosed *in)
{
	double ret = 0;
	for (size_t i = 0; i < steps->len && steps->data[i].from_ns < in->end_ns; i++)
		if (is_within(in, &steps->data[i]))
			ret += (double)(steps->data[i].to_ns - steps->data[i].from_ns);
	return ret;
}

/* Steps of unjudged time say nothing of it, unless the incident has next to no others. */
static void spread(const struct diagnosing *x, loops_t *loops, struct diagnosed *in)
{
	const struct steps_process *p = steps_of(x, in->pid);
	uint32_t loop = p ? loop_of(p, in) : UINT32_MAX;
	if (loop == UINT32_MAX)
		return;
	const struct loop_steps *l = loop_steps_of(x, loops, p, loop);
	uint64_t passed = passed_ns(x, in);
	bool whole = !passed && unjudged_ns(x, in->onset_ns, in->end_ns);
	const blame_spans_t *steps = whole ? &l->all : &l->judged;
	double length = (double)(in->end_ns - in->onset_ns - passed);
	struct usual_length usual;
	if (!usual_length(x, l, &usual) ||
	    !stand_for(length_within(steps, in), length, usual.mean_ns))
		return;
	struct diagnosis_range range = {in->onset_ns, in->end_ns};
	const struct diagnosis_range free_ns = free_around(x, in);
	diagnosis_edges(steps, &usual, &free_ns, &range);
	if (range.from_ns == in->onset_ns && range.to_ns == in->end_ns)
		return;
	in->onset_ns = range.from_ns;
	in->end_ns = range.to_ns;
	for (size_t i = 0; i < loops->len; i++)
		take_near(x, &loops->data[i], in);
}

void diagnosis_spread(struct diagnosing *x)
{
	loops_t loops = {0};
	for (size_t i = 0; i < x->ret->incidents.len; i++)
		spread(x, &loops, &x->ret->incidents.data[i]);
	loops_free(&loops);
}

/* ---- time ---- */

/* A time without what of it is unjudged; each of its parts is worth as much of it as it is long. */
static void add_judged(const struct diagnosing *x, blame_spans_t *ret, struct blame_span of)
{
	double length = (double)(of.to_ns - of.from_ns), usual_ns = of.usual_ns;
	uint64_t end_ns = of.to_ns;
	for (size_t i = 0; i <= x->list->unjudged_len && of.from_ns < end_ns; i++) {
		bool last = i == x->list->unjudged_len;
		const struct unjudged_time *u = last ? NULL : &x->list->unjudged[i];
		of.to_ns = u && u->from_ns < end_ns ? u->from_ns : end_ns;
		of.usual_ns = usual_ns * (double)(of.to_ns - of.from_ns) / length;
		if (of.to_ns > of.from_ns)
			*vec_push(ret) = of;
		if (u && u->to_ns > of.from_ns)
			of.from_ns = u->to_ns;
	}
}

/* What lies in no incident, of a time. */
static void add_plain(const struct diagnosing *x, blame_spans_t *ret, uint32_t thread,
		      uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		const struct diagnosed *other = &x->ret->incidents.data[i];
		uint64_t until = other->onset_ns > BESIDE_NS ? other->onset_ns - BESIDE_NS : 0;
		uint64_t after = other->end_ns + BESIDE_NS;
		until = until < to_ns ? until : to_ns;
		if (until > from_ns)
			add_judged(x, ret, (struct blame_span){thread, from_ns, until, 0});
		from_ns = after > from_ns ? after : from_ns;
	}
	if (to_ns > from_ns)
		add_judged(x, ret, (struct blame_span){thread, from_ns, to_ns, 0});
}

/* Likewise. */
static struct usual_time *usual_plain(struct diagnosing *x, uint32_t pid, uint32_t thread)
{
	bool is_new = false;
	struct usual_time *u = usual_of(
		x, &(struct usual_time){.pid = pid, .loop = UINT32_MAX, .thread = thread}, &is_new);
	uint64_t first_ns, last_ns, judged_ns = x->list->judged_from_ns;
	if (!is_new)
		return u;
	blame_thread_times(x->w, thread, &first_ns, &last_ns);
	add_plain(x, &u->usual.spans, thread, judged_ns > first_ns ? judged_ns : first_ns, last_ns);
	if (!has_enough(x, length_of(&u->usual.spans))) {
		u->usual.spans.len = 0;
		add_plain(x, &u->usual.spans, thread, first_ns, last_ns);
	}
	usual_end(x, u);
	return u;
}

/* The busiest thread then; one that ran in no other time is who disturbs, or has nothing to be
 * compared with: the busiest of all time instead. */
static uint32_t thread_in(struct diagnosing *x, const struct diagnosed *in)
{
	uint32_t then = blame_busiest(x->w, in->pid, in->onset_ns, in->end_ns);
	uint32_t always = blame_busiest(x->w, in->pid, 0, UINT64_MAX);
	if (then == UINT32_MAX || always == UINT32_MAX || always == then)
		return then;
	const struct usual_time *u = usual_plain(x, in->pid, then);
	return has_enough(x, length_of(&u->usual.spans)) ? then : always;
}

/* All of the incident's time, in slices, beside all that is in none. */
static bool by_time(struct diagnosing *x, const struct diagnosed *in, struct evidence_question *ret)
{
	uint32_t thread = thread_in(x, in);
	double length = (double)(in->end_ns - in->onset_ns);
	if (thread == UINT32_MAX || length <= 0)
		return false;
	double ratio = fmax(LEAST_RATIO, 1 - diagnosis_lost_share(in));
	const struct usual_time *u = usual_plain(x, in->pid, thread);
	ret->slow.len = 0;
	for (uint64_t at = in->onset_ns; at < in->end_ns && ret->slow.len < SLICES_MOST;
	     at += BESIDE_NS) {
		uint64_t end = at + BESIDE_NS < in->end_ns ? at + BESIDE_NS : in->end_ns;
		const struct blame_span slice = {thread, at, end, ratio * (double)(end - at)};
		if (passed_ns(x, in))
			add_judged(x, &ret->slow, slice);
		else
			*vec_push(&ret->slow) = slice;
	}
	ret->usual = &u->usual;
	return u->usual.spans.len;
}

bool diagnosis_spans(struct diagnosing *x, const struct diagnosed *in,
		     struct evidence_question *ret)
{
	ret->by_steps = by_steps(x, in, ret);
	return ret->by_steps || by_time(x, in, ret);
}

void diagnosis_spans_free(struct diagnosing *x)
{
	for (size_t i = 0; i < x->usual.len; i++) {
		blame_usual_free(x->usual.data[i]->usual.blame);
		vec_free(&x->usual.data[i]->usual.spans);
		free(x->usual.data[i]);
	}
	vec_free(&x->usual);
}
