/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * waits.h - where threads wait: for each thread and reason how often and how long, and a record of
 * each wait that is long. Takes no stacks: samples.h does, and has the tracepoints. The reason is
 * that of the system call, or of the file that it is about. */
#pragma once

#include "spending.h"

#define WAIT_SUMS_NS	 1000000000ULL /* a thread tells its sums so often, while it runs */
#define PROCESS_WAIT_NS	 500000ULL     /* a process: one record of a wait in so much time */
#define PROCESS_WAITS	 2000	       /* and so many at once; waits beyond are only in sums */
#define WAIT_PROCESSES	 4096
#define RIVAL_LEAST_NS	 50000ULL
#define RIVAL_LAST_PART	 5 /* of a wait that its last rival had the CPU for, to be named */
#define ANCESTORS	 8 /* of a process that are looked at */
#define TASK_DEAD	 0x80
#define TASK_BLOCKED	 0x02  /* TASK_UNINTERRUPTIBLE; TASK_KILLABLE has it too */
#define TASK_NO_LOAD	 0x400 /* with it, TASK_IDLE: state I */
#define TASK_IS_TRACED	 0x08
#define TASK_IS_STOPPED	 0x0c /* __TASK_STOPPED, __TASK_TRACED */
#define SIGNAL_STOPS	 19   /* SIGSTOP, and after it SIGTSTP, SIGTTIN, SIGTTOU */
#define SIGNAL_STOPS_END 22
#define SIGNAL_IGNORED	 1	       /* TRACE_SIGNAL_IGNORED of include/trace/events/signal.h */
#define SIGNAL_OF_KERNEL 1	       /* SEND_SIG_PRIV of include/linux/sched/signal.h */
#define STOPS_WITHIN_NS	 1000000000ULL /* of the signal; a stop later is another one */
#define TASK_STACK_BYTES 16384	       /* arch/x86/include/asm/page_64_types.h */
#define ANON_INODE_MAGIC 0x09041934
#define MODE_TYPE	 0170000
#define MODE_PIPE	 0010000
#define MODE_CHARACTERS	 0020000
#define MODE_BLOCKS	 0060000
#define MODE_FILE	 0100000
#define MODE_SOCKET	 0140000

const volatile bool counts_waits;
const volatile __u64 wait_row_ns; /* waits of this length and longer have a record */

struct thread_waits {
	__u64 since_ns;
	__u64 out_ns;	/* since when it does not run, 0 = it does */
	__u64 woken_ns; /* 0 = was not */
	__u64 ran_ns;	/* all its CPU time, as of out_ns */
	__u64 told_ns;	/* when its sums were told last */
	__u64 sum_ns;	/* of all its waits, since the first */
	__u64 context;	/* of the program that sees it woken: in_interrupt() */
	__u32 waker_tgid;
	__u32 waker_tid;
	__s32 syscall;
	__u32 cpu;		  /* that it left last, plus one; 0 = none yet */
	__u32 migrations;	  /* that were not told yet */
	__u64 uninterruptible_ns; /* likewise */
	__u8 reason;
	bool uninterruptible; /* this wait */
	bool held;	      /* by bpf/hold.h, which counts that itself */
	bool ended; /* its last sums are told: a task may be there until its parent asks for it */
	__u8 rival_v1;
	__u32 rival_tgid;  /* 0 = not known; of WAIT_STOPPED: who stopped it */
	__u32 rival_group; /* of processes */
	__u64 rival_task;  /* address of its struct task_struct: it may be gone */
	__u64 rival_cgroup;
	char rival[16];
	struct wait_sum sums[WAIT_REASONS];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_waits);
} thread_waits SEC(".maps");

