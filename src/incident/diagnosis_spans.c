/* diagnosis_spans.c - which stretches of an incident's process are slow, and which are usual. */
#include <math.h>
#include <stdlib.h>

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

/* Whether so much of an incident was judged that the rest of it is passed over. */
static bool passes_over(const struct diagnosing *x, const struct diagnosed *in)
{
	uint64_t ns = unjudged_ns(x, in->onset_ns, in->end_ns);
	return ns && in->end_ns - in->onset_ns - ns >= LEAST_JUDGED_NS;
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

static void usual_end(const struct diagnosing *x, struct usual_time *u)
{
	u->usual.blame = blame_usual_new(x->w, u->usual.spans.data, u->usual.spans.len);
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

/* The loop that has most of the incident's time. */
static uint32_t loop_of(const struct steps_process *p, const struct diagnosed *in)
{
	uint32_t loop = UINT32_MAX;
	uint64_t most = 0;
	for (size_t l = 0; l < p->loops.len; l++) {
		uint64_t ns = 0;
		for (size_t i = 0; i < p->steps.len; i++)
			if (p->steps.data[i].loop == l && p->steps.data[i].start_ns < in->end_ns &&
			    p->steps.data[i].end_ns > in->onset_ns)
				ns += p->steps.data[i].end_ns - p->steps.data[i].start_ns;
		if (ns > most) {
			most = ns;
			loop = (uint32_t)l;
		}
	}
	return loop;
}

/* Whether steps of a loop lie in a time. */
static bool has_steps(const struct steps_process *p, uint32_t loop, uint64_t from_ns,
		      uint64_t to_ns)
{
	size_t low = p->loops.data[loop].first, end = low + p->loops.data[loop].steps;
	for (size_t high = end; low < high;) {
		size_t middle = low + (high - low) / 2;
		if (p->steps.data[middle].end_ns > from_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low < end && p->steps.data[low].start_ns < to_ns;
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

/* Whether the loop stood before a step for longer than one takes. */
static bool stood_before(const struct steps_process *p, size_t i, double mean_ns)
{
	return (double)(p->steps.data[i].start_ns - step_from(p, i)) > mean_ns;
}

static double mean_step(const struct steps_process *p, uint32_t loop)
{
	double ns = 0;
	size_t n = 0;
	for (size_t i = 0; i < p->steps.len; i++)
		if (p->steps.data[i].loop == loop) {
			ns += (double)(p->steps.data[i].end_ns - p->steps.data[i].start_ns);
			n++;
		}
	return n ? ns / (double)n : 0;
}

static void add_steps(const struct diagnosing *x, blame_spans_t *ret, const struct usual_asked *a)
{
	double mean_ns = mean_step(a->p, a->loop);
	for (size_t i = 0; i < a->p->steps.len; i++) {
		const struct steps_step *s = &a->p->steps.data[i];
		uint64_t from_ns = s->loop == a->loop ? step_from(a->p, i) : 0;
		if (s->loop == a->loop && s->index >= FIRST_STEPS && from_ns >= a->since_ns &&
		    !is_beside(x, from_ns, s->end_ns) && !unjudged_ns(x, from_ns, s->end_ns) &&
		    !(a->closely && stood_before(a->p, i, mean_ns)))
			*vec_push(ret) = (struct blame_span){
				.thread = a->thread, .from_ns = from_ns, .to_ns = s->end_ns};
	}
}

/* What comes before anything is judged is its launch. That is taken, too, where there is little
 * else; an incident that stands when judging begins may have begun in it, so that any rest is
 * better. */
static bool has_enough(const struct diagnosing *x, const blame_spans_t *usual)
{
	uint64_t from_ns = x->list->judged_from_ns;
	bool may_be_slow = is_beside(x, from_ns, from_ns);
	return length_of(usual) >= (may_be_slow ? LEAST_LEFT_NS : LEAST_USUAL_NS);
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
	if (!has_enough(x, &u->usual.spans)) {
		u->usual.spans.len = 0;
		a.since_ns = 0;
		add_steps(x, &u->usual.spans, &a);
	}
	usual_end(x, u);
	return u;
}

/* Not those that were found now and then alone, nor a step with a long time before it in which none
 * was found. */
static bool stand_for(const blame_spans_t *slow, double length, double usual_ns)
{
	double sum = length_of(slow);
	return sum >= COVERED * length && sum <= 2 * (length + usual_ns);
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
	double mean_ns = mean_step(p, loop);
	bool closely = true, passes = passes_over(x, in);
	uint64_t passed_ns = passes ? unjudged_ns(x, in->onset_ns, in->end_ns) : 0;
	for (size_t i = 0; i < p->steps.len; i++) {
		const struct steps_step *s = &p->steps.data[i];
		if (s->loop != loop)
			continue;
		struct blame_span span = {thread, step_from(p, i), s->end_ns, 0};
		if (!is_within(in, &span) || (passes && unjudged_ns(x, span.from_ns, span.to_ns)))
			continue;
		closely &= !stood_before(p, i, mean_ns);
		*vec_push(&ret->slow) = span;
	}
	const struct usual_time *u = usual_steps(x, p, loop, thread, closely);
	double usual_ns = diagnosis_mean_length(&u->usual.spans);
	for (size_t i = 0; i < ret->slow.len; i++)
		ret->slow.data[i].usual_ns = usual_ns;
	ret->usual = &u->usual;
	double length = (double)(in->end_ns - in->onset_ns - passed_ns);
	return ret->slow.len && u->usual.spans.len && stand_for(&ret->slow, length, usual_ns);
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

static void spread(const struct diagnosing *x, struct diagnosed *in)
{
	const struct steps_process *p = steps_of(x, in->pid);
	uint32_t loop = p ? loop_of(p, in) : UINT32_MAX;
	if (loop == UINT32_MAX)
		return;
	blame_spans_t all = {0}, slow = {0}, usual = {0};
	struct diagnosis_range range = {in->onset_ns, in->end_ns};
	const struct diagnosis_range free_ns = free_around(x, in);
	for (size_t i = 0; i < p->steps.len; i++) {
		const struct steps_step *s = &p->steps.data[i];
		if (s->loop != loop)
			continue;
		struct blame_span span = {.from_ns = step_from(p, i), .to_ns = s->end_ns};
		if (unjudged_ns(x, span.from_ns, span.to_ns))
			continue;
		*vec_push(&all) = span;
		if (is_within(in, &span))
			*vec_push(&slow) = span;
	}
	add_steps(x, &usual,
		  &(struct usual_asked){p, loop, UINT32_MAX, x->list->judged_from_ns, true});
	double usual_ns = diagnosis_mean_length(&usual);
	if (stand_for(&slow, (double)(in->end_ns - in->onset_ns), usual_ns))
		diagnosis_edges(&all, usual_ns, &free_ns, &range);
	in->onset_ns = range.from_ns;
	in->end_ns = range.to_ns;
	vec_free(&all);
	vec_free(&slow);
	vec_free(&usual);
}

void diagnosis_spread(struct diagnosing *x)
{
	for (size_t i = 0; i < x->ret->incidents.len; i++)
		spread(x, &x->ret->incidents.data[i]);
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
	if (!has_enough(x, &u->usual.spans)) {
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
	return has_enough(x, &usual_plain(x, in->pid, then)->usual.spans) ? then : always;
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
		if (passes_over(x, in))
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
