/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * sockets.h - TCP connections of targets: what user space asks for process by process, what
 * went over one by the time it closes, which thread opened it, and whether NCCL did. Nothing runs
 * per packet or per call of send and receive. */
#pragma once

#include "caller.h"
#include "open_calls.h"

#define AF_INET	    2 /* socket(7) */
#define AF_INET6    10
#define IPPROTO_TCP 6

/* enum of net/tcp_states.h */
#define TCP_ESTABLISHED	 1
#define TCP_SYN_SENT	 2
#define TCP_SYN_RECV	 3
#define TCP_CLOSE	 7
#define TCP_LISTEN	 10
#define TCP_NEW_SYN_RECV 12

enum sock_flags {
	SOCK_DONE = 1, /* the peer's FIN has come */
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
} RELOCATED;

struct ns_common {
	unsigned int inum;
} RELOCATED;

struct net {
	struct ns_common ns;
} RELOCATED;

typedef struct {
	struct net *net;
} RELOCATED possible_net_t;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport; /* in network order, unlike skc_num */
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	unsigned long skc_flags;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog; /* full when it is more than that */
	__u16 sk_protocol;
} RELOCATED;

struct inet_sock {
	__u16 inet_sport; /* in network order; there when skc_num is gone */
} RELOCATED;

struct tcp_sock {
	__u64 bytes_sent;    /* payload, what was sent again included */
	__u64 bytes_retrans; /* that part */
	__u64 bytes_acked;
	__u64 bytes_received; /* in order, and the FIN */
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 total_retrans;
	__u32 srtt_us;	 /* eight times it */
	__u16 total_rto; /* Linux 6.7 (3868ab0f192581) */
} RELOCATED;

struct socket {
	struct sock *sk;
} RELOCATED;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} RELOCATED;

/* Connections that are known to be a target's. */
struct socket_owner {
	__u32 tgid;
	__u32 flags; /* enum socket_flags */
	char opener[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64); /* address of the struct sock */
	__type(value, struct socket_owner);
} socket_owners SEC(".maps");

/* Of an owner: it is who listens there; who has accepted the connection was not seen yet. */
#define OWNER_LISTENS 0x80000000U

/* A listener that several processes have is the first one's, as long as that one was seen to have
 * it in so long: each process is asked once a second. */
#define LISTENER_KEPT_NS 5000000000ULL

/* Where targets listen, and others where a target did before. An entry is replaced when that is
 * listened at again, and is gone with its socket. */
struct socket_port {
	__u32 netns;
	__u16 port;
	__u16 family;
	__u8 address[16]; /* of IPv4 the first four; zeros: any */
};
struct listener {
	__u32 tgid;    /* 0 = of no target */
	__u32 flags;   /* enum socket_flags */
	__u64 socket;  /* address of the struct sock */
	__u64 seen_ns; /* when the process listened, or was seen to have it */
	char thread[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct socket_port);
	__type(value, struct listener);
} listeners SEC(".maps");

static __always_inline void read_addresses(struct rec_socket *r, struct sock *sk)
{
	if (r->family == AF_INET6) {
		BPF_CORE_READ_INTO(&r->source, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&r->destination, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
		return;
	}
	__u32 source = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	__u32 destination = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	__builtin_memcpy(r->source, &source, sizeof(source));
	__builtin_memcpy(r->destination, &destination, sizeof(destination));
}

/* Each byte once. What the host itself drops before it is out is counted again when it is tried
 * again, and not as retransmitted: what was acknowledged and what is under way bound it then, by
 * at most SYN and FIN too much. The connection goes on meanwhile: in this order what is read is
 * too little rather than too much. */
static __always_inline __u64 read_sent(struct tcp_sock *tcp)
{
	__u64 acked = BPF_CORE_READ(tcp, bytes_acked);
	__u64 sent = BPF_CORE_READ(tcp, bytes_sent);
	sent -= BPF_CORE_READ(tcp, bytes_retrans);
	__u32 next = BPF_CORE_READ(tcp, snd_nxt);
	__u64 most = acked + (__u32)(next - BPF_CORE_READ(tcp, snd_una));
	return sent < most ? sent : most;
}

/* As SIOCOUTQ and SIOCINQ have it (tcp(7)). What grows is read last: it is never below 0. */
static __always_inline void read_queues(struct rec_socket *r, struct tcp_sock *tcp)
{
	__u32 acked = BPF_CORE_READ(tcp, snd_una);
	r->send_queue = BPF_CORE_READ(tcp, write_seq) - acked;
	__u32 copied = BPF_CORE_READ(tcp, copied_seq);
	r->receive_queue = BPF_CORE_READ(tcp, rcv_nxt) - copied;
}

static __always_inline void read_socket(struct rec_socket *r, struct sock *sk,
					const struct socket_owner *owner)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_SOCKET;
	r->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	r->flags = owner->flags & ~OWNER_LISTENS;
	r->tgid = owner->tgid;
	r->socket = (__u64)sk;
	r->time_ns = bpf_ktime_get_ns();
	r->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	r->srtt_us = BPF_CORE_READ(tcp, srtt_us) >> 3;
	read_addresses(r, sk);
	r->source_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	r->destination_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	r->retransmits = BPF_CORE_READ(tcp, total_retrans);
	r->bytes_resent = BPF_CORE_READ(tcp, bytes_retrans);
	if (bpf_core_field_exists(tcp->total_rto))
		r->timeouts = BPF_CORE_READ(tcp, total_rto);
	r->bytes_sent = read_sent(tcp);
	r->bytes_received = BPF_CORE_READ(tcp, bytes_received);
	read_queues(r, tcp);
	__u64 done = bpf_core_enum_value(enum sock_flags, SOCK_DONE) & 63;
	if (BPF_CORE_READ(sk, __sk_common.skc_flags) >> done & 1) {
		r->bytes_received -= r->bytes_received != 0;
		r->receive_queue -= r->receive_queue != 0;
	}
	__builtin_memcpy(r->opener, owner->opener, sizeof(r->opener));
}

