/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * stack.h - walks the stack of the current thread, without frame pointers: by the rules that
 * user space compiled from .eh_frame (wire/unwind.h), one frame at a time. Python's frames
 * are put in the place of the interpreter's own (python.h). Never writes anything of the
 * thread's; how a walk ended is part of the stack. */
#pragma once

#include "state.h"

#define FRAME_BYTES_MAX	 (16u << 20) /* of stack between two frames found by frame pointer */
#define ASK_NS		 100000000ULL
#define ASK_FORGET_NS	 60000000000ULL
#define TRAMPOLINE_BYTES 4096
#define STACKS_SEEN	 65536

const volatile bool takes_stacks; /* else nothing below is reached */
/* Tests: what is sampled is stopped at that very instruction, and Python is as any program. */
const volatile bool stops_at_samples;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SEGMENTS_MAX);
	__uint(key_size, 4);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, UNWIND_SEGMENT_WORDS / UNWIND_WORDS);
			__uint(map_flags, BPF_F_MMAPABLE);
			__uint(key_size, 4);
			__uint(value_size, sizeof(struct unwind_words));
		});
} unwind_pool SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_TABLES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_table_ref);
} unwind_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* tgid */
	__type(value, struct unwind_process);
} unwind_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_BLOCKS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct unwind_block_key);
	__type(value, struct unwind_block);
} unwind_blocks SEC(".maps");

/* Stacks whose record was written. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STACKS_SEEN);
	__type(key, __u64);
	__type(value, __u8);
} stacks_seen SEC(".maps");

/* What is kept of a thread for its samples. */
struct thread_profile {
	__u64 py_thread; /* its PyThreadState, once found */
	__u64 off_ns;	 /* since when it does not run, 0 = it does */
	__u64 off_stack; /* rec_stack.id */
	__u64 refill_ns; /* of the allowance for stacks at switches */
	__u64 context;	 /* of the program that sees it woken: in_interrupt() */
	__u64 short_ns;	 /* in waits too short for a record of their own */
	__u32 allowance;
	__s32 syscall;
	__u32 waker_tid;
	__u8 preempted;
	__u8 pad[3];
	char waker[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_profile);
} profiles SEC(".maps");

/* ---- look-ups ---- */

static __always_inline struct unwind_words *pool_element(__u32 at)
{
	__u32 segment = at / UNWIND_SEGMENT_WORDS;
	__u32 element = at / UNWIND_WORDS % (UNWIND_SEGMENT_WORDS / UNWIND_WORDS);
	void *words = bpf_map_lookup_elem(&unwind_pool, &segment);
	return words ? bpf_map_lookup_elem(words, &element) : NULL;
}

static __always_inline __u32 *pool_word(__u32 at)
{
	struct unwind_words *e = pool_element(at);
	return e ? &e->w[at % UNWIND_WORDS] : NULL;
}

/* Rules are aligned, so none lies across two elements. */
static __always_inline struct unwind_rule *pool_rule(__u32 at)
{
	struct unwind_words *e = pool_element(at);
	return e ? (void *)&e->w[at % UNWIND_WORDS & ~(UNWIND_RULE_WORDS - 1)] : NULL;
}

struct search {
	__u64 wanted;
	__u32 low, high; /* the last one not above wanted is in [low, high) */
	__u32 base;
	struct rec_stack *r;
	bool failed;
};

static long search_row(__u32 i, struct search *s)
{
	if (s->high - s->low <= 1)
		return 1;
	__u32 middle = s->low + (s->high - s->low) / 2;
	__u32 *row = pool_word(s->base + middle);
	if (!row) {
		s->failed = true;
		return 1;
	}
	if ((*row & 0xffff) <= s->wanted)
		s->low = middle;
	else
		s->high = middle;
	return 0;
}

