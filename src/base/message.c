/* message.c - sendmsg(2) and recvmsg(2) with one descriptor, unix(7). */
#include "base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(sizeof(int))];
};

int message_send(int sock, const void *data, size_t len, int fd)
{
	union control control = {0};
	struct iovec iov = {(void *)data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd >= 0) {
		msg.msg_control = control.space;
		msg.msg_controllen = sizeof(control.space);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	ssize_t n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EPIPE;
}

ssize_t message_take(int sock, void *data, size_t len, int *ret_fd)
{
	union control control;
	struct iovec iov = {data, len};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	*ret_fd = -1;
	if (n < 0)
		return -errno;
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return n;
}

int message_receive(int sock, void *data, size_t len, int *ret_fd)
{
	ssize_t n = message_take(sock, data, len, ret_fd);
	return n == (ssize_t)len ? 0 : n < 0 ? (int)n : -EPIPE;
}

void detach_keeping(int sock)
{
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(nowhere, fd);
	syscall(SYS_close_range, 3, sock - 1, 0);
	syscall(SYS_close_range, sock + 1, ~0U, 0);
	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
}
