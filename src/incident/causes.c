/* causes.c - the rules: how much of an incident's excess each cause explains. */
#include "incident/causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/entity.h"
#include "incident/cause_words.h"
#include "incident/causes_calls.h"
#include "incident/causes_gpu.h"
#include "incident/causes_impl.h"
#include "incident/causes_memory.h"
#include "incident/causes_net.h"
#include "incident/causes_owners.h"

/* All code runs some tenths slower for seconds where neighbours work, whatever else is the matter:
 * beside what is named that counts so much of what it explains. */
#define SPREAD_CLAIM	0.5
#define CPU_SLOWER	1.05 /* times as long for the same instructions: less is chance */
#define LEAST_SHARE	0.15 /* of the excess: a cause that explains less is none */
#define MORE_CALLS	1.3  /* times as many: more often than usual */
#define CALLS_A_STEP	10   /* so many more make a step launch-bound */
#define CALLS_SHARE	0.15 /* of the excess: the calls' own time, where they are the reason */
#define GONE_CALLS	0.2  /* of the usual number: is hardly called any more */
#define IRQ_SHARE	0.02 /* more of the host's time in interrupts */
#define RIGHT_ODDS	4.8
#define CONFIDENCE_MOST 0.99
#define GIL_SHARE	0.1 /* of the excess: of waits for Python's lock, and for the job's own CPUs */
#define GIL_OF_OWN	0.02 /* of waits for its own threads: waits for one that ran Python */
#define SAMPLED_OF_OWN	0.1  /* likewise: one was seen in Python; most are too short for it */
#define SAVES_SHARE	0.2  /* of waits for what was written: such are a checkpoint's */
#define OWN_BYTES	0.5  /* of what disks did beyond usual: it is the job that has them busy */
#define GONE_SHARE	0.3  /* of the usual time: what was done before is not done now */

/* ---- calls ---- */

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

static bool syncs(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"sync", NULL};
	static const char *const names[] = {"aten::item", "aten::_local_scalar_dense", NULL};
	return causes_has_role(e, c, roles) || has_name(e, c, names);
}

static bool launches(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {"launch", "graph_launch", NULL};
	return causes_has_role(e, c, roles) || is_of_layer(e, c, "torch");
}

static bool allocates(const struct evidence *e, const struct call_growth *c)
{
	static const char *const roles[] = {
		"alloc",      "alloc_managed", "free",	      "host_alloc", "host_free",
		"vmm_create", "vmm_map",       "vmm_release", "vmm_unmap",  NULL};
	return causes_has_role(e, c, roles);
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

/* Another thread of the process that runs Python had the lock for a while. On a CPU that both have
 * to share the lock is hardly waited for: who has it has the CPU. */
static bool holds_gil(const struct evidence *e)
{
	double own = causes_own_ready(e);
	return causes_part_sum(e, owner_is_gil) > GIL_SHARE * evidence_excess(e) ||
	       (own > GIL_SHARE * evidence_excess(e) &&
		(causes_part_sum(e, owner_runs_with_gil) > GIL_OF_OWN * own ||
		 causes_part_sum(e, owner_is_own_python) > SAMPLED_OF_OWN * own));
}

/* CPU time that a quota held back, beyond usual; NaN: that was not recorded. */
static double throttled_ns(const struct evidence *e)
{
	if (!evidence_counter(e, ENTITY_CGROUP, "throttled_ratio"))
		return NAN;
	return fmax(0, causes_counter_more(e, ENTITY_CGROUP, "throttled_ratio")) *
	       e->blame.whole_ns;
}

/* Where no cgroup was told of, CPUs that nobody was seen on may have been kernel threads'. */
static double cpu_throttle(const struct evidence *e)
{
	double told = throttled_ns(e);
	return isnan(told) ? GENERAL * causes_part_sum(e, owner_is_no_cpu)
			   : fmin(told, causes_part_sum(e, owner_is_ready));
}

static double cpu_contention(const struct evidence *e)
{
	double ready = causes_part_sum(e, owner_is_ready), told = throttled_ns(e);
	ready -= holds_gil(e) ? causes_own_ready(e) : 0;
	return fmax(0, ready - (isnan(told) ? causes_part_sum(e, owner_is_no_cpu) : told));
}

static double cpu_stolen(const struct evidence *e)
{
	bool known = evidence_counter(e, ENTITY_HOST, "job_cpus_steal_ratio");
	double more = causes_counter_more(e, ENTITY_HOST,
					  known ? "job_cpus_steal_ratio" : "cpu_steal_ratio");
	return fmin(more * e->blame.whole_ns,
		    causes_part_sum(e, owner_is_spread) + causes_part_sum(e, owner_is_no_cpu));
}

/* What one line waited for reading, however it came to that. */
static double read_by(const struct evidence *e, const struct blame_owner *line)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (causes_is_looked_at(e, p) && owner_is_filling(&p->owner) &&
		    p->owner.frame == line->frame && p->owner.thread == line->thread)
			ns += p->ns;
	}
	return ns;
}

