/* causes.c - the rules: how much of an incident's excess each cause explains. */
#include "incident/causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "incident/cause_words.h"
#include "incident/causes_calls.h"
#include "incident/causes_memory.h"
#include "wire/stalls.h"

/* What could be anything is told where nothing says more: it counts so much of what it explains. */
#define GENERAL	      0.6
#define LEAST_SHARE   0.15 /* of the excess: a cause that explains less is none */
#define MORE_CALLS    1.3  /* times as many: more often than usual */
#define CALLS_A_STEP  10   /* so many more make a step launch-bound */
#define CALLS_SHARE   0.15 /* of the excess: the calls' own time, where they are the reason */
#define GONE_CALLS    0.2  /* of the usual number: is hardly called any more */
#define IRQ_SHARE     0.02 /* more of the host's time in interrupts */
#define SAVES_SHARE   0.2  /* of waits for what was written: such are a checkpoint's */
#define CULPRIT_SHARE 0.5  /* of the time without a CPU: less is nobody's fault alone */
#define GONE_SHARE    0.3  /* of the usual time: what was done before is not done now */

/* Whether a part is of whom the evidence is looked at for. */
static bool is_looked_at(const struct evidence *e, const struct blame_part *p)
{
	return p->owner.peer == e->peer;
}

#define SEGMENT_BYTES 1448.0 /* of TCP over Ethernet */
#define FOREIGN_SHARE 0.2    /* of an interface's bytes: less that others have is no reason */
#define FOREIGN_LEAST 1e6    /* bytes a second: likewise */
#define LOSS_LEAST    0.003  /* of segments: fewer that are sent again are no reason */
#define LOSS_TIMES    3	     /* as many as usual */
/* Times as long as usual, and by so much: packets wait in a queue. */
#define QUEUE_TIMES    1.5
#define QUEUE_LEAST_NS 1e6
#define MOVED_LEAST    1e6 /* bytes a second: who moves fewer waits for something else */

static double part_sum(const struct evidence *e, bool (*is)(const struct blame_owner *o))
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (is_looked_at(e, p) && is(&p->owner))
			ns += p->ns;
	}
	return ns;
}

/* The greatest of the parts that are so; NULL: none. */
static const struct blame_part *top_part(const struct evidence *e,
					 bool (*is)(const struct blame_owner *o))
{
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (is_looked_at(e, p) && is(&p->owner))
			return p;
	}
	return NULL;
}

/* Of its own process: its threads take the CPU from each other. */
static double own_ready(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (is_looked_at(e, p) && p->owner.kind == BLAME_SIBLING && p->owner.pid == e->pid)
			ns += p->ns;
	}
	return ns;
}

static double counter_more(const struct evidence *e, unsigned kind, const char *name)
{
	const struct counter_change *c = evidence_counter(e, kind, name);
	return c ? c->mean - (isnan(c->usual) ? 0 : c->usual) : 0;
}

/* ---- what owners are ---- */

static bool is_taker(const struct blame_owner *o)
{
	return o->kind == BLAME_RIVAL || o->kind == BLAME_SIBLING;
}

static bool is_no_cpu(const struct blame_owner *o)
{
	return o->kind == BLAME_NO_CPU;
}

static bool is_ready(const struct blame_owner *o)
{
	return o->kind == BLAME_RIVAL || o->kind == BLAME_SIBLING || o->kind == BLAME_NO_CPU;
}

static bool is_data(const struct blame_owner *o)
{
	return o->via == VIA_DATA && !is_ready(o);
}

static bool is_disk(const struct blame_owner *o)
{
	return o->kind == BLAME_DISK && o->via != VIA_DATA;
}

static bool is_write(const struct blame_owner *o)
{
	return o->kind == BLAME_WRITE && o->via != VIA_DATA;
}

static bool is_save(const struct blame_owner *o)
{
	return o->kind == BLAME_SAVES;
}

static bool is_collector(const struct blame_owner *o)
{
	return o->kind == BLAME_COLLECTS;
}

static bool is_gil(const struct blame_owner *o)
{
	return o->kind == BLAME_GIL || (o->via == VIA_GIL && !is_ready(o));
}

static bool is_lock(const struct blame_owner *o)
{
	return o->kind == BLAME_LOCK;
}

static bool is_line(const struct blame_owner *o)
{
	return (o->kind == BLAME_RUNS || o->kind == BLAME_SLEEP) && o->via != VIA_DATA &&
	       o->via != VIA_GIL;
}