/* Copies the rule for a virtual address into the state; 0, or the stack's end. */
__noinline int find_rule(struct rec_stack *r, __u64 address, __u32 table)
{
	if (!r)
		return STACK_NO_TABLE;
	struct unwind_table_ref *t = bpf_map_lookup_elem(&unwind_tables, &table);
	if (!t || !t->npages) /* not there yet, or there are none */
		return t && t->nrules ? STACK_NO_RULES : STACK_NO_TABLE;
	__u64 page = (address - t->text_start) >> UNWIND_PAGE_SHIFT;
	if (page >= t->npages)
		return STACK_NO_RULES;
	__u32 *first = pool_word(t->pages_at + (__u32)page);
	__u32 *last = pool_word(t->pages_at + (__u32)page + 1);
	if (!first || !last)
		return STACK_NO_TABLE;
	struct search s = {
		.wanted = address & ((1u << UNWIND_PAGE_SHIFT) - 1),
		.low = *first,
		.high = *last,
		.base = t->rows_at,
	};
	if (s.low >= s.high)
		return STACK_NO_RULES;
	bpf_loop(UNWIND_PAGE_SHIFT + 1, search_row, &s, 0);
	__u32 *row = pool_word(s.base + s.low);
	if (!row || s.failed)
		return STACK_NO_TABLE;
	struct unwind_rule *rule =
		pool_rule(t->rules_at + (*row >> UNWIND_PAGE_SHIFT) * UNWIND_RULE_WORDS);
	if (!rule)
		return STACK_NO_TABLE;
	r->state.rule = *rule;
	return rule->cfa == CFA_NONE ? STACK_NO_RULES : 0;
}

static long search_mapping(__u32 i, struct search *s)
{
	struct rec_stack *r = s->r;
	if (s->low >= s->high)
		return 1;
	__u32 middle = s->low + (s->high - s->low) / 2;
	struct unwind_block_key key = {
		.owner = r->state.process.owner,
		.generation = r->state.process.generation,
		.block = middle / UNWIND_BLOCK_MAPPINGS,
	};
	struct unwind_block *b = bpf_map_lookup_elem(&unwind_blocks, &key);
	if (!b) {
		s->failed = true;
		return 1;
	}
	struct unwind_mapping *m = &b->m[middle % UNWIND_BLOCK_MAPPINGS];
	if (s->wanted < m->start) {
		s->high = middle;
		return 0;
	}
	if (s->wanted >= m->end) {
		s->low = middle + 1;
		return 0;
	}
	r->state.mapping = *m;
	return 1;
}

/* When a process was last asked for again, and how often lately. */
struct asked {
	__u64 time_ns;
	__u32 times;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* tgid */
	__type(value, struct asked);
} asked_for SEC(".maps");

/* Has a process's mappings read again: less and less often where that does not help, as with code
 * that is made and thrown away. */
static __always_inline void ask_for_mappings(__u32 tgid)
{
	struct asked *known = bpf_map_lookup_elem(&asked_for, &tgid);
	struct asked now = {.time_ns = bpf_ktime_get_ns()};
	if (known) {
		__u64 since_ns = now.time_ns - known->time_ns;
		if (since_ns < ASK_NS << (known->times & 7))
			return;
		now.times = since_ns > ASK_FORGET_NS ? 0 : known->times < 6 ? known->times + 1 : 6;
	}
	bpf_map_update_elem(&asked_for, &tgid, &now, BPF_ANY);
	struct rec_task *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r)
		return;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_STALE;
	r->tgid = tgid;
	control_submit(r, false);
}

/* Sets state.mapping to the one of the address; 0, or the stack's end. */
__noinline int find_mapping(struct rec_stack *r, __u64 address)
{
	if (!r)
		return STACK_NO_MAPPING;
	if (address >= r->state.mapping.start && address < r->state.mapping.end)
		return 0;
	struct search s = {.wanted = address, .high = r->state.process.mappings, .r = r};
	bpf_loop(16, search_mapping, &s, 0);
	if (s.failed)
		return STACK_MAPS_CHANGED;
	if (address >= r->state.mapping.start && address < r->state.mapping.end)
		return 0;
	return STACK_NO_MAPPING;
}

/* ---- frames ---- */

/* Appends a frame; 1 when there is no room. */
static __always_inline int push_frame(struct rec_stack *r, __u64 frame)
{
	__u32 n = r->frames;
	if (n >= STACK_FRAMES)
		return 1;
	r->frame[n & (STACK_FRAMES - 1)] = frame;
	r->frames = n + 1;
	__u64 h = (r->id ^ frame) * 0x9e3779b97f4a7c15ULL;
	r->id = h ^ h >> 29;
	return 0;
}

