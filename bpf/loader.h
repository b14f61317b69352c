/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * loader.h - no first call of a new library is lost. The dynamic linker calls
 * _dl_debug_state after it mapped libraries and before any of their code runs (the
 * debugger interface of <link.h>). A target that comes by is held, in the kernel, until
 * user space has attached the probes, for loader_wait_ns at most: nobody has to be
 * alive to let it go. The program is sleepable, so waiting delays this task alone. */
#pragma once

#include "tasks.h"

struct wait_ctx {
	__u64 sequence;
	__u64 until_ns;
	bool acked;
};

static long wait_step(__u32 i, struct wait_ctx *w)
{
	__u64 seen = *(volatile __u64 *)&maps_acked[w->sequence & (ACK_SLOTS - 1)];
	if (seen == w->sequence) {
		w->acked = true;
		return 1;
	}
	return (i & 63) == 0 && bpf_ktime_get_ns() > w->until_ns;
}

/* Offset of r_state in struct r_debug of <link.h>; RT_CONSISTENT is 0. */
#define R_DEBUG_STATE 24

/* The linker calls its hook before and after it maps; only the second time there is
 * something new. The cookie is the distance from the hook to _r_debug, 0 if unknown. */
static __always_inline bool is_mapping_done(struct pt_regs *ctx)
{
	__u64 distance = bpf_get_attach_cookie(ctx);
	int state = 0;
	if (!distance || bpf_probe_read_user(&state, sizeof(state),
					     (void *)(PT_REGS_IP(ctx) + distance + R_DEBUG_STATE)))
		return true;
	return state == 0;
}

SEC("uprobe.s")
int maps_changed(struct pt_regs *ctx)
{
	if (closing)
		return 0;
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	if (!is_target(pid_tgid >> 32) || !is_mapping_done(ctx))
		return 0;
	struct wait_ctx w = {
		.sequence = __sync_fetch_and_add(&maps_sequence, 1) + 1,
		.until_ns = bpf_ktime_get_ns() + loader_wait_ns,
	};
	struct rec_task *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_TASK_FULL);
		return 0;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_MAPS;
	r->tgid = pid_tgid >> 32;
	r->tid = (__u32)pid_tgid;
	r->time_ns = bpf_ktime_get_ns();
	r->sequence = w.sequence;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
	if (loader_wait_ns)
		bpf_loop(1 << 23, wait_step, &w, 0);
	if (!w.acked)
		count_loss(LOSS_LATE_ATTACH);
	return 0;
}
