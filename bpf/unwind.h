/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * unwind.h - lets C++ exceptions pass frames that have a return probe. A return probe
 * replaces the return address on the stack by the kernel's trampoline; an unwinder that
 * walks into it finds no rules and ends the program (std::terminate). So, when an
 * unwinder starts, every replaced return address is put back, and when the exception
 * has been caught, the frames that are still there get the trampoline again.
 *
 * The kernel keeps both values in the task's list of return_instances
 * (kernel/events/uprobes.c); entries of frames that are gone are dropped by the kernel
 * itself, as after longjmp. Runs for every task: whoever has a return probe of ours is
 * protected, target or not. */
#pragma once

#include "state.h"

#define RETURN_INSTANCES_MAX 128

static __always_inline __u64 trampoline_of(struct task_struct *task)
{
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	return area ? BPF_CORE_READ(area, vaddr) : 0;
}

/* _Unwind_RaiseException, _Unwind_Resume, _Unwind_Resume_or_Rethrow,
 * _Unwind_ForcedUnwind: entered before the stack is walked. */
SEC("uprobe")
int unwind_begins(struct pt_regs *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct return_instance *ri = BPF_CORE_READ(task, utask, return_instances);
	if (!ri)
		return 0;
	__u64 trampoline = trampoline_of(task);
	for (int i = 0; i < RETURN_INSTANCES_MAX && ri && trampoline; i++) {
		__u64 slot = BPF_CORE_READ(ri, stack);
		__u64 original = BPF_CORE_READ(ri, orig_ret_vaddr);
		__u64 there = 0;
		if (!bpf_probe_read_user(&there, 8, (void *)slot) && there == trampoline)
			bpf_probe_write_user((void *)slot, &original, 8);
		ri = BPF_CORE_READ(ri, next);
	}
	return 0;
}

/* __cxa_begin_catch: the stack ends at the catching frame now. */
SEC("uprobe")
int unwind_ends(struct pt_regs *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct return_instance *ri = BPF_CORE_READ(task, utask, return_instances);
	if (!ri)
		return 0;
	__u64 trampoline = trampoline_of(task);
	__u64 sp = PT_REGS_SP(ctx);
	for (int i = 0; i < RETURN_INSTANCES_MAX && ri && trampoline; i++) {
		__u64 slot = BPF_CORE_READ(ri, stack);
		__u64 original = BPF_CORE_READ(ri, orig_ret_vaddr);
		__u64 there = 0;
		if (slot > sp && !bpf_probe_read_user(&there, 8, (void *)slot) && there == original)
			bpf_probe_write_user((void *)slot, &trampoline, 8);
		ri = BPF_CORE_READ(ri, next);
	}
	return 0;
}
