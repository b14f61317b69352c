/* standing.c - who makes no calls any more, and who of them waits for others. */
#include "incident/standing.h"

#include <stdlib.h>

#include "base/layer.h"
#include "base/map64.h"
#include "events/visitor.h"

#define QUIET_NS      1000000000ULL /* without calls: it is looked at */
#define STILL_NS      3000000000ULL /* it stands still, if that is beyond what is usual: */
#define STILL_STEPS   10	    /* so many times the median step, */
#define STILL_LONGEST 2		    /* and the longest */
#define STEPS_LEAST   8
#define CHILDREN_MOST 256
#define WORKS	      0.1 /* CPUs: what a process does meanwhile is work */

/* ---- who trains ---- */

static const struct m_process *process_of(const struct rec_tables *t, uint32_t pid)
{
	for (size_t i = t->processes.len; i-- > 0;)
		if (t->processes.data[i].pid == pid)
			return &t->processes.data[i];
	return NULL;
}

/* And what they have started. A table of a damaged file may be any. */
static void add_children(struct standings *to, const struct rec_tables *t,
			 struct standing_process *p)
{
	p->first_child = to->children.len;
	for (size_t next = p->first_child, i; next <= to->children.len; next++) {
		uint32_t of = next == p->first_child ? p->pid : to->children.data[next - 1];
		for (i = 0; i < t->processes.len && p->children < CHILDREN_MOST; i++) {
			const struct m_process *child = &t->processes.data[i];
			if (child->parent_pid != of || child->end_ns)
				continue;
			*vec_push(&to->children) = child->pid;
			p->children++;
		}
	}
}

static bool is_of_anomaly(const struct steps_step *s, const struct anomaly *anomalies, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (anomalies[i].start_ns < s->end_ns && s->start_ns < anomalies[i].end_ns)
			return true;
	return false;
}

static uint64_t longest_usual(const struct steps_process *p, const struct steps_loop *l,
			      const struct anomaly *anomalies, size_t n)
{
	uint64_t ret = 0;
	for (size_t i = l->first; i < l->first + l->steps; i++) {
		const struct steps_step *s = &p->steps.data[i];
		if (s->end_ns - s->start_ns > ret && !is_of_anomaly(s, anomalies, n))
			ret = s->end_ns - s->start_ns;
	}
	return ret;
}

static void add_process(struct standings *to, const struct rec_tables *t,
			const struct steps_process *p, const struct anomaly *anomalies, size_t n)
{
	const struct steps_loop *l = steps_main_loop(p);
	const struct m_process *row = process_of(t, p->pid);
	if (!l || l->kind != STEPS_TRAINING || l->steps < STEPS_LEAST || !row || row->end_ns)
		return;
	struct standing_process *ret = vec_push(&to->processes);
	*ret = (struct standing_process){
		.pid = p->pid,
		.parent_pid = row->parent_pid,
		.tid = p->tid,
		.comm = row->comm,
		.rank = row->rank,
		.median_ns = l->median_ns,
		.longest_ns = l->max_ns,
		.usual_ns = longest_usual(p, l, anomalies, n),
	};
	add_children(to, t, ret);
}

static bool are_of_one_job(const struct standing_process *p, const struct m_process *other)
{
	return other && p->parent_pid > 1 && p->parent_pid == other->parent_pid;
}

/* The first that lasts, or did when it stood still: rows of one that began later would say the same
 * again. */
static void find_incident(struct standing_process *p, const struct rec_tables *t,
			  const struct anomaly *anomalies, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct anomaly *a = &anomalies[i];
		bool is_its =
			a->pid == p->pid || (a->pid && are_of_one_job(p, process_of(t, a->pid)));
		bool lasts = !a->ended || a->end_ns > p->since_ns;
		if (lasts && a->incident && is_its && (!p->incident || a->incident < p->incident))
			p->incident = a->incident;
	}
}

/* ---- when they called last ---- */

struct last_calls {
	struct map64 process_of; /* pid -> index */
	VEC(bool) is_operator;	 /* by probe */
};

