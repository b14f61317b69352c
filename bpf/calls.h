/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * calls.h - spans, instants and pairs. A call is pushed on its thread's stack of open
 * calls when it begins and popped when it returns; then one record is written, or one
 * bucket counted, as the layer's mode says. The stack is kept honest by the stack
 * pointer: a frame below the current one has left, whether it returned or not. */
#pragma once

#include "args.h"
#include "hits.h"
#include "spending.h"
#include "stack.h"
#include "wire/hist.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HISTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct hist_key);
	__type(value, struct hist_value);
} hists SEC(".maps");

/* A zero histogram to insert; 600 bytes do not fit on the BPF stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hist_value);
} hist_zero SEC(".maps");

/* Functions that are not static are verified once, by themselves, instead of once for each
 * path that leads to them; so they check their pointers, and return a value. */
__noinline int hist_count(struct open_call *c, __u64 dur_ns)
{
	if (!c)
		return 0;
	struct hist_key key = {.tgid = bpf_get_current_pid_tgid() >> 32, .probe = c->probe};
	if (c->flags & CALL_NAMED)
		key.name = c->args[0];
	struct hist_value *h = bpf_map_lookup_elem(&hists, &key);
	if (!h) {
		__u32 zero = 0;
		struct hist_value *empty = bpf_map_lookup_elem(&hist_zero, &zero);
		if (!empty)
			return 0;
		bpf_map_update_elem(&hists, &key, empty, BPF_NOEXIST);
		h = bpf_map_lookup_elem(&hists, &key);
		if (!h) {
			count_loss(LOSS_HIST_FULL);
			return 0;
		}
	}
	__sync_fetch_and_add(&h->count, 1);
	__sync_fetch_and_add(&h->total_ns, dur_ns);
	if (c->flags & CALL_ERROR)
		__sync_fetch_and_add(&h->errors, 1);
	if (c->flags & CALL_NESTED)
		__sync_fetch_and_add(&h->nested, 1);
	if (dur_ns > h->max_ns)
		h->max_ns = dur_ns;
	__sync_fetch_and_add(&h->buckets[hist_bucket(dur_ns) & (HIST_BUCKETS - 1)], 1);
	return 0;
}

static __always_inline void fill_record(struct rec_call *r, const struct open_call *c, __u32 depth,
					__u64 dur_ns, __u64 pid_tgid)
{
	r->kind = REC_CALL;
	r->flags = c->flags;
	r->depth = depth;
	r->nargs = c->nargs;
	r->probe = c->probe;
	r->tgid = pid_tgid >> 32;
	r->tid = (__u32)pid_tgid;
	r->start_ns = c->start_ns;
	r->dur_ns = dur_ns;
}

/* Reserves the smallest of four sizes that holds the arguments: the verifier wants
 * constants. Every byte of a reserved record is written. */
static __always_inline void write_call(const struct open_call *c, __u32 depth, __u64 dur_ns)
{
	void *ring = ring_here();
	if (!ring) {
		count_loss(LOSS_RING_FULL);
		return;
	}
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	struct rec_call *r;
	if (c->nargs == 0 && !c->stack) {
		r = bpf_ringbuf_reserve(ring, 32, 0);
		if (!r)
			goto full;
		fill_record(r, c, depth, dur_ns, pid_tgid);
	} else if (c->nargs <= 2 && !c->stack) {
		r = bpf_ringbuf_reserve(ring, 48, 0);
		if (!r)
			goto full;
		fill_record(r, c, depth, dur_ns, pid_tgid);
		r->args[0] = c->args[0];
		r->args[1] = c->args[1];
	} else if (c->stack) {
		struct rec_call_stack *with = bpf_ringbuf_reserve(ring, sizeof(*with), 0);
		if (!with)
			goto full;
		r = &with->call;
		fill_record(r, c, depth, dur_ns, pid_tgid);
		__builtin_memcpy(r->args, c->args, sizeof(r->args));
		with->stack = c->stack;
		ring_submit(ring, with);
		return;
	} else if (c->nargs <= 6) {
		r = bpf_ringbuf_reserve(ring, 80, 0);
		if (!r)
			goto full;
		fill_record(r, c, depth, dur_ns, pid_tgid);
		__builtin_memcpy(r->args, c->args, 48);
	} else {
		r = bpf_ringbuf_reserve(ring, sizeof(*r), 0);
		if (!r)
			goto full;
		fill_record(r, c, depth, dur_ns, pid_tgid);
		__builtin_memcpy(r->args, c->args, sizeof(r->args));
	}
	ring_submit(ring, r);
	return;
full:
	count_loss(LOSS_RING_FULL);
}

