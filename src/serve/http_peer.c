/* http_peer.c - asks for one socket by its addresses and ports. Not a list of all: a host may have
 * many thousands. */
#include "serve/http_peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 of;
};

static void put_address(__be32 to[static 4], __be16 *ret_port, const union address *a)
{
	if (a->any.sa_family == AF_INET6)
		memcpy(to, &a->v6.sin6_addr, sizeof(a->v6.sin6_addr));
	else
		memcpy(to, &a->v4.sin_addr, sizeof(a->v4.sin_addr));
	*ret_port = a->any.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port;
}

/* The other end: its own address is our peer's. */
static bool question_make(struct question *ret, int fd)
{
	union address own, peer;
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);
	if (getsockname(fd, &own.any, &own_len) || getpeername(fd, &peer.any, &peer_len) ||
	    own.any.sa_family != peer.any.sa_family ||
	    (own.any.sa_family != AF_INET && own.any.sa_family != AF_INET6))
		return false;
	*ret = (struct question){
		.head = {.nlmsg_len = sizeof(*ret),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.of = {.sdiag_family = (uint8_t)own.any.sa_family,
		       .sdiag_protocol = IPPROTO_TCP,
		       .idiag_states = ~0u,
		       .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
	put_address(ret->of.id.idiag_src, &ret->of.id.idiag_sport, &peer);
	put_address(ret->of.id.idiag_dst, &ret->of.id.idiag_dport, &own);
	return true;
}

/* The kernel answers before send(2) returns. */
static bool ask(const struct question *q, struct inet_diag_msg *ret)
{
	_Alignas(struct nlmsghdr) char answer[4096];
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return false;
	ssize_t n = connect(fd, (const struct sockaddr *)&kernel, sizeof(kernel)) ||
				    send(fd, q, sizeof(*q), 0) < 0
			    ? -1
			    : recv(fd, answer, sizeof(answer), 0);
	close(fd);
	const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*ret)) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	memcpy(ret, NLMSG_DATA(answer), sizeof(*ret));
	return true;
}

/* Where there is none of these addresses the kernel may answer with one that listens; one that is
 * about to connect may have those of another, which is bound to a device. */
static bool is_asked_for(const struct inet_diag_msg *m, const struct inet_diag_sockid *of)
{
	bool connected = m->idiag_state == TCP_ESTABLISHED || m->idiag_state == TCP_FIN_WAIT1 ||
			 m->idiag_state == TCP_FIN_WAIT2;
	return connected && m->id.idiag_sport == of->idiag_sport &&
	       m->id.idiag_dport == of->idiag_dport &&
	       !memcmp(m->id.idiag_src, of->idiag_src, sizeof(of->idiag_src)) &&
	       !memcmp(m->id.idiag_dst, of->idiag_dst, sizeof(of->idiag_dst));
}

bool http_peer_is_ours(int fd)
{
	struct question q;
	struct inet_diag_msg m;
	if (!question_make(&q, fd) || !ask(&q, &m) || !is_asked_for(&m, &q.of.id))
		return false;
	/* a socket that nobody holds has no inode, and by many kernels is root's */
	return m.idiag_inode && (m.idiag_uid == 0 || m.idiag_uid == geteuid());
}