#include "python.h"

/* What stood in a return address's place before a return probe put the trampoline there
 * (see unwind.h). Instances are in the stack's order, newest first. */
__noinline __u64 original_return(struct rec_stack *r, __u64 slot)
{
	if (!r)
		return 0;
	struct return_instance *ri = (void *)r->state.returns;
	for (int i = 0; i < UNWIND_SLOTS && ri; i++) {
		__u64 at = BPF_CORE_READ(ri, stack);
		__u64 original = BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
		if (at == slot && original != r->state.trampoline) {
			r->state.returns = (__u64)ri;
			return original;
		}
		if (at > slot)
			break;
	}
	return 0;
}

static __always_inline int stack_fails(struct rec_stack *r, int end)
{
	r->end = end;
	return 1;
}

/* The frame that was interrupted by a signal: its registers are in the handler's frame
 * (arch/x86/include/uapi/asm/sigcontext.h; uc_mcontext of struct ucontext is at 40). */
static __always_inline int leave_signal(struct rec_stack *r)
{
	static const __u8 order[] = {8,		 9,	     10,	 11,	     12,
				     13,	 14,	     15,	 UNWIND_RDI, UNWIND_RSI,
				     UNWIND_RBP, UNWIND_RBX, UNWIND_RDX, UNWIND_RAX, UNWIND_RCX,
				     UNWIND_RSP, UNWIND_RIP};
	struct unwind_state *st = &r->state;
	__u64 at = st->regs[UNWIND_RSP] + (__s64)st->rule.offset + 40;
	if (bpf_probe_read_user(st->read, sizeof(st->read), (void *)at))
		return stack_fails(r, STACK_BAD_MEMORY);
#pragma unroll
	for (int i = 0; i < UNWIND_REGISTERS; i++)
		st->regs[order[i]] = st->read[i];
	st->known = (1u << UNWIND_REGISTERS) - 1;
	st->exact = 1;
	return 0;
}

/* The caller by the frame pointer, where there are no rules. */
static __always_inline int step_by_frame_pointer(struct rec_stack *r, int why)
{
	struct unwind_state *st = &r->state;
	__u64 rbp = st->regs[UNWIND_RBP], rsp = st->regs[UNWIND_RSP];
	__u64 pair[2] = {};
	if (st->guessed > 8 || !(st->known & 1u << UNWIND_RBP) || rbp < rsp || rbp & 7 ||
	    rbp - rsp > FRAME_BYTES_MAX || bpf_probe_read_user(pair, sizeof(pair), (void *)rbp))
		return stack_fails(r, why);
	if (st->trampoline && pair[1] == st->trampoline)
		pair[1] = original_return(r, rbp + 8);
	if (!pair[1] || find_mapping(r, pair[1] - 1))
		return stack_fails(r, why);
	st->regs[UNWIND_RBP] = pair[0];
	st->regs[UNWIND_RSP] = rbp + 16;
	st->regs[UNWIND_RIP] = pair[1];
	st->known = 1u << UNWIND_RBP | 1u << UNWIND_RSP | 1u << UNWIND_RIP;
	st->exact = 0;
	st->guessed++;
	return 0;
}

static __always_inline bool known(const struct unwind_state *st, __u32 reg)
{
	return st->known >> (reg & 31) & 1;
}

/* The canonical frame address by the rule in the state; 0 = r->end is set. */
__noinline __u64 frame_address(struct rec_stack *r)
{
	if (!r)
		return 0;
	struct unwind_state *st = &r->state;
	__u32 reg = st->rule.reg;
	__u64 cfa = 0;
	if (st->rule.cfa == CFA_PLT)
		return st->regs[UNWIND_RSP] + (__s64)st->rule.offset +
		       ((st->regs[UNWIND_RIP] & 15) >= (__u32)st->rule.add ? 8 : 0);
	if (reg >= UNWIND_REGISTERS || !known(st, reg)) {
		r->end = STACK_NO_REGISTER;
		return 0;
	}
	cfa = st->regs[reg] + (__s64)st->rule.offset;
	if (st->rule.cfa == CFA_DEREF) {
		__u64 there = 0;
		if (bpf_probe_read_user(&there, 8, (void *)cfa)) {
			r->end = STACK_BAD_MEMORY;
			return 0;
		}
		cfa = there + (__s64)st->rule.add;
	}
	if (!cfa)
		r->end = STACK_BAD_MEMORY;
	return cfa;
}

