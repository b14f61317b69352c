/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * vma.h - which mapping of the current process an address lies in, by the kernel's own tree (Linux
 * 6.1 and later), without its locks: a sample can interrupt who holds them. What another thread
 * changes meanwhile is found as it was, or not at all; the mapping itself says whether the address
 * is in it. */
#pragma once

#include "state.h"

#define VMA_TREE_DEPTH	8
#define VMA_NODE_MASK	255ULL /* lib/maple_tree.c, MAPLE_NODE_MASK */
#define VMA_TYPE_SHIFT	3
#define VMA_TYPE_MASK	15
#define VMA_TYPE_LEAF	1 /* enum maple_type */
#define VMA_TYPE_RANGE	2
#define VMA_TYPE_ARANGE 3
#define VMA_PAGE_SHIFT	12

/* Files whose rules are known. Only what known_files has as well counts: those numbers go to no
 * other file meanwhile. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_TABLES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct known_file);
	__type(value, struct unwind_inode);
} unwind_inodes SEC(".maps");

struct vma_search {
	__u64 wanted;
	__u64 entry; /* the node at hand; at the end the mapping, 0 = none */
	__u64 *pivots;
	bool is_leaf;
};

/* One node of the tree: the first pivot that is not below the address, or the slot behind the
 * last. */
static long search_node(__u32 level, struct vma_search *s)
{
	__u64 node = s->entry & ~VMA_NODE_MASK;
	__u32 type = s->entry >> VMA_TYPE_SHIFT & VMA_TYPE_MASK;
	__u32 most = type == VMA_TYPE_ARANGE ? 9 : 15, i = 0;
	__u64 slots = type == VMA_TYPE_ARANGE ? bpf_core_field_offset(struct maple_arange_64, slot)
					      : bpf_core_field_offset(struct maple_range_64, slot);
	__u64 pivots = type == VMA_TYPE_ARANGE
			       ? bpf_core_field_offset(struct maple_arange_64, pivot)
			       : bpf_core_field_offset(struct maple_range_64, pivot);
	s->entry = 0;
	if (type < VMA_TYPE_LEAF || type > VMA_TYPE_ARANGE ||
	    bpf_probe_read_kernel(s->pivots, 15 * 8, (void *)(node + pivots)))
		return 1;
	for (; i < 15; i++)
		if (i >= most || s->pivots[i] >= s->wanted || (i && !s->pivots[i]))
			break;
	s->is_leaf = type == VMA_TYPE_LEAF;
	if (bpf_probe_read_kernel(&s->entry, 8, (void *)(node + slots + 8 * i)))
		s->entry = 0;
	return s->is_leaf || !s->entry;
}

static __always_inline struct vm_area_struct *vma_at(struct rec_stack *r, struct mm_struct *mm,
						     __u64 address)
{
	struct vma_search s = {.wanted = address, .pivots = r->state.read};
	s.entry = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	bpf_loop(VMA_TREE_DEPTH, search_node, &s, 0);
	return s.is_leaf && !(s.entry & 7) ? (void *)s.entry : NULL;
}

static __always_inline void changed_of(struct inode *inode, __s64 *ret_sec, __u32 *ret_nsec)
{
	struct inode___before_6_11 *b = (void *)inode;
	struct inode___before_6_6 *c = (void *)inode;
	if (bpf_core_field_exists(inode->i_ctime_sec)) {
		*ret_sec = BPF_CORE_READ(inode, i_ctime_sec);
		*ret_nsec = BPF_CORE_READ(inode, i_ctime_nsec) & ~(1u << 31); /* I_CTIME_QUERIED */
	} else if (bpf_core_field_exists(b->__i_ctime)) {
		*ret_sec = BPF_CORE_READ(b, __i_ctime.tv_sec);
		*ret_nsec = (__u32)BPF_CORE_READ(b, __i_ctime.tv_nsec);
	} else {
		*ret_sec = BPF_CORE_READ(c, i_ctime.tv_sec);
		*ret_nsec = (__u32)BPF_CORE_READ(c, i_ctime.tv_nsec);
	}
}

/* The file of a mapping, if it is as it was when its rules were read; NULL when it is not known.
 * file NULL: the vDSO. */
static __always_inline struct unwind_inode *inode_of(struct file *file)
{
	struct known_file key = {};
	if (!file)
		return bpf_map_lookup_elem(&unwind_inodes, &key);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__s64 sec = 0;
	__u32 nsec = 0;
	key.device = BPF_CORE_READ(inode, i_sb, s_dev);
	key.inode = BPF_CORE_READ(inode, i_ino);
	struct unwind_inode *known = bpf_map_lookup_elem(&unwind_inodes, &key);
	changed_of(inode, &sec, &nsec);
	if (!known || known->changed_sec != sec || known->changed_nsec != nsec ||
	    !bpf_map_lookup_elem(&known_files, &key))
		return NULL;
	return known;
}

/* Gives the mapping the table and place of what it shows; false when that is not known. */
static __always_inline bool know_file(struct unwind_mapping *m, struct file *file,
				      __u64 file_offset, __u64 address)
{
	struct unwind_inode *known = inode_of(file);
	__u64 at = address - m->start + file_offset;
	if (!known)
		return false;
	for (int i = 0; i < UNWIND_LOADED_MAX; i++) {
		const struct unwind_loaded *l = &known->loaded[i];
		if (at - l->file_offset >= l->size)
			continue;
		m->bias = m->start - file_offset + l->file_offset - l->address;
		m->table = known->table;
		return true;
	}
	return false;
}

/* Sets state.mapping to the one of the address; false when it is not known, or holds no code. */
static __always_inline bool find_vma(struct rec_stack *r, __u64 address)
{
	if (!r || !bpf_core_field_exists(struct mm_struct, mm_mt))
		return false;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct vm_area_struct *vma = mm ? vma_at(r, mm, address) : NULL;
	struct unwind_mapping m = {.table = MAPPING_NO_RULES};
	if (!vma || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
		return false;
	m.start = BPF_CORE_READ(vma, vm_start);
	m.end = BPF_CORE_READ(vma, vm_end);
	if (address < m.start || address >= m.end)
		return false;
	struct file *file = BPF_CORE_READ(vma, vm_file);
	bool is_file = file || m.start == (__u64)BPF_CORE_READ(mm, context.vdso);
	if (is_file &&
	    !know_file(&m, file, BPF_CORE_READ(vma, vm_pgoff) << VMA_PAGE_SHIFT, address))
		return false;
	r->state.mapping = m;
	return true;
}
