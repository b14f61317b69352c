/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * yield.h - a program that holds its task lets others run in between. No helper does just that on a
 * kernel that does not preempt itself; but get_user_pages() has a cond_resched(), with the lock of
 * the address space taken for reading. A task that is scheduled out there keeps the lock until its
 * next turn, and attaching needs each held task's lock for writing, once a place: with eight of
 * them on two CPUs that was seconds. So the address space that is read is one whose lock nobody
 * wants for writing: the guard's (guard.c), which only waits.
 *
 * The verifier wants a pointer to a task that it trusts outside of RCU readers, where one may
 * sleep. The map keeps the guard's task_struct alive; signal->curr_target of a process with one
 * thread is that thread again (kernel/fork.c copy_signal, kernel/signal.c complete_signal), by a
 * path that does not make the pointer one of RCU readers. From Linux 6.3; before, the task reads
 * its own memory. */
#pragma once

#include "state.h"

extern struct task_struct *bpf_task_acquire(struct task_struct *task) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;

struct yield_target {
	struct task_struct *task; /* __kptr: see src/probe/yield_target.c */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct yield_target);
} yield_target SEC(".maps");

/* Reading it once keeps the process that is asked for (one with one thread). */
SEC("iter/task")
int keep_yield_target(struct bpf_iter__task *ctx)
{
	__u32 zero = 0;
	struct yield_target *y = bpf_map_lookup_elem(&yield_target, &zero);
	struct task_struct *task = ctx->task; /* read once, for the verifier */
	if (!y || !task)
		return 0;
	struct task_struct *kept = bpf_task_acquire(task);
	if (!kept)
		return 0;
	kept = bpf_kptr_xchg(&y->task, kept);
	if (kept)
		bpf_task_release(kept);
	return 0;
}

static __always_inline struct task_struct *task_to_yield_on(void)
{
	__u32 zero = 0;
	struct task_struct *ret = NULL;
	if (!yields_on_guard)
		return NULL;
	struct yield_target *y = bpf_map_lookup_elem(&yield_target, &zero);
	if (!y)
		return NULL;
	bpf_rcu_read_lock();
	struct task_struct *kept = y->task;
	if (kept)
		ret = kept->signal->curr_target;
	bpf_rcu_read_unlock();
	return ret;
}

/* Gives the CPU to whoever waits for it. own: any readable address of this task. */
static __always_inline void yield_cpu(__u64 own)
{
	char unused;
	struct task_struct *other = task_to_yield_on();
	if (other && !bpf_copy_from_user_task(&unused, 1, (void *)yield_address, other, 0))
		return;
	bpf_copy_from_user_task(&unused, 1, (void *)own,
				(struct task_struct *)bpf_get_current_task_btf(), 0);
}
