/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * stalls.h - what the kernel takes of the time that a traced thread has a CPU: interrupts,
 * softirqs, and memory that the thread has to free or move first. For each thread and kind how
 * often and how long, and a record of each that is long. Time in which the thread has no CPU is in
 * waits.h.
 *
 * Each ns has one owner: what interrupts a softirq, or a thread that frees memory, is that one's
 * own, and taken off the other. Interrupts and softirqs begin and end on one CPU with one thread;
 * the rest is of the thread, which may wait meanwhile. */
#pragma once

#include "spending.h"
#include "waits.h"

#include "wire/stalls.h"

/* So long packets are taken for those of the last sender that was looked at. */
#define SENDER_LASTS_NS 100000000ULL

const volatile bool counts_stalls;
const volatile __u64 stall_row_ns; /* stalls of this length and longer have a record */

struct irqaction {
	const char *name;
} RELOCATED;

/* What a CPU is at. */
struct open_stall {
	__u64 start_ns; /* 0 = nothing */
	__u64 inner_ns; /* of it, in what interrupted it */
	__u32 tid;
	__s32 number;
	char name[STALL_NAME];
};
struct cpu_stalls {
	struct open_stall softirq;
	struct open_stall interrupt; /* the last: none is interrupted by another */
	struct sender sender;	     /* of packets that it was given last (packets.h) */
	__u64 context;		     /* in_interrupt() */
	__u32 unknown;		     /* packets since, on any thread, whose sender is not known */
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_stalls);
} cpu_stalls SEC(".maps");

struct thread_stalls {
	__u64 since_ns;
	__u64 told_ns;	/* when its sums were told last */
	__u64 start_ns; /* since when it frees or moves memory, 0 = it does not */
	__u64 inner_ns; /* of that, in what interrupted it */
	__u64 off_ns;	/* what all its waits were in sum when that began */
	__u32 depth;	/* begins without an end that came since */
	__u32 slot;	/* where that is summed up */
	struct stall_sum sums[STALL_SUMS];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_stalls);
} thread_stalls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WAIT_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct wait_allowance);
} stall_allowances SEC(".maps");

static __always_inline struct cpu_stalls *stalls_here(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpu_stalls, &zero);
}

/* The thread that has the CPU, if it is traced; most interrupts find none that is. */
static __always_inline struct task_struct *traced_task(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	if (!tgid || frozen || !is_followed(tgid))
		return NULL;
	return (struct task_struct *)bpf_get_current_task_btf();
}

static __always_inline struct thread_stalls *stalls_of(struct task_struct *task, __u64 now_ns)
{
	struct thread_stalls *st = task_state(&thread_stalls, task);
	if (!st) { /* this interrupted who makes such state */
		count_loss(LOSS_STALL);
		return NULL;
	}
	if (!st->since_ns)
		st->since_ns = st->told_ns = now_ns;
	return st;
}

/* ---- records ---- */

static __always_inline bool stall_put(struct task_struct *task, const struct rec_stall *of)
{
	void *ring = ring_to_spare();
	struct rec_stall *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r)
		return false;
	__builtin_memcpy(r, of, sizeof(*r));
	r->kind = REC_STALL;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->cpu = bpf_get_smp_processor_id();
	BPF_CORE_READ_STR_INTO(&r->comm, task, comm);
	ring_submit(ring, r);
	return true;
}

/* Not told: they are told again. */
static __noinline void stall_sums_put(struct task_struct *task, struct thread_stalls *st,
				      __u64 now_ns, bool last)
{
	void *ring = last ? ring_here() : ring_to_spare();
	struct rec_stall_sums *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		if (last)
			count_loss(LOSS_STALL);
		return;
	}
	st->told_ns = now_ns;
	__builtin_memset(r, 0, offsetof(struct rec_stall_sums, sums));
	r->kind = REC_STALL_SUMS;
	r->last = last;
	r->tgid = BPF_CORE_READ(task, tgid);
	r->tid = BPF_CORE_READ(task, pid);
	r->since_ns = st->since_ns;
	r->until_ns = now_ns;
	BPF_CORE_READ_STR_INTO(&r->comm, task, comm);
	bpf_probe_read_kernel(r->sums, sizeof(r->sums), st->sums);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* ---- sums ---- */

/* The place of an interrupt: one of the first that the thread met has its own. */
static __always_inline __u32 slot_of_interrupt(const struct thread_stalls *st, __s32 number)
{
	for (__u32 i = SUM_INTERRUPTS; i < SUM_OTHERS; i++)
		if (!st->sums[i].used || st->sums[i].number == number)
			return i;
	return SUM_OTHERS;
}

