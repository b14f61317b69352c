/* notify.c - the datagrams. Addresses are paths, or names of the abstract kind that begin with '@';
 * those of AF_VSOCK, for virtual machines, are not for services of a host. */
#include "cli/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"

static int connect_to(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, name, len);
	if (name[0] == '@')
		a.sun_path[0] = 0;
	/* of an abstract name each byte counts: none behind it */
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, size + (name[0] == '/'))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A number that stands for itself, else 0. */
static uint64_t number_of(const char *text)
{
	char *end = NULL;
	errno = 0;
	unsigned long long v = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	return end && !*end && !errno ? v : 0;
}

void notify_open(struct notify *n)
{
	const char *name = getenv("NOTIFY_SOCKET"), *whose = getenv("WATCHDOG_PID");
	*n = (struct notify){.fd = name ? connect_to(name) : -1};
	uint64_t us = number_of(getenv("WATCHDOG_USEC"));
	bool ours = !whose || number_of(whose) == (uint64_t)getpid();
	if (n->fd >= 0 && ours && us <= UINT64_MAX / 1000)
		n->watchdog_ns = us * 1000 / 2;
}

void notify_close(struct notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

static void tell(const struct notify *n, const char *text)
{
	if (n->fd >= 0)
		send(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void tell_with(const struct notify *n, const char *text, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} with = {.bytes = {0}};
	struct iovec body = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
	struct msghdr m = {.msg_iov = &body,
			   .msg_iovlen = 1,
			   .msg_control = with.bytes,
			   .msg_controllen = sizeof(with.bytes)};
	with.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				     .cmsg_level = SOL_SOCKET,
				     .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&with.head), &fd, sizeof(fd));
	if (n->fd >= 0)
		sendmsg(n->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_keep_socket(const struct notify *n, int fd)
{
	tell(n, "FDSTOREREMOVE=1\nFDNAME=http");
	tell_with(n, "FDSTORE=1\nFDNAME=http", fd);
}

int notify_kept_socket(void)
{
	const int first = 3;
	bool ours = number_of(getenv("LISTEN_PID")) == (uint64_t)getpid() &&
		    number_of(getenv("LISTEN_FDS")) >= 1;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return ours && !fcntl(first, F_SETFD, FD_CLOEXEC) ? first : -1;
}

void notify_state(const struct notify *n, const char *state, const char *status)
{
	char *text = xasprintf("%s%s%s", state, *status ? "\nSTATUS=" : "", status);
	tell(n, text);
	free(text);
}

void notify_alive(struct notify *n, uint64_t now_ns)
{
	if (!n->watchdog_ns || now_ns - n->told_ns < n->watchdog_ns)
		return;
	n->told_ns = now_ns;
	tell(n, "WATCHDOG=1");
}
