/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hold.h - holds the current task in the kernel until user space has answered, for a
 * bounded time: nobody has to be alive to let it go. For sleepable programs only: they
 * run preemptible and outside RCU readers, so that nothing else waits for the held task. */
#pragma once

#include "state.h"

#define HOLD_STEPS (1 << 23) /* the most that bpf_loop allows: 0.2 s or so */
#define HOLD_LOOPS 32
/* Steps of some 25 ns; each yield takes the lock of the address space, which attaching
 * needs too. */
#define YIELD_EVERY 1024

static __u64 maps_sequence;
static __u64 unwind_sequence;

struct hold {
	__u64 sequence;
	__u64 until_ns;
	__u64 address; /* any readable address of the task */
	bool for_maps; /* loader hook: nobody answers once user space is closing */
	bool answered;
};

static __always_inline struct hold hold_begin(struct pt_regs *ctx, __u64 max_ns, bool for_maps)
{
	struct hold h = {
		.sequence =
			__sync_fetch_and_add(for_maps ? &maps_sequence : &unwind_sequence, 1) + 1,
		.until_ns = bpf_ktime_get_ns() + max_ns,
		.address = PT_REGS_SP(ctx),
		.for_maps = for_maps,
	};
	return h;
}

static long hold_step(__u32 i, struct hold *h)
{
	__u32 slot = h->sequence & (ANSWER_SLOTS - 1);
	__u64 seen = h->for_maps ? *(volatile __u64 *)&answered_maps[slot]
				 : *(volatile __u64 *)&answered_unwind[slot];
	char unused;
	/* a later number in the slot: ours was answered long before, while we did not run */
	if (seen >= h->sequence) {
		h->answered = true;
		return 1;
	}
	if (h->for_maps && *(volatile bool *)&closing)
		return 1;
	/* get_user_pages has a cond_resched(): on a kernel that does not preempt itself, tasks
	 * held on every CPU would keep user space from answering */
	if (i % YIELD_EVERY == 0)
		bpf_copy_from_user_task(&unused, 1, (void *)h->address,
					(struct task_struct *)bpf_get_current_task_btf(), 0);
	return bpf_ktime_get_ns() > h->until_ns;
}

/* True when the answer came. */
static __always_inline bool hold_wait(struct hold *h)
{
	for (int i = 0; i < HOLD_LOOPS; i++) {
		bpf_loop(HOLD_STEPS, hold_step, h, 0);
		if (h->answered || (h->for_maps && closing) || bpf_ktime_get_ns() > h->until_ns)
			break;
	}
	return h->answered;
}
