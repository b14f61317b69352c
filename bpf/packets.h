/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * packets.h - whose packets a softirq delivers on the CPU of a traced thread: those that a process
 * of this host sends to this host, over the loopback or a veth pair. What comes from elsewhere has
 * no sender here. One packet in some is looked at. */
#pragma once

#include "stalls.h"

#define SENT_PACKETS	4096
#define SENT_EACH	8	    /* packets of a CPU: one in so many is noted */
#define PACKET_LASTS_NS 10000000ULL /* until it is delivered; later it is another at its place */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SENT_PACKETS);
	__type(key, __u64); /* address of the struct sk_buff */
	__type(value, struct sender);
} sent_packets SEC(".maps");

/* Where a packet for this host is put into a queue: in the context of who sends it. What a softirq
 * sends is of nobody: threads of the kernel have no memory of their own, and traced threads are
 * known to be interrupted. What it sends on another thread is taken for that one's. */
SEC("raw_tp")
int BPF_PROG(on_packet_sent, void *skb)
{
	struct cpu_stalls *c = stalls_here();
	if (!c || ++c->sent % SENT_EACH || c->softirq.start_ns || frozen)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	if (!task->mm)
		return 0;
	__u64 key = (__u64)skb;
	struct sender s = sender_of(task);
	bpf_map_update_elem(&sent_packets, &key, &s, BPF_ANY);
	return 0;
}

/* In the softirq. */
SEC("raw_tp")
int BPF_PROG(on_packet_delivered, void *skb)
{
	struct cpu_stalls *c = stalls_here();
	if (!c || !c->softirq.start_ns)
		return 0;
	__u64 key = (__u64)skb;
	struct sender *s = bpf_map_lookup_elem(&sent_packets, &key);
	if (!s)
		return 0;
	__u64 now_ns = bpf_ktime_get_ns();
	if (now_ns - s->time_ns < PACKET_LASTS_NS) {
		c->sender = *s;
		c->sender.time_ns = now_ns;
	}
	bpf_map_delete_elem(&sent_packets, &key);
	return 0;
}