static void learn_probes(struct last_calls *l, const struct rec_tables *t)
{
	for (size_t i = 0; i < t->probes.len; i++) {
		const char *layer = strtab_get(&t->strings, t->probes.data[i].layer, NULL);
		*vec_push(&l->is_operator) = layer_traits_of_name(layer) & LAYER_HAS_OPERATORS;
	}
}

/* Operators of any thread are the job's work. Of other layers only the loop's own thread counts:
 * libraries have threads that look after what hangs. */
static void take_call(struct standings *to, const struct last_calls *l, const struct rec_tables *t,
		      const struct m_call *c)
{
	uint64_t at;
	if (c->thread >= t->threads.len ||
	    !map64_get(&l->process_of, t->threads.data[c->thread].pid, &at))
		return;
	struct standing_process *p = &to->processes.data[at];
	bool is_operator = c->probe < l->is_operator.len && l->is_operator.data[c->probe];
	if (!is_operator && t->threads.data[c->thread].tid != p->tid)
		return;
	uint64_t end_ns = c->start_ns + c->dur_ns;
	p->since_ns = end_ns > p->since_ns ? end_ns : p->since_ns;
}

static void find_last_calls(struct standings *to, const struct row_source *s)
{
	struct last_calls l = {0};
	learn_probes(&l, s->tables);
	for (size_t i = 0; i < to->processes.len; i++)
		map64_set(&l.process_of, to->processes.data[i].pid, i);
	for (size_t i = 0; i < source_call_blocks(s); i++) {
		struct m_calls calls = {0};
		struct err e;
		if (!source_read_calls(s, i, &calls, &e))
			for (size_t k = 0; k < calls.len; k++)
				take_call(to, &l, s->tables, &calls.rows[k]);
		m_calls_free(&calls);
	}
	map64_free(&l.process_of);
	vec_free(&l.is_operator);
}

static void find_jobs(struct standings *s)
{
	for (uint32_t i = 0; i < s->processes.len; i++) {
		struct standing_process *p = &s->processes.data[i];
		p->job = 0;
		while (p->job < i && (p->parent_pid <= 1 ||
				      s->processes.data[p->job].parent_pid != p->parent_pid))
			p->job++;
	}
}

