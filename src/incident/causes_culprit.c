/* causes_culprit.c - who or what is behind a cause, by the evidence. */
#include <stdio.h>
#include <string.h>

#include "base/entity.h"
#include "base/map64.h"
#include "incident/causes_calls.h"
#include "incident/causes_gpu.h"
#include "incident/causes_impl.h"
#include "incident/causes_memory.h"
#include "incident/causes_owners.h"
#include "wire/stalls.h"

#define CULPRIT_SHARE 0.5 /* of the time that was lost so: less is nobody's fault alone */

static bool names_line(enum cause c)
{
	static const bool those[CAUSE_COUNT] = {
		[CAUSE_PYTHON_GIL] = true,  [CAUSE_SLOW_CODE] = true,	 [CAUSE_DATA_LOADER] = true,
		[CAUSE_ALLOC_CHURN] = true, [CAUSE_LAUNCH_BOUND] = true, [CAUSE_EXCESS_SYNC] = true,
		[CAUSE_COMPILATION] = true,
	};
	return those[c];
}

static bool owner_compiles_for(const struct blame_owner *o)
{
	return owner_is_compiler(o) && o->frame != BLAME_NO_FRAME;
}

/* Its own thread's: of others the compiler's function may be all that is known. */
static bool owner_compiles_itself(const struct blame_owner *o)
{
	return owner_compiles_for(o) && o->via == VIA_ITSELF;
}

static void by_line(struct culprit *ret, enum cause c, const struct evidence *e)
{
	bool (*is)(const struct blame_owner *o) = c == CAUSE_PYTHON_GIL	   ? owner_is_gil
						  : c == CAUSE_DATA_LOADER ? owner_is_data
						  : c == CAUSE_ALLOC_CHURN ? owner_is_memory
						  : c == CAUSE_COMPILATION ? owner_compiles_itself
									   : owner_is_line;
	const struct blame_part *p = causes_top_part(e, is);
	if (!p || p->owner.frame == BLAME_NO_FRAME)
		p = c == CAUSE_ALLOC_CHURN   ? causes_top_part(e, owner_is_line)
		    : c == CAUSE_PYTHON_GIL  ? causes_top_part(e, owner_is_own_python)
		    : c == CAUSE_COMPILATION ? causes_top_part(e, owner_compiles_for)
					     : NULL;
	if (!p || p->owner.frame == BLAME_NO_FRAME)
		return;
	ret->kind = CULPRIT_LINE;
	ret->frame = p->owner.frame;
}

static void by_frame(struct culprit *ret, uint32_t frame)
{
	if (frame == BLAME_NO_FRAME)
		return;
	ret->kind = CULPRIT_LINE;
	ret->frame = frame;
}

static void by_call(struct culprit *ret, const struct evidence *e)
{
	const struct call_growth *top = NULL;
	causes_slow_calls(e, evidence_excess(e) - causes_part_sum(e, owner_is_line), &top);
	if (!top)
		return;
	by_line(ret, CAUSE_SLOW_CALL, e);
	ret->kind = CULPRIT_CALL;
	ret->name = e->t->probes.data[top->probe].name;
}

/* Whose packets took that much more time, if those of one process of others took most of it. */
static void by_sender(struct culprit *ret, const struct evidence *e, double more_ns)
{
	double most = CULPRIT_SHARE * more_ns;
	for (size_t i = 0; i < e->senders.len; i++) {
		const struct sender_growth *s = &e->senders.data[i];
		if (s->ns - s->usual_ns < most || evidence_has_process(e, s->pid))
			continue;
		most = s->ns - s->usual_ns;
		ret->pid = s->pid;
		ret->name = s->comm;
	}
}