static bool is_spread(const struct blame_owner *o)
{
	return o->kind == BLAME_SPREAD && o->via != VIA_DATA && o->via != VIA_GIL;
}

static bool is_memory(const struct blame_owner *o)
{
	return o->kind == BLAME_FAULTS;
}

static bool is_paging(const struct blame_owner *o)
{
	return o->kind == BLAME_MEMORY;
}

static bool is_gpu_work(const struct blame_owner *o)
{
	return o->kind == BLAME_GPU_WORKS || o->kind == BLAME_GPU;
}

static bool is_gpu(const struct blame_owner *o)
{
	return is_gpu_work(o) || o->kind == BLAME_GPU_IDLE;
}

static bool is_ranks(const struct blame_owner *o)
{
	return o->kind == BLAME_RANKS;
}

static bool is_stopped(const struct blame_owner *o)
{
	return o->kind == BLAME_STOPPED;
}

static bool is_network(const struct blame_owner *o)
{
	return o->kind == BLAME_NETWORK;
}

/* ---- calls ---- */

static bool has_role(const struct evidence *e, const struct call_growth *c,
		     const char *const *roles)
{
	const char *role = strtab_get(&e->t->strings, e->t->probes.data[c->probe].role, NULL);
	for (; *roles; roles++)
		if (!strcmp(role, *roles))
			return true;
	return false;
}

static bool has_name(const struct evidence *e, const struct call_growth *c,
		     const char *const *names)
{
	const char *name = strtab_get(&e->t->strings, e->t->probes.data[c->probe].name, NULL);
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

static bool is_of_layer(const struct evidence *e, const struct call_growth *c, const char *layer)
{
	return !strcmp(strtab_get(&e->t->strings, e->t->probes.data[c->probe].layer, NULL), layer);
}

static struct call_growth calls_of(const struct evidence *e,
				   bool (*is)(const struct evidence *e,
					      const struct call_growth *c))
{
	struct call_growth ret = {0};
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (!is(e, c))
			continue;
		ret.n += c->n;
		ret.usual_n += c->usual_n;
		ret.ns += c->ns;
		ret.usual_ns += c->usual_ns;
	}
	return ret;
}

static bool syncs(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"sync", NULL};
	static const char *const names[] = {"aten::item", "aten::_local_scalar_dense", NULL};
	return has_role(e, c, roles) || has_name(e, c, names);
}

static bool launches(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"launch", "graph_launch", NULL};
	return has_role(e, c, roles) || is_of_layer(e, c, "torch");
}

static bool allocates(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"alloc",	   "free",	 "host_alloc",
					    "host_free",   "vmm_create", "vmm_map",
					    "vmm_release", "vmm_unmap",	 NULL};
	return has_role(e, c, roles);
}

static bool copies(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"copy", "copy_htod", "copy_dtoh", NULL};
	return has_role(e, c, roles);
}

/* Of functions that were called more often than usual alone: by how much. */
static struct call_growth more_of(const struct evidence *e,
				  bool (*is)(const struct evidence *e, const struct call_growth *c))
{
	struct call_growth ret = {0};
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (!is(e, c) || c->n < MORE_CALLS * c->usual_n)
			continue;
		ret.n += c->n - c->usual_n;
		ret.ns += fmax(0, c->ns - c->usual_ns);
	}
	return ret;
}

/* ---- rules: the ns that a cause explains ---- */

/* Another thread of the process that runs Python had the lock for a while. */
static bool holds_gil(const struct evidence *e)
{
	return part_sum(e, is_gil) > 0.1 * evidence_excess(e);
}

/* CPU time that a quota held back, beyond usual; NaN: that was not recorded. */
static double throttled_ns(const struct evidence *e)
{
	if (!evidence_counter(e, ENTITY_CGROUP, "throttled_ratio"))
		return NAN;
	return fmax(0, counter_more(e, ENTITY_CGROUP, "throttled_ratio")) * e->blame.whole_ns;
}

/* Where no cgroup was told of, CPUs that nobody was seen on may have been kernel threads'. */
static double cpu_throttle(const struct evidence *e)
{
	double told = throttled_ns(e);
	return isnan(told) ? GENERAL * part_sum(e, is_no_cpu) : fmin(told, part_sum(e, is_ready));
}

