/* debuginfod.c - elfutils' client library in a process of its own. Each question has a child, which
 * ends when its time is over: the library waits for servers as long as they like. */
#include "symbolize/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/output_file.h"
#include "base/sandbox.h"

#define FILE_MS	 10000
#define NOBODY	 65534
#define ID_BYTES 132 /* of a question */

struct debuginfod {
	int sock;
	bool is_ready; /* it has said that it can ask */
};

/* ---- the process ---- */

/* <elfutils/debuginfod.h>; the library is loaded when it is asked for, so that nobody else
 * needs it. */
typedef void *debuginfod_begin_fn(void);
typedef int debuginfod_find_fn(void *client, const unsigned char *build_id, int len, char **path);

struct library {
	debuginfod_begin_fn *begin;
	debuginfod_find_fn *find;
};

/* NULL, or why not. */
static const char *load(struct library *ret)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	if (!urls || !urls[0])
		return "DEBUGINFOD_URLS is not set: no server is asked";
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return "libdebuginfod.so.1 is not installed";
	ret->begin = (debuginfod_begin_fn *)dlsym(library, "debuginfod_begin");
	ret->find = (debuginfod_find_fn *)dlsym(library, "debuginfod_find_debuginfo");
	return ret->begin && ret->find ? NULL : "libdebuginfod.so.1 cannot be used";
}

/* What it got it keeps in the user's folder; nobody has none, but one for this run. */
static bool become_user(char own_cache[64])
{
	const struct output_owner owner = output_owner_from_sudo();
	uid_t uid = owner.known && owner.uid ? owner.uid : NOBODY;
	gid_t gid = owner.known && owner.uid ? owner.gid : NOBODY;
	const struct passwd *user = uid != NOBODY ? getpwuid(uid) : NULL;
	const struct sandbox s = {.rule = SANDBOX_ALL_CALLS, .secret = true};
	struct err e;
	if (geteuid() == 0 &&
	    (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, gid, gid, gid) ||
	     syscall(SYS_setresuid, uid, uid, uid)))
		return false;
	if (user)
		setenv("HOME", user->pw_dir, 1);
	own_cache[0] = 0;
	if (!user && !getenv("DEBUGINFOD_CACHE_PATH")) {
		snprintf(own_cache, 64, "/tmp/eacgm-debuginfod-XXXXXX");
		if (!mkdtemp(own_cache))
			return false;
		setenv("DEBUGINFOD_CACHE_PATH", own_cache, 1);
	}
	return !sandbox_enter(&s, &e);
}

static _Noreturn void find_one(const struct library *l, int sock, const char *build_id)
{
	char *path = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	void *client = l->begin();
	/* a length of 0: the build id is hexadecimal text */
	int fd = client ? l->find(client, (const unsigned char *)build_id, 0, &path) : -1;
	message_send(sock, "", 1, fd);
	_exit(0);
}

/* Until it has answered, its time is over, or nobody waits for it any more. */
static void wait_for(pid_t pid, int sock)
{
	int status, pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd fds[] = {{.fd = pidfd, .events = POLLIN}, {.fd = sock, .events = POLLRDHUP}};
	if (pidfd < 0 || poll(fds, 2, FILE_MS) != 1 || !(fds[0].revents & POLLIN))
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(pidfd);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		message_send(sock, "", 1, -1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static _Noreturn void serve(int sock)
{
	char build_id[ID_BYTES], own_cache[64];
	struct library l;
	int none;
	prctl(PR_SET_NAME, "eacgm-debuginfo");
	const char *why = load(&l);
	if (!why && !become_user(own_cache))
		why = "it cannot be asked without rights";
	message_send(sock, why ? why : "", why ? strlen(why) + 1 : 1, -1);
	while (!why && !message_receive(sock, build_id, sizeof(build_id), &none)) {
		pid_t pid = fork();
		build_id[ID_BYTES - 1] = 0;
		if (!pid)
			find_one(&l, sock, build_id);
		if (pid < 0)
			message_send(sock, "", 1, -1);
		else
			wait_for(pid, sock);
	}
	if (!why && own_cache[0])
		nftw(own_cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	_exit(0);
}

/* ---- who asks ---- */

int debuginfod_start(struct debuginfod **ret, struct err *e)
{
	int socks[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return err_set(e, errno, "cannot make a socket: %s", strerror(errno));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (fork()) /* nobody has to wait for it */
			_exit(0);
		detach_keeping(socks[1]);
		serve(socks[1]);
	}
	close(socks[1]);
	if (pid < 0) {
		close(socks[0]);
		return err_set(e, errno, "cannot fork: %s", strerror(errno));
	}
	waitpid(pid, NULL, 0);
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->sock = socks[0];
	return 0;
}

void debuginfod_stop(struct debuginfod *d)
{
	if (!d)
		return;
	close(d->sock);
	free(d);
}

/* A message of it, at most size - 1 bytes. */
static int await(const struct debuginfod *d, int stop_fd, uint64_t end_ns, char *ret, size_t size,
		 int *ret_fd, struct err *e)
{
	for (;;) {
		struct pollfd fds[] = {{.fd = d->sock, .events = POLLIN},
				       {.fd = stop_fd, .events = POLLIN}};
		uint64_t now_ns = monotonic_ns();
		int left_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) + 1 : 0;
		int n = poll(fds, 2, left_ms);
		if (n < 0 && errno == EINTR)
			continue;
		if (fds[1].revents)
			return err_set(e, EINTR, "interrupted");
		if (n <= 0)
			return err_set(e, ETIMEDOUT, "the servers took too long");
		memset(ret, 0, size);
		return message_take(d->sock, ret, size - 1, ret_fd) > 0
			       ? 0
			       : err_set(e, EIO, "the process that asks has ended");
	}
}

int debuginfod_find(struct debuginfod *d, const char *build_id, int stop_fd, uint64_t end_ns,
		    struct err *e)
{
	char question[ID_BYTES] = "", answer[256];
	int fd = -1, rc = 0;
	if (!d->is_ready)
		rc = await(d, stop_fd, end_ns, answer, sizeof(answer), &fd, e);
	if (rc)
		return rc;
	if (!d->is_ready && answer[0])
		return err_set(e, EIO, "%s", answer);
	d->is_ready = true;
	snprintf(question, sizeof(question), "%s", build_id);
	rc = message_send(d->sock, question, sizeof(question), -1);
	if (rc)
		return err_set(e, EIO, "the process that asks has ended");
	rc = await(d, stop_fd, end_ns, answer, sizeof(answer), &fd, e);
	return rc ? rc : fd >= 0 ? fd : err_set(e, ENOENT, "no server has it");
}
