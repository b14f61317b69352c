/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * stack.h - walks the stack of the current thread, without frame pointers: by the rules that
 * user space compiled from .eh_frame (wire/unwind.h), one frame at a time. Python's frames
 * are put in the place of the interpreter's own (python.h). Never writes anything of the
 * thread's; how a walk ended is part of the stack. */
#pragma once

#include "python.h"
#include "stack_tables.h"

#define SYSCALL_EXECVE	  59 /* arch/x86/entry/syscalls/syscall_64.tbl */
#define SYSCALL_EXECVEAT  322
#define SYSCALL_URETPROBE 335
#define SYSCALL_UPROBE	  336

#define FRAME_TOP_BYTES 64

struct search_return {
	struct return_instance *next;
	__u64 slot;
	__u64 trampoline;
	__u64 original; /* what is looked for */
};

static long search_return(__u32 i, struct search_return *s)
{
	struct return_instance *ri = s->next;
	if (!ri)
		return 1;
	__u64 at = BPF_CORE_READ(ri, stack);
	__u64 original = BPF_CORE_READ(ri, orig_ret_vaddr);
	s->next = BPF_CORE_READ(ri, next);
	if (at == s->slot && original != s->trampoline) {
		s->original = original;
		return 1;
	}
	return at > s->slot;
}

/* What stood in a return address's place before a return probe put the trampoline there
 * (see unwind.h). Instances are in the stack's order, newest first. */
__noinline __u64 original_return(struct rec_stack *r, __u64 slot)
{
	if (!r)
		return 0;
	struct search_return s = {
		.next = (void *)r->state.returns, .slot = slot, .trampoline = r->state.trampoline};
	bpf_loop(UNWIND_SLOTS, search_return, &s, 0);
	if (s.original)
		r->state.returns = (__u64)s.next;
	return s.original;
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

/* A program's first instructions, those of the dynamic linker, have no rules. Their frame lies
 * where the kernel put the arguments: it has no caller. */
static __always_inline bool is_programs_start(const struct rec_stack *r)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	return r->state.regs[UNWIND_RSP] == (__u64)BPF_CORE_READ(task, mm, start_stack);
}

