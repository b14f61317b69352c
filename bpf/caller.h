/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * caller.h - whether it is NCCL's code that makes the system call at hand: the first return
 * address on the user's stack outside of libc is asked for its library's name. Names of threads
 * do not tell: NCCL gives them only with NCCL_SET_THREAD_NAME.
 *
 * No walk: libc's functions of system calls have small frames, which are passed word by word.
 * What an earlier call left in a gap of such a frame may be taken for the address. */
#pragma once

#include "state.h"

#define CALLER_WORDS 32
#define CALLER_TRIES 256 /* while another thread changes the process's mappings */

#define VM_EXEC 4 /* linux/mm.h */
#define EBUSY	16

struct qstr {
	const unsigned char *name;
} RELOCATED;

struct dentry {
	struct qstr d_name;
} RELOCATED;

struct path {
	struct dentry *dentry;
} RELOCATED;

struct file {
	struct path f_path;
} RELOCATED;

struct vm_area_struct {
	unsigned long vm_flags;
	struct file *vm_file;
} RELOCATED;

enum code_of { CODE_NONE, CODE_LIBC, CODE_NCCL, CODE_OTHER };

struct caller {
	__u64 sp; /* the word at hand */
	__u64 end;
	enum code_of code;
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

static long see_word(__u32 i, struct caller *c)
{
	__u64 word = 0;
	if (c->sp >= c->end || bpf_probe_read_user(&word, sizeof(word), (void *)c->sp))
		return 1;
	c->code = CODE_NONE;
	if (follows_call(word) &&
	    bpf_find_vma(bpf_get_current_task_btf(), word, name_code, c, 0) == -EBUSY)
		return 0; /* once more */
	c->sp += sizeof(word);
	return c->code == CODE_NCCL || c->code == CODE_OTHER;
}

/* Of the current thread, amid a system call. */
static __always_inline bool is_called_by_nccl(void)
{
	struct pt_regs *saved = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct caller c = {};
	if (!saved || bpf_probe_read_kernel(&c.sp, sizeof(c.sp), &saved->rsp))
		return false;
	c.end = c.sp + CALLER_WORDS * sizeof(__u64);
	bpf_loop(CALLER_WORDS + CALLER_TRIES, see_word, &c, 0);
	return c.code == CODE_NCCL;
}
