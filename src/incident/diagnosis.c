/* diagnosis.c - puts anomalies together to incidents, and finds for each its stretches, whose they
 * were and why. */
#include "incident/diagnosis.h"

#include <math.h>
#include <stdlib.h>

#include "incident/incidents.h"

#define BESIDE_NS 1000000000ULL /* of an incident: what lies so near to it is not usual */

struct diagnosing {
	struct diagnosis *ret;
	const struct row_source *s;
	const struct timeline *t;
	const struct steps *steps;
	const struct anomaly_list *list;
	struct blame_world *w;
	bool each;
};

/* ---- incidents ---- */

static struct diagnosed *incident_of(struct diagnosis *d, const struct anomaly *a)
{
	for (size_t i = 0; i < d->incidents.len && a->incident; i++)
		if (d->incidents.data[i].id == a->incident)
			return &d->incidents.data[i];
	struct diagnosed *ret = vec_push(&d->incidents);
	*ret = (struct diagnosed){.id = a->incident,
				  .onset_ns = a->start_ns,
				  .end_ns = a->end_ns,
				  .told_ns = a->told_ns};
	return ret;
}

static void gather(struct diagnosing *x)
{
	for (size_t i = 0; i < x->list->rows.len; i++) {
		const struct anomaly *a = &x->list->rows.data[i].a;
		struct diagnosed *in = incident_of(x->ret, a);
		in->onset_ns = a->start_ns < in->onset_ns ? a->start_ns : in->onset_ns;
		in->end_ns = a->end_ns > in->end_ns ? a->end_ns : in->end_ns;
		in->told_ns = a->told_ns < in->told_ns ? a->told_ns : in->told_ns;
		*vec_push(&in->anomalies) = i;
	}
}

static const struct anomaly *anomaly_at(const struct diagnosing *x, const struct diagnosed *in,
					size_t i)
{
	return &x->list->rows.data[in->anomalies.data[i]].a;
}

/* Whose it is: the process that lost most. */
static void find_victim(const struct diagnosing *x, struct diagnosed *in)
{
	double most = -1;
	for (size_t i = 0; i < in->anomalies.len; i++) {
		const struct anomaly *a = anomaly_at(x, in, i);
		double lost = isnan(a->lost_ns) ? 0 : a->lost_ns;
		if (incident_rank(a) < incident_rank(anomaly_at(x, in, in->first)))
			in->first = i;
		if (a->pid && lost > most) {
			most = lost;
			in->pid = a->pid;
		}
	}
	in->cost_ns = most > 0 ? most : 0;
}

/* ---- stretches ---- */

static bool is_beside(const struct diagnosing *x, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		const struct diagnosed *in = &x->ret->incidents.data[i];
		if (from_ns < in->end_ns + BESIDE_NS && to_ns + BESIDE_NS > in->onset_ns)
			return true;
	}
	return false;
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

static double mean_length(const struct evidence_spans *spans)
{
	double ns = 0;
	for (size_t i = 0; i < spans->usual.len; i++)
		ns += (double)(spans->usual.data[i].to_ns - spans->usual.data[i].from_ns);
	return spans->usual.len ? ns / (double)spans->usual.len : 0;
}

/* Steps of the loop that has most of the incident. false: none is in it, or none is usual. */
static bool by_steps(const struct diagnosing *x, const struct diagnosed *in,
		     struct evidence_spans *ret)
{
	const struct steps_process *p = steps_of(x, in->pid);
	uint32_t thread = p ? thread_of(x->s->tables, p->pid, p->tid) : UINT32_MAX;
	uint32_t loop = UINT32_MAX;
	uint64_t most = 0;
	if (thread == UINT32_MAX)
		return false;
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
	for (size_t i = 0; i < p->steps.len && loop != UINT32_MAX; i++) {
		const struct steps_step *s = &p->steps.data[i];
		uint64_t middle = s->start_ns + (s->end_ns - s->start_ns) / 2;
		struct blame_span span = {
			.thread = thread, .from_ns = s->start_ns, .to_ns = s->end_ns};
		if (s->loop != loop)
			continue;
		if (middle >= in->onset_ns && middle < in->end_ns)
			*vec_push(&ret->slow) = span;
		else if (!is_beside(x, s->start_ns, s->end_ns))
			*vec_push(&ret->usual) = span;
	}
	for (size_t i = 0; i < ret->slow.len; i++)
		ret->slow.data[i].usual_ns = mean_length(ret);
	return ret->slow.len && ret->usual.len;
}