/* A process that sent something: a signal, a packet. */
struct sender {
	__u64 time_ns;
	__u32 tgid; /* 0 = not known */
	__u32 pad;
	char comm[16];
};
/* By which signal processes were stopped last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WAIT_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct sender);
} stoppers SEC(".maps");

/* What a process may still record. */
struct wait_allowance {
	__u64 refill_ns;
	__u32 left;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WAIT_PROCESSES);
	__type(key, __u32); /* tgid */
	__type(value, struct wait_allowance);
} wait_allowances SEC(".maps");

/* One in each_ns, at most burst at once. */
static __always_inline bool may_take(__u64 *refill_ns, __u32 *left, __u64 each_ns, __u32 burst,
				     __u64 now_ns)
{
	__u64 more = (now_ns - *refill_ns) / each_ns;
	if (more + *left > burst) {
		*refill_ns = now_ns;
		*left = burst;
	} else {
		*refill_ns += more * each_ns;
		*left += (__u32)more;
	}
	if (!*left)
		return false;
	(*left)--;
	return true;
}

/* allowances: of all processes, a map. */
static __always_inline bool may_record(void *allowances, __u32 tgid, __u64 now_ns)
{
	struct wait_allowance *a = bpf_map_lookup_elem(allowances, &tgid);
	if (!a) {
		struct wait_allowance full = {.refill_ns = now_ns, .left = PROCESS_WAITS};
		bpf_map_update_elem(allowances, &tgid, &full, BPF_NOEXIST);
		a = bpf_map_lookup_elem(allowances, &tgid);
	}
	return a && may_take(&a->refill_ns, &a->left, PROCESS_WAIT_NS, PROCESS_WAITS, now_ns);
}

/* In an interrupt, hard or soft, the current task has nothing to do with what happens. Those
 * that interrupt the kernel run on stacks of their own (arch/x86/kernel/irq_64.c), and the
 * context of a program lies on the stack; those that interrupt user space may run on the task's,
 * which then was entered by no system call. The address becomes a number by way of memory, in
 * scratch: verifiers before 6.2 calculate with no context. */
static __always_inline bool in_interrupt(void *ctx, __u64 *scratch)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	*(void *volatile *)scratch = ctx;
	__u64 here = *(volatile __u64 *)scratch;
	if (here - (__u64)task->stack >= TASK_STACK_BYTES)
		return true;
	struct pt_regs *saved = (void *)bpf_task_pt_regs(task);
	return saved && (__s64)saved->orig_rax == -1;
}

/* Whether the current task moves data through a file: system calls of x86-64. What it sends to
 * this host, to itself or through a veth pair, is delivered at once, in a softirq on its own
 * account; so is the room that who reads makes for who sends. An interrupt that comes just then is
 * taken for it. */
static __always_inline bool moves_data(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct pt_regs *saved = (void *)bpf_task_pt_regs(task);
	switch (saved ? saved->orig_rax : (__u64)-1) {
	case 0:	  /* read */
	case 1:	  /* write */
	case 19:  /* readv */
	case 20:  /* writev */
	case 40:  /* sendfile */
	case 42:  /* connect */
	case 44:  /* sendto */
	case 45:  /* recvfrom */
	case 46:  /* sendmsg */
	case 47:  /* recvmsg */
	case 48:  /* shutdown */
	case 299: /* recvmmsg */
	case 307: /* sendmmsg */
		return true;
	default:
		return false;
	}
}

/* ---- why ---- */

/* The driver's files: /dev/nvidia0, nvidiactl, nvidia-uvm. */
static __always_inline bool is_gpu(struct file *file)
{
	char name[6] = {};
	const unsigned char *at = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	if (bpf_probe_read_kernel(name, sizeof(name), at))
		return false;
	return name[0] == 'n' && name[1] == 'v' && name[2] == 'i' && name[3] == 'd' &&
	       name[4] == 'i' && name[5] == 'a';
}