static double cpu_contention(const struct evidence *e)
{
	double ready = part_sum(e, is_ready), told = throttled_ns(e);
	ready -= holds_gil(e) ? own_ready(e) : 0;
	return fmax(0, ready - (isnan(told) ? part_sum(e, is_no_cpu) : told));
}

static double cpu_stolen(const struct evidence *e)
{
	bool known = evidence_counter(e, ENTITY_HOST, "job_cpus_steal_ratio");
	double more =
		counter_more(e, ENTITY_HOST, known ? "job_cpus_steal_ratio" : "cpu_steal_ratio");
	return fmin(more * e->blame.whole_ns, part_sum(e, is_spread) + part_sum(e, is_no_cpu));
}

static bool is_reclaim(const struct blame_owner *o)
{
	return o->kind == BLAME_RECLAIMS;
}

static bool is_filling(const struct blame_owner *o)
{
	return o->kind == BLAME_FILLS && o->via != VIA_DATA;
}

static bool is_interrupted(const struct blame_owner *o)
{
	return o->kind == BLAME_INTERRUPTED;
}

/* What is read into a full cgroup takes the place of what is read again later. */
static double memory_reclaim(const struct evidence *e)
{
	double paging = part_sum(e, is_paging);
	double stalls = counter_more(e, ENTITY_HOST, "direct_reclaim_stalls_per_s");
	return paging + part_sum(e, is_reclaim) + (stalls > 1 ? part_sum(e, is_memory) : 0) +
	       (causes_full_cgroup(e) ? part_sum(e, is_filling) : 0);
}

/* All code is slower alike, and memory is another node's. */
static double numa(const struct evidence *e)
{
	return causes_remote_memory(e) ? part_sum(e, is_spread) : 0;
}

static double mem_bandwidth(const struct evidence *e)
{
	return GENERAL * part_sum(e, is_spread);
}

static double checkpoint(const struct evidence *e)
{
	double saves = part_sum(e, is_save), writes = part_sum(e, is_write);
	return saves > SAVES_SHARE * writes ? saves + writes : 0;
}

static double disk(const struct evidence *e)
{
	return part_sum(e, is_disk) + GENERAL * part_sum(e, is_write) +
	       (causes_full_cgroup(e) ? 0 : part_sum(e, is_filling));
}

static double data_loader(const struct evidence *e)
{
	return part_sum(e, is_data);
}

static double python_gc(const struct evidence *e)
{
	return part_sum(e, is_collector);
}

static double python_gil(const struct evidence *e)
{
	return part_sum(e, is_gil) + (holds_gil(e) ? own_ready(e) : 0);
}

static double lock(const struct evidence *e)
{
	return GENERAL * part_sum(e, is_lock);
}

/* Much of what is usually called is not: an evaluation, another phase. */
static bool does_other_work(const struct evidence *e)
{
	double all = 0, gone = 0;
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (!is_of_layer(e, c, "torch"))
			continue;
		all += c->usual_ns;
		gone += c->n < GONE_CALLS * c->usual_n ? c->usual_ns : 0;
	}
	return e->by_steps && gone > GONE_SHARE * all;
}

static double other_work(const struct evidence *e)
{
	return does_other_work(e) ? evidence_excess(e) : 0;
}

/* Of what ran longer the part that is in calls which became slower. Where the GPU's work is waited
 * for longer, calls may wait for room in its queue. */
static double in_slow_calls(const struct evidence *e)
{
	double lines = part_sum(e, is_line);
	if (does_other_work(e) || e->peer ||
	    part_sum(e, is_gpu_work) >= LEAST_SHARE * evidence_excess(e))
		return 0;
	return fmin(lines, causes_slow_calls(e, evidence_excess(e) - lines, NULL));
}

static double slow_code(const struct evidence *e)
{
	return does_other_work(e) ? 0 : GENERAL * (part_sum(e, is_line) - in_slow_calls(e));
}

static double slow_call(const struct evidence *e)
{
	return GENERAL * in_slow_calls(e);
}

/* What ran longer on the host, where that is because more was to be launched. */
static double ran_longer(const struct evidence *e)
{
	return part_sum(e, is_line) + part_sum(e, is_spread);
}