/* All of its time, and all that is in none. */
static bool by_time(const struct diagnosing *x, const struct diagnosed *in,
		    struct evidence_spans *ret)
{
	uint32_t thread = blame_busiest(x->w, in->pid, in->onset_ns, in->end_ns);
	double length = (double)(in->end_ns - in->onset_ns);
	uint64_t at = x->list->judged_from_ns;
	if (thread == UINT32_MAX || length <= 0)
		return false;
	ret->slow.len = ret->usual.len = 0;
	*vec_push(&ret->slow) = (struct blame_span){thread, in->onset_ns, in->end_ns,
						    length - fmin(in->cost_ns, 0.95 * length)};
	for (size_t i = 0; i < x->ret->incidents.len; i++) {
		const struct diagnosed *other = &x->ret->incidents.data[i];
		uint64_t until = other->onset_ns > BESIDE_NS ? other->onset_ns - BESIDE_NS : 0;
		if (until > at)
			*vec_push(&ret->usual) = (struct blame_span){thread, at, until, 0};
		at = other->end_ns + BESIDE_NS > at ? other->end_ns + BESIDE_NS : at;
	}
	if (x->list->judged_to_ns > at)
		*vec_push(&ret->usual) = (struct blame_span){thread, at, x->list->judged_to_ns, 0};
	return ret->usual.len;
}

/* ---- all of it ---- */

static void keep_steps(struct diagnosed *in, const struct evidence_spans *spans, struct blame *each)
{
	for (size_t i = 0; i < spans->slow.len; i++)
		*vec_push(&in->steps) =
			(struct diagnosed_step){.start_ns = spans->slow.data[i].from_ns,
						.end_ns = spans->slow.data[i].to_ns,
						.pid = in->pid,
						.blame = each[i]};
}

static void diagnose(const struct diagnosing *x, struct diagnosed *in)
{
	struct evidence_spans spans = {0};
	bool steps = by_steps(x, in, &spans);
	if (steps || by_time(x, in, &spans)) {
		struct blame *each = x->each ? xcalloc(spans.slow.len, sizeof(*each)) : NULL;
		evidence_make(&in->evidence, each, x->s, x->t, x->w, &spans);
		in->evidence.by_steps = steps;
		in->blamed = true;
		if (steps)
			in->cost_ns = fmax(0, evidence_excess(&in->evidence));
		cause_find(&in->cause, &in->evidence);
		if (each)
			keep_steps(in, &spans, each);
		free(each);
	}
	vec_free(&spans.slow);
	vec_free(&spans.usual);
}

void diagnosis_make(struct diagnosis *ret, const struct row_source *s, const struct timeline *t,
		    const struct steps *steps, const struct anomaly_list *list, bool each)
{
	struct diagnosing x = {
		.ret = ret, .s = s, .t = t, .steps = steps, .list = list, .each = each};
	*ret = (struct diagnosis){0};
	gather(&x);
	if (!ret->incidents.len)
		return;
	x.w = blame_world_new(s, t);
	for (size_t i = 0; i < ret->incidents.len; i++)
		find_victim(&x, &ret->incidents.data[i]);
	for (size_t i = 0; i < ret->incidents.len; i++) {
		diagnose(&x, &ret->incidents.data[i]);
		ret->cost_ns += ret->incidents.data[i].cost_ns;
	}
	blame_world_free(x.w);
}

void diagnosis_free(struct diagnosis *d)
{
	for (size_t i = 0; i < d->incidents.len; i++) {
		struct diagnosed *in = &d->incidents.data[i];
		for (size_t k = 0; k < in->steps.len; k++)
			blame_free(&in->steps.data[k].blame);
		vec_free(&in->steps);
		vec_free(&in->anomalies);
		if (in->blamed) {
			evidence_free(&in->evidence);
			cause_free(&in->cause);
		}
	}
	vec_free(&d->incidents);
}
