/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * loader.h - no first call of a new library is lost. The dynamic linker calls
 * _dl_debug_state after it mapped libraries and before any of their code runs (the
 * debugger interface of <link.h>). A target that comes by is held until user space has
 * attached the probes. */
#pragma once

#include "hold.h"

#define LOADER_HOLD_MAX_NS 2000000000ULL /* later, first calls are lost: the job comes first */

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
	struct hold h = hold_begin(ctx, LOADER_HOLD_MAX_NS, true);
	r->sequence = h.sequence;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
	if (!hold_wait(&h))
		count_loss(LOSS_LATE_ATTACH);
	return 0;
}