/* Keeps a finished call as the mode of its layer says. */
static __always_inline void keep_call(struct open_call *c, __u32 depth, __u64 dur_ns)
{
	__u32 mode = mode_of_layer[c->layer & (LAYERS_MAX - 1)];
	if (mode != MODE_TRACE) {
		hist_count(c, dur_ns);
		__u32 probe = c->probe;
		struct probe_desc *d = bpf_map_lookup_elem(&probes, &probe);
		__u64 *threshold_ns = bpf_map_lookup_elem(&thresholds_ns, &probe);
		bool slow = mode == MODE_TAIL && (!threshold_ns || dur_ns >= *threshold_ns);
		if (!slow && !(d && d->keep))
			return;
	}
	write_call(c, depth, dur_ns);
}

static __always_inline void layer_left(struct thread_state *st, __u32 layer)
{
	__u8 *open = &st->layer_open[layer & (LAYERS_MAX - 1)];
	if (*open)
		(*open)--;
}

/* Its place has been taken off since it began: nobody would see its end. */
static __always_inline bool is_off(const struct open_call *c)
{
	return c->start_ns < last_left_ns[c->probe & (MAX_PROBES - 1)] && !c->outlasts;
}

/* Calls are told in the order of their ends. One around a call that ended later than its own place
 * was taken off, or while it is, did not end before that call. */
static __always_inline void has_ended_within(struct thread_state *st)
{
	__u32 depth = st->depth;
	struct open_call *around = &st->open[(depth - 1) & (MAX_OPEN_CALLS - 1)];
	if (depth &&
	    (is_off(around) || (bursts_closed && in_bursts[around->probe & (MAX_PROBES - 1)])))
		around->outlasts = true;
}

/* The first time since it began that its place was taken off; of more than are known the oldest. */
static __always_inline __u64 went_off_ns(const struct open_call *c)
{
	__u32 probe = c->probe & (MAX_PROBES - 1);
	__u64 since_ns = first_left_ns[probe], ret = last_left_ns[probe];
	if (since_ns < c->start_ns)
		since_ns = c->start_ns;
	for (int i = 0; i < TIMES_LEFT; i++)
		if (times_left_ns[i] >= since_ns && times_left_ns[i] < ret)
			ret = times_left_ns[i];
	return ret;
}

/* Takes the newest open call off as left without returning. Of one whose place was taken off it is
 * known that it went on until then. */
__noinline int drop_top(struct thread_state *st, __u64 now_ns)
{
	if (!st || !st->depth)
		return 0;
	__u32 depth = st->depth - 1;
	struct open_call *c = &st->open[depth & (MAX_OPEN_CALLS - 1)];
	st->depth = depth;
	layer_left(st, c->layer);
	c->flags |= CALL_UNWOUND;
	count_loss(LOSS_NO_RETURN);
	if (is_off(c))
		now_ns = went_off_ns(c);
	else
		has_ended_within(st);
	keep_call(c, depth, now_ns - c->start_ns);
	return 0;
}

/* True when the return address at sp is the kernel's trampoline: a caller that jumped
 * here (tail call) is still waiting for the same return. */
__noinline int is_chained(__u64 sp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	__u64 trampoline = area ? BPF_CORE_READ(area, vaddr) : 0;
	__u64 address = 0;
	bpf_probe_read_user(&address, 8, (void *)sp);
	return trampoline && address == trampoline;
}

