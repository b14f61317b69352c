/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * unwind.h - lets C++ exceptions pass frames that have a return probe. A return probe
 * replaces the return address on the stack by the kernel's trampoline; an unwinder that
 * walks into it finds no rules and ends the program (std::terminate). So, when an
 * unwinder starts, every replaced return address is put back, and when the exception has
 * been caught, the frames that are still there get the trampoline again.
 *
 * The kernel keeps both values in the task's list of return_instances
 * (kernel/events/uprobes.c); entries of frames that are gone are dropped by the kernel
 * itself, as after longjmp. BPF may not write user memory where the kernel is locked
 * down, so user space does (process_vm_writev) while the task is held. Runs for every
 * task: whoever has a return probe of ours is protected, target or not. */
#pragma once

#include "hold.h"

#define GUARD_HOLD_MAX_NS 5000000000ULL /* going on unprepared would end the job */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} guard SEC(".maps");

static __always_inline __u64 trampoline_of(struct task_struct *task)
{
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	return area ? BPF_CORE_READ(area, vaddr) : 0;
}

struct list_to {
	struct listing *listing;
	struct rec_unwind *record; /* NULL: only count. A pointer that no map may hold */
};

/* Notes one return address that is to be exchanged: the trampoline for the original, or
 * back. */
static long list_step(__u32 i, struct list_to *to)
{
	struct listing *l = to->listing;
	struct return_instance *ri = l ? l->next : NULL;
	if (!ri)
		return 1;
	__u64 slot = BPF_CORE_READ(ri, stack);
	__u64 original = BPF_CORE_READ(ri, orig_ret_vaddr);
	__u64 there = 0;
	l->next = BPF_CORE_READ(ri, next);
	if (slot <= l->sp || bpf_probe_read_user(&there, 8, (void *)slot) ||
	    there != (l->restore ? l->trampoline : original))
		return 0;
	__u32 n = l->count;
	if (n >= UNWIND_SLOTS)
		return 1;
	if (to->record) {
		to->record->slots[n].address = slot;
		to->record->slots[n].value = l->restore ? original : l->trampoline;
	}
	l->count = n + 1;
	return 0;
}

/* Counts them, or fills in the record. */
static __always_inline void list_returns(struct listing *l, struct return_instance *first,
					 struct rec_unwind *record)
{
	struct list_to to = {l, record};
	l->next = first;
	l->count = 0;
	bpf_loop(UNWIND_SLOTS, list_step, &to, 0);
}

static __always_inline void hold_for_guard(struct pt_regs *ctx, struct task_hold *t,
					   struct return_instance *first)
{
	struct rec_unwind *r = bpf_ringbuf_reserve(&guard, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_LATE_GUARD);
		return;
	}
	hold_begin(&t->hold, ctx, GUARD_HOLD_MAX_NS, 0, false);
	list_returns(&t->listing, first, r);
	r->kind = REC_UNWIND;
	r->pid = bpf_get_current_pid_tgid() >> 32;
	r->count = t->listing.count;
	r->sequence = t->hold.sequence;
	bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
	if (!hold_wait(&t->hold))
		count_loss(LOSS_LATE_GUARD);
}

static __always_inline int exchange_returns(struct pt_regs *ctx, bool restore)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct return_instance *first = BPF_CORE_READ(task, utask, return_instances);
	__u64 trampoline = trampoline_of(task);
	if (!first || !trampoline || (closing && !restore))
		return 0;
	struct task_hold *t = task_hold_surely(ctx);
	if (!t) {
		count_loss(LOSS_LATE_GUARD);
		return 0;
	}
	t->listing.trampoline = trampoline;
	t->listing.sp = restore ? 0 : PT_REGS_SP(ctx);
	t->listing.restore = restore;
	list_returns(&t->listing, first, NULL);
	if (t->listing.count)
		hold_for_guard(ctx, t, first);
	return 0;
}

/* _Unwind_RaiseException, _Unwind_Resume, _Unwind_Resume_or_Rethrow,
 * _Unwind_ForcedUnwind: entered before the stack is walked. */
SEC("uprobe.s")
int unwind_begins(struct pt_regs *ctx)
{
	return exchange_returns(ctx, true);
}

/* __cxa_begin_catch: the stack ends at the catching frame now. */
SEC("uprobe.s")
int unwind_ends(struct pt_regs *ctx)
{
	return exchange_returns(ctx, false);
}