/* Lines that read files into memory copy what they have read: so much of what they ran, at most as
 * long as they waited for reading. */
static double copies_of_files(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (causes_is_looked_at(e, p) && p->owner.kind == BLAME_RUNS &&
		    owner_is_line(&p->owner) && p->owner.frame != BLAME_NO_FRAME)
			ns += fmax(0, fmin(p->ns, read_by(e, &p->owner)));
	}
	return ns;
}

static double files_read(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_filling) + copies_of_files(e);
}

/* What is read into a full cgroup takes the place of what is read again later. */
static double memory_reclaim(const struct evidence *e)
{
	double paging = causes_part_sum(e, owner_is_paging);
	double stalls = causes_counter_more(e, ENTITY_HOST, "direct_reclaim_stalls_per_s");
	return paging + causes_part_sum(e, owner_is_reclaim) +
	       (stalls > 1 ? causes_part_sum(e, owner_is_memory) : 0) +
	       (causes_full_cgroup(e) ? files_read(e) : 0);
}

/* All code is slower alike, and memory is another node's. */
static double numa(const struct evidence *e)
{
	return causes_remote_memory(e) ? causes_part_sum(e, owner_is_spread) : 0;
}

/* Of the time in which the thread ran, by how much the same instructions took longer on its CPUs.
 */
static double cpu_slower_share(const struct evidence *e)
{
	const struct counter_change *c = evidence_counter(e, ENTITY_PROCESS, "fixed_work_ns");
	bool told = c && c->usual > 0 && c->mean > CPU_SLOWER * c->usual;
	return told ? 1 - c->usual / c->mean : 0;
}

/* So much of what ran alike, and of lines that ran longer, is no more than that. */
static double cpu_slow_part(const struct evidence *e, owner_is is)
{
	double ns = 0, share = cpu_slower_share(e);
	for (size_t i = 0; share > 0 && i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		if (causes_is_looked_at(e, p) && is(&p->owner))
			ns += fmin(p->ns, share * p->whole_ns);
	}
	return ns;
}

static bool owner_runs(const struct blame_owner *o)
{
	return owner_is_spread(o) || (owner_is_line(o) && o->kind == BLAME_RUNS);
}

static double cpu_slow(const struct evidence *e)
{
	return GENERAL * cpu_slow_part(e, owner_runs);
}

static double mem_bandwidth(const struct evidence *e)
{
	return GENERAL * (causes_part_sum(e, owner_is_spread) - cpu_slow_part(e, owner_is_spread));
}

/* What a disk did beyond usual, bytes. */
struct disk_more {
	double own, others, all; /* all: the kernel's threads too, who write for anybody */
};

static struct disk_more more_of_disk(const struct evidence *e, uint32_t disk)
{
	struct disk_more ret = {0};
	for (size_t i = 0; i < e->disks.len; i++) {
		const struct disk_growth *d = &e->disks.data[i];
		const char *comm = strtab_get(&e->t->strings, d->comm, NULL);
		double more = d->disk == disk ? fmax(0, d->bytes - d->usual_bytes) : 0;
		bool own = evidence_has_process(e, d->pid);
		ret.all += more;
		ret.own += own ? more : 0;
		ret.others += own || !strncmp(comm, "kworker/", strlen("kworker/")) ? 0 : more;
	}
	return ret;
}

/* Of the one that did most for the job; where none did anything, that did most. */
static struct disk_more more_of_disks(const struct evidence *e)
{
	struct disk_more top = {0};
	for (size_t i = 0; i < e->disks.len; i++) {
		struct disk_more more = more_of_disk(e, e->disks.data[i].disk);
		bool is_more = more.own > top.own || (more.own == top.own && more.all > top.all);
		top = is_more ? more : top;
	}
	return top;
}

/* To write into memory takes little, to wait for the disk then much more: that is the checkpoint's
 * too, unless somebody else has the disk busy. */