/* Which of a thread's open calls are looked for, the newest first. In loops of bpf_loop: the
 * verifier would follow all rounds of others. */
struct search_open {
	struct thread_state *st;
	struct open_call *found;
	__u64 sp;
	__u64 now_ns;
	__u32 probe;
};

static long drop_left_step(__u32 i, struct search_open *s)
{
	struct thread_state *st = s->st;
	__u32 depth = st->depth;
	if (!depth || depth > MAX_OPEN_CALLS)
		return 1;
	struct open_call *c = &st->open[(depth - 1) & (MAX_OPEN_CALLS - 1)];
	__u64 top = c->sp;
	if (!is_off(c) && (top > s->sp || (top == s->sp && is_chained(s->sp))))
		return 1;
	drop_top(st, s->now_ns);
	return 0;
}

/* Drops open calls whose frames are gone, seen from a function entered at sp, or whose places are.
 */
__noinline int drop_left(struct thread_state *st, __u64 sp)
{
	struct search_open s = {.st = st, .sp = sp, .now_ns = bpf_ktime_get_ns()};
	if (st)
		bpf_loop(MAX_OPEN_CALLS, drop_left_step, &s, 0);
	return 0;
}

/* True on an alternate signal stack. The kernel takes what is pending on the ordinary stack
 * for left when that lies below, and the interrupted function would return into nothing. */
static __always_inline bool on_signal_stack(__u64 sp)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 size = task->sas_ss_size;
	return size && sp - task->sas_ss_sp <= size;
}

/* What calls are named by (kernels, by their handles) of which one had its stack taken. */
struct named_key {
	__u64 name;
	__u32 tgid;
	__u32 probe;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct named_key);
	__type(value, __u8);
} named_seen SEC(".maps");

/* The first call of each name always has its stack: what is rare would be without one. */
__noinline int is_first_named(struct open_call *c)
{
	if (!c || !(c->flags & CALL_NAMED))
		return 0;
	struct named_key key = {
		.name = c->args[0], .tgid = bpf_get_current_pid_tgid() >> 32, .probe = c->probe};
	__u8 yes = 1;
	if (bpf_map_lookup_elem(&named_seen, &key))
		return 0;
	return !bpf_map_update_elem(&named_seen, &key, &yes, BPF_NOEXIST);
}

/* The number of the stack with which a call was made, for those that chance picks. */
static __noinline __u64 stack_of_call(struct pt_regs *ctx, const struct probe_desc *d,
				      struct open_call *c)
{
	__u64 chance = d->stack_chance;
	if (!chance || (chance != ~0u && bpf_get_prandom_u32() > chance >> (stack_shift & 31) &&
			!is_first_named(c)))
		return 0;
	struct rec_stack *r = stack_begin(bpf_get_current_pid_tgid() >> 32);
	if (!r)
		return 0;
#define OF_CONTEXT(reg) READ_REGISTER(ctx, reg)
	TAKE_REGISTERS(r, OF_CONTEXT);
#undef OF_CONTEXT
	stack_walk(r);
	return stack_end(r);
}

static __always_inline void fetch_arguments(struct pt_regs *ctx, const struct probe_desc *d,
					    struct open_call *c)
{
	struct raw_args raw;
	take_raw_args(&raw, ctx);
	fetch_at_entry(&raw, d, c);
}

