/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * samples.h - what threads do: the stack at each tick of the CPU clock, and why, for how long
 * and at which stack a thread does not run. Has the scheduler's tracepoints, also for waits.h. */
#pragma once

#include "fixed_work.h"
#include "hold.h"
#include "spending.h"
#include "stack.h"
#include "stalls.h"
#include "waits.h"

#define SWITCH_STACK_NS	    1000000ULL	/* a thread: one in so much time */
#define SWITCH_STACKS_BURST 200		/* waits beyond them are recorded without a stack */
#define CPU_STACKS_PART	    20		/* a CPU spends one part in so many on stacks at switches */
#define CPU_STACKS_NS	    10000000ULL /* and so much at once */
#define WAIT_RECORD_NS	    50000ULL	/* a CPU: one record of a wait in so much time */
#define WAIT_RECORDS_BURST  5000	/* waits beyond them are put together */
#define SHORT_WAITS_NS	    10000000ULL /* short waits are recorded once they are so much */
#define SIGNAL_STOP	    19		/* arch/x86/include/uapi/asm/signal.h */

const volatile __u64 sample_period_ns;
const volatile __u32 ticks_a_sample;
const volatile bool profiles_waits;
const volatile __u64 wait_min_ns; /* shorter waits are put together */

struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#define KERNEL_STACK_BYTES (8 * 127)

/* The kernel's frames come first. */
static __always_inline void take_kernel_frames(void *ctx, struct rec_stack *r)
{
	long n = bpf_get_stack(ctx, r->frame, KERNEL_STACK_BYTES, 0);
	if (n <= 0)
		return;
	__u32 frames = (__u32)n / 8;
	if (frames > KERNEL_STACK_BYTES / 8)
		frames = KERNEL_STACK_BYTES / 8;
	r->frames = r->kernel = frames;
	__u64 h = r->id;
	for (__u32 i = 0; i < KERNEL_STACK_BYTES / 8; i++) {
		if (i >= frames)
			break;
		h = (h ^ r->frame[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 29;
	}
	r->id = h;
}

/* cause: of what is counted when there is no room. */
static __always_inline struct rec_sample *sample_begin(void *ring, __u32 cause)
{
	struct rec_sample *s = ring ? bpf_ringbuf_reserve(ring, sizeof(*s), 0) : NULL;
	if (!s) {
		count_loss(cause);
		return NULL;
	}
	__builtin_memset(s, 0, sizeof(*s));
	s->kind = REC_SAMPLE;
	s->syscall = -1;
	return s;
}

/* Where each CPU is in its group of ticks, and which of them is taken. */
struct ticks {
	__u32 at;
	__u32 taken;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ticks);
} ticks SEC(".maps");

/* One tick in so many is taken, by chance: what happens as regularly as the clock ticks would be
 * seen always, or never. Threads that take turns under CPython's lock do, every 5 ms. */
static __always_inline bool tick_is_taken(void)
{
	__u32 zero = 0;
	struct ticks *t = bpf_map_lookup_elem(&ticks, &zero);
	if (!t || ticks_a_sample <= 1)
		return true;
	if (++t->at >= ticks_a_sample) {
		t->at = 0;
		t->taken = bpf_get_prandom_u32() % ticks_a_sample;
	}
	return t->at == t->taken;
}

static __always_inline void take_tick(struct bpf_perf_event_data *ctx, __u64 pid_tgid)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 tgid = pid_tgid >> 32;
	bool user = ctx->regs.cs & 3;
	if (!user && is_held(task))
		return;
	struct rec_stack *r = stack_begin(tgid);
	__u64 stack = 0;
	if (r) {
		if (!user)
			take_kernel_frames(ctx, r);
		if (user) {
#define OF_CONTEXT(reg) ctx->regs.reg
			TAKE_REGISTERS(r, OF_CONTEXT);
#undef OF_CONTEXT
		}
		if (user || take_entry_registers(r, task))
			stack_walk(r);
		stack = stack_end(r);
	}
	struct rec_sample *s = sample_begin(ring_here(), LOSS_SAMPLE);
	if (!s)
		return;
	s->tgid = tgid;
	s->tid = (__u32)pid_tgid;
	s->time_ns = bpf_ktime_get_ns();
	s->weight_ns = sample_period_ns;
	s->stack = stack;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	if (stops_at_samples && ctx->regs.cs & 3)
		bpf_send_signal(SIGNAL_STOP);
}