/* More operations, each of them small beside usual ones. */
static double launch_bound(const struct evidence *e)
{
	struct call_growth c = calls_of(e, launches), more = more_of(e, launches);
	struct call_growth s = more_of(e, syncs);
	double mean = more.n > 0 ? more.ns / more.n : 0;
	double usual = c.usual_n > 0 ? c.usual_ns / c.usual_n : 0;
	if (does_other_work(e) || more.n < CALLS_A_STEP * (double)e->n_slow || more.n < 4 * s.n ||
	    mean > usual || more.ns < CALLS_SHARE * evidence_excess(e))
		return 0;
	return ran_longer(e);
}

static double excess_sync(const struct evidence *e)
{
	struct call_growth more = more_of(e, syncs);
	if (does_other_work(e) || more.n < (double)e->n_slow ||
	    more.ns < CALLS_SHARE * evidence_excess(e))
		return 0;
	return ran_longer(e) + part_sum(e, is_gpu);
}

/* On a GPU allocations wait for what runs there, and those that wait for them are late. */
static double alloc_churn(const struct evidence *e)
{
	struct call_growth more = more_of(e, allocates);
	if (more.n >= (double)e->n_slow && more.ns >= CALLS_SHARE * evidence_excess(e))
		return ran_longer(e) + part_sum(e, is_gpu) + part_sum(e, is_memory);
	return part_sum(e, is_memory);
}

static double pcie(const struct evidence *e)
{
	struct call_growth c = calls_of(e, copies);
	double longer = c.n > 0 && c.usual_n > 0 ? c.ns - c.n * c.usual_ns / c.usual_n : 0;
	return longer > 0 ? fmin(longer, part_sum(e, is_gpu)) : 0;
}

/* Each kernel took longer, the GPU's time is waited for. */
static double kernels_slower(const struct evidence *e)
{
	if (e->usual_kernels_n < 1 || e->kernels_n < 1)
		return 0;
	double mean = e->kernels_ns / e->kernels_n;
	double usual = e->usual_kernels_ns / e->usual_kernels_n;
	double longer = e->kernels_n * (mean - usual);
	return longer > 0 ? fmin(longer, part_sum(e, is_gpu)) : 0;
}

static double foreign_gpu(const struct evidence *e)
{
	return fmax(counter_more(e, ENTITY_GPU, "other_sm_ratio"),
		    counter_more(e, ENTITY_GPU, "other_processes"));
}

/* What its driver tells of, in words of nvml_events.c. */
static const struct m_event *gpu_event(const struct evidence *e)
{
	static const char *const names[] = {"xid", "ecc_double_bit", "poison_fatal",
					    "gpu_unavailable"};
	const struct m_event *ret = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !ret; i++)
		ret = evidence_event(e, names[i]);
	return ret;
}

static double gpu_error(const struct evidence *e)
{
	return gpu_event(e) ? part_sum(e, is_gpu) + part_sum(e, is_ranks) : 0;
}

static double gpu_contention(const struct evidence *e)
{
	double waits = part_sum(e, is_gpu_work);
	return foreign_gpu(e) > 0.02 ? fmax(kernels_slower(e), waits) : 0;
}

static double gpu_clock(const struct evidence *e)
{
	const struct counter_change *c = evidence_counter(e, ENTITY_GPU, "sm_clock_mhz");
	if (!c || isnan(c->usual) || c->mean > 0.9 * c->usual)
		return 0;
	return fmax(kernels_slower(e), part_sum(e, is_gpu_work));
}

static double gpu_slow(const struct evidence *e)
{
	return GENERAL * fmax(kernels_slower(e), part_sum(e, is_gpu_work));
}

/* What ranks send each other is on its way while each waits for the other. */
static double network_ns(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len && !e->peer; i++)
		ns += is_network(&e->blame.parts.data[i].owner) ? e->blame.parts.data[i].ns : 0;
	return ns;
}

/* What the job moved, bytes a second. */
static double moved(const struct evidence *e)
{
	return (evidence_net_rate(e, "net_sent_bytes").now +
		evidence_net_rate(e, "net_received_bytes").now) /
	       2;
}

/* Of the segments that were sent some were sent again, more than usual. */
static bool loses_packets(const struct evidence *e)
{
	struct net_rate sent = evidence_net_rate(e, "net_sent_bytes");
	struct net_rate again = evidence_net_rate(e, "net_retransmits");
	double lost = sent.now > 0 ? again.now * SEGMENT_BYTES / sent.now : 0;
	double usual = sent.usual > 0 ? again.usual * SEGMENT_BYTES / sent.usual : 0;
	return lost > LOSS_LEAST && lost > LOSS_TIMES * usual;
}