/* The value of a register that was saved at an address: mostly just below the frame's
 * address, which was read in one piece. */
static __always_inline int saved_at(struct rec_stack *r, __u64 cfa, __u64 at, __u64 *ret)
{
	__u64 back = cfa - at;
	if (back && back <= 64 && !(back & 7)) {
		*ret = r->state.read[(8 - back / 8) & 7];
		return 0;
	}
	return bpf_probe_read_user(ret, 8, (void *)at);
}

/* Gives the registers the values that they have in the caller. */
__noinline int restore_registers(struct rec_stack *r, __u64 cfa)
{
	static const __u8 regs[UNWIND_SAVED] = {UNWIND_RBX, UNWIND_RBP, 12, 13, 14, 15};
	if (!r)
		return 1;
	struct unwind_state *st = &r->state;
	__u32 still = 1u << UNWIND_RSP | 1u << UNWIND_RIP;
	__u32 base_reg = st->rule.base;
	__u64 base = base_reg < UNWIND_REGISTERS ? st->regs[base_reg] : 0;
	bool base_known = base_reg < UNWIND_REGISTERS && known(st, base_reg);
	__u64 ra = 0;
	if (bpf_probe_read_user(st->read, 64, (void *)(cfa - 64)))
		return stack_fails(r, STACK_BAD_MEMORY);
	if (saved_at(r, cfa, cfa + (__s64)st->rule.ra, &ra))
		return stack_fails(r, STACK_BAD_MEMORY);
#pragma unroll
	for (int i = 0; i < UNWIND_SAVED; i++) {
		__s64 where = st->rule.saved[i];
		__u64 v = st->regs[regs[i]];
		if (where == UNWIND_SAME) {
			still |= st->known & 1u << regs[i];
			continue;
		}
		if (where == UNWIND_LOST)
			continue;
		bool by_base = st->rule.by_base >> i & 1;
		if (by_base && !base_known)
			continue;
		if (saved_at(r, cfa, (by_base ? base : cfa) + where, &v))
			continue;
		st->regs[regs[i]] = v;
		still |= 1u << regs[i];
	}
	if (st->trampoline && ra == st->trampoline)
		ra = original_return(r, cfa + (__s64)st->rule.ra);
	st->known = still;
	st->regs[UNWIND_RSP] = cfa;
	st->regs[UNWIND_RIP] = ra;
	st->exact = 0;
	return 0;
}

/* Finds the rule for the frame at hand and its CFA; 0, 1 when there is no caller to be found by
 * rules (r->end says why), or -1 when the frame pointer is to be tried. */
static __always_inline int look_up(struct rec_stack *r, __u64 at)
{
	struct unwind_state *st = &r->state;
	st->frame_end = 0;
	if (st->mapping.table == MAPPING_NO_RULES)
		return -1;
	int end = find_rule(r, at - st->mapping.bias, st->mapping.table);
	if (end == STACK_NO_RULES)
		return -1;
	if (end)
		return stack_fails(r, end);
	if (st->rule.cfa == CFA_END)
		return stack_fails(r, STACK_WHOLE);
	if (st->rule.cfa == CFA_SIGNAL)
		return 0;
	__u64 cfa = frame_address(r);
	if (!cfa)
		return 1;
	if (cfa <= st->regs[UNWIND_RSP])
		return stack_fails(r, STACK_BAD_FRAME);
	st->frame_end = cfa;
	return 0;
}

/* A return probe's trampoline is run between a function's end and its caller. Before its system
 * call the return address is in the kernel; after it, below two registers that are popped
 * (arch/x86/kernel/uprobes.c, uretprobe_trampoline). */