SEC("perf_event")
int on_cpu_clock(struct bpf_perf_event_data *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 tgid = pid_tgid >> 32;
	bool taken = tick_is_taken();
	if (!tgid || frozen || !is_followed(tgid))
		return 0;
	__u64 began_ns = bpf_ktime_get_ns();
	if (taken) {
		take_tick(ctx, pid_tgid);
		time_fixed_work(tgid);
	}
	spend(SPENT_TICKS, began_ns);
	return 0;
}

/* ---- waits ---- */

/* What each CPU may still do. However many threads there are, and however deep their stacks: the
 * job goes on at nearly its own speed. */
struct cpu_allowance {
	__u64 stacks_ns;      /* up to when time for stacks was counted */
	__s64 stacks_left_ns; /* below 0: the last one took longer than there was */
	__u64 records_ns;     /* of the allowance for records: as refill_ns */
	__u32 records;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_allowance);
} cpu_allowances SEC(".maps");

static __always_inline struct cpu_allowance *allowance_here(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpu_allowances, &zero);
}

static __always_inline bool may_take_stack(struct thread_profile *p, struct cpu_allowance *a,
					   __u64 now_ns)
{
	__u64 more_ns = (now_ns - a->stacks_ns) / CPU_STACKS_PART;
	a->stacks_ns = now_ns;
	a->stacks_left_ns += (__s64)(more_ns < CPU_STACKS_NS ? more_ns : CPU_STACKS_NS);
	if (a->stacks_left_ns > (__s64)CPU_STACKS_NS)
		a->stacks_left_ns = CPU_STACKS_NS;
	if (!may_take(&p->refill_ns, &p->allowance, SWITCH_STACK_NS, SWITCH_STACKS_BURST, now_ns))
		return false;
	if (a->stacks_left_ns > 0)
		return true;
	count_loss(LOSS_WAIT_STACK);
	return false;
}

static __always_inline void took_stack(struct cpu_allowance *a, __u64 since_ns)
{
	a->stacks_left_ns -= (__s64)(bpf_ktime_get_ns() - since_ns);
}

static __always_inline void begin_wait(void *ctx, struct task_struct *task, __u32 state,
				       bool preempted)
{
	struct thread_profile *p =
		bpf_task_storage_get(&profiles, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!p)
		return;
	__u64 now_ns = bpf_ktime_get_ns();
	p->off_ns = now_ns;
	p->off_stack = 0;
	p->preempted = preempted;
	p->waker_tid = 0;
	p->waker[0] = 0;
	p->reason = preempted ? WAIT_PREEMPTED : reason_of(task, state, &p->syscall);
	struct cpu_allowance *a = allowance_here();
	if (!a || !may_take_stack(p, a, now_ns))
		return;
	struct rec_stack *r = stack_begin(BPF_CORE_READ(task, tgid));
	if (!r)
		return;
	r->where = STACK_AT_SWITCH;
	take_kernel_frames(ctx, r);
	if (take_entry_registers(r, task))
		stack_walk(r);
	p->off_stack = stack_end(r);
	took_stack(a, now_ns);
}

