/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * mappings.h - which files a task has mapped to execute, and whether all were looked into before
 * (known_files). It tells nobody and waits for nothing: where the mappings are being changed by
 * another thread, or there are too many, it says that it does not know. */
#pragma once

#include "state.h"

#define MAPPINGS_WALKED 4096 /* processes with more are looked into by user space alone */

/* Open-coded iterator over mappings (kernel/bpf/task_iter.c, 6.7). */
struct bpf_iter_task_vma {
	__u64 opaque[1];
} __attribute__((aligned(8)));
extern int bpf_iter_task_vma_new(struct bpf_iter_task_vma *it, struct task_struct *task,
				 __u64 address) __ksym __weak;
extern struct vm_area_struct *bpf_iter_task_vma_next(struct bpf_iter_task_vma *it) __ksym __weak;
extern void bpf_iter_task_vma_destroy(struct bpf_iter_task_vma *it) __ksym __weak;

struct mappings {
	__u64 hash; /* of all files and places; 0 = could not be walked */
	__u64 first_inode;
	__u32 unknown; /* mappings of files that were not looked into */
	__u32 walked;
	__u32 awaited; /* mappings of files that are KNOWN_AWAITED */
	bool ruled;    /* some are of files that are KNOWN_RULED */
	bool several;  /* of more than one file */
};

static __always_inline void look_at_mapping(struct vm_area_struct *vma, struct mappings *m)
{
	struct file *file;
	if (!(vma->vm_flags & VM_EXEC) || !(file = vma->vm_file))
		return;
	struct known_file key = {
		.device = file->f_inode->i_sb->s_dev,
		.inode = file->f_inode->i_ino,
	};
	m->hash = (m->hash ^ key.inode ^ vma->vm_start) * 0x9e3779b97f4a7c15ULL;
	m->hash ^= m->hash >> 29;
	__u8 *known = bpf_map_lookup_elem(&known_files, &key);
	if (!known)
		m->unknown++;
	else if (*known == KNOWN_AWAITED)
		m->awaited++;
	else if (*known == KNOWN_RULED)
		m->ruled = true;
	if (!m->first_inode)
		m->first_inode = key.inode;
	else if (m->first_inode != key.inode)
		m->several = true;
}

/* Those of the current task. All state is in m, so that the verifier has seen every round when it
 * has seen one. */
__noinline int look_at_mappings(struct mappings *m)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	if (!m)
		return 0;
	m->hash = walks_mappings;
	m->first_inode = 0;
	m->unknown = m->walked = m->awaited = 0;
	m->ruled = m->several = false;
	if (!walks_mappings)
		return 0;
	if (bpf_iter_task_vma_new(&it, (struct task_struct *)bpf_get_current_task_btf(), 0))
		m->hash = 0; /* somebody changes them */
	while ((vma = bpf_iter_task_vma_next(&it))) {
		if (++m->walked > MAPPINGS_WALKED) {
			m->hash = 0;
			break;
		}
		look_at_mapping(vma, m);
	}
	bpf_iter_task_vma_destroy(&it);
	return 0;
}

static __always_inline __u8 how_known(const struct mappings *m)
{
	if (!m->hash || m->unknown)
		return TASK_UNKNOWN;
	return m->several ? TASK_KNOWN_DYNAMIC : TASK_KNOWN;
}