__noinline int leave_trampoline(struct rec_stack *r, __u64 at)
{
	if (!r)
		return 0;
	struct unwind_state *st = &r->state;
	struct return_instance *ri = (void *)st->returns;
	if (!st->trampoline || at < st->trampoline || at - st->trampoline >= TRAMPOLINE_BYTES)
		return 0;
	__u64 slot = ri ? BPF_CORE_READ(ri, stack) : 0;
	__u64 ra = ri ? original_return(r, slot) : 0;
	for (int i = 0; i < 3 && !ra; i++) {
		slot = st->regs[UNWIND_RSP] + 8 * i;
		if (bpf_probe_read_user(&ra, 8, (void *)slot) || find_mapping(r, ra - 1))
			ra = 0;
	}
	if (!ra)
		return 0;
	st->regs[UNWIND_RSP] = slot + 8;
	st->regs[UNWIND_RIP] = ra;
	st->exact = 0;
	return 1;
}

/* The kernel emulates a probed push: for some time the instruction pointer is past it and
 * nothing was pushed, or the other way round. Then the return address is a slot below or above
 * the one that the rule tells. True when it was found there. */
__noinline int leave_probed(struct rec_stack *r)
{
	if (!r)
		return 0;
	struct unwind_state *st = &r->state;
	__u64 cfa = st->frame_end;
	for (int i = 0; i < 3; i++) {
		__u64 slot = cfa - 8 + (i == 1 ? -8 : i == 2 ? 8 : 0), ra = 0;
		if (bpf_probe_read_user(&ra, 8, (void *)slot))
			return 0;
		if (st->trampoline && ra == st->trampoline)
			ra = original_return(r, slot);
		if (!ra || find_mapping(r, ra - 1))
			continue;
		if (!i) /* it is where the rule says */
			return 0;
		st->regs[UNWIND_RSP] = slot + 8;
		st->regs[UNWIND_RIP] = ra;
		st->exact = 0;
		return 1;
	}
	return 0;
}

/* One native frame: appended, or the Python frames in its place begun. 1 = the walk is over. */
__noinline int enter_frame(struct rec_stack *r)
{
	if (!r)
		return 1;
	struct unwind_state *st = &r->state;
	__u64 at = st->regs[UNWIND_RIP] - !st->exact;
	if (!st->regs[UNWIND_RIP])
		return stack_fails(r, STACK_WHOLE);
	if (st->exact && leave_trampoline(r, at))
		at = st->regs[UNWIND_RIP] - 1;
	int end = find_mapping(r, at);
	if (end) {
		ask_for_mappings(r->tgid);
		return stack_fails(r, end);
	}
	st->found = look_up(r, at);
	/* nothing called a signal's return code: its first instruction comes next */
	if (!st->found && st->rule.cfa == CFA_SIGNAL)
		at = st->regs[UNWIND_RIP];
	if (is_eval(&st->process, at) ? enter_python(r, at) : push_frame(r, at))
		return stack_fails(r, STACK_TOO_DEEP);
	return 0;
}

/* From the native frame at hand to its caller. */
__noinline int leave_frame(struct rec_stack *r)
{
	if (!r || r->state.found > 0)
		return 1;
	if (r->state.found < 0)
		return step_by_frame_pointer(r, STACK_NO_RULES);
	bool amid_entry = r->state.amid_entry;
	r->state.amid_entry = 0;
	if (amid_entry && r->state.rule.cfa == CFA_REG && leave_probed(r))
		return 0;
	return r->state.rule.cfa == CFA_SIGNAL ? leave_signal(r)
					       : restore_registers(r, r->state.frame_end);
}

struct walk {
	struct rec_stack *r;
};

/* One frame, of either kind. The depth of calls is bounded (MAX_CALL_FRAMES of the kernel's
 * verifier), so a run's Python frames are no loop of their own. */
static long walk_step(__u32 i, struct walk *w)
{
	struct rec_stack *r = w->r;
	if (r->state.in_python) {
		if (python_frame(r)) {
			r->end = STACK_TOO_DEEP;
			return 1;
		}
	} else if (enter_frame(r)) {
		return 1;
	}
	if (r->state.in_python)
		return 0;
	return leave_frame(r) != 0;
}