static int by_rank(const void *a, const void *b)
{
	const struct standing_process *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static bool has(const struct standings *s, uint32_t pid)
{
	for (size_t i = 0; i < s->processes.len; i++)
		if (s->processes.data[i].pid == pid)
			return true;
	return false;
}

static void add_known(struct standings *to, const struct rec_tables *t,
		      const struct standing_process *known)
{
	const struct m_process *row = process_of(t, known->pid);
	if (has(to, known->pid) || !row || row->end_ns)
		return;
	struct standing_process *p = vec_push(&to->processes);
	*p = *known;
	p->incident = 0;
	p->children = 0;
	p->waits = false;
	add_children(to, t, p);
}

void standings_make(struct standings *ret, const struct row_source *s,
		    const struct standings_asked *asked)
{
	const struct steps *steps = asked->steps;
	*ret = (struct standings){.now_ns = asked->now_ns};
	for (size_t i = 0; i < steps->processes.len; i++)
		add_process(ret, s->tables, &steps->processes.data[i], asked->anomalies,
			    asked->anomalies_len);
	for (size_t i = 0; i < asked->known_len; i++)
		add_known(ret, s->tables, &asked->known[i]);
	if (!ret->processes.len)
		return;
	qsort(ret->processes.data, ret->processes.len, sizeof(*ret->processes.data), by_rank);
	find_jobs(ret);
	find_last_calls(ret, s);
	for (size_t i = 0; i < ret->processes.len; i++)
		find_incident(&ret->processes.data[i], s->tables, asked->anomalies,
			      asked->anomalies_len);
}

void standings_free(struct standings *s)
{
	vec_free(&s->processes);
	vec_free(&s->children);
}

/* ---- what they do ---- */

static uint64_t quiet_ns(const struct standings *s, const struct standing_process *p)
{
	return s->now_ns > p->since_ns && p->since_ns ? s->now_ns - p->since_ns : 0;
}

bool standing_is_quiet(const struct standings *s, const struct standing_process *p)
{
	return quiet_ns(s, p) >= QUIET_NS;
}

/* What it waits for may do the job's work: a process that it started, or who holds it. */
static bool may_go_on(enum wait_reason reason)
{
	return reason == WAIT_CHILD || reason == WAIT_HELD || reason == WAIT_PREEMPTED;
}

/* Other threads of the process, or other processes, work for it. */
static bool is_worked_for(const struct thread_now *before, const struct thread_now *now)
{
	return now->cpu_ns > before->cpu_ns &&
	       (double)(now->cpu_ns - before->cpu_ns) >=
		       WORKS * (double)(now->time_ns - before->time_ns);
}

void standing_saw(struct standing_process *p, const struct thread_now *before,
		  const struct thread_now *now)
{
	bool stopped = now->state == 'T' || now->state == 't';
	p->reason = stopped ? WAIT_STOPPED : now->reason;
	p->waits = (stopped || now->state == 'S' || now->state == 'D') && before &&
		   before->time_ns + STANDING_APART_NS <= now->time_ns &&
		   before->switches == now->switches && !may_go_on(p->reason) &&
		   !is_worked_for(before, now);
}

static bool stands_still(const struct standings *s, const struct standing_process *p, bool caused)
{
	uint64_t longest_ns = caused ? p->longest_ns : p->usual_ns, ns = quiet_ns(s, p);
	return p->waits && ns >= STILL_NS && ns / STILL_STEPS >= p->median_ns &&
	       ns / STILL_LONGEST >= longest_ns;
}

/* ---- what is told ---- */

/* It waits for no other process of its job. */
static bool waits_for_none(const struct standing_process *p)
{
	return p->reason == WAIT_SLEEP || p->reason == WAIT_DISK || p->reason == WAIT_PAGE_FAULT ||
	       p->reason == WAIT_STOPPED;
}

/* A process by itself that waits for events may wait for a person or for requests, if nothing that
 * it has started works for it. */
static bool may_idle(const struct standing_process *p)
{
	return p->reason != WAIT_FUTEX && p->reason != WAIT_GPU && !p->children;
}

uint32_t standings_job(const struct standings *s, uint64_t incident)
{
	for (size_t i = 0; i < s->processes.len && incident; i++)
		if (s->processes.data[i].incident == incident)
			return s->processes.data[i].job;
	return STANDING_NONE;
}

/* Returns how many processes of the job do not stand still. */
static size_t gather(struct standing *ret, const struct standings *s, uint32_t job, bool caused)
{
	size_t others = 0, by_themselves = 0;
	ret->processes.len = 0;
	ret->since_ns = UINT64_MAX;
	ret->culprit = NULL;
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct standing_process *p = &s->processes.data[i];
		if (p->job != job)
			continue;
		if (!stands_still(s, p, caused)) {
			others++;
			continue;
		}
		*vec_push(&ret->processes) = p;
		ret->since_ns = p->since_ns < ret->since_ns ? p->since_ns : ret->since_ns;
		if (waits_for_none(p))
			ret->culprit = by_themselves++ ? NULL : p;
	}
	ret->waits_for_none = by_themselves > 0;
	return others;
}

bool standing_of(struct standing *ret, const struct standings *s, uint32_t job, bool caused)
{
	*ret = (struct standing){.now_ns = s->now_ns};
	size_t others = gather(ret, s, job, false);
	if (ret->waits_for_none)
		return true;
	if (caused)
		others = gather(ret, s, job, true);
	/* the others may go on, and they wait for these */
	return ret->processes.len && !others &&
	       (ret->processes.len > 1 || !may_idle(ret->processes.data[0]));
}

void standing_free(struct standing *s)
{
	vec_free(&s->processes);
}