static __always_inline bool is_tcp(struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP &&
	       (family == AF_INET || family == AF_INET6);
}

static __always_inline bool is_connected(__u8 state)
{
	return state != TCP_SYN_SENT && state != TCP_SYN_RECV && state != TCP_CLOSE &&
	       state != TCP_LISTEN && state != TCP_NEW_SYN_RECV;
}

static __always_inline void port_of(struct socket_port *ret, struct sock *sk)
{
	__builtin_memset(ret, 0, sizeof(*ret));
	ret->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	ret->port = BPF_CORE_READ(sk, __sk_common.skc_num);
	ret->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (ret->family == AF_INET6)
		BPF_CORE_READ_INTO(&ret->address, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
	else
		BPF_CORE_READ_INTO((__u32 *)ret->address, sk, __sk_common.skc_rcv_saddr);
}

/* Who listens where the connection was accepted: at its address, or at any. */
static __always_inline struct listener *listener_of(struct sock *sk)
{
	struct socket_port port;
	port_of(&port, sk);
	struct listener *l = bpf_map_lookup_elem(&listeners, &port);
	if (!l) {
		__builtin_memset(port.address, 0, sizeof(port.address));
		l = bpf_map_lookup_elem(&listeners, &port);
	}
	return l && l->tgid ? l : NULL;
}

static __always_inline __u32 flags_of_accepted(struct sock *sk)
{
	struct listener *l = listener_of(sk);
	return l ? l->flags : 0;
}

/* A socket that a process has, and others may: it listened before it was traced, or has it by
 * fork. */
static __always_inline void know_listener(struct task_struct *task, struct sock *sk)
{
	struct socket_port port;
	struct listener known = {.tgid = BPF_CORE_READ(task, tgid),
				 .socket = (__u64)sk,
				 .seen_ns = bpf_ktime_get_ns()};
	port_of(&port, sk);
	struct listener *l = bpf_map_lookup_elem(&listeners, &port);
	if (l && l->tgid == known.tgid && l->socket == known.socket) {
		l->seen_ns = known.seen_ns;
		return;
	}
	if (l && l->tgid && known.seen_ns - l->seen_ns < LISTENER_KEPT_NS)
		return;
	if (l && l->socket == known.socket)
		known.flags = l->flags;
	BPF_CORE_READ_STR_INTO(&known.thread, task, comm);
	bpf_map_update_elem(&listeners, &port, &known, BPF_ANY);
}

/* As inet_diag tells it (net/ipv4/tcp_diag.c). */
static __always_inline void read_listener(struct rec_socket *r, struct task_struct *task,
					  struct sock *sk)
{
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = REC_SOCKET;
	r->state = TCP_LISTEN;
	r->tgid = BPF_CORE_READ(task, tgid);
	r->socket = (__u64)sk;
	r->time_ns = bpf_ktime_get_ns();
	r->send_queue = BPF_CORE_READ(sk, sk_max_ack_backlog);
	r->receive_queue = BPF_CORE_READ(sk, sk_ack_backlog);
}

/* Writes struct rec_socket for each connection of a process, and for each socket that it listens
 * at. */
SEC("iter/task_file")
int connections(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	if (!task || !file)
		return 0;
	struct socket *socket = bpf_sock_from_file(file);
	struct sock *sk = socket ? BPF_CORE_READ(socket, sk) : NULL;
	if (!sk || !is_tcp(sk))
		return 0;
	struct rec_socket r;
	__u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == TCP_LISTEN) {
		know_listener(task, sk);
		read_listener(&r, task, sk);
		bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	}
	if (!is_connected(state))
		return 0;
	__u64 key = (__u64)sk;
	struct socket_owner unknown = {
		.tgid = BPF_CORE_READ(task, tgid),
		.flags = flags_of_accepted(sk), /* what connects is known by now */
	};
	bpf_map_update_elem(&socket_owners, &key, &unknown, BPF_NOEXIST);
	struct socket_owner *owner = bpf_map_lookup_elem(&socket_owners, &key);
	if (owner && owner->flags & OWNER_LISTENS) {
		owner->tgid = unknown.tgid;
		owner->flags &= ~OWNER_LISTENS;
	}
	read_socket(&r, sk, owner ? owner : &unknown);
	r.state = state;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

static __always_inline void own_connecting(struct sock *sk)
{
	struct socket_owner owner = {.tgid = bpf_get_current_pid_tgid() >> 32};
	__u64 key = (__u64)sk;
	if (!is_target(owner.tgid))
		return;
	owner.flags = is_called_by_nccl() ? SOCKET_NCCL : 0;
	bpf_get_current_comm(owner.opener, sizeof(owner.opener));
	bpf_map_update_elem(&socket_owners, &key, &owner, BPF_ANY);
}

/* The peer has connected, in an interrupt as a rule. accept(2) has no tracepoint: the connection is
 * that of who listens, until it is seen in another process. */
static __always_inline void own_accepted(struct sock *sk)
{
	struct listener *l = listener_of(sk);
	__u64 key = (__u64)sk;
	if (!l)
		return;
	struct socket_owner owner = {.tgid = l->tgid, .flags = l->flags | OWNER_LISTENS};
	__builtin_memcpy(owner.opener, l->thread, sizeof(owner.opener));
	bpf_map_update_elem(&socket_owners, &key, &owner, BPF_NOEXIST);
}

static __always_inline void keep_port(struct sock *sk)
{
	struct socket_port port;
	struct listener l = {.tgid = bpf_get_current_pid_tgid() >> 32,
			     .socket = (__u64)sk,
			     .seen_ns = bpf_ktime_get_ns()};
	port_of(&port, sk);
	if (!is_target(l.tgid)) { /* a target's before; what is accepted there is at any no more */
		l.tgid = 0;
		if (listener_of(sk))
			bpf_map_update_elem(&listeners, &port, &l, BPF_ANY);
		return;
	}
	l.flags = is_called_by_nccl() ? SOCKET_NCCL : 0;
	bpf_get_current_comm(l.thread, sizeof(l.thread));
	bpf_map_update_elem(&listeners, &port, &l, BPF_ANY);
}

/* Nobody listens with it any more. A port that the kernel chose is given back by then. */
static __always_inline void forget_port(struct sock *sk)
{
	struct socket_port port;
	port_of(&port, sk);
	port.port = __builtin_bswap16(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	struct listener *l = bpf_map_lookup_elem(&listeners, &port);
	if (l && l->socket == (__u64)sk)
		bpf_map_delete_elem(&listeners, &port);
}

static __always_inline void emit_socket(struct sock *sk, const struct socket_owner *owner,
					__u8 state)
{
	struct rec_socket *r = bpf_ringbuf_reserve(&control, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_TASK_FULL);
		return;
	}
	read_socket(r, sk, owner);
	r->state = state;
	control_submit(r, false);
}

/* From connect(2), or from when the peer has connected, to the end. Between the states of closing
 * all is told anew: the last, which comes when the peer has answered, may be long after. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_socket_state, struct sock *sk, int before, int state)
{
	if (state == TCP_SYN_SENT) { /* in connect(2) */
		if (is_tcp(sk))
			own_connecting(sk);
		return 0;
	}
	if (before == TCP_SYN_RECV && state == TCP_ESTABLISHED) {
		if (is_tcp(sk))
			own_accepted(sk);
		return 0;
	}
	if (state == TCP_LISTEN) { /* in listen(2) */
		if (is_tcp(sk))
			keep_port(sk);
		return 0;
	}
	if (before == TCP_LISTEN) {
		if (is_tcp(sk))
			forget_port(sk);
		return 0;
	}
	__u64 key = (__u64)sk;
	struct socket_owner *owner = bpf_map_lookup_elem(&socket_owners, &key);
	if (!owner)
		return 0;
	if (is_connected(before))
		emit_socket(sk, owner, state);
	if (state == TCP_CLOSE)
		bpf_map_delete_elem(&socket_owners, &key);
	return 0;
}