/* Returns 1 when its return is not wanted. */
static __always_inline int push_call(struct thread_state *st, struct pt_regs *ctx, __u64 cookie,
				     __u64 sp, bool with_stack)
{
	if (on_signal_stack(sp)) {
		count_loss(LOSS_SIGNAL_STACK);
		return 1;
	}
	__u32 depth = st->depth;
	const struct open_call *around = &st->open[(depth - 1) & (MAX_OPEN_CALLS - 1)];
	if (depth && (around->sp <= sp || is_off(around))) {
		drop_left(st, sp);
		depth = st->depth;
	}
	if (depth >= MAX_OPEN_CALLS) {
		count_loss(LOSS_STACK_FULL);
		return 1;
	}
	struct open_call *c = &st->open[depth & (MAX_OPEN_CALLS - 1)];
	__u32 layer = COOKIE_LAYER(cookie) & (LAYERS_MAX - 1);
	c->sp = sp;
	c->probe = COOKIE_PROBE(cookie);
	c->layer = layer;
	c->nargs = COOKIE_NARGS(cookie);
	c->outlasts = false;
	c->flags = COOKIE_FLAGS(cookie) | (st->layer_open[layer] ? CALL_NESTED : 0);
	c->stack = 0;
	if (c->nargs || (with_stack && COOKIE_STACK(cookie))) {
		__u32 probe = c->probe;
		struct probe_desc *d = bpf_map_lookup_elem(&probes, &probe);
		if (d)
			fetch_arguments(ctx, d, c);
		if (with_stack && d && takes_stacks && COOKIE_STACK(cookie) &&
		    (mode_of_layer[layer] == MODE_TRACE || d->keep))
			c->stack = stack_of_call(ctx, d, c);
	}
	st->layer_open[layer]++;
	st->depth = depth + 1;
	c->start_ns = bpf_ktime_get_ns(); /* last: the call does not pay for its own entry */
	return depth >= MAX_RETURNS;
}

/* A rule leaves out the layer's calls of this process. */
static __always_inline bool is_left_out(const struct thread_state *st, __u64 cookie)
{
	return leaves_layers &&
	       st->layers_left_out >> (COOKIE_LAYER(cookie) & (LAYERS_MAX - 1)) & 1;
}

/* While bursts are off; and while links are replaced, the second that comes by with a call has
 * nothing to do. The trap was paid for all the same, and is counted. */
static __always_inline bool is_unwanted(struct thread_state *st, __u64 cookie, __u64 sp)
{
	if (calls_closed || (bursts_closed && in_bursts[COOKIE_PROBE(cookie) & (MAX_PROBES - 1)]) ||
	    (cookie & COOKIE_TOLD_INSIDE && st->tells_inside) || is_left_out(st, cookie))
		return true;
	__u32 depth = st->depth;
	if (!replacing || !depth)
		return false;
	struct open_call *c = &st->open[(depth - 1) & (MAX_OPEN_CALLS - 1)];
	return c->sp == sp && c->probe == COOKIE_PROBE(cookie);
}

/* Pushes a call; returns 1 when its return is not wanted. with_stack:
 * it may be a function whose calls carry their stacks. */
static __always_inline int enter(struct pt_regs *ctx, __u64 cookie, __u64 sp, bool with_stack)
{
	__u32 kind = COOKIE_STEPPED(cookie) ? SPENT_STEPPED : SPENT_CALLS;
	__u64 began_ns = spending_begin(kind);
	if (frozen)
		return 1;
	struct thread_state *st = thread_enter();
	if (!st)
		return 1;
	count_hit(cookie);
	int rc = is_unwanted(st, cookie, sp) || push_call(st, ctx, cookie, sp, with_stack);
	spending_end(kind, began_ns);
	return rc;
}

static long frame_step(__u32 i, struct search_open *s)
{
	if (i >= s->st->depth)
		return 1;
	struct open_call *c = &s->st->open[(s->st->depth - 1 - i) & (MAX_OPEN_CALLS - 1)];
	if (c->probe != s->probe)
		return 0;
	s->sp = c->sp;
	return 1;
}

/* The frame of the newest open call of a probe; 0 when there is none. */
__noinline __u64 frame_of_pair(struct thread_state *st, __u32 probe)
{
	struct search_open s = {.st = st, .probe = probe};
	if (st)
		bpf_loop(MAX_OPEN_CALLS, frame_step, &s, 0);
	return s.sp;
}

static long pop_step(__u32 i, struct search_open *s)
{
	struct thread_state *st = s->st;
	__u32 depth = st->depth;
	if (!depth || depth > MAX_OPEN_CALLS)
		return 1;
	struct open_call *c = &st->open[(depth - 1) & (MAX_OPEN_CALLS - 1)];
	if (c->probe == s->probe && c->sp == s->sp) {
		s->found = c;
		return 1;
	}
	if (c->sp > s->sp)
		return 1;
	drop_top(st, s->now_ns);
	return 0;
}

