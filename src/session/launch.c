/* launch.c - a forked child behind a pipe. */
#include "session/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the child ---- */

enum launch_step { LAUNCH_USER, LAUNCH_FOLDER, LAUNCH_FIND, LAUNCH_EXEC };

/* What the child tells: when it is at the gate, and when it could not execute the command. */
struct launch_report {
	int code; /* errno; 0: at the gate */
	enum launch_step step;
	char path[PATH_MAX];
};

static int check_executable(const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return errno;
	if (S_ISDIR(st.st_mode) || access(path, X_OK))
		return EACCES;
	return 0;
}

/* 0 or an errno: EACCES where there is such a file, but none that may be executed. */
static int find(const char *cmd, char *ret, size_t size)
{
	int worst = ENOENT;
	if (strchr(cmd, '/')) {
		snprintf(ret, size, "%s", cmd);
		return check_executable(cmd);
	}
	const char *path = getenv("PATH");
	for (const char *dir = path ? path : "/usr/local/bin:/usr/bin:/bin"; *cmd && *dir;) {
		size_t n = strcspn(dir, ":");
		snprintf(ret, size, "%.*s/%s", n ? (int)n : 1, n ? dir : ".", cmd);
		int rc = check_executable(ret);
		if (!rc)
			return 0;
		if (!access(ret, F_OK))
			worst = rc;
		dir += n + (dir[n] == ':');
	}
	return worst;
}

static void tell(int report, struct launch_report *r, enum launch_step step, int code)
{
	r->step = step;
	r->code = code;
	if (write(report, r, sizeof(*r)) != sizeof(*r))
		_exit(126);
	if (code)
		_exit(127);
}

/* What is this process's alone, such as another session's sockets, ends with it: their other ends
 * wait for that, and not for the gate. */
static void close_private(int gate, int report)
{
	DIR *fds = opendir("/proc/self/fd");
	for (const struct dirent *entry; fds && (entry = readdir(fds));) {
		int fd = atoi(entry->d_name), flags = fcntl(fd, F_GETFD);
		if (fd > 2 && fd != gate && fd != report && fd != dirfd(fds) && flags > 0 &&
		    flags & FD_CLOEXEC)
			close(fd);
	}
	if (fds)
		closedir(fds);
}

static void child(char **argv, const struct command_user *user, char *const *environment, int gate,
		  int report)
{
	struct launch_report r = {0};
	char go;
	close_private(gate, report);
	for (size_t i = 0; environment[i]; i++)
		putenv(environment[i]);
	int code = -command_user_become(user);
	if (code)
		tell(report, &r, LAUNCH_USER, code);
	if (user->changes && access(".", X_OK))
		tell(report, &r, LAUNCH_FOLDER, errno);
	tell(report, &r, LAUNCH_FIND, find(argv[0], r.path, sizeof(r.path)));
	if (read(gate, &go, 1) != 1)
		_exit(127); /* eacgm ended before it was ready */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	execvp(argv[0], argv);
	tell(report, &r, LAUNCH_EXEC, errno);
}

/* ---- this side ---- */

static int explain(const struct launch_report *r, const char *cmd, const struct command_user *user,
		   struct err *e)
{
	const char *as = user->changes ? " as user " : "", *name = user->changes ? user->name : "";
	const char *why = strerror(r->code);
	if (r->step == LAUNCH_USER)
		return err_set(e, r->code, "cannot become user %s: %s", name, why);
	if (r->step == LAUNCH_FOLDER)
		return err_set(e, r->code,
			       "cannot run '%s' as user %s: this folder is closed to them (%s); -u "
			       "says whom the command runs as",
			       cmd, name, why);
	if (r->step == LAUNCH_FIND && r->code == ENOENT && !strchr(cmd, '/'))
		why = "command not found";
	return err_set(e, r->code, "cannot run '%s'%s%s: %s", cmd, as, name, why);
}

/* false when the child has closed its end before it told all. */
static bool read_report(int fd, struct launch_report *ret)
{
	size_t len = 0;
	while (len < sizeof(*ret)) {
		ssize_t n = read(fd, (char *)ret + len, sizeof(*ret) - len);
		if (n <= 0 && !(n < 0 && errno == EINTR))
			return false;
		len += n > 0 ? (size_t)n : 0;
	}
	ret->path[sizeof(ret->path) - 1] = 0;
	return true;
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The child has ended, or is about to. */
static int fail(struct launch *l, int rc)
{
	close_end(&l->gate);
	close_end(&l->report);
	waitpid(l->pid, NULL, 0);
	l->pid = 0;
	return rc;
}

int launch_prepare(struct launch *l, char **argv, const struct command_user *user,
		   char *const *environment, struct err *e)
{
	struct launch_report r = {.code = ECHILD, .step = LAUNCH_EXEC};
	int gate[2], report[2];
	/* to write to a socket that nobody reads is no signal, where it is asked so */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) || pipe2(report, O_CLOEXEC))
		return err_set(e, errno, "cannot make a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, errno, "cannot fork: %s", strerror(errno));
	if (pid == 0) {
		close(gate[1]);
		close(report[0]);
		child(argv, user, environment, gate[0], report[1]);
	}
	close(gate[0]);
	close(report[1]);
	*l = (struct launch){.pid = pid, .gate = gate[1], .report = report[0], .pidfd = -1};
	if (!read_report(l->report, &r) || r.code)
		return fail(l, explain(&r, argv[0], user, e));
	memcpy(l->path, r.path, sizeof(l->path));
	l->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

int launch_go(struct launch *l, const char *cmd, const struct command_user *user, struct err *e)
{
	struct launch_report r = {0};
	bool told = send(l->gate, "", 1, MSG_NOSIGNAL) == 1 && read_report(l->report, &r);
	if (told && r.code)
		return fail(l, explain(&r, cmd, user, e));
	close_end(&l->gate);
	close_end(&l->report); /* closed there by the exec */
	return 0;
}

int launch_exit_status(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

void launch_close(struct launch *l)
{
	close_end(&l->gate);
	close_end(&l->report);
	close_end(&l->pidfd);
}

void launch_cancel(struct launch *l)
{
	close_end(&l->gate);
	close_end(&l->report);
	if (l->pid > 0)
		waitpid(l->pid, NULL, 0);
	close_end(&l->pidfd);
}
