/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * tasks.h - forks, execs and exits. A child of a target becomes a target before it runs
 * its first instruction; a thread that ends takes its open calls off as unwound. */
#pragma once

#include "calls.h"
#include "loader.h"
#include "stalls.h"

#define EXITING_THREADS 256 /* of a process that ends: the time of others is not counted */

/* CPU time of a process that ends, in all its life: of threads that are gone, and of those that are
 * on their way. */
static __always_inline __u64 process_cpu_ns(struct task_struct *task)
{
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	__u64 ns = BPF_CORE_READ(signal, sum_sched_runtime);
	void *head = (void *)signal + bpf_core_field_offset(struct signal_struct, thread_head);
	struct list_head *at = BPF_CORE_READ(signal, thread_head.next);
	for (int i = 0; i < EXITING_THREADS; i++) {
		if (!at || at == head)
			break;
		struct task_struct *thread =
			(void *)at - bpf_core_field_offset(struct task_struct, thread_node);
		ns += BPF_CORE_READ(thread, se.sum_exec_runtime);
		at = BPF_CORE_READ(at, next);
	}
	return ns;
}

static __always_inline void emit_task(__u8 kind, struct task_struct *task, __u32 parent_tgid,
				      bool group_dead, __u8 known)
{
	struct rec_task *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_TASK_FULL);
		return;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = kind;
	r->known = known;
	r->tgid = BPF_CORE_READ(task, tgid);
	r->tid = BPF_CORE_READ(task, pid);
	r->parent_tgid = parent_tgid;
	r->time_ns = bpf_ktime_get_ns();
	r->exit_code = BPF_CORE_READ(task, exit_code);
	r->group_dead = group_dead;
	if (group_dead)
		r->cpu_ns = process_cpu_ns(task);
	BPF_CORE_READ_STR_INTO(&r->comm, task, comm);
	control_submit(r, kind == REC_EXEC && known == TASK_UNKNOWN);
}

static __always_inline void drop_all(struct thread_state *st)
{
	__u64 now_ns = bpf_ktime_get_ns();
	for (int i = 0; i < MAX_OPEN_CALLS; i++) {
		if (!st->depth || st->depth > MAX_OPEN_CALLS)
			break;
		drop_top(st, now_ns);
	}
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 child_tgid = BPF_CORE_READ(child, tgid);
	if (child_tgid != BPF_CORE_READ(child, pid))
		return 0; /* a thread of the same process */
	__u32 parent_tgid = BPF_CORE_READ(parent, tgid);
	__u8 yes = TARGET_IS_TRACED;
	__u64 *left_out = exclusions ? bpf_map_lookup_elem(&excluded, &parent_tgid) : NULL;
	if (left_out) { /* the same program */
		bpf_map_update_elem(&excluded, &child_tgid, left_out, BPF_ANY);
		__sync_fetch_and_add(&exclusions, 1);
	}
	if (!is_followed(parent_tgid))
		return 0;
	__u64 began_ns = bpf_ktime_get_ns();
	struct unwind_process *p = bpf_map_lookup_elem(&unwind_processes, &parent_tgid);
	if (p) /* the child has its parent's mappings */
		bpf_map_update_elem(&unwind_processes, &child_tgid, p, BPF_ANY);
	__u8 *target = bpf_map_lookup_elem(&targets, &parent_tgid); /* it has its parent's code */
	if (!target_all &&
	    bpf_map_update_elem(&targets, &child_tgid, target ? target : &yes, BPF_ANY))
		count_loss(LOSS_TASK_FULL);
	emit_task(REC_FORK, child, parent_tgid, false, TASK_UNKNOWN);
	spend(SPENT_FORKS, began_ns);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid)
{
	__u32 tgid = BPF_CORE_READ(task, tgid);
	if (!is_followed(tgid))
		return 0;
	__u64 began_ns = bpf_ktime_get_ns();
	bpf_map_delete_elem(&unwind_processes, &tgid);
	if (exclusions && !bpf_map_delete_elem(&excluded, &tgid))
		__sync_fetch_and_add(&exclusions, 1); /* another program now */
	struct thread_state *st = bpf_task_storage_get(
		&threads, (struct task_struct *)bpf_get_current_task_btf(), 0, 0);
	if (st && st->epoch == epoch && !frozen && !calls_closed)
		drop_all(st); /* the frames went with the old program */
	if (st)
		st->called = false;
	forget_caller(tgid);
	bpf_map_delete_elem(&hold_accounts, &tgid); /* another program, other mappings */
	__u8 *target = bpf_map_lookup_elem(&targets, &tgid);
	if (target && *target & TARGET_TELLS_INSIDE) {
		*target = TARGET_IS_TRACED;
		__sync_fetch_and_add(&exclusions, 1);
	}
	waits_exec();
	stalls_exec();
	struct mappings m = {};
	look_at_mappings(&m);
	emit_task(REC_EXEC, task, 0, false, how_known(&m));
	spend(SPENT_EXECS, began_ns);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u64 began_ns = bpf_ktime_get_ns();
	struct thread_state *st = bpf_task_storage_get(
		&threads, (struct task_struct *)bpf_get_current_task_btf(), 0, 0);
	if (st && st->epoch == epoch && !frozen && !calls_closed)
		drop_all(st);
	__u32 tgid = BPF_CORE_READ(task, tgid);
	bool dead = BPF_CORE_READ(task, signal, live.counter) == 0;
	if (!st && !is_followed(tgid))
		return 0;
	if (dead) {
		bpf_map_delete_elem(&excluded, &tgid);
		bpf_map_delete_elem(&hold_accounts, &tgid);
		forget_caller(tgid);
		emit_task(REC_EXIT, task, 0, true, TASK_UNKNOWN);
		bpf_map_delete_elem(&targets, &tgid);
	}
	spend(SPENT_EXITS, began_ns);
	return 0;
}