static void by_interrupt(struct culprit *ret, const struct evidence *e)
{
	const struct stall_growth *top = NULL;
	double most = 0;
	for (size_t i = 0; i < e->stalls.len; i++) {
		const struct stall_growth *s = &e->stalls.data[i];
		if (s->kind > STALL_SOFTIRQ || s->ns - s->usual_ns <= most)
			continue;
		most = s->ns - s->usual_ns;
		top = s;
	}
	if (!top)
		return;
	ret->kind = CULPRIT_INTERRUPT;
	ret->device = top->name;
	if (top->kind == STALL_SOFTIRQ &&
	    !strcmp(strtab_get(&e->t->strings, top->name, NULL), "NET_RX"))
		by_sender(ret, e, most);
}

/* Who stopped the job most; a debugger, or who sent a signal. */
static void by_stopper(struct culprit *ret, const struct evidence *e)
{
	const struct blame_part *p = causes_top_part(e, owner_is_stopped);
	if (!p || !p->owner.pid)
		return;
	ret->kind = CULPRIT_PROCESS;
	ret->pid = p->owner.pid;
	ret->name = p->owner.name;
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
		ret->pid = evidence_has_process(e, d->pid) ? 0 : d->pid;
		ret->name = d->comm;
	}
}

/* What those that had the CPU have in common. */
struct in_common {
	const struct blame_part *top; /* of them the one that had it most; NULL: there are none */
	double ns;
	uint32_t cgroup; /* that all are in of whom it is known; 0: there is none */
	bool scattered;
};

/* 0: it has none of that. */
typedef uint64_t (*common_key)(const struct evidence *e, const struct blame_owner *o);

static uint64_t name_of(const struct evidence *e, const struct blame_owner *o)
{
	(void)e;
	return (uint64_t)o->name + 1;
}

static uint64_t leader_of(const struct evidence *e, const struct blame_owner *o)
{
	(void)e;
	return o->leader ? o->leader_pid : 0;
}

/* The root has all that is in no other. */
static uint64_t cgroup_of(const struct evidence *e, const struct blame_owner *o)
{
	return strcmp(strtab_get(&e->t->strings, o->cgroup, NULL), "/") != 0 ? o->cgroup : 0;
}

static void take_cgroup(struct in_common *c, uint32_t cgroup)
{
	c->scattered |= c->cgroup && cgroup && cgroup != c->cgroup;
	c->cgroup = c->scattered ? 0 : cgroup ? cgroup : c->cgroup;
}

/* Of all that are alike those that had the CPU most. */
static struct in_common most_in_common(const struct evidence *e, common_key key_of)
{
	VEC(struct in_common) all = {0};
	struct in_common ret = {0};
	struct map64 place_of = {0};
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_part *p = &e->blame.parts.data[i];
		bool took = causes_is_looked_at(e, p) && owner_is_taker(&p->owner);
		uint64_t at = all.len, key = took ? key_of(e, &p->owner) : 0;
		if (!key)
			continue;
		if (!map64_get(&place_of, key, &at)) {
			map64_set(&place_of, key, at);
			vec_push(&all);
		}
		struct in_common *c = &all.data[at];
		c->ns += p->ns;
		c->top = !c->top || p->ns > c->top->ns ? p : c->top;
		take_cgroup(c, p->owner.cgroup);
	}
	for (size_t i = 0; i < all.len; i++)
		if (!ret.top || all.data[i].ns > ret.ns ||
		    (all.data[i].ns == ret.ns && all.data[i].top->ns > ret.top->ns))
			ret = all.data[i];
	map64_free(&place_of);
	vec_free(&all);
	return ret;
}

/* Of a cgroup whether a thread of the job had the CPU in it, or counters of the job's own cgroups
 * are of it or of one in it. */
static bool is_of_job_too(const struct evidence *e, uint32_t cgroup)
{
	const char *path = strtab_get(&e->t->strings, cgroup, NULL);
	size_t length = strlen(path);
	for (size_t i = 0; i < e->blame.parts.len; i++) {
		const struct blame_owner *o = &e->blame.parts.data[i].owner;
		if (o->kind == BLAME_SIBLING && o->cgroup == cgroup)
			return true;
	}
	for (size_t i = 0; i < e->t->metrics.len; i++) {
		const struct m_metric *m = &e->t->metrics.data[i];
		const char *of = strtab_get(&e->t->strings, m->label, NULL);
		if (m->kind == ENTITY_CGROUP && !strncmp(of, path, length) &&
		    (!of[length] || of[length] == '/'))
			return true;
	}
	return false;
}

