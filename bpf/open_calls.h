/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * open_calls.h - the calls that have not returned, of every thread: read by user space
 * when it wants to know where a job stands, and when tracing stops. */
#pragma once

#include "state.h"

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} RELOCATED;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} RELOCATED;

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
	__u64 now_ns = bpf_ktime_get_ns();
	for (int i = 0; i < MAX_OPEN_CALLS; i++) {
		if (i >= st->depth)
			break;
		struct open_call *c = &st->open[i];
		struct rec_call r = {
			.kind = REC_CALL,
			.flags = c->flags | CALL_OPEN,
			.depth = i,
			.nargs = c->nargs,
			.probe = c->probe,
			.tgid = task->tgid,
			.tid = task->pid,
			.start_ns = c->start_ns,
			.dur_ns = now_ns - c->start_ns,
		};
		__builtin_memcpy(r.args, c->args, sizeof(r.args));
		bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	}
	return 0;
}
