/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hold.h - holds the current task in the kernel until user space has answered, for a
 * bounded time: nobody has to be alive to let it go. For sleepable programs only: they
 * run preemptible and outside RCU readers, so that nothing else waits for the held task. */
#pragma once

#include "mappings.h"
#include "state.h"
#include "waits.h"
#include "yield.h"

#define HOLD_STEPS  (1 << 23) /* the most that bpf_loop allows: 0.2 s or so */
#define HOLD_LOOPS  64
#define YIELD_EVERY 1024  /* steps of some 25 ns */
#define AWAY_NS	    50000 /* between two steps: others ran */

static __u64 maps_sequence;
static __u64 unwind_sequence;

/* Later than this user space is stopped, or does not get to run: nobody waits for it. */
#define HEARTBEAT_MOST_NS 400000000ULL
#define HOLD_TRIES	  8

/* A task's hold lies in its storage, not on a program's stack: from Linux 6.13 programs with a
 * stack of 64 bytes or more get one for each CPU (kernel/bpf/verifier.c, bpf_enable_priv_stack),
 * sleepable ones too, and those give their CPU to others that run the same program. So all that a
 * sleepable program keeps is in struct task_hold, and its own stack stays below. */
struct hold {
	__u64 sequence;
	__u64 begin_ns;
	__u64 until_ns;
	__u64 last_ns; /* of the last step */
	__u64 away_ns; /* while others had the CPU */
	__u64 most_ns; /* for which user space may have it held on, from the beginning */
	__u64 address; /* any readable address of the task */
	bool granted;  /* user space had it held on */
	bool for_maps; /* loader hook: nobody answers once user space is closing */
	bool answered;
	bool waits;
};

struct return_instance;

/* Return addresses that are to be exchanged: unwind.h. */
struct listing {
	struct return_instance *next;
	__u64 trampoline;
	__u64 sp; /* only frames above */
	__u32 count;
	bool restore;
};

struct task_hold {
	struct hold hold;
	struct mappings mappings;
	struct listing listing;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_hold);
} task_holds SEC(".maps");

/* NULL where there is no memory. */
static __always_inline struct task_hold *task_hold_here(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	return task_state(&task_holds, task);
}

/* Without it a library would run before its probes are there, or an exception end the job. It
 * cannot be made while whoever makes his is interrupted on this CPU (kernel/bpf/bpf_task_storage.c,
 * bpf_task_storage_busy): he gets the CPU, and it is tried again. */
static __always_inline struct task_hold *task_hold_surely(struct pt_regs *ctx)
{
	struct task_hold *t = task_hold_here();
	for (int i = 0; i < HOLD_TRIES && !t; i++) {
		yield_cpu(PT_REGS_SP(ctx));
		t = task_hold_here();
	}
	return t;
}

/* Whether it is held now: what it does then is not the job's. */
static __always_inline bool is_held(struct task_struct *task)
{
	struct task_hold *t = bpf_task_storage_get(&task_holds, task, 0, 0);
	return t && t->hold.waits;
}

static __always_inline bool user_space_runs(__u64 now_ns)
{
	__u64 last_ns = *(volatile __u64 *)&heartbeat_ns;
	return now_ns < last_ns || now_ns - last_ns < HEARTBEAT_MOST_NS * patience;
}

static __always_inline void hold_begin(struct hold *h, struct pt_regs *ctx, __u64 max_ns,
				       __u64 granted_ns, bool for_maps)
{
	h->begin_ns = bpf_ktime_get_ns();
	h->sequence = __sync_fetch_and_add(for_maps ? &maps_sequence : &unwind_sequence, 1) + 1;
	h->until_ns = h->begin_ns + max_ns;
	h->last_ns = h->begin_ns;
	h->away_ns = 0;
	h->most_ns = granted_ns;
	h->address = PT_REGS_SP(ctx);
	h->granted = false;
	h->for_maps = for_maps;
	h->answered = false;
}

static __always_inline void note_time(struct hold *h, __u64 now_ns)
{
	if (now_ns - h->last_ns > AWAY_NS)
		h->away_ns += now_ns - h->last_ns;
	h->last_ns = now_ns;
}

static long hold_step(__u32 i, struct hold **ctx)
{
	struct hold *h = *ctx;
	if (!h)
		return 1;
	__u32 slot = h->sequence & (ANSWER_SLOTS - 1);
	__u64 seen = h->for_maps ? *(volatile __u64 *)&answered_maps[slot]
				 : *(volatile __u64 *)&answered_unwind[slot];
	/* a later number in the slot: ours was answered long before, while we did not run */
	if (seen >= h->sequence) {
		h->answered = true;
		return 1;
	}
	if (h->for_maps && *(volatile bool *)&closing)
		return 1;
	__u64 now_ns = bpf_ktime_get_ns();
	note_time(h, now_ns);
	if (h->for_maps) {
		__u64 granted = *(volatile __u64 *)&granted_ns[slot];
		h->granted |= granted > h->until_ns;
		if (granted > h->until_ns)
			h->until_ns = granted - h->begin_ns > h->most_ns ? h->begin_ns + h->most_ns
									 : granted;
		if (!user_space_runs(now_ns))
			return 1;
	}
	/* on a kernel that does not preempt itself, tasks held on every CPU would keep user space
	 * from answering */
	if (i % YIELD_EVERY == 0)
		yield_cpu(h->address);
	return now_ns > h->until_ns;
}

/* 1 when the hold is over. Verified once, not for each round of whoever holds. */
__noinline int hold_round(struct hold *h)
{
	if (!h)
		return 1;
	bpf_loop(HOLD_STEPS, hold_step, &h, 0);
	__u64 now_ns = bpf_ktime_get_ns();
	return h->answered || now_ns > h->until_ns ||
	       (h->for_maps && (closing || !user_space_runs(now_ns)));
}

/* True when the answer came. */
static __always_inline bool hold_wait(struct hold *h)
{
	h->waits = true;
	waits_hold(h->begin_ns);
	for (int i = 0; i < HOLD_LOOPS && !hold_round(h); i++)
		;
	__u64 now_ns = bpf_ktime_get_ns();
	note_time(h, now_ns);
	__u64 took_ns = now_ns - h->begin_ns;
	__sync_fetch_and_add(&held_ns, took_ns);
	if (took_ns > h->away_ns)
		__sync_fetch_and_add(&held_cpu_ns, took_ns - h->away_ns);
	__sync_fetch_and_add(&holds, 1);
	h->waits = false;
	waits_held(now_ns, took_ns);
	return h->answered;
}