/* The newest open call, when it is that of this probe with its frame at sp; those above have left
 * without returning. NULL when there is none. */
static __always_inline struct open_call *find_open(struct thread_state *st, __u32 probe, __u64 sp,
						   __u64 now_ns)
{
	struct search_open s = {.st = st, .sp = sp, .now_ns = now_ns, .probe = probe};
	bpf_loop(MAX_OPEN_CALLS, pop_step, &s, 0);
	return s.found;
}

static __always_inline void pop_call(struct thread_state *st, struct pt_regs *ctx, __u64 cookie,
				     __u64 sp, __u64 now_ns)
{
	if (st->epoch != epoch)
		goto unmatched;
	if (!sp) {
		sp = frame_of_pair(st, COOKIE_PROBE(cookie));
		if (!sp)
			goto unmatched;
	}
	struct open_call *c = find_open(st, COOKIE_PROBE(cookie), sp, now_ns);
	if (!c)
		goto unmatched;
	__u32 depth = st->depth - 1;
	st->depth = depth;
	layer_left(st, c->layer);
	has_ended_within(st);
	if (c->nargs) {
		__u32 probe = c->probe;
		struct probe_desc *d = bpf_map_lookup_elem(&probes, &probe);
		if (d)
			fetch_at_return(READ_REGISTER(ctx, rax), d, c);
	}
	keep_call(c, depth, now_ns - c->start_ns);
	return;
unmatched:
	if (!replacing && !(cookie & COOKIE_TOLD_INSIDE && st->tells_inside) &&
	    !is_left_out(st, cookie))
		count_loss(LOSS_RETURN_UNMATCHED);
}

/* Pops the call of this probe whose frame is at sp (0: ends a pair). */
static __always_inline void leave(struct pt_regs *ctx, __u64 cookie, __u64 sp)
{
	__u64 now_ns = bpf_ktime_get_ns();
	if (frozen || calls_closed)
		return;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_state *st = bpf_task_storage_get(&threads, task, 0, 0);
	if (!st)
		return; /* not a target */
	pop_call(st, ctx, cookie, sp, now_ns);
	spending_end(SPENT_RETURNS, now_ns);
}

static __always_inline void keep_moment(struct thread_state *st, struct pt_regs *ctx, __u64 cookie)
{
	__u32 depth = st->depth;
	if (depth >= MAX_OPEN_CALLS) {
		count_loss(LOSS_STACK_FULL);
		return;
	}
	/* the next call's place: what is on the BPF stack the verifier follows too closely */
	struct open_call *c = &st->open[depth & (MAX_OPEN_CALLS - 1)];
	c->start_ns = bpf_ktime_get_ns();
	c->probe = COOKIE_PROBE(cookie);
	c->layer = COOKIE_LAYER(cookie);
	c->nargs = COOKIE_NARGS(cookie);
	c->flags = COOKIE_FLAGS(cookie) | CALL_INSTANT;
	c->stack = 0;
	if (st->layer_open[c->layer & (LAYERS_MAX - 1)])
		c->flags |= CALL_NESTED;
	__u32 probe = c->probe;
	struct probe_desc *d = bpf_map_lookup_elem(&probes, &probe);
	if (d && c->nargs)
		fetch_arguments(ctx, d, c);
	keep_call(c, depth, 0);
}

/* A moment: recorded at once, never pushed. */
static __always_inline void instant(struct pt_regs *ctx, __u64 cookie)
{
	__u32 kind = COOKIE_STEPPED(cookie) ? SPENT_STEPPED : SPENT_CALLS;
	__u64 began_ns = spending_begin(kind);
	if (frozen)
		return;
	struct thread_state *st = thread_enter();
	if (!st)
		return;
	if (!calls_closed && !is_left_out(st, cookie))
		keep_moment(st, ctx, cookie);
	spending_end(kind, began_ns);
}

/* ---- entry points: thin shells, one set per way of attaching ---- */

