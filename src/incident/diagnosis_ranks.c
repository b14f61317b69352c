/* diagnosis_ranks.c - one incident for what several ranks of a job have of one fault.
 *
 * Which rank lost most says little: the one that is late does what makes it late for as long as the
 * others wait for it. So an incident of a rank is looked at from another rank's side as well. Where
 * that waited for the first, or where incidents of their own overlap, the one that waited is left:
 * its cause is a straggler, and why that one was late is what was found of it. */
#include <math.h>
#include <stdlib.h>

#include "incident/diagnosis_impl.h"

#define OVERLAP 0.5 /* of the shorter of two that are one */

/* ---- before ---- */

static const struct m_process *process_of(const struct diagnosing *x, uint32_t pid)
{
	const struct rec_tables *t = x->s->tables;
	for (size_t i = t->processes.len; i-- > 0;)
		if (t->processes.data[i].pid == pid)
			return &t->processes.data[i];
	return NULL;
}

static bool are_ranks(const struct diagnosing *x, uint32_t pid, uint32_t other)
{
	const struct m_process *a = process_of(x, pid), *b = process_of(x, other);
	if (!a || !b || pid == other)
		return false;
	return a->rank >= 0 ? b->rank >= 0 && a->rank != b->rank
			    : b->rank < 0 && a->parent_pid > 1 && a->parent_pid == b->parent_pid;
}

/* What a process lost by the incident's anomalies. */
static double lost_by(const struct diagnosing *x, const struct diagnosed *in, uint32_t pid)
{
	double most = 0;
	for (size_t i = 0; i < in->anomalies.len; i++) {
		const struct anomaly *a = &x->list->rows.data[in->anomalies.data[i]].a;
		if (a->pid == pid && a->lost_ns > most) /* not of NaN */
			most = a->lost_ns;
	}
	return most;
}

/* Whether a process has an incident at the time of one. */
static bool has_its_own(const struct diagnosis *d, uint32_t pid, const struct diagnosed *in)
{
	for (size_t i = 0; i < d->incidents.len; i++) {
		const struct diagnosed *own = &d->incidents.data[i];
		if (own->pid == pid && own->onset_ns < in->end_ns && in->onset_ns < own->end_ns)
			return true;
	}
	return false;
}

/* The other rank that lost most; 0: there is none with steps, or one has an incident of its own. */
static uint32_t other_rank(const struct diagnosing *x, const struct diagnosed *in)
{
	uint32_t ret = 0;
	double most = -1;
	for (size_t i = 0; i < x->steps->processes.len; i++) {
		const struct steps_process *p = &x->steps->processes.data[i];
		if (!p->steps.len || !are_ranks(x, in->pid, p->pid))
			continue;
		if (has_its_own(x->ret, p->pid, in))
			return 0;
		double lost = lost_by(x, in, p->pid);
		if (lost > most) {
			most = lost;
			ret = p->pid;
		}
	}
	return ret;
}

void diagnosis_ask_ranks(struct diagnosing *x)
{
	size_t n = x->ret->incidents.len;
	for (size_t i = 0; i < n; i++) {
		uint32_t pid = other_rank(x, &x->ret->incidents.data[i]);
		if (!pid)
			continue;
		struct diagnosed other = x->ret->incidents.data[i];
		other.anomalies.data = NULL;
		other.anomalies.len = other.anomalies.cap = 0;
		for (size_t k = 0; k < x->ret->incidents.data[i].anomalies.len; k++)
			*vec_push(&other.anomalies) = x->ret->incidents.data[i].anomalies.data[k];
		other.pid = pid;
		other.aside = true;
		*vec_push(&x->ret->incidents) = other;
	}
}

/* ---- after ---- */

static bool overlap(const struct diagnosed *a, const struct diagnosed *b)
{
	uint64_t from = a->onset_ns > b->onset_ns ? a->onset_ns : b->onset_ns;
	uint64_t to = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;
	double shorter = fmin((double)(a->end_ns - a->onset_ns), (double)(b->end_ns - b->onset_ns));
	return to > from && (double)(to - from) >= OVERLAP * shorter;
}

static bool waited(const struct diagnosed *in)
{
	return in->blamed && in->cause.culprit.kind == CULPRIT_RANK;
}

static void take_time(struct diagnosed *to, const struct diagnosed *from)
{
	to->onset_ns = from->onset_ns < to->onset_ns ? from->onset_ns : to->onset_ns;
	to->end_ns = from->end_ns > to->end_ns ? from->end_ns : to->end_ns;
	to->told_ns = from->told_ns < to->told_ns ? from->told_ns : to->told_ns;
}

/* It has them all, in their order, if both are of one incident. */
static void take_anomalies(struct diagnosed *to, const struct diagnosed *from)
{
	for (size_t i = 0; i < from->anomalies.len; i++) {
		bool known = false;
		for (size_t k = 0; k < to->anomalies.len; k++)
			known |= to->anomalies.data[k] == from->anomalies.data[i];
		if (!known)
			*vec_push(&to->anomalies) = from->anomalies.data[i];
	}
}

static bool is_network(enum cause c)
{
	return c == CAUSE_NETWORK || c == CAUSE_NET_BANDWIDTH || c == CAUSE_NET_LOSS ||
	       c == CAUSE_NET_FOREIGN;
}

/* Whether b is told by a: of the rank that a waited for, or of another that waited for it. */
static bool is_told_by(const struct diagnosed *a, const struct diagnosed *b)
{
	if (!waited(a) || !overlap(a, b) || a->beside || b->beside)
		return false;
	if (b->pid == a->cause.culprit.pid) /* a network between them is no rank's own */
		return !waited(b) && !(b->blamed && is_network(b->cause.cause));
	return waited(b) && b->cause.culprit.pid == a->cause.culprit.pid &&
	       (b->aside || b->cost_ns <= a->cost_ns);
}

/* What was found of the rank itself is why it was late. */
static void take_why(struct diagnosed *to, const struct diagnosed *from)
{
	if (!from->blamed || from->pid != to->cause.culprit.pid ||
	    from->cause.cause == CAUSE_UNKNOWN)
		return;
	to->cause.why = from->cause.cause;
	to->cause.why_culprit = from->cause.culprit;
}

static void drop(struct diagnosis *d, size_t at)
{
	diagnosed_free(&d->incidents.data[at]);
	for (size_t i = at; i + 1 < d->incidents.len; i++)
		d->incidents.data[i] = d->incidents.data[i + 1];
	d->incidents.len--;
}

/* Joins to one that is there, so that those aside of which nothing was waited for are left out. */
void diagnosis_join_ranks(struct diagnosis *d)
{
	for (size_t i = 0; i < d->incidents.len; i++)
		for (size_t k = d->incidents.len; k-- > 0 && i < d->incidents.len;) {
			struct diagnosed *a = &d->incidents.data[i], *b = &d->incidents.data[k];
			if (i == k || !is_told_by(a, b))
				continue;
			take_why(a, b);
			take_time(a, b);
			take_anomalies(a, b);
			a->aside &= b->aside;
			drop(d, k);
			i -= k < i;
		}
	for (size_t i = d->incidents.len; i-- > 0;)
		if (d->incidents.data[i].aside)
			drop(d, i);
	for (size_t i = d->incidents.len; i-- > 0;)
		if (d->incidents.data[i].beside &&
		    !diagnosis_came_to(d, &d->incidents.data[i])) /* it was joined to another's */
			drop(d, i);
}