static __always_inline __u8 reason_of_file(struct task_struct *task, __u32 fd)
{
	struct files_struct *files = task->files;
	struct fdtable *table = files ? files->fdt : NULL;
	struct file *file = NULL;
	if (!table || fd >= table->max_fds ||
	    bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd) || !file)
		return WAIT_OTHER;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	switch (BPF_CORE_READ(inode, i_mode) & MODE_TYPE) {
	case MODE_PIPE:
		return WAIT_PIPE;
	case MODE_SOCKET:
		return WAIT_NETWORK;
	case MODE_FILE: /* eventfd, timerfd and the like may say so too */
		return BPF_CORE_READ(inode, i_sb, s_magic) == ANON_INODE_MAGIC ? WAIT_PIPE
									       : WAIT_DISK;
	case MODE_BLOCKS:
		return WAIT_DISK;
	case MODE_CHARACTERS:
		return is_gpu(file) ? WAIT_GPU : WAIT_OTHER;
	case 0:
		return WAIT_PIPE;
	}
	return WAIT_OTHER;
}

/* ret_syscall: its number, or -1. */
static __always_inline __u8 reason_of(struct task_struct *task, __u32 state, __s32 *ret_syscall)
{
	struct pt_regs *saved = (void *)bpf_task_pt_regs(task);
	__u64 number = saved ? saved->orig_rax : ~0ULL;
	*ret_syscall = (__s32)number;
	if (state & TASK_IS_STOPPED)
		return WAIT_STOPPED;
	if ((__s32)number < 0)
		return WAIT_PAGE_FAULT; /* in no system call */
	if (state & TASK_BLOCKED && BPF_CORE_READ_BITFIELD(task, in_iowait))
		return WAIT_DISK;
	__u8 reason = number < WAIT_SYSCALLS ? wait_of_syscall[number] : WAIT_OTHER;
	if (reason != WAIT_BY_FILE)
		return reason;
	return saved ? reason_of_file(task, (__u32)saved->rdi) : WAIT_OTHER;
}

/* ---- by whom ---- */

static __always_inline struct sender sender_of(struct task_struct *task)
{
	struct sender s = {.time_ns = bpf_ktime_get_ns(), .tgid = BPF_CORE_READ(task, tgid)};
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	BPF_CORE_READ_STR_INTO(&s.comm, leader, comm);
	return s;
}

/* What the kernel sends (a terminal's, and to a job of the background) is of nobody. */
SEC("raw_tp")
int BPF_PROG(on_signal, int number, void *info, struct task_struct *task, int group, int result)
{
	if (number < SIGNAL_STOPS || number > SIGNAL_STOPS_END || result == SIGNAL_IGNORED)
		return 0;
	struct task_struct *by = (struct task_struct *)bpf_get_current_task_btf();
	__u32 tgid = BPF_CORE_READ(task, tgid);
	if (!by->mm || (__u64)info == SIGNAL_OF_KERNEL) {
		bpf_map_delete_elem(&stoppers, &tgid);
		return 0;
	}
	struct sender s = sender_of(by);
	bpf_map_update_elem(&stoppers, &tgid, &s, BPF_ANY);
	return 0;
}

/* Whose signal it was, else its debugger. Long, and no part of the paths that lead here. */
static __noinline void find_stopper(struct thread_waits *w, struct task_struct *task, __u32 state)
{
	__u32 tgid = BPF_CORE_READ(task, tgid);
	struct sender by = {}, *s = bpf_map_lookup_elem(&stoppers, &tgid);
	if (s && w->out_ns - s->time_ns < STOPS_WITHIN_NS)
		by = *s;
	else if (state & TASK_IS_TRACED)
		by = sender_of(BPF_CORE_READ(task, parent));
	else
		return;
	w->rival_tgid = by.tgid;
	__builtin_memcpy(w->rival, by.comm, sizeof(w->rival));
}

/* ---- by whom: what it is of ---- */

/* 0: it has ended and is waited for no more. */
static __always_inline __u32 process_group_of(struct task_struct *task)
{
	struct pid *of = BPF_CORE_READ(task, signal, pids[PIDTYPE_PGID]);
	return of ? (__u32)BPF_CORE_READ(of, numbers[0].nr) : 0;
}

