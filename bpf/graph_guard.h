/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * graph_guard.h - notes that a process makes or launches CUDA graphs, and, once CUPTI has come into
 * it while it ran, holds a launch of a graph that may have been made before: until user space has
 * had CUPTI go (src/probe/graph_guard.c), for some seconds at most. It knows one graph from
 * another by nothing: where one was made since CUPTI came, those that are launched are new. */
#pragma once

#include "hold.h"
#include "wire/graph_guard.h"

#define GRAPH_HOLD_NS 5000000000ULL
#define CUPTI_GONE_NS 3000000000ULL /* after the end of a tracer that was killed */

/* By slot. */
__u32 graph_tgids[GRAPH_GUARDS];
__u32 graph_states[GRAPH_GUARDS]; /* enum graph_guard_state */

struct graph_holding {
	__u64 until_ns;
	__u64 address; /* any readable address of the task */
	__u32 slot;
	bool let_go;
};

/* The shim ends CUPTI by itself a tenth of a second after its tracer: in 1.5 s at most. */
static __always_inline bool cupti_has_gone(void)
{
	__u64 since_ns = *(volatile __u64 *)&closing_ns;
	return since_ns && bpf_ktime_get_ns() > since_ns + CUPTI_GONE_NS;
}

static long graph_hold_step(__u32 i, struct graph_holding **ctx)
{
	struct graph_holding *h = *ctx;
	char unused;
	if (!h)
		return 1;
	if (*(volatile __u32 *)&graph_states[h->slot & (GRAPH_GUARDS - 1)] != GRAPH_GUARD_HOLDS ||
	    bpf_ktime_get_ns() > h->until_ns || cupti_has_gone()) {
		h->let_go = true;
		return 1;
	}
	if (i % YIELD_EVERY == 0)
		bpf_copy_from_user_task(&unused, 1, (void *)h->address,
					(struct task_struct *)bpf_get_current_task_btf(), 0);
	return 0;
}

__noinline int graph_hold_round(struct graph_holding *h)
{
	return h ? (int)bpf_loop(HOLD_STEPS, graph_hold_step, &h, 0) : 0;
}

/* Nobody is held twice where user space does not answer. */
static __always_inline void graph_hold(struct pt_regs *ctx, __u32 slot)
{
	struct graph_holding h = {.until_ns = bpf_ktime_get_ns() + GRAPH_HOLD_NS,
				  .address = PT_REGS_SP(ctx),
				  .slot = slot};
	for (int i = 0; i < HOLD_LOOPS && !h.let_go; i++)
		graph_hold_round(&h);
	__sync_val_compare_and_swap(&graph_states[slot & (GRAPH_GUARDS - 1)], GRAPH_GUARD_HOLDS,
				    GRAPH_GUARD_OFF);
}

SEC("uprobe.s")
int graph_called(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 slot = cookie >> 1 & (GRAPH_GUARDS - 1);
	__u32 *at = &graph_states[slot];
	if (graph_tgids[slot] != bpf_get_current_pid_tgid() >> 32)
		return 0;
	__u32 state = *(volatile __u32 *)at;
	if (state == GRAPH_GUARD_WATCHES)
		state = __sync_val_compare_and_swap(at, GRAPH_GUARD_WATCHES, GRAPH_GUARD_SEEN);
	if (state == GRAPH_GUARD_ARMED)
		state = __sync_val_compare_and_swap(at, GRAPH_GUARD_ARMED,
						    cookie & GRAPH_GUARD_MAKES ? GRAPH_GUARD_OFF
									       : GRAPH_GUARD_HOLDS);
	if (cookie & GRAPH_GUARD_MAKES ||
	    (state != GRAPH_GUARD_ARMED && state != GRAPH_GUARD_HOLDS) || cupti_has_gone())
		return 0;
	graph_hold(ctx, slot);
	return 0;
}
