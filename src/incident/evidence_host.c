/* evidence_host.c - which events, counters and interfaces of the host are those of the victim: of
 * its host, its cgroup, its GPU, its connections. What they came to is evidence.c's concern. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "base/other_process.h"
#include "incident/evidence.h"

#define EVENT_BEFORE_NS 2000000000ULL /* the stretches: is of them */
#define ALONE_MOST	1.1 /* processes on the mean: one, which came or went meanwhile or not */
/* Of what the job sends or receives an interface carries so much: else it is not its one. Several
 * ranks on one host that send each other share an interface that carries it once. */
#define CARRIES_LEAST 0.2

static const struct m_source *source_of(const struct evidence *e, uint32_t pid)
{
	for (size_t i = e->t->processes.len; i-- > 0;) {
		const struct m_process *p = &e->t->processes.data[i];
		if (p->pid == pid)
			return p->source < e->t->sources.len ? &e->t->sources.data[p->source]
							     : NULL;
	}
	return NULL;
}

/* "node7" is also "node7#1": of hosts of one name, which cannot be told apart here. */
static bool is_host_of(const char *label, const char *host)
{
	size_t n = strlen(host);
	return !strncmp(label, host, n) && (!label[n] || label[n] == '#');
}

/* Whether a counter may be of the victim's host. What is not merged of several hosts has none. */
bool evidence_is_its_host(const struct evidence *e, const struct m_metric *m)
{
	const struct m_source *its = source_of(e, e->pid);
	const char *label = strtab_get(&e->t->strings, m->host, NULL);
	return !its || !*label || is_host_of(label, strtab_get(&e->t->strings, its->host, NULL));
}

/* Whether a process of the job may be on the victim's host. */
static bool is_beside(const struct evidence *e, uint32_t pid)
{
	const struct m_source *its = source_of(e, e->pid), *other = source_of(e, pid);
	return !its || !other || its->host == other->host;
}

static bool has_cpu_limit(const struct evidence *e)
{
	for (size_t i = e->t->processes.len; i-- > 0;)
		if (e->t->processes.data[i].pid == e->pid)
			return e->t->processes.data[i].cpu_limit > 0;
	return false;
}

/* Whose process is in which cgroup is not recorded: one of several is the victim's where that has a
 * limit at all. */
static bool may_be_its_cgroup(const struct evidence *e, uint32_t metric)
{
	const struct m_metric *of = &e->t->metrics.data[metric];
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct m_metric *m = &e->t->metrics.data[e->counters.data[i].metric];
		if (m->kind == ENTITY_CGROUP && m->name == of->name && m->label != of->label &&
		    evidence_is_its_host(e, m))
			return has_cpu_limit(e);
	}
	return true;
}

#define ANY_INSTANCE INT32_MIN

/* Whether a GPU, or an instance of one, may be of the victim: it has counters of that process, or
 * none has. */
static bool is_its_instance(const struct evidence *e, uint32_t gpu, int32_t instance)
{
	bool known = false;
	for (size_t i = 0; i < e->t->metrics.len; i++) {
		const struct m_metric *m = &e->t->metrics.data[i];
		if (m->kind != ENTITY_GPU || m->pid != e->pid || !evidence_is_its_host(e, m))
			continue;
		if (m->gpu == gpu && (instance == ANY_INSTANCE || m->instance == instance))
			return true;
		known = true;
	}
	return !known;
}

static bool is_its_gpu(const struct evidence *e, uint32_t gpu)
{
	return is_its_instance(e, gpu, ANY_INSTANCE);
}

bool evidence_has_process(const struct evidence *e, uint32_t pid)
{
	for (size_t i = 0; i < e->t->processes.len; i++)
		if (e->t->processes.data[i].pid == pid)
			return true;
	return false;
}

static bool is_of_its_host(const struct evidence *e, const struct entity *of)
{
	const struct m_source *its = source_of(e, e->pid);
	char *host = strndup(of->host, of->host_len);
	bool ret = !its || !*host || is_host_of(host, strtab_get(&e->t->strings, its->host, NULL));
	free(host);
	return ret;
}