/* Whose a thread's rival is: who leads its process group; in the thread's own group, as where no
 * shell gives each job one, the highest of the rival's ancestors, or itself, that is in that group
 * and none of the thread's own. 0 = not known; the first process of all, which orphans come to, is
 * never it. Long, and for waits that have a record: it is no part of the paths that lead here. */
static __noinline __u32 leader_of_rival(const struct thread_waits *w, struct task_struct *task)
{
	__u32 own[ANCESTORS] = {}, leader = 0;
	struct task_struct *at = task;
	if (w->rival_group != process_group_of(task))
		return w->rival_group > 1 ? w->rival_group : 0;
	for (int i = 0; i < ANCESTORS; i++) {
		own[i] = BPF_CORE_READ(at, tgid);
		at = BPF_CORE_READ(at, real_parent);
	}
	at = (struct task_struct *)w->rival_task;
	if (BPF_CORE_READ(at, tgid) != w->rival_tgid)
		return 0;
	for (int i = 0; i < ANCESTORS; i++) {
		__u32 tgid = BPF_CORE_READ(at, tgid);
		bool is_own = tgid <= 1;
		for (int k = 0; k < ANCESTORS; k++)
			is_own |= own[k] == tgid;
		if (is_own || process_group_of(at) != w->rival_group)
			break;
		leader = tgid;
		at = BPF_CORE_READ(at, real_parent);
	}
	return leader;
}

/* ---- a wait's course ---- */

/* A thread of a target that is seen for the first time. NULL where the switch interrupted who makes
 * such state himself: then it is made at the next, and its sums say since when they are. */
static __always_inline struct thread_waits *waits_new(struct task_struct *task, __u64 now_ns)
{
	struct thread_waits *w = task_state(&thread_waits, task);
	if (w && !w->since_ns)
		w->since_ns = w->told_ns = now_ns;
	return w;
}

static __always_inline void add_wait(struct thread_waits *w, __u32 reason, __u64 took_ns,
				     __u64 runnable_ns, bool left_out)
{
	if (reason >= WAIT_REASONS)
		return;
	struct wait_sum *s = &w->sums[reason];
	s->count++;
	s->waited_ns += took_ns - runnable_ns;
	if (w->uninterruptible) {
		s->uninterruptible_ns += took_ns - runnable_ns;
		w->uninterruptible_ns += took_ns - runnable_ns;
	}
	s->runnable_ns += runnable_ns;
	s->left_out += left_out;
	w->sum_ns += took_ns;
	if (took_ns > s->longest_ns)
		s->longest_ns = took_ns;
}

static __always_inline bool wait_put(struct task_struct *task, const struct thread_waits *w,
				     __u64 took_ns, __u64 runnable_ns)
{
	__u32 leader = w->rival_tgid ? leader_of_rival(w, task) : 0;
	void *ring = ring_to_spare();
	struct rec_wait *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r)
		return false;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_WAIT;
	r->reason = w->reason;
	r->syscall = w->reason == WAIT_PREEMPTED ? -1 : w->syscall;
	r->tgid = task->tgid;
	r->tid = task->pid;
	r->start_ns = w->out_ns;
	r->duration_ns = took_ns;
	r->runnable_ns = runnable_ns;
	r->waker_tgid = w->waker_tgid;
	r->waker_tid = w->waker_tid;
	BPF_CORE_READ_STR_INTO(&r->comm, task, comm);
	r->rival_tgid = w->rival_tgid;
	if (w->rival_tgid) {
		__builtin_memcpy(r->rival, w->rival, sizeof(r->rival));
		r->rival_leader = leader;
		r->rival_cgroup = w->rival_cgroup;
		r->rival_v1 = w->rival_v1;
	}
	ring_submit(ring, r);
	return true;
}