/* r: what it was. It ends now. */
static __always_inline void stall_add(struct task_struct *task, struct thread_stalls *st,
				      __u32 slot, const struct rec_stall *r)
{
	barrier_var(slot); /* the verifier is to see the very number that was compared */
	if (slot >= STALL_SUMS)
		return;
	struct stall_sum *s = &st->sums[slot];
	__u64 now_ns = r->start_ns + r->duration_ns;
	if (!s->used) {
		__builtin_memset(s, 0, sizeof(*s));
		s->stall = r->stall;
		s->number = slot == SUM_OTHERS ? STALL_OTHER_LINES : r->number;
		if (slot != SUM_OTHERS)
			__builtin_memcpy(s->name, r->name, sizeof(s->name));
		s->used = 1;
	}
	s->count++;
	s->own_ns += r->own_ns;
	if (r->own_ns > s->longest_ns)
		s->longest_ns = r->own_ns;
	if (r->own_ns >= stall_row_ns &&
	    (!may_record(&stall_allowances, task->tgid, now_ns) || !stall_put(task, r)))
		s->left_out++;
	if (now_ns - st->told_ns >= WAIT_SUMS_NS)
		stall_sums_put(task, st, now_ns, false);
}

static __always_inline __u64 less(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

/* ---- interrupts and softirqs ---- */

/* began_ns: spending_begin. */
static __always_inline void stall_begin(struct open_stall *o, __s32 number, __u64 began_ns)
{
	o->number = number;
	o->inner_ns = 0;
	o->tid = (__u32)bpf_get_current_pid_tgid();
	o->start_ns = bpf_ktime_get_ns();
	spending_end(SPENT_STALLS, began_ns);
}

/* Whether what ends is what began: some kernels do not tell of each beginning and end (waits.h). */
static __always_inline bool stall_ends(struct open_stall *o, __s32 number, struct rec_stall *ret)
{
	__u64 start_ns = o->start_ns;
	o->start_ns = 0;
	if (o->tid != (__u32)bpf_get_current_pid_tgid() || o->number != number)
		return false;
	ret->number = number;
	ret->start_ns = start_ns;
	ret->duration_ns = bpf_ktime_get_ns() - start_ns;
	ret->own_ns = less(ret->duration_ns, o->inner_ns);
	return true;
}

static __always_inline void interrupt_end(__s32 number)
{
	struct cpu_stalls *c = stalls_here();
	if (!c || !c->interrupt.start_ns)
		return;
	__u64 began_ns = spending_begin(SPENT_STALLS);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct rec_stall r = {.stall = STALL_INTERRUPT};
	if (!stall_ends(&c->interrupt, number, &r))
		return;
	__builtin_memcpy(r.name, c->interrupt.name, sizeof(r.name));
	struct thread_stalls *st = stalls_of(task, r.start_ns);
	if (c->softirq.start_ns)
		c->softirq.inner_ns += r.own_ns;
	else if (st && st->start_ns)
		st->inner_ns += r.own_ns;
	if (st)
		stall_add(task, st, slot_of_interrupt(st, number), &r);
	spending_end(SPENT_STALLS, began_ns);
}

SEC("raw_tp")
int BPF_PROG(on_irq_begin, int irq, struct irqaction *action)
{
	struct cpu_stalls *c = traced_task() ? stalls_here() : NULL;
	if (!c)
		return 0;
	__u64 began_ns = spending_begin(SPENT_STALLS);
	const char *name = BPF_CORE_READ(action, name);
	c->interrupt.name[0] = 0;
	bpf_probe_read_kernel_str(c->interrupt.name, sizeof(c->interrupt.name), name);
	stall_begin(&c->interrupt, irq, began_ns);
	return 0;
}

/* Of the CPU's own. */
SEC("raw_tp")
int BPF_PROG(on_vector_begin, int vector)
{
	struct cpu_stalls *c = traced_task() ? stalls_here() : NULL;
	if (!c)
		return 0;
	__u64 began_ns = spending_begin(SPENT_STALLS);
	c->interrupt.name[0] = 0;
	stall_begin(&c->interrupt, -vector, began_ns);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_irq_end, int irq)
{
	interrupt_end(irq);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_vector_end, int vector)
{
	interrupt_end(-vector);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_softirq_begin, unsigned int number)
{
	struct cpu_stalls *c = traced_task() ? stalls_here() : NULL;
	if (c)
		stall_begin(&c->softirq, (__s32)number, spending_begin(SPENT_STALLS));
	return 0;
}

/* Not each packet's sender is looked at: one of just before has sent these too. */
static __always_inline bool is_sender_of(const struct sender *s, const struct rec_stall *r)
{
	return s->tgid && s->time_ns + SENDER_LASTS_NS > r->start_ns;
}

/* Where softirqs are preempted (PREEMPT_RT), it may be another's. */
SEC("raw_tp")
int BPF_PROG(on_softirq_end, unsigned int number)
{
	struct cpu_stalls *c = stalls_here();
	if (!c || !c->softirq.start_ns)
		return 0;
	__u64 began_ns = spending_begin(SPENT_STALLS);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct rec_stall r = {.stall = STALL_SOFTIRQ};
	if (!stall_ends(&c->softirq, (__s32)number, &r) || number >= STALL_SOFTIRQS)
		return 0;
	if (number == SOFTIRQ_NET_RX && is_sender_of(&c->sender, &r)) {
		r.sender_tgid = c->sender.tgid;
		__builtin_memcpy(r.sender, c->sender.comm, sizeof(r.sender));
	}
	struct thread_stalls *st = stalls_of(task, r.start_ns);
	if (st && st->start_ns)
		st->inner_ns += r.own_ns;
	if (st)
		stall_add(task, st, number, &r);
	spending_end(SPENT_STALLS, began_ns);
	return 0;
}

/* ---- memory ---- */

#define MEMORY_MOST_NS 10000000000ULL

static __always_inline __u64 waited_ns(struct task_struct *task)
{
	struct thread_waits *w = bpf_task_storage_get(&thread_waits, task, 0, 0);
	return w ? w->sum_ns : 0;
}

static __always_inline void memory_begin(__u32 slot)
{
	struct task_struct *task = traced_task();
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread_stalls *st = task ? stalls_of(task, now_ns) : NULL;
	if (!st)
		return;
	/* Within another, whose time it is. None is within one of its kind: the end of that was
	 * missed, as it was of one that lasts for so long. */
	if (st->start_ns && st->slot != slot && now_ns - st->start_ns < MEMORY_MOST_NS) {
		st->depth++;
		return;
	}
	st->depth = 0;
	st->start_ns = now_ns;
	st->slot = slot;
	st->inner_ns = 0;
	st->off_ns = waited_ns(task);
}

SEC("raw_tp")
int BPF_PROG(on_reclaim_begin)
{
	memory_begin(SUM_RECLAIMS + RECLAIM_HOST);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_cgroup_reclaim_begin)
{
	memory_begin(SUM_RECLAIMS + RECLAIM_CGROUP);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_compaction_begin)
{
	memory_begin(SUM_COMPACTION);
	return 0;
}

/* Also while recording stands still: what began has ended. */
SEC("raw_tp")
int BPF_PROG(on_memory_end)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_stalls *st = bpf_task_storage_get(&thread_stalls, task, 0, 0);
	if (!st || !st->start_ns)
		return 0;
	if (st->depth) {
		st->depth--;
		return 0;
	}
	__u64 began_ns = spending_begin(SPENT_STALLS), now_ns = bpf_ktime_get_ns();
	bool is_reclaim = st->slot < SUM_COMPACTION;
	struct rec_stall r = {.stall = is_reclaim ? STALL_RECLAIM : STALL_COMPACTION,
			      .number = is_reclaim ? (__s32)(st->slot - SUM_RECLAIMS) : 0,
			      .start_ns = st->start_ns,
			      .duration_ns = now_ns - st->start_ns};
	r.own_ns = less(r.duration_ns, st->inner_ns + waited_ns(task) - st->off_ns);
	st->start_ns = 0;
	if (!frozen)
		stall_add(task, st, st->slot, &r);
	spending_end(SPENT_STALLS, began_ns);
	return 0;
}

/* ---- by others ---- */

/* The thread has left its CPU for good. */
static __always_inline void stalls_leave(struct task_struct *task)
{
	struct thread_stalls *st = bpf_task_storage_get(&thread_stalls, task, 0, 0);
	if (st && st->since_ns)
		stall_sums_put(task, st, bpf_ktime_get_ns(), true);
}

/* The current task runs another program now. */
static __always_inline void stalls_exec(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_stalls *st =
		counts_stalls ? bpf_task_storage_get(&thread_stalls, task, 0, 0) : NULL;
	if (!st)
		return;
	st->since_ns = st->told_ns = bpf_ktime_get_ns();
	for (__u32 i = 0; i < STALL_SUMS; i++)
		st->sums[i].used = st->sums[i].count = 0;
}

/* All threads tell their sums; nothing is read here. */
SEC("iter/task")
int open_stall_sums(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_stalls *st = task ? bpf_task_storage_get(&thread_stalls, task, 0, 0) : NULL;
	if (st && st->since_ns)
		stall_sums_put(task, st, bpf_ktime_get_ns(), true);
	return 0;
}