/* An error comes before what it slows is over. */
static bool is_in_time(const struct evidence *e, const struct m_event *row)
{
	return row->time_ns < e->to_ns && row->time_ns + EVENT_BEFORE_NS >= e->from_ns;
}

const struct m_event *evidence_event(const struct evidence *e, const char *name)
{
	for (size_t i = 0; i < e->t->events.len; i++) {
		const struct m_event *row = &e->t->events.data[i];
		struct entity of;
		if (!is_in_time(e, row) ||
		    strcmp(strtab_get(&e->t->strings, row->name, NULL), name) != 0)
			continue;
		entity_parse(&of, strtab_get(&e->t->strings, row->entity, NULL));
		if (is_of_its_host(e, &of) && (of.kind != ENTITY_GPU || is_its_gpu(e, of.gpu)))
			return row;
	}
	return NULL;
}

/* A process of others on a GPU of the victim's. */
struct rival {
	uint32_t pid, gpu;
	int32_t instance;
	const struct m_event *came;
};

struct rivals {
	VEC(struct rival) list;
};

static void rivals_drop(struct rivals *r, const struct entity *of)
{
	for (size_t i = r->list.len; i-- > 0;) {
		const struct rival *at = &r->list.data[i];
		if (at->pid == of->pid && at->gpu == of->gpu && at->instance == of->instance)
			r->list.data[i] = r->list.data[--r->list.len];
	}
}

/* Who was there at some time of the evidence's, as far as it was told. */
static void find_rivals(struct rivals *ret, const struct evidence *e)
{
	for (size_t i = 0; i < e->t->events.len; i++) {
		const struct m_event *row = &e->t->events.data[i];
		const char *name = strtab_get(&e->t->strings, row->name, NULL);
		bool came = !strcmp(name, OTHER_PROCESS_BEGINS);
		struct entity of;
		if ((!came && strcmp(name, OTHER_PROCESS_ENDS) != 0) || row->time_ns >= e->to_ns)
			continue;
		entity_parse(&of, strtab_get(&e->t->strings, row->entity, NULL));
		if (of.kind != ENTITY_GPU || !of.pid || !is_its_instance(e, of.gpu, of.instance) ||
		    !is_of_its_host(e, &of) || evidence_has_process(e, of.pid))
			continue;
		if (came || row->time_ns < e->from_ns)
			rivals_drop(ret, &of);
		if (came)
			*vec_push(&ret->list) = (struct rival){of.pid, of.gpu, of.instance, row};
	}
}

static bool came_as_it_began(const struct evidence *e, const struct rival *r)
{
	return r->came->time_ns + EVENT_BEFORE_NS >= e->from_ns &&
	       r->came->time_ns < e->from_ns + EVENT_BEFORE_NS;
}

/* Of several, by pid, the one that came as it began, if no other did; alone: who is there at all.
 */
static const struct rival *one_of(const struct rivals *r, const struct evidence *e, bool alone)
{
	const struct rival *ret = NULL;
	for (size_t i = 0; i < r->list.len; i++) {
		const struct rival *at = &r->list.data[i];
		if (!alone && !came_as_it_began(e, at))
			continue;
		if (ret && ret->pid != at->pid)
			return NULL;
		ret = at;
	}
	return ret;
}

/* That one is there alone is known where as many were counted: of others that came before what is
 * recorded nothing was told. */
const struct m_event *evidence_gpu_rival(const struct evidence *e)
{
	const struct counter_change *counted = evidence_counter(e, ENTITY_GPU, "other_processes");
	struct rivals all = {0};
	find_rivals(&all, e);
	const struct rival *one = one_of(&all, e, false);
	if (!one && counted && !(counted->mean > ALONE_MOST))
		one = one_of(&all, e, true);
	const struct m_event *ret = one ? one->came : NULL;
	vec_free(&all.list);
	return ret;
}