/* All but whose they are. Long, and verified once: it is no part of the paths that lead here. */
__noinline int fill_sums(struct rec_wait_sums *r, struct thread_waits *w, __u64 now_ns, bool last)
{
	if (!r || !w)
		return 0;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_WAIT_SUMS;
	r->last = last;
	r->migrations = w->migrations < 0xffff ? w->migrations : 0xffff;
	w->migrations -= r->migrations;
	r->uninterruptible_ns = w->uninterruptible_ns;
	w->uninterruptible_ns = 0;
	r->since_ns = w->since_ns;
	r->until_ns = now_ns;
	__builtin_memcpy(r->sums, w->sums, sizeof(r->sums));
	return 0;
}

static __always_inline void sums_put(struct task_struct *task, struct thread_waits *w, __u64 now_ns,
				     bool last)
{
	void *ring = last ? ring_here() : ring_to_spare();
	struct rec_wait_sums *r = ring ? bpf_ringbuf_reserve(ring, sizeof(*r), 0) : NULL;
	if (!r) { /* else they are told again */
		if (last)
			count_loss(LOSS_SAMPLE);
		return;
	}
	w->told_ns = now_ns;
	fill_sums(r, w, now_ns, last);
	r->tgid = BPF_CORE_READ(task, tgid);
	r->tid = BPF_CORE_READ(task, pid);
	if (bpf_core_field_exists(task->nr_cpus_allowed))
		r->cpus = (__u32)BPF_CORE_READ(task, nr_cpus_allowed);
	BPF_CORE_READ_STR_INTO(&r->comm, task, comm);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Of a wait that ends, or is looked at, then: how long the thread could have run. */
static __always_inline __u64 runnable_since(const struct thread_waits *w, __u64 end_ns)
{
	__u64 since_ns = w->reason == WAIT_PREEMPTED ? w->out_ns : w->woken_ns;
	return since_ns && since_ns < end_ns ? end_ns - since_ns : 0;
}

/* Long, and with two callers: it is there once. */
static __noinline void waits_end(struct thread_waits *w, struct task_struct *task, __u64 end_ns,
				 __u64 now_ns)
{
	__u64 took_ns = end_ns - w->out_ns, runnable_ns = runnable_since(w, end_ns);
	bool left_out =
		took_ns >= wait_row_ns && (!may_record(&wait_allowances, task->tgid, now_ns) ||
					   !wait_put(task, w, took_ns, runnable_ns));
	add_wait(w, w->reason, took_ns, runnable_ns, left_out);
	w->out_ns = 0;
}

static __always_inline void waits_return(struct thread_waits *w, struct task_struct *task,
					 __u64 now_ns)
{
	if (!w->out_ns)
		return;
	waits_end(w, task, now_ns, now_ns);
	if (now_ns - w->told_ns >= WAIT_SUMS_NS)
		sums_put(task, w, now_ns, false);
}

/* Some kernels do not tell of each switch: on virtual machines with Linux 6.18 none was told whose
 * CPU was left by certain threads of the machine's own agent. What a thread has run since its
 * wait ended is known all the same. */
static __always_inline void waits_missed(struct thread_waits *w, struct task_struct *task,
					 __u64 now_ns)
{
	__u64 ran_ns = task->se.sum_exec_runtime - w->ran_ns;
	if (w->out_ns && now_ns - w->out_ns > ran_ns)
		waits_end(w, task, now_ns - ran_ns, now_ns);
	w->out_ns = 0;
}

static __always_inline void waits_leave(struct thread_waits *w, struct task_struct *task,
					__u32 state, bool could_run, __u64 now_ns)
{
	if (w->held)
		return;
	waits_missed(w, task, now_ns);
	w->ran_ns = task->se.sum_exec_runtime;
	w->out_ns = now_ns;
	w->woken_ns = 0;
	w->waker_tgid = w->waker_tid = w->rival_tgid = w->rival_group = 0;
	w->rival_cgroup = 0;
	w->uninterruptible = !could_run && state & TASK_BLOCKED && !(state & TASK_NO_LOAD);
	if (could_run)
		w->reason = WAIT_PREEMPTED;
	else
		w->reason = reason_of(task, state, &w->syscall);
	if (w->reason == WAIT_STOPPED)
		find_stopper(w, task, state);
}

/* The number of a task's cgroup: of version 2, where the task is in one but the root; else in the
 * tree of version 1 that has the CPUs. 0 = not known. */
static __always_inline __u64 cgroup_of(struct task_struct *task, __u8 *ret_v1)
{
	struct css_set *set = task->cgroups;
	struct cgroup *of = set->dfl_cgrp;
	*ret_v1 = false;
	if (of->level > 0 || !bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return of->kn->id;
	__u64 at = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	void *all = (void *)set + bpf_core_field_offset(struct css_set, subsys);
	struct cgroup_subsys_state **cpu = all + at * sizeof(*cpu);
	struct cgroup *v1 = (*cpu)->cgroup;
	if (v1->level <= 0)
		return of->kn->id; /* the root */
	*ret_v1 = true;
	return v1->kn->id;
}

/* Who has the CPU of a thread that could run: the first program that is given it. Threads of the
 * kernel have no memory of their own and run for moments. Noted is what cannot be asked for once it
 * has ended, and by loads alone: most waits are short, and have no record. A program may be one of
 * many that come and go: whose they are is looked for when there is one. Long, and with two
 * callers: it is there once. */
static __noinline void waits_rival(struct thread_waits *w, struct task_struct *other)
{
	if (w->held || !other->mm)
		return;
	w->rival_tgid = other->tgid;
	w->rival_group = other->signal->pids[PIDTYPE_PGID]->numbers[0].nr;
	w->rival_task = (__u64)other;
	w->rival_cgroup = cgroup_of(other, &w->rival_v1);
	BPF_CORE_READ_STR_INTO(&w->rival, other, comm);
}

/* Who has the CPU until a thread gets it matters if the wait has a record, and the thread was
 * preempted or was woken a while ago. */
static __always_inline bool has_rival(const struct thread_waits *w, __u64 now_ns)
{
	if (!w->out_ns || now_ns - w->out_ns < wait_row_ns || w->reason == WAIT_STOPPED)
		return false; /* who stopped it is there */
	return w->reason == WAIT_PREEMPTED ||
	       (w->woken_ns && now_ns - w->woken_ns >= RIVAL_LEAST_NS);
}

/* The last that had the CPU before a thread got it, where it had it for a good part of the wait:
 * the first may have had it for a moment. What a task ran since it was given the CPU is
 * sum_exec_runtime less prev_sum_exec_runtime (kernel/sched/fair.c: set_next_entity). */
static __always_inline void waits_last_rival(struct thread_waits *w, struct task_struct *last,
					     __u64 now_ns)
{
	__u64 ran_ns = last->se.sum_exec_runtime - last->se.prev_sum_exec_runtime;
	if (!w->rival_tgid || ran_ns * RIVAL_LAST_PART >= now_ns - w->out_ns)
		waits_rival(w, last);
}

/* A thread leaves this CPU: whether it had left another one the last time. */
static __always_inline void waits_leave_cpu(struct thread_waits *w)
{
	__u32 cpu = bpf_get_smp_processor_id() + 1;
	w->migrations += w->cpu && w->cpu != cpu;
	w->cpu = cpu;
}

/* It may be packets that it waits for. */
static __always_inline bool for_data(const struct thread_waits *w)
{
	return w->reason == WAIT_NETWORK || w->reason == WAIT_POLL;
}

/* The current task wakes another. */
static __always_inline void waits_wake(void *ctx, struct task_struct *task)
{
	struct thread_waits *w = bpf_task_storage_get(&thread_waits, task, 0, 0);
	if (!w || !w->out_ns || w->woken_ns)
		return;
	__u64 began_ns = spending_begin(SPENT_SWITCHES);
	w->woken_ns = bpf_ktime_get_ns();
	if (in_interrupt(ctx, &w->context) && !(for_data(w) && moves_data()))
		return;
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	w->waker_tgid = pid_tgid >> 32;
	w->waker_tid = (__u32)pid_tgid;
	spending_end(SPENT_SWITCHES, began_ns); /* the waker's, mostly a task of the job too */
}

/* prev leaves the CPU to next: whether that is traced. */
static __always_inline bool waits_switch(struct task_struct *prev, struct task_struct *next,
					 __u32 tgid, __u32 state, bool could_run)
{
	struct thread_waits *in = bpf_task_storage_get(&thread_waits, next, 0, 0);
	struct thread_waits *out = bpf_task_storage_get(&thread_waits, prev, 0, 0);
	bool is_new = !out && tgid && is_followed(tgid);
	if (!in && !out && !is_new)
		return false;
	__u64 now_ns = bpf_ktime_get_ns();
	if (in) {
		if (has_rival(in, now_ns))
			waits_last_rival(in, prev, now_ns);
		waits_return(in, next, now_ns);
	}
	if (is_new)
		out = waits_new(prev, now_ns);
	if (!out)
		return in;
	waits_leave_cpu(out);
	if (state & TASK_DEAD) {
		waits_missed(out, prev, now_ns);
		sums_put(prev, out, now_ns, true);
		out->ended = true;
	} else {
		waits_leave(out, prev, state, could_run, now_ns);
		if (could_run)
			waits_rival(out, next);
	}
	return in;
}

/* ---- by others ---- */

/* The current task runs another program now. */
static __always_inline void waits_exec(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_waits *w =
		counts_waits ? bpf_task_storage_get(&thread_waits, task, 0, 0) : NULL;
	if (!w)
		return;
	w->since_ns = w->told_ns = bpf_ktime_get_ns();
	__builtin_memset(w->sums, 0, sizeof(w->sums));
}

/* The current task is held from here on. */
static __always_inline void waits_hold(__u64 now_ns)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_waits *w = counts_waits ? waits_new(task, now_ns) : NULL;
	if (w)
		w->held = true;
}

static __always_inline void waits_held(__u64 now_ns, __u64 took_ns)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct thread_waits *w =
		counts_waits ? bpf_task_storage_get(&thread_waits, task, 0, 0) : NULL;
	if (!w)
		return;
	w->held = false;
	w->out_ns = now_ns - took_ns;
	w->reason = WAIT_HELD;
	w->uninterruptible = false;
	w->syscall = -1;
	w->woken_ns = 0;
	w->waker_tgid = w->waker_tid = w->rival_tgid = 0;
	waits_end(w, task, now_ns, now_ns);
}

/* Those that wait already when tracing begins. */
SEC("iter/task")
int find_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task || !is_followed(task->tgid) || bpf_task_storage_get(&thread_waits, task, 0, 0))
		return 0;
	__u64 now_ns = bpf_ktime_get_ns();
	struct thread_waits *w = waits_new(task, now_ns);
	__u32 state = task->__state;
	if (w && (!bpf_core_field_exists(task->on_cpu) || !task->on_cpu))
		waits_leave(w, task, state, !state, now_ns);
	return 0;
}

/* All threads tell their sums, with the wait that has not ended; nothing is read here. */
SEC("iter/task")
int open_wait_sums(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_waits *w = task ? bpf_task_storage_get(&thread_waits, task, 0, 0) : NULL;
	if (!w || w->ended)
		return 0;
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 took_ns = w->out_ns ? now_ns - w->out_ns : 0, runnable_ns = runnable_since(w, now_ns);
	if (took_ns)
		add_wait(w, w->reason, took_ns, runnable_ns,
			 took_ns >= wait_row_ns && !wait_put(task, w, took_ns, runnable_ns));
	w->out_ns = 0;
	sums_put(task, w, now_ns, true);
	return 0;
}
