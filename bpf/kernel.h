/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * kernel.h - the kernel structs that the programs read, as CO-RE fragments.
 * Only the fields that are used; offsets are relocated against the running kernel. */
#pragma once

#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/types.h>

#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define RELOCATED __attribute__((preserve_access_index))

typedef struct {
	int counter;
} RELOCATED atomic_t;

struct task_struct;

enum pid_type {
	PIDTYPE_PID,
	PIDTYPE_TGID,
	PIDTYPE_PGID,
	PIDTYPES,
};

struct upid {
	int nr; /* in the namespace that the first of numbers is of: the first one of all */
} RELOCATED;

struct pid {
	struct upid numbers[1];
} RELOCATED;

struct list_head {
	struct list_head *next;
} RELOCATED;

struct signal_struct {
	atomic_t live;		      /* threads of the process that have not begun to exit */
	struct list_head thread_head; /* threads whose time is not yet in sum_sched_runtime */
	unsigned long long sum_sched_runtime;
	struct pid *pids[PIDTYPES];
	struct task_struct *curr_target; /* the thread that gets the next signal of the process */
} RELOCATED;

/* kernel/events/uprobes.c: one per pending return probe, newest first */
struct return_instance {
	unsigned long stack;	      /* address of the return address on the user stack */
	unsigned long orig_ret_vaddr; /* what stood there before the trampoline */
	struct return_instance *next;
} RELOCATED;

struct uprobe_task {
	struct return_instance *return_instances;
} RELOCATED;

struct xol_area {
	unsigned long vaddr; /* the return trampoline is its first slot */
} RELOCATED;

struct uprobes_state {
	struct xol_area *xol_area;
} RELOCATED;

struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
} RELOCATED;

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
	long long i_ctime_sec; /* Linux 6.11 and later */
	unsigned int i_ctime_nsec;
} RELOCATED;

struct inode_time {
	long long tv_sec;
	long tv_nsec;
} RELOCATED;

struct inode___before_6_11 {
	struct inode_time __i_ctime;
} RELOCATED;

struct inode___before_6_6 {
	struct inode_time i_ctime;
} RELOCATED;

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
	struct inode *f_inode;
	struct path f_path;
} RELOCATED;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} RELOCATED;

struct files_struct {
	struct fdtable *fdt;
} RELOCATED;

#define VM_EXEC 4 /* linux/mm.h */

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
} RELOCATED;

/* Linux 6.1 and later (include/linux/maple_tree.h). */
struct maple_tree {
	void *ma_root;
} RELOCATED;

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
} RELOCATED;

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
} RELOCATED;

struct mm_context {
	void *vdso;
} RELOCATED;

struct mm_struct {
	struct uprobes_state uprobes_state;
	struct maple_tree mm_mt;
	struct mm_context context;
	unsigned long start_stack;
} RELOCATED;

struct thread_struct {
	unsigned long fsbase; /* pthread_self(), where glibc and musl run */
} RELOCATED;

struct kernfs_node {
	__u64 id;
} RELOCATED;

struct cgroup {
	int level; /* 0 = the root */
	struct kernfs_node *kn;
} RELOCATED;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} RELOCATED;

enum cgroup_subsys_id {
	cpu_cgrp_id = 1,
};

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by enum cgroup_subsys_id */
	struct cgroup *dfl_cgrp;	       /* of version 2 */
} RELOCATED;

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
} RELOCATED;

struct task_struct {
	struct sched_entity se;
	struct list_head thread_node;
	int pid;
	int tgid;
	int exit_code;
	unsigned int __state;
	void *stack;
	int on_cpu;
	int nr_cpus_allowed;
	unsigned int in_iowait : 1;
	struct files_struct *files;
	struct thread_struct thread;
	char comm[16];
	struct task_struct *group_leader;
	struct css_set *cgroups;
	struct task_struct *real_parent;
	struct task_struct *parent; /* of a task that is traced its tracer */
	struct mm_struct *mm;
	unsigned long sas_ss_sp; /* sigaltstack(2) */
	unsigned long sas_ss_size;
	struct signal_struct *signal;
	struct uprobe_task *utask;
} RELOCATED;

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} RELOCATED;