static double checkpoint(const struct evidence *e)
{
	double saves = causes_part_sum(e, owner_is_save),
	       writes = causes_part_sum(e, owner_is_write);
	struct disk_more disk = more_of_disks(e);
	if (saves > SAVES_SHARE * writes)
		return saves + (disk.others > disk.own ? 0 : writes);
	return e->saving_frame != BLAME_NO_FRAME && disk.own > OWN_BYTES * disk.all ? saves + writes
										    : 0;
}

static double disk(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_disk) + GENERAL * causes_part_sum(e, owner_is_write) +
	       (causes_full_cgroup(e) ? 0 : files_read(e));
}

static double data_loader(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_data);
}

static double compilation(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_compiler);
}

static double python_gc(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_collector);
}

static double python_gil(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_gil) + (holds_gil(e) ? causes_own_ready(e) : 0);
}

static double lock(const struct evidence *e)
{
	return GENERAL * causes_part_sum(e, owner_is_lock);
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
	double lines = causes_part_sum(e, owner_is_line);
	if (does_other_work(e) || e->peer ||
	    causes_part_sum(e, owner_is_gpu_work) >= LEAST_SHARE * evidence_excess(e))
		return 0;
	return fmin(lines, causes_slow_calls(e, evidence_excess(e) - lines, NULL));
}

static double slow_code(const struct evidence *e)
{
	return does_other_work(e)
		       ? 0
		       : GENERAL * fmax(0, causes_part_sum(e, owner_is_line) - in_slow_calls(e) -
						   copies_of_files(e));
}

static double slow_call(const struct evidence *e)
{
	return GENERAL * in_slow_calls(e);
}

/* What ran longer on the host, where that is because more was to be launched. */
static double ran_longer(const struct evidence *e)
{
	return causes_part_sum(e, owner_is_line) + causes_part_sum(e, owner_is_spread);
}

/* More operations, each of them small beside usual ones. */
static double launch_bound(const struct evidence *e)
{
	struct call_growth c = causes_calls_of(e, launches), more = more_of(e, launches);
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
	return ran_longer(e) + causes_part_sum(e, owner_is_gpu);
}

/* On a GPU allocations wait for what runs there, and those that wait for them are late. */
static double alloc_churn(const struct evidence *e)
{
	struct call_growth more = more_of(e, allocates);
	if (more.n >= (double)e->n_slow && more.ns >= CALLS_SHARE * evidence_excess(e))
		return ran_longer(e) + causes_part_sum(e, owner_is_gpu) +
		       causes_part_sum(e, owner_is_memory);
	return causes_part_sum(e, owner_is_memory);
}

/* What ranks send each other is on its way while each waits for the other. */
static double network_ns(const struct evidence *e)
{
	double ns = 0;
	for (size_t i = 0; i < e->blame.parts.len && !e->peer; i++)
		ns += owner_is_network(&e->blame.parts.data[i].owner) ? e->blame.parts.data[i].ns
								      : 0;
	return ns;
}

/* The time of the network, if it was waited for because of that. */
static double of_network(const struct evidence *e, enum cause c)
{
	double ns = network_ns(e);
	return ns > 0 && causes_why_network(e) == c ? ns : 0;
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
		ns += p->owner.peer == peer && !owner_is_network(&p->owner) ? p->ns : 0;
	}
	return ns;
}

/* Who was waited for longest, as the owners have it; 0: nobody that is known. */
uint32_t causes_latest(const struct evidence *e)
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
	uint32_t peer = causes_latest(e);
	return (peer ? late_ns(e, peer) : 0) + GENERAL * causes_part_sum(e, owner_is_ranks);
}

static bool is_wait_for_ranks(const struct blame_owner *o)
{
	return owner_is_ranks(o) || owner_is_gpu(o) || owner_is_network(o) ||
	       o->kind == BLAME_POLL || o->kind == BLAME_LOCK;
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
	return causes_part_sum(e, owner_is_stopped);
}

/* Those that were too short for rows make all code slower alike. */
static double interrupts(const struct evidence *e)
{
	double more = causes_counter_more(e, ENTITY_HOST, "cpu_irq_ratio") +
		      causes_counter_more(e, ENTITY_HOST, "cpu_softirq_ratio");
	double rows = causes_part_sum(e, owner_is_interrupted),
	       spread = causes_part_sum(e, owner_is_spread);
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
	[CAUSE_PCIE] = causes_pcie,
	[CAUSE_GPU_ERROR] = causes_gpu_error,
	[CAUSE_GPU_CONTENTION] = causes_gpu_contention,
	[CAUSE_GPU_CLOCK] = causes_gpu_clock,
	[CAUSE_GPU_SLOW] = causes_gpu_slow,
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
	[CAUSE_CPU_SLOW] = cpu_slow,
	[CAUSE_COMPILATION] = compilation,
};

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