/* ---- stacks ---- */

static __always_inline struct rec_stack *stack_begin(__u32 tgid)
{
	void *ring = ring_here();
	struct rec_stack *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		count_loss(LOSS_STACK);
		return NULL;
	}
	r->kind = REC_STACK;
	r->end = STACK_NO_USER;
	r->python = PYTHON_NONE;
	r->pad = 0;
	r->tgid = tgid;
	r->id = tgid;
	r->frames = 0;
	r->kernel = 0;
	r->state.known = 0;
	r->state.exact = 1;
	r->state.guessed = 0;
	r->state.py_begun = 0;
	r->state.amid_entry = 0;
	r->state.returns = 0;
	r->state.trampoline = 0;
	r->state.mapping.start = r->state.mapping.end = 0;
	return r;
}

#define TAKE_REGISTERS(r, from)                                                                    \
	do {                                                                                       \
		__u64 *to_ = (r)->state.regs;                                                      \
		to_[UNWIND_RAX] = from(rax);                                                       \
		to_[UNWIND_RDX] = from(rdx);                                                       \
		to_[UNWIND_RCX] = from(rcx);                                                       \
		to_[UNWIND_RBX] = from(rbx);                                                       \
		to_[UNWIND_RSI] = from(rsi);                                                       \
		to_[UNWIND_RDI] = from(rdi);                                                       \
		to_[UNWIND_RBP] = from(rbp);                                                       \
		to_[UNWIND_RSP] = from(rsp);                                                       \
		to_[8] = from(r8);                                                                 \
		to_[9] = from(r9);                                                                 \
		to_[10] = from(r10);                                                               \
		to_[11] = from(r11);                                                               \
		to_[12] = from(r12);                                                               \
		to_[13] = from(r13);                                                               \
		to_[14] = from(r14);                                                               \
		to_[15] = from(r15);                                                               \
		to_[UNWIND_RIP] = from(rip);                                                       \
		(r)->state.known = (1u << UNWIND_REGISTERS) - 1;                                   \
	} while (0)

/* The user's registers as the kernel saved them when the current task entered it. */
static __always_inline bool take_entry_registers(struct rec_stack *r, struct task_struct *task)
{
	struct pt_regs regs;
	void *saved = (void *)bpf_task_pt_regs(task);
	if (!saved || bpf_probe_read_kernel(&regs, sizeof(regs), saved) || !(regs.cs & 3))
		return false;
#define OF_ENTRY(reg) regs.reg
	TAKE_REGISTERS(r, OF_ENTRY);
#undef OF_ENTRY
	r->state.amid_entry = (__s64)regs.orig_rax == -1; /* by an exception, or an interrupt */
	return true;
}

/* Walks from the registers in the state. */
__noinline int stack_walk(struct rec_stack *r)
{
	if (!r)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 tgid = r->tgid;
	struct unwind_process *p = bpf_map_lookup_elem(&unwind_processes, &tgid);
	if (!p) {
		ask_for_mappings(tgid);
		r->end = STACK_NO_MAPS;
		push_frame(r, r->state.regs[UNWIND_RIP]);
		return 0;
	}
	r->state.process = *p;
	r->state.returns = (__u64)BPF_CORE_READ(task, utask, return_instances);
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	r->state.trampoline = area ? BPF_CORE_READ(area, vaddr) : 0;
	r->end = STACK_TOO_DEEP;
	r->state.in_python = 0;
	struct walk w = {.r = r};
	bpf_loop(2 * STACK_FRAMES, walk_step, &w, 0);
	return 0;
}

/* Ends a stack: its number; the record is written when it is new. */
static __always_inline __u64 stack_end(struct rec_stack *r)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 h = (r->id ^ (__u64)BPF_CORE_READ(task, mm) ^ r->end ^ (__u64)r->python << 8) *
		  0x9e3779b97f4a7c15ULL;
	__u64 id = (h ^ h >> 32) | 1;
	r->id = id;
	__u8 yes = 1;
	if (bpf_map_lookup_elem(&stacks_seen, &id)) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return id;
	}
	bpf_map_update_elem(&stacks_seen, &id, &yes, BPF_ANY);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return id;
}
