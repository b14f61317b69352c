/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * disk_io.h - requests to disks: how many, how large, how long they take, and which process made
 * them. All processes of the host count, for a disk has one queue; user space reads the sums. What
 * a process writes into the page cache is written later by threads of the kernel, as theirs. */
#pragma once

#include "state.h"

#include "wire/disk_io.h"

#define REQUESTS_MOST	16384
#define DISK_SUMS_MOST	4096
#define OPERATION_MASK	0xff /* include/linux/blk_types.h */
#define OPERATION_READ	0
#define OPERATION_WRITE 1
#define OPERATION_FLUSH 2

__u64 disk_since_ns; /* requests that were made before are not known */
__u32 disk_round;    /* raised by user space before it reads the sums */

struct gendisk {
	int major;
	int first_minor;
	char disk_name[DISK_NAME];
} RELOCATED;

struct request_queue {
	struct gendisk *disk;
} RELOCATED;

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 start_time_ns;
} RELOCATED;

struct request___before_5_17 {
	struct gendisk *rq_disk;
} RELOCATED;

/* A request that has not ended. */
struct open_request {
	__u64 made_ns;
	__u64 issued_ns; /* 0 = the disk was not told */
	__u32 tgid;
	__u32 bytes;
	char comm[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, REQUESTS_MOST);
	__type(key, __u64); /* address of the struct request */
	__type(value, struct open_request);
} open_requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, DISK_SUMS_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct disk_key);
	__type(value, struct disk_sums);
} disk_sums SEC(".maps");

static __always_inline struct gendisk *disk_of(struct request *rq)
{
	struct request___before_5_17 *old = (void *)rq;
	if (bpf_core_field_exists(old->rq_disk))
		return BPF_CORE_READ(old, rq_disk);
	return BPF_CORE_READ(rq, q, disk);
}

static __always_inline bool is_counted(struct request *rq)
{
	return (BPF_CORE_READ(rq, cmd_flags) & OPERATION_MASK) <= OPERATION_FLUSH;
}

static __always_inline void note_request(struct request *rq, __u64 issued_ns)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 key = (__u64)rq;
	struct open_request r = {
		.made_ns = issued_ns ? issued_ns : bpf_ktime_get_ns(),
		.issued_ns = issued_ns,
		.tgid = bpf_get_current_pid_tgid() >> 32,
		.bytes = BPF_CORE_READ(rq, __data_len),
	};
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	BPF_CORE_READ_STR_INTO(&r.comm, leader, comm);
	bpf_map_update_elem(&open_requests, &key, &r, BPF_ANY);
}

/* Where a request is made or put into a queue: mostly by who wants it. The disk may be told by a
 * thread of the kernel. One that was in its place has ended: some kernels do not tell of each end
 * (as of switches, waits.h). */
SEC("raw_tp")
int BPF_PROG(on_request_made, struct request *rq)
{
	__u64 key = (__u64)rq;
	struct open_request *before = bpf_map_lookup_elem(&open_requests, &key);
	if (before && before->issued_ns)
		count_loss(LOSS_DISK_IO);
	if (is_counted(rq))
		note_request(rq, 0);
	else if (before)
		bpf_map_delete_elem(&open_requests, &key);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_request_queued, struct request *rq)
{
	__u64 key = (__u64)rq;
	if (is_counted(rq) && !bpf_map_lookup_elem(&open_requests, &key))
		note_request(rq, 0);
	return 0;
}

/* It is part of another now, and of itself nothing. */
SEC("raw_tp")
int BPF_PROG(on_request_gone, struct request *rq)
{
	__u64 key = (__u64)rq;
	bpf_map_delete_elem(&open_requests, &key);
	return 0;
}

SEC("raw_tp")
int BPF_PROG(on_request_issued, struct request *rq)
{
	__u64 key = (__u64)rq, now_ns = bpf_ktime_get_ns();
	if (!is_counted(rq))
		return 0;
	struct open_request *r = bpf_map_lookup_elem(&open_requests, &key);
	if (!r) {
		note_request(rq, now_ns);
		return 0;
	}
	r->issued_ns = now_ns;
	r->bytes = BPF_CORE_READ(rq, __data_len); /* others may have become part of it */
	return 0;
}

static __always_inline struct disk_sums *sums_of(struct request *rq, const struct open_request *r)
{
	struct gendisk *disk = disk_of(rq);
	if (!disk)
		return NULL;
	struct disk_key key = {
		.disk = (__u32)BPF_CORE_READ(disk, major) << 20 |
			(__u32)BPF_CORE_READ(disk, first_minor),
		.tgid = r->tgid,
	};
	struct disk_sums *s = bpf_map_lookup_elem(&disk_sums, &key);
	if (s)
		return s;
	struct disk_sums new = {};
	__builtin_memcpy(new.comm, r->comm, sizeof(new.comm));
	BPF_CORE_READ_STR_INTO(&new.name, disk, disk_name);
	bpf_map_update_elem(&disk_sums, &key, &new, BPF_NOEXIST);
	return bpf_map_lookup_elem(&disk_sums, &key);
}

/* Two CPUs at once may leave the longest but one. */
static __always_inline void note_longest(struct disk_sums *s, __u64 took_ns)
{
	__u32 round = disk_round, i = round & 1;
	if (s->round[i] != round) {
		s->round[i] = round;
		s->longest[i] = 0;
	}
	if (took_ns > s->longest[i])
		s->longest[i] = took_ns;
}

static __always_inline void add_request(struct disk_sums *s, const struct open_request *r,
					__u32 operation, __u64 took_ns)
{
	if (operation == OPERATION_READ) {
		__sync_fetch_and_add(&s->reads, 1);
		__sync_fetch_and_add(&s->read_bytes, r->bytes);
		__sync_fetch_and_add(&s->read_ns, took_ns);
	} else if (operation == OPERATION_WRITE) {
		__sync_fetch_and_add(&s->writes, 1);
		__sync_fetch_and_add(&s->written_bytes, r->bytes);
		__sync_fetch_and_add(&s->write_ns, took_ns);
	} else {
		__sync_fetch_and_add(&s->flushes, 1);
		__sync_fetch_and_add(&s->flush_ns, took_ns);
	}
	__sync_fetch_and_add(&s->queued_ns, r->issued_ns - r->made_ns);
	note_longest(s, took_ns);
}

SEC("raw_tp")
int BPF_PROG(on_request_done, struct request *rq, int error, unsigned int bytes)
{
	__u64 key = (__u64)rq, now_ns = bpf_ktime_get_ns();
	if (!is_counted(rq) || bytes < BPF_CORE_READ(rq, __data_len))
		return 0; /* the rest of it goes on */
	struct open_request *r = bpf_map_lookup_elem(&open_requests, &key);
	if (!r || !r->issued_ns) { /* an empty one stands for flushes, which are requests too */
		if (bytes && BPF_CORE_READ(rq, start_time_ns) > disk_since_ns)
			count_loss(LOSS_DISK_IO);
		return 0;
	}
	struct disk_sums *s = sums_of(rq, r);
	if (s)
		add_request(s, r, BPF_CORE_READ(rq, cmd_flags) & OPERATION_MASK,
			    now_ns - r->issued_ns);
	else
		count_loss(LOSS_DISK_IO);
	bpf_map_delete_elem(&open_requests, &key);
	return 0;
}