/* By how much of the excess it is chosen. */
static double claim(unsigned cause, double explained_ns)
{
	bool is_weather = cause == CAUSE_MEM_BANDWIDTH || cause == CAUSE_CPU_SLOW;
	return is_weather ? SPREAD_CLAIM * explained_ns : explained_ns;
}

/* Returns how far the cause is from the next one: 1, there is no other; 0, they claim as much. */
static double choose(struct cause_found *ret, const struct evidence *e)
{
	double explains[CAUSE_COUNT], most = 0, next = 0;
	cause_explains(explains, e);
	for (unsigned c = 0; c < CAUSE_COUNT; c++) {
		double claimed = claim(c, explains[c]);
		if (claimed > most) {
			ret->runner_up = ret->cause;
			ret->runner_up_ns = ret->explained_ns;
			ret->cause = (enum cause)c;
			ret->explained_ns = explains[c];
			next = most;
			most = claimed;
		} else if (claimed > next) {
			ret->runner_up = (enum cause)c;
			ret->runner_up_ns = explains[c];
			next = claimed;
		}
	}
	return most > 0 ? 1 - next / most : 0;
}

/* Why the rank that was waited for was late: as of an incident of its own, by what is known of it.
 */
static void find_why(struct cause_found *ret, const struct evidence *e)
{
	struct evidence of_it = *e;
	struct cause_found found = {.cause = CAUSE_UNKNOWN, .runner_up = CAUSE_UNKNOWN};
	of_it.peer = causes_latest(e);
	of_it.pid = ret->culprit.pid;
	of_it.thread = of_it.peer - 1;
	of_it.by_steps = false;
	of_it.blame.whole_ns = of_it.blame.usual_ns + late_ns(e, of_it.peer);
	/* They are the victim's. */
	of_it.saving_frame = of_it.collecting_frame = BLAME_NO_FRAME;
	memset(&of_it.calls, 0, sizeof(of_it.calls));
	memset(&of_it.stalls, 0, sizeof(of_it.stalls));
	of_it.kernels_n = of_it.kernels_ns = 0;
	of_it.usual_kernels_n = of_it.usual_kernels_ns = 0;
	choose(&found, &of_it);
	ret->why = found.cause;
	causes_culprit(&ret->why_culprit, found.cause, &of_it);
}

/* How often it is right, by what it explains. The odds are RIGHT_ODDS times those of the score:
 * fitted to 67 verdicts on programs of others (docs/results/diagnosis.md), where the slope of a
 * logistic regression came to 0.97. */
static double confidence(double score)
{
	double odds = RIGHT_ODDS * score;
	return fmin(CONFIDENCE_MOST, odds / (1 - score + odds));
}

void cause_find(struct cause_found *ret, const struct evidence *e)
{
	double excess = evidence_excess(e);
	*ret = (struct cause_found){.cause = CAUSE_UNKNOWN, .runner_up = CAUSE_UNKNOWN};
	double apart = choose(ret, e);
	double share = excess > 0 ? fmin(1, ret->explained_ns / excess) : 0;
	ret->confidence = confidence(share * (0.5 + 0.5 * apart));
	causes_culprit(&ret->culprit, ret->cause, e);
	uint32_t late = ret->culprit.kind == CULPRIT_RANK ? causes_latest(e) : 0;
	if (late && e->t->threads.data[late - 1].pid == ret->culprit.pid)
		find_why(ret, e);
	cause_words(ret, e);
}

void cause_withdraw(struct cause_found *ret, double found_ns, double lost_ns)
{
	struct cause_found next = {
		.cause = CAUSE_UNKNOWN,
		.runner_up = ret->cause,
		.runner_up_ns = ret->explained_ns,
		.culprit = {.rank = -1, .frame = BLAME_NO_FRAME, .metric = UINT32_MAX}};
	cause_words_withdrawn(&next, found_ns, lost_ns);
	cause_free(ret);
	*ret = next;
}

void cause_free(struct cause_found *c)
{
	for (size_t i = 0; i < c->evidence_len; i++)
		free(c->evidence[i]);
	free(c->against);
	*c = (struct cause_found){0};
}
