/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * packets.h - whose packets a softirq delivers on the CPU of a traced thread: those that a process
 * of this host sends to this host, over the loopback or a veth pair. What comes from elsewhere has
 * no sender here. One packet in some is looked at. */
#pragma once

#include "stalls.h"

#define SENT_PACKETS	16384
#define SENT_EACH	8	     /* one packet in so many is noted, by chance */
#define PACKET_LASTS_NS 100000000ULL /* until it is delivered; later it is another at its place */
#define PACKET_LASTS	100 /* likewise, in ticks of the kernel: none is shorter than 1 ms */
#define SENDER_LASTS	64  /* packets on end that were not noted: they are another's */

__u64 packet_noted; /* tick of the last; 0 = none was */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SENT_PACKETS);
	__type(key, __u64); /* address of the struct sk_buff */
	__type(value, struct sender);
} sent_packets SEC(".maps");

/* Where a packet for this host is put into a queue: by who sends it. What a softirq sends, and a
 * thread of the kernel, which has no memory of its own, is of nobody. */
SEC("raw_tp")
int BPF_PROG(on_packet_sent, void *skb)
{
	struct cpu_stalls *c = stalls_here();
	if (!c || frozen || bpf_get_prandom_u32() % SENT_EACH)
		return 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	if (!task->mm || in_interrupt(ctx, &c->context))
		return 0;
	__u64 key = (__u64)skb;
	struct sender s = sender_of(task);
	packet_noted = bpf_jiffies64();
	bpf_map_update_elem(&sent_packets, &key, &s, BPF_ANY);
	return 0;
}

/* A packet that was noted is known no more once it is delivered, on whichever thread: another will
 * be at its place. */
SEC("raw_tp")
int BPF_PROG(on_packet_delivered, void *skb)
{
	struct cpu_stalls *c =
		bpf_jiffies64() - packet_noted <= PACKET_LASTS ? stalls_here() : NULL;
	if (!c)
		return 0;
	__u64 key = (__u64)skb, began_ns = c->softirq.start_ns ? spending_begin(SPENT_STALLS) : 0;
	struct sender *s = bpf_map_lookup_elem(&sent_packets, &key);
	__u64 now_ns = s ? bpf_ktime_get_ns() : 0;
	if (s && c->softirq.start_ns && now_ns - s->time_ns < PACKET_LASTS_NS) {
		c->sender = *s;
		c->sender.time_ns = now_ns;
		c->unknown = 0;
	} else if (++c->unknown >= SENDER_LASTS) {
		c->sender.tgid = 0;
	}
	if (s)
		bpf_map_delete_elem(&sent_packets, &key);
	if (c->softirq.start_ns)
		spending_end(SPENT_STALLS, began_ns);
	return 0;
}
