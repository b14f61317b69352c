/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * open_calls.h - the calls that have not returned and the waits that have not ended, of every
 * thread: read by user space when it wants to know where a job stands, and when tracing stops. */
#pragma once

#include "state.h"

struct open_calls_to {
	struct seq_file *seq;
	struct thread_state *st;
	__u64 now_ns;
	__u32 tgid;
	__u32 tid;
};

static long write_open(__u32 i, struct open_calls_to *to)
{
	if (i >= to->st->depth)
		return 1;
	struct open_call *c = &to->st->open[i & (MAX_OPEN_CALLS - 1)];
	struct rec_call r = {
		.kind = REC_CALL,
		.flags = c->flags | CALL_OPEN,
		.depth = i,
		.nargs = c->nargs,
		.probe = c->probe,
		.tgid = to->tgid,
		.tid = to->tid,
		.start_ns = c->start_ns,
		.dur_ns = to->now_ns - c->start_ns,
	};
	__builtin_memcpy(r.args, c->args, sizeof(r.args));
	bpf_seq_write(to->seq, &r, sizeof(r));
	return 0;
}

/* Writes struct rec_call for each; read(2) of the iterator gives a row of them. */
SEC("iter/task")
int open_calls(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	struct thread_state *st = bpf_task_storage_get(&threads, task, 0, 0);
	if (!st || st->epoch != epoch)
		return 0;
	struct open_calls_to to = {.seq = ctx->meta->seq,
				   .st = st,
				   .now_ns = bpf_ktime_get_ns(),
				   .tgid = task->tgid,
				   .tid = task->pid};
	bpf_loop(MAX_OPEN_CALLS, write_open, &to, 0);
	return 0;
}

/* Writes struct rec_sample for each thread that does not run; weight_ns is up to now. */
SEC("iter/task")
int open_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	struct thread_profile *p = bpf_task_storage_get(&profiles, task, 0, 0);
	if (!p || (!p->off_ns && !p->short_ns))
		return 0;
	__u64 now_ns = bpf_ktime_get_ns();
	struct rec_sample s = {
		.kind = REC_SAMPLE,
		.is_wait = 1,
		.preempted = p->preempted,
		.reason = p->reason,
		.syscall = p->syscall,
		.tgid = task->tgid,
		.tid = task->pid,
		.time_ns = now_ns,
		.weight_ns = p->short_ns,
	};
	BPF_CORE_READ_STR_INTO(&s.comm, task, comm);
	if (p->short_ns) /* what was put together and has no record yet */
		bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	if (!p->off_ns)
		return 0;
	s.weight_ns = now_ns - p->off_ns;
	s.stack = p->off_stack;
	bpf_seq_write(ctx->meta->seq, &s, sizeof(s));
	return 0;
}