/* How long a packet was on its way, in the slow and in the usual time: of the process for which it
 * was longest. false: not known. */
static bool round_trips(const struct evidence *e, double *ret_ns, double *ret_usual_ns)
{
	*ret_ns = 0;
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		const char *name = strtab_get(&e->t->strings, m->name, NULL);
		if (m->kind != ENTITY_PROCESS || strcmp(name, "net_round_trip_ns") != 0 ||
		    !(c->mean > *ret_ns) || isnan(c->usual))
			continue;
		*ret_ns = c->mean;
		*ret_usual_ns = c->usual;
	}
	return *ret_ns > 0;
}

/* What waits in the queue of a full link is longer on its way. */
static bool has_queue(const struct evidence *e, bool if_unknown)
{
	double ns, usual_ns = 0;
	if (!round_trips(e, &ns, &usual_ns))
		return if_unknown;
	return ns > QUEUE_TIMES * usual_ns && ns > usual_ns + QUEUE_LEAST_NS;
}

/* Why the network was waited for, by what else is known of it. A full link loses packets, too, when
 * its queue is full; others that fill it make that worse. */
static enum cause why_network(const struct evidence *e)
{
	uint32_t name;
	double foreign = evidence_foreign_net(e, &name);
	if (name && foreign > FOREIGN_SHARE * (foreign + moved(e)) && foreign > FOREIGN_LEAST)
		return CAUSE_NET_FOREIGN;
	if (loses_packets(e) && !has_queue(e, false))
		return CAUSE_NET_LOSS;
	return name && moved(e) >= MOVED_LEAST && has_queue(e, true) ? CAUSE_NET_BANDWIDTH
								     : CAUSE_NETWORK;
}

/* The time of the network, if it was waited for because of that. */
static double of_network(const struct evidence *e, enum cause c)
{
	double ns = network_ns(e);
	return ns > 0 && why_network(e) == c ? ns : 0;
}

static double network(const struct evidence *e)
{
	return of_network(e, CAUSE_NETWORK);
}

static double net_bandwidth(const struct evidence *e)
{
	return of_network(e, CAUSE_NET_BANDWIDTH);
}

static double net_loss(const struct evidence *e)
{
	return of_network(e, CAUSE_NET_LOSS);
}

static double net_foreign(const struct evidence *e)
{
	return of_network(e, CAUSE_NET_FOREIGN);
}

/* What another rank was waited for, because of what that did. */
static double late_ns(const struct evidence *e, uint32_t peer)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		ns += p->owner.peer == peer && !is_network(&p->owner) ? p->ns : 0;
	}
	return ns;
}

/* Who was waited for longest, as the owners have it; 0: nobody that is known. */
static uint32_t latest(const struct evidence *e)
{
	uint32_t ret = 0;
	double most = 0;
	for (size_t i = 0; i < e->blame.parts.len && !e->peer; i++) {
		uint32_t peer = e->blame.parts.data[i].owner.peer;
		double ns = peer && peer != ret ? late_ns(e, peer) : 0;
		if (ns > most) {
			most = ns;
			ret = peer;
		}
	}
	return ret;
}

/* Where nobody is named: late, or the network between them slow. */
static double straggler(const struct evidence *e)
{
	uint32_t peer = latest(e);
	return (peer ? late_ns(e, peer) : 0) + GENERAL * part_sum(e, is_ranks);
}

static bool is_wait_for_ranks(const struct blame_owner *o)
{
	return is_ranks(o) || is_gpu(o) || is_network(o) || o->kind == BLAME_POLL ||
	       o->kind == BLAME_LOCK;
}

/* A rank did not enter a collective that others wait in. */
static double hang(const struct evidence *e)
{
	double ns = 0;
	if (e->peer || !evidence_event(e, "collective_hang"))
		return 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		ns += p->owner.peer || is_wait_for_ranks(&p->owner) ? p->ns : 0;
	}
	return ns;
}

static double stopped(const struct evidence *e)
{
	return part_sum(e, is_stopped);
}

/* Those that were too short for rows make all code slower alike. */
static double interrupts(const struct evidence *e)
{
	double more = counter_more(e, ENTITY_HOST, "cpu_irq_ratio") +
		      counter_more(e, ENTITY_HOST, "cpu_softirq_ratio");
	double rows = part_sum(e, is_interrupted), spread = part_sum(e, is_spread);
	return rows + (more > IRQ_SHARE ? fmin(more * e->blame.whole_ns, spread) : 0);
}

