/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * caller.h - whether it is NCCL's code that makes the system call at hand: the first return
 * address on the user's stack outside of libc is asked for its library's name. Names of threads
 * do not tell: NCCL gives them only with NCCL_SET_THREAD_NAME.
 *
 * No walk: libc's functions of system calls have small frames, which are passed word by word. What
 * an earlier call left in a gap of such a frame is told apart by where its call instruction leads:
 * the right one leads to the function that makes the system call. Where none does (libc's that make
 * it in a function below that one) the first address counts. */
#pragma once

#include "state.h"

#define CALLER_WORDS	      32
#define CALLER_FUNCTION_BYTES 512  /* from connect's entry to its system call, and more */
#define CALLER_TRIES	      4096 /* some 50 ns each, while other threads change the mappings */

#define EBUSY 16

enum code_of { CODE_NONE, CODE_LIBC, CODE_NCCL, CODE_OTHER };

/* A program connects at few places: their mappings are looked up once, which takes a lock. */
struct call_place {
	__u64 mm; /* address of the struct: exec(2) makes a new one */
	__u64 address;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct call_place);
	__type(value, __u32); /* enum code_of */
} call_places SEC(".maps");

struct caller {
	__u64 sp; /* of the word at hand */
	__u64 end;
	__u64 mm;
	__u64 rip;   /* where the system call is */
	__u32 code;  /* enum code_of: of the word at hand */
	__u32 found; /* of the first that is not libc's, or of the right one */
};

#define NAMED(name, prefix) (!bpf_strncmp(name, sizeof(prefix) - 1, prefix))

static long name_code(struct task_struct *task, struct vm_area_struct *vma, struct caller *c)
{
	char name[16] = {};
	if (!(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
		return 0;
	const unsigned char *of = BPF_CORE_READ(vma, vm_file, f_path.dentry, d_name.name);
	c->code = CODE_OTHER;
	if (!of || bpf_probe_read_kernel_str(name, sizeof(name), of) < 0)
		return 0;
	if (NAMED(name, "libnccl") || NAMED(name, "librccl"))
		c->code = CODE_NCCL;
	else if (NAMED(name, "libc.") || NAMED(name, "libc-") || NAMED(name, "libpthread") ||
		 NAMED(name, "ld-"))
		c->code = CODE_LIBC;
	return 0;
}

/* Whether a call stands before an address: E8 rel32, or FF /2 of two to seven bytes. */
static __always_inline bool follows_call(__u64 address)
{
	__u8 before[7];
	if (bpf_probe_read_user(before, sizeof(before), (void *)(address - sizeof(before))))
		return false;
	if (before[2] == 0xe8)
		return true;
	for (int i = 0; i < 6; i++)
		if (before[i] == 0xff && (before[i + 1] & 0x38) == 0x10)
			return true;
	return false;
}

/* Where a stub of dynamic linking keeps the address it jumps to: ENDBR64 and BND may stand before
 * its JMP *rel32(%rip). 0: it is none. */
static __always_inline __u64 slot_of_stub(__u64 stub)
{
	__u64 code = 0;
	bpf_probe_read_user(&code, sizeof(code), (void *)stub);
	if ((__u32)code == 0xfa1e0ff3) {
		stub += 4;
		bpf_probe_read_user(&code, sizeof(code), (void *)stub);
	}
	if ((__u8)code == 0xf2) {
		stub++;
		bpf_probe_read_user(&code, sizeof(code), (void *)stub);
	}
	return (__u16)code == 0x25ff ? stub + 6 + (__s32)(code >> 16) : 0;
}

/* Whether the call before an address, CALL rel32 or CALL *rel32(%rip), leads to the function
 * that makes the system call. */
static __always_inline bool leads_here(const struct caller *c, __u64 address)
{
	__u64 code = 0, slot = 0, entry = 0;
	bpf_probe_read_user(&code, sizeof(code), (void *)(address - sizeof(code)));
	__u64 to = address + (__s32)(code >> 32);
	if ((code >> 16 & 0xffff) == 0x15ff)
		slot = to;
	else if ((code >> 24 & 0xff) == 0xe8)
		slot = slot_of_stub(to);
	if (!slot || bpf_probe_read_user(&entry, sizeof(entry), (void *)slot))
		return false;
	return entry <= c->rip && c->rip - entry < CALLER_FUNCTION_BYTES;
}

/* Sets c->code; whether it could. */
static __always_inline bool look_up_code(struct caller *c, __u64 address)
{
	struct call_place place = {c->mm, address};
	__u32 *known = bpf_map_lookup_elem(&call_places, &place);
	if (known) {
		c->code = *known;
		return true;
	}
	if (bpf_find_vma(bpf_get_current_task_btf(), address, name_code, c, 0) == -EBUSY)
		return false;
	if (c->code != CODE_NONE) {
		__u32 code = c->code;
		bpf_map_update_elem(&call_places, &place, &code, BPF_ANY);
	}
	return true;
}

static long see_word(__u32 i, struct caller *c)
{
	__u64 word = 0;
	if (c->sp >= c->end || bpf_probe_read_user(&word, sizeof(word), (void *)c->sp))
		return 1;
	c->code = CODE_NONE;
	if (follows_call(word) && !look_up_code(c, word))
		return 0; /* once more */
	c->sp += sizeof(word);
	if (c->code != CODE_NCCL && c->code != CODE_OTHER)
		return 0;
	bool is_it = leads_here(c, word);
	if (is_it || c->found == CODE_NONE)
		c->found = c->code;
	return is_it;
}

/* Of the current thread, amid a system call. */
static __always_inline bool is_called_by_nccl(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *saved = (void *)bpf_task_pt_regs(task);
	struct caller c = {.mm = (__u64)BPF_CORE_READ(task, mm)};
	if (!saved || bpf_probe_read_kernel(&c.sp, sizeof(c.sp), &saved->rsp) ||
	    bpf_probe_read_kernel(&c.rip, sizeof(c.rip), &saved->rip))
		return false;
	c.end = c.sp + CALLER_WORDS * sizeof(__u64);
	bpf_loop(CALLER_WORDS + CALLER_TRIES, see_word, &c, 0);
	return c.found == CODE_NCCL;
}