/* Session links (6.13): one program for both moments. At entry the instruction pointer
 * is the probed address; at return the kernel has already set it to the caller's. */
SEC("uprobe")
int span_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	if (bpf_get_func_ip(ctx) == PT_REGS_IP(ctx))
		return enter(ctx, cookie, PT_REGS_SP(ctx), true);
	leave(ctx, cookie, PT_REGS_SP(ctx) - 8);
	return 0;
}

SEC("uprobe")
int span_enter(struct pt_regs *ctx)
{
	enter(ctx, bpf_get_attach_cookie(ctx), PT_REGS_SP(ctx), true);
	return 0;
}

SEC("uretprobe")
int span_leave(struct pt_regs *ctx)
{
	leave(ctx, bpf_get_attach_cookie(ctx), PT_REGS_SP(ctx) - 8);
	return 0;
}

/* Single-moment sites: instants and the two halves of a pair, a program each, since together
 * they are too large for older verifiers. A pair begins inside a function: what that function
 * calls has frames below this stack pointer. */
SEC("uprobe")
int moment(struct pt_regs *ctx)
{
	instant(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("uprobe")
int pair_begin(struct pt_regs *ctx)
{
	enter(ctx, bpf_get_attach_cookie(ctx), PT_REGS_SP(ctx), false);
	return 0;
}

SEC("uprobe")
int pair_end(struct pt_regs *ctx)
{
	leave(ctx, bpf_get_attach_cookie(ctx), 0);
	return 0;
}

/* The stack of a call that is told inside its process. inject/calls/entry.S comes by with the
 * function, where its return address lies, what its caller has in rbp, and the call's mark. */
SEC("uprobe")
int inside_stack(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	if (frozen || !is_followed(pid_tgid >> 32))
		return 0;
	struct rec_stack *r = stack_begin(pid_tgid >> 32);
	if (!r)
		return 0;
#define OF_CONTEXT(reg) READ_REGISTER(ctx, reg)
	TAKE_REGISTERS(r, OF_CONTEXT);
#undef OF_CONTEXT
	r->state.regs[UNWIND_RIP] = READ_REGISTER(ctx, rdi);
	r->state.regs[UNWIND_RSP] = READ_REGISTER(ctx, rsi);
	r->state.regs[UNWIND_RBP] = READ_REGISTER(ctx, rdx);
	stack_walk(r);
	__u64 stack = stack_end(r);
	void *ring = ring_here();
	struct rec_mark *m = ring ? bpf_ringbuf_reserve(ring, sizeof(*m), 0) : NULL;
	if (!m) {
		count_loss(LOSS_STACK);
		return 0;
	}
	m->kind = REC_MARK;
	__builtin_memset(m->pad, 0, sizeof(m->pad));
	m->tgid = pid_tgid >> 32;
	m->tid = (__u32)pid_tgid;
	m->mark = READ_REGISTER(ctx, rcx);
	m->stack = stack;
	bpf_ringbuf_submit(m, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A text that a call which is told inside its process has as an argument. */
SEC("uprobe")
int inside_text(struct pt_regs *ctx)
{
	if (frozen || !is_followed(bpf_get_current_pid_tgid() >> 32))
		return 0;
	__u64 how = READ_REGISTER(ctx, rdx);
	struct arg_desc a = {.fetch = (__u8)how, .layout = (__u8)(how >> 8)};
	__u8 flags = 0;
	__u64 id = fetch_value(&a, READ_REGISTER(ctx, rsi), &flags);
	void *ring = ring_here();
	struct rec_told_text *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		count_loss(LOSS_STRING_FULL);
		return 0;
	}
	r->kind = REC_TOLD_TEXT;
	r->flags = flags;
	r->pad[0] = r->pad[1] = 0;
	r->tgid = bpf_get_current_pid_tgid() >> 32;
	r->key = READ_REGISTER(ctx, rdi);
	r->id = id;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The floor to compare with: attached like a span, does nothing. */
SEC("uprobe")
int empty_session(struct pt_regs *ctx)
{
	return 0;
}