static double (*const rules[CAUSE_COUNT])(const struct evidence *e) = {
	[CAUSE_CPU_CONTENTION] = cpu_contention,
	[CAUSE_CPU_THROTTLE] = cpu_throttle,
	[CAUSE_CPU_STOLEN] = cpu_stolen,
	[CAUSE_INTERRUPTS] = interrupts,
	[CAUSE_MEMORY_RECLAIM] = memory_reclaim,
	[CAUSE_MEM_BANDWIDTH] = mem_bandwidth,
	[CAUSE_DISK] = disk,
	[CAUSE_DATA_LOADER] = data_loader,
	[CAUSE_CHECKPOINT] = checkpoint,
	[CAUSE_PYTHON_GC] = python_gc,
	[CAUSE_PYTHON_GIL] = python_gil,
	[CAUSE_LOCK] = lock,
	[CAUSE_SLOW_CODE] = slow_code,
	[CAUSE_LAUNCH_BOUND] = launch_bound,
	[CAUSE_EXCESS_SYNC] = excess_sync,
	[CAUSE_ALLOC_CHURN] = alloc_churn,
	[CAUSE_PCIE] = pcie,
	[CAUSE_GPU_ERROR] = gpu_error,
	[CAUSE_GPU_CONTENTION] = gpu_contention,
	[CAUSE_GPU_CLOCK] = gpu_clock,
	[CAUSE_GPU_SLOW] = gpu_slow,
	[CAUSE_NETWORK] = network,
	[CAUSE_NET_BANDWIDTH] = net_bandwidth,
	[CAUSE_NET_LOSS] = net_loss,
	[CAUSE_NET_FOREIGN] = net_foreign,
	[CAUSE_HANG] = hang,
	[CAUSE_STRAGGLER] = straggler,
	[CAUSE_STOPPED] = stopped,
	[CAUSE_OTHER_WORK] = other_work,
	[CAUSE_SLOW_CALL] = slow_call,
	[CAUSE_NUMA] = numa,
};

/* ---- who ---- */

static bool names_line(enum cause c)
{
	static const bool those[CAUSE_COUNT] = {
		[CAUSE_PYTHON_GIL] = true,  [CAUSE_PYTHON_GC] = true,	[CAUSE_SLOW_CODE] = true,
		[CAUSE_DATA_LOADER] = true, [CAUSE_ALLOC_CHURN] = true, [CAUSE_LAUNCH_BOUND] = true,
		[CAUSE_EXCESS_SYNC] = true,
	};
	return those[c];
}

static void by_line(struct culprit *ret, enum cause c, const struct evidence *e)
{
	bool (*is)(const struct blame_owner *o) = c == CAUSE_PYTHON_GIL	   ? is_gil
						  : c == CAUSE_PYTHON_GC   ? is_collector
						  : c == CAUSE_DATA_LOADER ? is_data
						  : c == CAUSE_ALLOC_CHURN ? is_memory
									   : is_line;
	const struct blame_part *p = top_part(e, is);
	if (!p || p->owner.frame == BLAME_NO_FRAME)
		p = c == CAUSE_ALLOC_CHURN ? top_part(e, is_line) : NULL;
	if (!p || p->owner.frame == BLAME_NO_FRAME)
		return;
	ret->kind = CULPRIT_LINE;
	ret->frame = p->owner.frame;
}

static void by_call(struct culprit *ret, const struct evidence *e)
{
	const struct call_growth *top = NULL;
	causes_slow_calls(e, evidence_excess(e) - part_sum(e, is_line), &top);
	if (!top)
		return;
	by_line(ret, CAUSE_SLOW_CALL, e);
	ret->kind = CULPRIT_CALL;
	ret->name = e->t->probes.data[top->probe].name;
}

static void by_interrupt(struct culprit *ret, const struct evidence *e)
{
	double most = 0;
	for (size_t i = 0; i < e->stalls.len; i++) {
		const struct stall_growth *s = &e->stalls.data[i];
		if (s->kind > STALL_SOFTIRQ || s->ns - s->usual_ns <= most)
			continue;
		most = s->ns - s->usual_ns;
		ret->kind = CULPRIT_INTERRUPT;
		ret->device = s->name;
	}
}