/* The caller by the frame pointer, where there are no rules. */
static __always_inline int step_by_frame_pointer(struct rec_stack *r, int why)
{
	struct unwind_state *st = &r->state;
	__u64 rbp = st->regs[UNWIND_RBP], rsp = st->regs[UNWIND_RSP];
	__u64 pair[2] = {};
	if (st->guessed == 255 || !(st->known & 1u << UNWIND_RBP) || rbp < rsp || rbp & 7 ||
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

/* The value of a register that was saved at an address: mostly among the FRAME_TOP_BYTES just
 * below the frame's address, which were read in one piece where that was possible. */
static __always_inline int saved_at(struct rec_stack *r, __u64 cfa, bool read, __u64 at, __u64 *ret)
{
	__u64 back = cfa - at;
	if (read && back && back <= FRAME_TOP_BYTES && !(back & 7)) {
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
	/* Of a function that has a small frame some of them are below the stack pointer, in a page
	 * that the thread may never have used. */
	bool read =
		!bpf_probe_read_user(st->read, FRAME_TOP_BYTES, (void *)(cfa - FRAME_TOP_BYTES));
	if (saved_at(r, cfa, read, cfa + (__s64)st->rule.ra, &ra))
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
		if (saved_at(r, cfa, read, (by_base ? base : cfa) + where, &v))
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
	st->by_guess = 0;
	int end = st->recalled ? 0
		  : st->mapping.table == MAPPING_NO_RULES
			  ? STACK_NO_RULES
			  : find_rule(r, at - st->mapping.bias, st->mapping.table);
	if (end == STACK_NO_RULES && is_programs_start(r))
		return stack_fails(r, STACK_WHOLE);
	if (end == STACK_NO_RULES) {
		st->by_guess = 1;
		return -1;
	}
	if (end)
		return stack_fails(r, end);
	if (!st->recalled)
		keep_place(r, at);
	st->by_guess = st->rule.by_code;
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
	st->recalled = recall_place(r, at);
	int end = st->recalled ? 0 : find_mapping(r, at);
	if (end) {
		ask_for_mappings(r);
		if (r->frames == r->kernel)
			push_frame(r, at);
		return stack_fails(r, end);
	}
	st->found = look_up(r, at);
	/* nothing called a signal's return code: its first instruction comes next */
	if (!st->found && st->rule.cfa == CFA_SIGNAL)
		at = st->regs[UNWIND_RIP];
	if (is_eval(&st->process, at) ? enter_python(r, at) : push_native(r, at))
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
	void *ring = ring_to_spare();
	struct rec_stack *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) {
		count_loss(LOSS_STACK);
		return NULL;
	}
	r->kind = REC_STACK;
	r->end = STACK_NO_USER;
	r->python = PYTHON_NONE;
	r->where = 0;
	r->tgid = tgid;
	r->id = tgid;
	r->frames = 0;
	r->kernel = 0;
	r->state.known = 0;
	r->state.exact = 1;
	r->state.guessed = 0;
	r->state.py_begun = 0;
	r->state.amid_entry = 0;
	r->state.in_exec = 0;
	r->state.by_guess = 0;
	r->state.published = 0;
	r->state.recalled = 0;
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

/* The user's registers as the kernel saved them when the current task entered it. They have the
 * stack of a function of its own: before Linux 6.13 the stacks of all functions that call each
 * other have 512 bytes in sum, and those of a walk come near it. */
static __noinline bool take_entry_registers(struct rec_stack *r, struct task_struct *task)
{
	struct pt_regs regs;
	void *saved = (void *)bpf_task_pt_regs(task);
	if (!saved || bpf_probe_read_kernel(&regs, sizeof(regs), saved) || !(regs.cs & 3))
		return false;
#define OF_ENTRY(reg) regs.reg
	TAKE_REGISTERS(r, OF_ENTRY);
#undef OF_ENTRY
	r->state.amid_entry = (__s64)regs.orig_rax == -1; /* by an exception, or an interrupt */
	if (regs.orig_rax == SYSCALL_URETPROBE || regs.orig_rax == SYSCALL_UPROBE)
		r->where |= STACK_IN_PROBE;
	r->state.in_exec = regs.orig_rax == SYSCALL_EXECVE || regs.orig_rax == SYSCALL_EXECVEAT;
	return true;
}

/* The program that called execve(2) is gone before the new one runs: the kernel's frames are the
 * whole stack then. */
static __always_inline void leave_program(struct rec_stack *r)
{
	if (r->end != STACK_BAD_MEMORY && r->end != STACK_NO_MAPPING && r->end != STACK_NO_MAPS)
		return;
	r->frames = r->kernel;
	r->end = STACK_WHOLE;
}

static const struct unwind_process no_process; /* of which nothing was published */

/* Walks from the registers in the state. */
__noinline int stack_walk(struct rec_stack *r)
{
	if (!r)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u32 tgid = r->tgid;
	struct unwind_process *p = bpf_map_lookup_elem(&unwind_processes, &tgid);
	r->state.process = p ? *p : no_process;
	if (!p)
		ask_for_mappings(r);
	r->state.returns = (__u64)BPF_CORE_READ(task, utask, return_instances);
	struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	r->state.trampoline = area ? BPF_CORE_READ(area, vaddr) : 0;
	r->end = STACK_TOO_DEEP;
	r->state.in_python = 0;
	struct walk w = {.r = r};
	bpf_loop(2 * STACK_FRAMES, walk_step, &w, 0);
	if (!p && r->end == STACK_NO_MAPPING)
		r->end = STACK_NO_MAPS;
	if (r->state.in_exec && r->end != STACK_WHOLE)
		leave_program(r);
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
