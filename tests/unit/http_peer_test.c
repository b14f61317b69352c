/* http_peer_test.c - whose the other end of a connection on loopback is, by what this process and
 * one of another user do.
 *
 * links: serve base */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/http_peer.h"

#define NOBODY 65534

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

/* A socket that listens on loopback. */
static int listener(int family, struct address *ret)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*ret = (struct address){.len = family == AF_INET ? sizeof(ret->v4) : sizeof(ret->v6)};
	ret->any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		ret->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		ret->v6.sin6_addr = in6addr_loopback;
	if (fd < 0 || bind(fd, &ret->any, ret->len) || listen(fd, 8) ||
	    getsockname(fd, &ret->any, &ret->len)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static int connected(const struct address *to)
{
	int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, &to->any, to->len))
		_exit(1);
	return fd;
}

static void of_this_user(int family)
{
	struct address at;
	int listens = listener(family, &at);
	if (listens < 0) {
		print_message("skipped: no loopback of that family\n");
		return;
	}
	int there = connected(&at), here = accept(listens, NULL, NULL);
	assert_true(here >= 0);
	assert_true(http_peer_is_ours(here));
	assert_int_equal(shutdown(there, SHUT_WR), 0);
	assert_true(http_peer_is_ours(here)); /* it waits for an answer */
	close(there);
	assert_false(http_peer_is_ours(here)); /* nobody's any more */
	close(here);
	close(listens);
}

static void own(void **state)
{
	(void)state;
	of_this_user(AF_INET);
	of_this_user(AF_INET6);
}

static void of_another(void **state)
{
	(void)state;
	struct address at;
	int listens = listener(AF_INET, &at), pipes[2];
	assert_true(listens >= 0);
	if (geteuid() != 0) {
		print_message("skipped: only root can be somebody else\n");
		close(listens);
		return;
	}
	assert_int_equal(pipe(pipes), 0);
	pid_t child = fork();
	if (!child) {
		char byte;
		close(pipes[1]);
		if (setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		connected(&at);
		_exit(read(pipes[0], &byte, 1) != 0); /* holds it until it may end */
	}
	close(pipes[0]);
	int here = accept(listens, NULL, NULL);
	assert_true(here >= 0);
	assert_false(http_peer_is_ours(here));
	close(pipes[1]);
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_false(http_peer_is_ours(here));
	close(here);
	close(listens);
}

static void of_nobody(void **state)
{
	(void)state;
	int pair[2];
	struct address at;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_false(http_peer_is_ours(pair[0]));
	assert_false(http_peer_is_ours(-1));
	int listens = listener(AF_INET, &at);
	assert_false(http_peer_is_ours(listens));
	close(pair[0]);
	close(pair[1]);
	close(listens);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own),
		cmocka_unit_test(of_another),
		cmocka_unit_test(of_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