static bool is_job(const struct evidence *e, uint32_t pid)
{
	for (size_t i = 0; i < e->t->processes.len; i++)
		if (e->t->processes.data[i].pid == pid)
			return true;
	return false;
}

/* Who had a disk do most beyond usual; of the job itself the disk alone is named. */
static void by_disk(struct culprit *ret, const struct evidence *e)
{
	double most = 0;
	for (size_t i = 0; i < e->disks.len; i++) {
		const struct disk_growth *d = &e->disks.data[i];
		if (d->bytes - d->usual_bytes <= most)
			continue;
		most = d->bytes - d->usual_bytes;
		ret->kind = CULPRIT_DISK;
		ret->device = d->disk;
		ret->pid = is_job(e, d->pid) ? 0 : d->pid;
		ret->name = d->comm;
	}
}

/* What processes of the same name as this part's had of the CPU, in ns. */
static double taken_alike(const struct evidence *e, const struct blame_part *p)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *o = &e->blame.parts.data[i];
		if (is_looked_at(e, o) && is_taker(&o->owner) && o->owner.name == p->owner.name)
			ns += o->ns;
	}
	return ns;
}

/* Of the processes whose name had the CPU most the one that had it most, if that name had it for
 * half of the time or more. */
static void by_rival(struct culprit *ret, const struct evidence *e)
{
	const struct blame_part *top = NULL;
	double most = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (!is_looked_at(e, p) || !is_taker(&p->owner))
			continue;
		double ns = taken_alike(e, p);
		if (!top || ns > most || (ns == most && p->ns > top->ns)) {
			top = p;
			most = ns;
		}
	}
	if (!top || most < CULPRIT_SHARE * part_sum(e, is_ready))
		return;
	ret->kind = CULPRIT_PROCESS;
	ret->pid = top->owner.pid;
	ret->name = top->owner.name;
}

static void by_rank(struct culprit *ret, const struct evidence *e)
{
	uint32_t peer = latest(e);
	if (!peer)
		return;
	const struct m_thread *th = &e->t->threads.data[peer - 1];
	ret->kind = CULPRIT_RANK;
	ret->pid = th->pid;
	ret->name = th->comm;
	ret->rank = blame_rank_of(e->t, th->pid);
}

/* "rank 1", or "process 4242" where its rank is not known (pipeline/hangs.h). */
static void by_missing_rank(struct culprit *ret, const struct evidence *e)
{
	const struct m_event *row = evidence_event(e, "collective_hang");
	const char *who = row ? strtab_get(&e->t->strings, row->entity, NULL) : "";
	int rank = -1;
	unsigned pid = 0;
	if (sscanf(who, "rank %d", &rank) != 1 && sscanf(who, "process %u", &pid) != 1)
		return;
	if (!pid && rank < 0)
		return;
	for (size_t i = 0; i < e->t->processes.len; i++) {
		const struct m_process *p = &e->t->processes.data[i];
		if (pid ? p->pid != pid : p->rank != rank)
			continue;
		ret->kind = CULPRIT_RANK;
		ret->pid = p->pid;
		ret->name = p->comm;
		ret->rank = rank;
	}
}

static void by_gpu(struct culprit *ret, const struct evidence *e)
{
	const struct m_event *row = gpu_event(e);
	struct entity of = {0};
	if (row)
		entity_parse(&of, strtab_get(&e->t->strings, row->entity, NULL));
	for (size_t i = 0; i < e->t->metrics.len && of.kind == ENTITY_GPU; i++)
		if (e->t->metrics.data[i].kind == ENTITY_GPU &&
		    e->t->metrics.data[i].gpu == of.gpu) {
			ret->kind = CULPRIT_GPU;
			ret->metric = (uint32_t)i;
		}
}