const struct counter_change *evidence_counter(const struct evidence *e, unsigned kind,
					      const char *name)
{
	const struct counter_change *ret = NULL;
	double most = -1;
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		if (m->kind != kind || isnan(c->mean) ||
		    strcmp(strtab_get(&e->t->strings, m->name, NULL), name) != 0 ||
		    (kind == ENTITY_PROCESS && m->pid != e->pid) ||
		    (kind == ENTITY_GPU && !is_its_gpu(e, m->gpu)) || !evidence_is_its_host(e, m) ||
		    (kind == ENTITY_CGROUP && !may_be_its_cgroup(e, c->metric)))
			continue;
		double differs = isnan(c->usual) ? 0 : fabs(c->mean - c->usual);
		if (differs > most) {
			most = differs;
			ret = c;
		}
	}
	return ret;
}

/* Both directions; of one alone nothing is known. */
static struct net_rate link_rate_of(const struct evidence *e, const struct m_metric *gpu)
{
	static const char *const names[] = {"pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"};
	struct net_rate ret = {0, 0};
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		struct net_rate one = {NAN, NAN};
		for (size_t i = 0; i < e->counters.len; i++) {
			const struct counter_change *c = &e->counters.data[i];
			const struct m_metric *m = &e->t->metrics.data[c->metric];
			if (m->kind == ENTITY_GPU && m->gpu == gpu->gpu && m->host == gpu->host &&
			    !strcmp(strtab_get(&e->t->strings, m->name, NULL), names[k]))
				one = (struct net_rate){c->mean, c->usual};
		}
		ret.now += one.now;
		ret.usual += one.usual;
	}
	return ret;
}

struct net_rate evidence_link_rate(const struct evidence *e)
{
	struct net_rate ret = {NAN, NAN};
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct m_metric *m = &e->t->metrics.data[e->counters.data[i].metric];
		if (m->kind != ENTITY_GPU || !is_its_gpu(e, m->gpu) ||
		    !evidence_is_its_host(e, m) ||
		    strcmp(strtab_get(&e->t->strings, m->name, NULL), "pcie_rx_bytes_per_s") != 0)
			continue;
		struct net_rate at = link_rate_of(e, m);
		if (isnan(ret.now - ret.usual) || at.now - at.usual > ret.now - ret.usual)
			ret = at;
	}
	return ret;
}

struct net_rate evidence_net_rate(const struct evidence *e, const char *name)
{
	struct net_rate ret = {0, 0};
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		if (m->kind != ENTITY_PROCESS || !is_beside(e, m->pid) ||
		    strcmp(strtab_get(&e->t->strings, m->name, NULL), name) != 0)
			continue;
		ret.now += isnan(c->mean) ? 0 : c->mean;
		ret.usual += isnan(c->usual) ? 0 : c->usual;
	}
	return ret;
}

/* NaN: the interface is not the job's. */
static double foreign_of(const struct counter_change *c, const struct net_rate *job)
{
	if (!(job->usual > 0) || !(c->usual >= CARRIES_LEAST * job->usual))
		return NAN;
	return c->mean - c->usual / job->usual * job->now;
}

double evidence_foreign_net(const struct evidence *e, uint32_t *ret_name)
{
	double ret = 0;
	*ret_name = 0;
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		const char *name = strtab_get(&e->t->strings, m->name, NULL);
		bool sends = !strcmp(name, "sent_bytes_per_s");
		if (m->kind != ENTITY_INTERFACE || !evidence_is_its_host(e, m) || isnan(c->mean) ||
		    isnan(c->usual) || (!sends && strcmp(name, "received_bytes_per_s") != 0))
			continue;
		struct net_rate job =
			evidence_net_rate(e, sends ? "net_sent_bytes" : "net_received_bytes");
		double foreign = foreign_of(c, &job);
		if (isnan(foreign) || (*ret_name && foreign <= ret))
			continue;
		ret = foreign;
		*ret_name = m->label;
	}
	return ret;
}
