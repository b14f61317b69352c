/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * catch.h - holds the next thread of one process that enters a function, until user space lets
 * it go, for a short time at most: so that it can be stopped there (src/probe/catch.c). */
#pragma once

#include "hold.h"

#define CATCH_MAX_NS 50000000ULL

/* Written by user space, which writes catch_tgid last, and 0 to let go. */
__u32 catch_tgid;
__u32 caught_tid; /* the first that came, until user space writes 0 */
__u64 caught_ns;  /* when */

struct catching {
	__u64 until_ns;
	__u64 address;
	__u32 tgid;
};

static long catch_step(__u32 i, struct catching *c)
{
	char unused;
	if (*(volatile __u32 *)&catch_tgid != c->tgid || *(volatile bool *)&closing)
		return 1;
	if (i % YIELD_EVERY == 0)
		bpf_copy_from_user_task(&unused, 1, (void *)c->address,
					(struct task_struct *)bpf_get_current_task_btf(), 0);
	return bpf_ktime_get_ns() > c->until_ns;
}

SEC("uprobe.s")
int driver_entered(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 tgid = pid_tgid >> 32;
	if (tgid != catch_tgid || closing ||
	    __sync_val_compare_and_swap(&caught_tid, 0, (__u32)pid_tgid))
		return 0;
	__u64 now_ns = bpf_ktime_get_ns();
	struct catching c = {
		.until_ns = now_ns + CATCH_MAX_NS, .address = PT_REGS_SP(ctx), .tgid = tgid};
	__sync_lock_test_and_set(&caught_ns, now_ns);
	bpf_loop(HOLD_STEPS, catch_step, &c, 0);
	return 0;
}