static void find_culprit(struct culprit *ret, enum cause c, const struct evidence *e)
{
	const struct counter_change *quota = evidence_counter(e, ENTITY_CGROUP, "throttled_ratio");
	*ret = (struct culprit){.frame = BLAME_NO_FRAME, .metric = UINT32_MAX, .rank = -1};
	if (c == CAUSE_CPU_THROTTLE) {
		ret->kind = CULPRIT_CGROUP;
		ret->metric = quota ? quota->metric : UINT32_MAX;
	} else if (c == CAUSE_MEMORY_RECLAIM) {
		const struct counter_change *full = causes_full_cgroup(e);
		ret->kind = full ? CULPRIT_CGROUP : CULPRIT_NONE;
		ret->metric = full ? full->metric : UINT32_MAX;
	} else if (c == CAUSE_CPU_STOLEN) {
		ret->kind = CULPRIT_HOST;
	} else if (c == CAUSE_CPU_CONTENTION) {
		by_rival(ret, e);
	} else if (c == CAUSE_INTERRUPTS) {
		by_interrupt(ret, e);
	} else if (c == CAUSE_DISK) {
		by_disk(ret, e);
	} else if (c == CAUSE_NET_FOREIGN || c == CAUSE_NET_BANDWIDTH || c == CAUSE_NET_LOSS) {
		evidence_foreign_net(e, &ret->device);
		ret->kind = ret->device ? CULPRIT_INTERFACE : CULPRIT_NONE;
	} else if (c == CAUSE_SLOW_CALL) {
		by_call(ret, e);
	} else if (c == CAUSE_GPU_ERROR) {
		by_gpu(ret, e);
	} else if (c == CAUSE_HANG) {
		by_missing_rank(ret, e);
	} else if (c == CAUSE_STRAGGLER) {
		by_rank(ret, e);
	} else if (names_line(c)) {
		by_line(ret, c, e);
	}
}

/* ---- the choice ---- */

void cause_explains(double ret[CAUSE_COUNT], const struct evidence *e)
{
	double excess = evidence_excess(e);
	for (unsigned c = 0; c < CAUSE_COUNT; c++) {
		ret[c] = rules[c] ? rules[c](e) : 0;
		if (!(ret[c] > 0 && ret[c] >= LEAST_SHARE * excess))
			ret[c] = 0;
	}
}

static void choose(struct cause_found *ret, const struct evidence *e)
{
	double explains[CAUSE_COUNT];
	cause_explains(explains, e);
	for (unsigned c = 0; c < CAUSE_COUNT; c++) {
		if (explains[c] > ret->explained_ns) {
			ret->runner_up = ret->cause;
			ret->runner_up_ns = ret->explained_ns;
			ret->cause = (enum cause)c;
			ret->explained_ns = explains[c];
		} else if (explains[c] > ret->runner_up_ns) {
			ret->runner_up = (enum cause)c;
			ret->runner_up_ns = explains[c];
		}
	}
}

/* Why the rank that was waited for was late: as of an incident of its own, by what is known of it.
 */
static void find_why(struct cause_found *ret, const struct evidence *e)
{
	struct evidence of_it = *e;
	struct cause_found found = {.cause = CAUSE_UNKNOWN, .runner_up = CAUSE_UNKNOWN};
	of_it.peer = latest(e);
	of_it.pid = ret->culprit.pid;
	of_it.thread = of_it.peer - 1;
	of_it.by_steps = false;
	of_it.blame.whole_ns = of_it.blame.usual_ns + late_ns(e, of_it.peer);
	/* They are the victim's. */
	memset(&of_it.calls, 0, sizeof(of_it.calls));
	memset(&of_it.stalls, 0, sizeof(of_it.stalls));
	of_it.kernels_n = of_it.kernels_ns = 0;
	of_it.usual_kernels_n = of_it.usual_kernels_ns = 0;
	choose(&found, &of_it);
	ret->why = found.cause;
	find_culprit(&ret->why_culprit, found.cause, &of_it);
}

void cause_find(struct cause_found *ret, const struct evidence *e)
{
	double excess = evidence_excess(e);
	*ret = (struct cause_found){.cause = CAUSE_UNKNOWN, .runner_up = CAUSE_UNKNOWN};
	choose(ret, e);
	double share = excess > 0 ? fmin(1, ret->explained_ns / excess) : 0;
	double apart = ret->explained_ns > 0 ? 1 - ret->runner_up_ns / ret->explained_ns : 0;
	ret->confidence = share * (0.5 + 0.5 * apart);
	find_culprit(&ret->culprit, ret->cause, e);
	uint32_t late = ret->culprit.kind == CULPRIT_RANK ? latest(e) : 0;
	if (late && e->t->threads.data[late - 1].pid == ret->culprit.pid)
		find_why(ret, e);
	cause_words(ret, e);
}

void cause_free(struct cause_found *c)
{
	for (size_t i = 0; i < c->evidence_len; i++)
		free(c->evidence[i]);
	free(c->against);
	*c = (struct cause_found){0};
}