/* is_last: no later record of the thread can have its time. */
static __always_inline bool put_wait(struct task_struct *task, const struct thread_profile *p,
				     __u64 waited_ns, __u64 stack, bool is_last)
{
	struct rec_sample *s = is_last ? sample_begin(ring_here(), LOSS_SAMPLE)
				       : sample_begin(ring_to_spare(), LOSS_WAIT_JOINED);
	if (!s)
		return false;
	s->is_wait = 1;
	s->preempted = p->preempted;
	s->reason = p->reason;
	s->syscall = p->syscall;
	s->tgid = BPF_CORE_READ(task, tgid);
	s->tid = BPF_CORE_READ(task, pid);
	s->time_ns = bpf_ktime_get_ns();
	s->weight_ns = waited_ns;
	s->stack = stack;
	s->waker_tid = p->waker_tid;
	__builtin_memcpy(s->waker, p->waker, sizeof(s->waker));
	BPF_CORE_READ_STR_INTO(&s->comm, task, comm);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline bool may_record_wait(__u64 now_ns)
{
	struct cpu_allowance *a = allowance_here();
	if (a && may_take(&a->records_ns, &a->records, WAIT_RECORD_NS, WAIT_RECORDS_BURST, now_ns))
		return true;
	count_loss(LOSS_WAIT_JOINED);
	return false;
}

/* A wait that has no record of its own, for it is short, or there is no allowance or room, is put
 * together with others of its thread: its time is in a later one. False when there was none. */
static __always_inline bool end_wait(struct task_struct *task)
{
	struct thread_profile *p = bpf_task_storage_get(&profiles, task, 0, 0);
	if (!p || !p->off_ns)
		return false;
	__u64 now_ns = bpf_ktime_get_ns(), waited_ns = now_ns - p->off_ns;
	bool is_short = waited_ns < wait_min_ns;
	p->off_ns = 0;
	if (is_short)
		p->short_ns += waited_ns;
	if ((is_short && p->short_ns < SHORT_WAITS_NS) || !may_record_wait(now_ns)) {
		p->short_ns += is_short ? 0 : waited_ns;
		return true;
	}
	if (!is_short && !put_wait(task, p, waited_ns, p->off_stack, false))
		p->short_ns += waited_ns;
	if (p->short_ns >= SHORT_WAITS_NS && put_wait(task, p, p->short_ns, 0, false))
		p->short_ns = 0;
	return true;
}

/* A thread that ends leaves its last short waits. */
static __always_inline void end_thread(struct task_struct *task)
{
	struct thread_profile *p = bpf_task_storage_get(&profiles, task, 0, 0);
	if (p && p->short_ns)
		put_wait(task, p, p->short_ns, 0, true);
}

/* Whether the next task is traced. */
static __always_inline bool profile_switch(void *ctx, struct task_struct *prev,
					   struct task_struct *next, __u32 tgid, __u32 state,
					   bool could_run)
{
	bool for_next = end_wait(next);
	if (!tgid || !is_followed(tgid))
		return for_next;
	if (state & TASK_DEAD)
		end_thread(prev);
	else
		begin_wait(ctx, prev, state, could_run);
	return for_next;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (frozen)
		return 0;
	__u64 began_ns = spending_begin(SPENT_SWITCHES);
	__u32 tgid = prev->tgid, state = prev->__state;
	bool for_next = false; /* the kernel takes this for time of the next task */
	if (counts_waits)
		for_next |= waits_switch(prev, next, tgid, state, preempt || !state);
	if (counts_stalls && state & TASK_DEAD)
		stalls_leave(prev);
	if (profiles_waits)
		for_next |= profile_switch(ctx, prev, next, tgid, state, preempt || !state);
	if (for_next)
		spending_end(SPENT_SWITCHES, began_ns);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	if (counts_waits)
		waits_wake(ctx, task);
	if (!profiles_waits)
		return 0;
	struct thread_profile *p = bpf_task_storage_get(&profiles, task, 0, 0);
	if (!p || !p->off_ns)
		return 0;
	if (in_interrupt(ctx, &p->context)) {
		p->waker_tid = 0;
		__builtin_memcpy(p->waker, "(interrupt)", 12);
		return 0;
	}
	p->waker_tid = (__u32)bpf_get_current_pid_tgid();
	bpf_get_current_comm(p->waker, sizeof(p->waker));
	return 0;
}