/* Of the processes whose name had the CPU most the one that had it most, if that name had it for
 * half of the time or more. Else whoever leads those that had it for so long, as make does what it
 * starts; else their cgroup. */
static void by_rival(struct culprit *ret, const struct evidence *e)
{
	double least = CULPRIT_SHARE * causes_part_sum(e, owner_is_ready);
	struct in_common by_name = most_in_common(e, name_of), by_leader, by_cgroup;
	if (by_name.top && by_name.ns >= least) {
		ret->kind = CULPRIT_PROCESS;
		ret->pid = by_name.top->owner.pid;
		ret->name = by_name.top->owner.name;
		ret->cgroup = by_name.top->owner.cgroup;
		return;
	}
	by_leader = most_in_common(e, leader_of);
	if (by_leader.top && by_leader.ns >= least) {
		ret->kind = CULPRIT_PROCESS;
		ret->pid = by_leader.top->owner.leader_pid;
		ret->name = by_leader.top->owner.leader;
		ret->cgroup = by_leader.cgroup;
		ret->leads = true;
		return;
	}
	by_cgroup = most_in_common(e, cgroup_of);
	if (by_cgroup.top && by_cgroup.ns >= least &&
	    !is_of_job_too(e, by_cgroup.top->owner.cgroup)) {
		ret->kind = CULPRIT_CGROUP;
		ret->cgroup = by_cgroup.top->owner.cgroup;
	}
}

static void by_rank(struct culprit *ret, const struct evidence *e)
{
	uint32_t peer = causes_latest(e);
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

static void by_gpu_rival(struct culprit *ret, const struct evidence *e)
{
	const struct m_event *row = evidence_gpu_rival(e);
	struct entity of;
	if (!row)
		return;
	entity_parse(&of, strtab_get(&e->t->strings, row->entity, NULL));
	ret->kind = CULPRIT_PROCESS;
	ret->pid = of.pid;
	ret->name = row->text;
}

static void by_gpu(struct culprit *ret, const struct evidence *e)
{
	const struct m_event *row = causes_gpu_event(e);
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

void causes_culprit(struct culprit *ret, enum cause c, const struct evidence *e)
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
	} else if (c == CAUSE_CPU_STOLEN || c == CAUSE_CPU_SLOW) {
		ret->kind = CULPRIT_HOST;
	} else if (c == CAUSE_CPU_CONTENTION) {
		by_rival(ret, e);
	} else if (c == CAUSE_INTERRUPTS) {
		by_interrupt(ret, e);
	} else if (c == CAUSE_STOPPED) {
		by_stopper(ret, e);
	} else if (c == CAUSE_DISK) {
		by_disk(ret, e);
	} else if (c == CAUSE_NET_FOREIGN || c == CAUSE_NET_BANDWIDTH || c == CAUSE_NET_LOSS) {
		evidence_foreign_net(e, &ret->device);
		ret->kind = ret->device ? CULPRIT_INTERFACE : CULPRIT_NONE;
	} else if (c == CAUSE_SLOW_CALL) {
		by_call(ret, e);
	} else if (c == CAUSE_GPU_CONTENTION || (c == CAUSE_PCIE && causes_link_is_shared(e))) {
		by_gpu_rival(ret, e);
	} else if (c == CAUSE_GPU_ERROR) {
		by_gpu(ret, e);
	} else if (c == CAUSE_HANG) {
		by_missing_rank(ret, e);
	} else if (c == CAUSE_CHECKPOINT) {
		by_frame(ret, e->saving_frame);
	} else if (c == CAUSE_PYTHON_GC) {
		by_frame(ret, e->collecting_frame);
	} else if (c == CAUSE_STRAGGLER) {
		by_rank(ret, e);
	} else if (names_line(c)) {
		by_line(ret, c, e);
	}
}
