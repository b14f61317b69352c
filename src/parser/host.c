/* host.c - the process that forks workers. It has one thread and a copy of what the program was
 * when it was started, so that a worker can be made at any time; it reads nothing of others itself.
 */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/message.h"
#include "base/sandbox.h"
#include "parser/host.h"
#include "parser/limits.h"
#include "parser/parser.h"

#define END_MS 1000

/* ---- the host's side ---- */

static void fork_worker(const struct parser_ops *ops, int sock, int line, bool urgent)
{
	pid_t host = getpid();
	if (fork())
		return;
	close(sock);
	prctl(PR_SET_NAME, "eacgm-parser");
	setpriority(PRIO_PROCESS, 0, urgent ? -10 : 0);
	worker_run(ops, line, host);
}

/* What is left is for making workers: they become nobody, and some are early. */
static const struct sandbox_capability kept[] = {
	{CAP_SETUID, "makes workers nobody"},
	{CAP_SETGID, "likewise"},
	{CAP_KILL, "workers end with it, of whatever user"},
	{CAP_SYS_NICE, "workers that tasks are held for get their turn soon"},
};
static const struct sandbox host_sandbox = {
	.capabilities = kept,
	.capabilities_len = sizeof(kept) / sizeof(kept[0]),
	.rule = SANDBOX_ALL_CALLS,
	.secret = true,
};

const struct sandbox *parser_host_sandbox(void)
{
	return &host_sandbox;
}

/* Each message is a worker's end of a line. The end of the messages is the end of the program. */
static _Noreturn void host_run(const struct parser_ops *ops, int sock)
{
	char byte;
	int line;
	struct err e;
	signal(SIGCHLD, SIG_IGN); /* nobody waits for workers */
	prctl(PR_SET_NAME, "eacgm-parsers");
	if (sandbox_enter(&host_sandbox, &e))
		_exit(1);
	while (!message_receive(sock, &byte, 1, &line)) {
		if (line < 0)
			continue;
		fork_worker(ops, sock, line, byte == 'u');
		close(line);
	}
	_exit(0); /* its workers end with it */
}

/* ---- the program's side ---- */

int parser_host_start(struct parser_host **ret, const struct parser_ops *ops, struct err *e)
{
	int socks[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return err_set(e, errno, "cannot make a socket: %s", strerror(errno));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		detach_keeping(socks[1]);
		host_run(ops, socks[1]);
	}
	close(socks[1]);
	if (pid < 0) {
		close(socks[0]);
		return err_set(e, errno, "cannot fork: %s", strerror(errno));
	}
	struct parser_host *h = xcalloc(1, sizeof(*h));
	h->pid = pid;
	h->sock = socks[0];
	*ret = h;
	return 0;
}

void parser_host_stop(struct parser_host *h)
{
	if (!h)
		return;
	close(h->sock);
	/* at once, unless somebody has stopped it */
	int fd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};
	if (fd < 0 || poll(&end, 1, END_MS) <= 0)
		kill(h->pid, SIGKILL);
	waitpid(h->pid, NULL, 0);
	close(fd);
	free(h);
}

int host_worker(const struct parser_host *h, bool urgent)
{
	int line[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line))
		return -errno;
	int rc = message_send(h->sock, urgent ? "u" : "w", 1, line[1]);
	close(line[1]);
	if (rc) {
		close(line[0]);
		return rc;
	}
	return line[0];
}
