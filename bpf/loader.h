/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * loader.h - no first call of a new library is lost. The dynamic linker calls
 * _dl_debug_state after it mapped libraries and before any of their code runs (the
 * debugger interface of <link.h>). A target that comes by with a file that was not looked into
 * yet is held until user space has attached the probes; one whose files are all known goes on at
 * once, but where calls carry stacks: it is held until those can be walked; and where there are
 * rules: until it is known which it is under, once for each program.
 *
 * What a process is held is bounded, each time and in sum: while its turn has not come by
 * HOLD_MOST_NS, and by much less where another process keeps user space busy; longer only while
 * user space works on a file that this very process brought (granted_ns, up to granted_most_ns);
 * and not at all for some time after user space was too slow, or where it does not run. The job
 * comes first: later, first calls are lost, and counted. */
#pragma once

#include "hold.h"
#include "spending.h"

#define HOLD_MOST_NS	1000000000ULL
#define HOLD_PRESSED_NS 90000000ULL
#define HOLDS_A_SECOND	2 /* times the most */
#define TELLS_A_SECOND	200
#define BACK_OFF_NS	250000000ULL /* after the first time-out; doubled with each */
#define BACK_OFF_SHIFTS 6
#define ACCOUNTS_MAX	16384

/* What was done to a process, so that it stays little. */
struct hold_account {
	__u64 hash; /* of the mappings that were told last */
	__u64 second_ns;
	__u64 held_ns; /* in this second, while others had their turn */
	__u64 not_before_ns;
	__u32 tells; /* in this second */
	__u32 timeouts;
	__u32 awaited; /* of the mappings that were told last */
	__u32 ruled;   /* its rule is known: a hold of its program's was answered */
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ACCOUNTS_MAX);
	__type(key, __u32); /* tgid */
	__type(value, struct hold_account);
} hold_accounts SEC(".maps");

static const struct hold_account new_account; /* zeros; not on the stack: hold.h */

static __always_inline struct hold_account *account_of(__u32 tgid, __u64 now_ns)
{
	struct hold_account *a = bpf_map_lookup_elem(&hold_accounts, &tgid);
	if (!a) {
		bpf_map_update_elem(&hold_accounts, &tgid, &new_account, BPF_NOEXIST);
		a = bpf_map_lookup_elem(&hold_accounts, &tgid);
	}
	if (a && now_ns - a->second_ns > 1000000000ULL) {
		a->second_ns = now_ns;
		a->held_ns = 0;
		a->tells = 0;
	}
	return a;
}

/* For how long the process may be held now; 0 = not at all. */
static __always_inline __u64 allowance_ns(const struct hold_account *a, __u64 now_ns)
{
	__u64 most_ns = (pressed ? HOLD_PRESSED_NS : HOLD_MOST_NS) * patience;
	if (now_ns < a->not_before_ns || a->held_ns >= HOLDS_A_SECOND * most_ns ||
	    !user_space_runs(now_ns))
		return 0;
	__u64 left_ns = HOLDS_A_SECOND * most_ns - a->held_ns;
	return left_ns < most_ns ? left_ns : most_ns;
}

/* User space was too slow: it is not waited for again for a while. */
static __always_inline void back_off(struct hold_account *a)
{
	__u32 shift = a->timeouts < BACK_OFF_SHIFTS ? a->timeouts : BACK_OFF_SHIFTS;
	a->not_before_ns = bpf_ktime_get_ns() + (BACK_OFF_NS << shift);
	a->timeouts++;
	count_loss(LOSS_LATE_ATTACH);
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

/* Tells user space; false when there was no room. */
static __always_inline bool tell_mappings(__u64 pid_tgid, __u8 known, __u64 sequence)
{
	struct rec_task *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_TASK_FULL);
		return false;
	}
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_MAPS;
	r->known = known;
	r->tgid = pid_tgid >> 32;
	r->tid = (__u32)pid_tgid;
	r->time_ns = bpf_ktime_get_ns();
	r->sequence = sequence;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	control_submit(r, sequence || known == TASK_UNKNOWN);
	return true;
}

/* Nothing is told of mappings that were told before, and no more often than is good for all. */
static __always_inline bool is_news(struct hold_account *a, const struct mappings *m)
{
	if (m->hash && m->hash == a->hash)
		return false;
	if (a->tells >= TELLS_A_SECOND) {
		if (how_known(m) == TASK_UNKNOWN)
			count_loss(LOSS_LATE_ATTACH);
		return false;
	}
	a->tells++;
	a->hash = m->hash;
	return true;
}

/* Tells, and waits for the answer. */
static __always_inline void hold_for_maps(struct pt_regs *ctx, struct hold_account *a,
					  struct hold *h, __u64 most_ns)
{
	hold_begin(h, ctx, most_ns, granted_most_ns, true);
	if (!tell_mappings(bpf_get_current_pid_tgid(), TASK_UNKNOWN, h->sequence))
		return;
	bool answered = hold_wait(h);
	if (!h->granted) /* else it was for a file of its own */
		a->held_ns += bpf_ktime_get_ns() - h->begin_ns;
	if (answered && granted_ns[h->sequence & (ANSWER_SLOTS - 1)] == HOLD_REFUSED)
		count_loss(LOSS_LATE_ATTACH);
	if (answered) {
		a->timeouts = 0;
		a->ruled = true; /* what came before in the ring was dealt with: its exec */
	} else if (!closing)
		back_off(a);
}

/* For how long the task is to be held, which has been looked at; 0 = not at all. */
static __always_inline __u64 look_at_task(struct hold_account *a, struct task_hold *t)
{
	look_at_mappings(&t->mappings);
	if (!is_news(a, &t->mappings))
		return 0;
	__u8 known = how_known(&t->mappings);
	bool awaits = t->mappings.awaited > a->awaited || (t->mappings.ruled && !a->ruled);
	a->awaited = t->mappings.awaited;
	__u64 most_ns = known == TASK_UNKNOWN || awaits ? allowance_ns(a, bpf_ktime_get_ns()) : 0;
	if (most_ns)
		return most_ns;
	tell_mappings(bpf_get_current_pid_tgid(), known, 0);
	if (known == TASK_UNKNOWN)
		count_loss(LOSS_LATE_ATTACH);
	return 0;
}

SEC("uprobe.s")
int maps_changed(struct pt_regs *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	/* calls of a process that the kernel's probes leave alone may be told inside of it */
	/* so may what a rule of its parent's still holds for */
	if (closing || !(tells_inside || leaves_layers ? is_followed(tgid) : is_target(tgid)))
		return 0;
	__u64 began_ns = bpf_ktime_get_ns(), most_ns = 0;
	bool is_done = is_mapping_done(ctx);
	struct hold_account *a = is_done ? account_of(tgid, began_ns) : NULL;
	struct task_hold *t = is_done ? task_hold_surely(ctx) : NULL;
	if (a && t)
		most_ns = look_at_task(a, t);
	spend(SPENT_LOADS, began_ns);
	if (a && t && most_ns)
		hold_for_maps(ctx, a, &t->hold, most_ns);
	return 0;
}
