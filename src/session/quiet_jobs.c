/* quiet_jobs.c - the last call of each process. */
#include "session/quiet_jobs.h"

#include "base/layer.h"

#define QUIET_NS    2000000000ULL  /* without calls, until it is looked at */
#define AGAIN_NS    1000000000ULL  /* then, each time twice as long, */
#define AGAIN_MOST  30000000000ULL /* at most; what does not train has so long a rest */
#define CALLS_LEAST 200		   /* of a job that works */

enum { UNKNOWN, OPERATOR, OTHER };

void quiet_jobs_free(struct quiet_jobs *q)
{
	vec_free(&q->processes);
	vec_free(&q->of_probe);
	map64_free(&q->of_pid);
}

static bool is_operator(struct quiet_jobs *q, const struct detect_names *n, uint32_t probe)
{
	while (q->of_probe.len <= probe)
		vec_push(&q->of_probe);
	uint8_t *of = &q->of_probe.data[probe];
	const struct m_probe *row = *of == UNKNOWN ? n->probe(n->ctx, probe) : NULL;
	if (row) {
		const char *layer = n->string(n->ctx, row->layer);
		*of = layer_traits_of_name(layer) & LAYER_HAS_OPERATORS ? OPERATOR : OTHER;
	}
	return *of == OPERATOR;
}

static struct quiet_process *process_of(struct quiet_jobs *q, uint32_t pid)
{
	uint64_t at;
	if (map64_get(&q->of_pid, pid, &at))
		return &q->processes.data[at];
	map64_set(&q->of_pid, pid, q->processes.len);
	struct quiet_process *ret = vec_push(&q->processes);
	*ret = (struct quiet_process){.pid = pid};
	return ret;
}

static void forget(struct quiet_jobs *q, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&q->of_pid, pid, &at))
		return;
	map64_del(&q->of_pid, pid);
	q->processes.data[at] = q->processes.data[--q->processes.len];
	if (at < q->processes.len)
		map64_set(&q->of_pid, q->processes.data[at].pid, at);
}

void quiet_jobs_take(struct quiet_jobs *q, const struct session_view *v)
{
	const struct feed_batch *b = v->batch;
	struct quiet_process *p = NULL;
	uint32_t thread = 0;
	for (size_t i = 0; i < b->calls.len; i++) {
		const struct m_call *c = &b->calls.data[i];
		if (!is_operator(q, v->names, c->probe))
			continue;
		if (!p || c->thread != thread) {
			const struct m_thread *t = v->names->thread(v->names->ctx, c->thread);
			p = t ? process_of(q, t->pid) : NULL;
			thread = c->thread;
		}
		if (!p)
			continue;
		p->calls++;
		if (c->start_ns + c->dur_ns > p->last_ns)
			p->last_ns = c->start_ns + c->dur_ns;
	}
	for (size_t i = 0; i < b->processes.len; i++)
		if (b->processes.data[i].end_ns)
			forget(q, b->processes.data[i].pid);
}

static bool is_due(const struct quiet_process *p, uint64_t now_ns)
{
	bool known = p->quiet_ns == p->last_ns;
	return p->calls >= CALLS_LEAST && p->last_ns + QUIET_NS <= now_ns && p->rest_ns <= now_ns &&
	       (!known || p->due_ns <= now_ns);
}

bool quiet_jobs_due(const struct quiet_jobs *q, uint64_t now_ns)
{
	for (size_t i = 0; i < q->processes.len; i++)
		if (is_due(&q->processes.data[i], now_ns))
			return true;
	return false;
}

void quiet_jobs_looked(struct quiet_jobs *q, uint64_t now_ns,
		       bool (*trains)(const void *ctx, uint32_t pid), const void *ctx)
{
	for (size_t i = 0; i < q->processes.len; i++) {
		struct quiet_process *p = &q->processes.data[i];
		if (!is_due(p, now_ns))
			continue;
		if (p->quiet_ns != p->last_ns)
			p->wait_ns = AGAIN_NS;
		bool may_stand = trains(ctx, p->pid);
		p->quiet_ns = p->last_ns;
		p->due_ns = may_stand ? now_ns + p->wait_ns : UINT64_MAX;
		p->rest_ns = may_stand ? 0 : now_ns + AGAIN_MOST;
		p->wait_ns = p->wait_ns < AGAIN_MOST / 2 ? p->wait_ns * 2 : AGAIN_MOST;
	}
}

uint64_t quiet_jobs_last_ns(const struct quiet_jobs *q, uint32_t pid)
{
	uint64_t at;
	return map64_get(&q->of_pid, pid, &at) ? q->processes.data[at].last_ns : 0;
}
