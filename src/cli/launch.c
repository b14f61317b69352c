/* launch.c - a forked child behind a pipe. */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int check_executable(const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return errno;
	if (S_ISDIR(st.st_mode) || access(path, X_OK))
		return EACCES;
	return 0;
}

int launch_find(const char *cmd, char *ret, size_t size, struct err *e)
{
	if (strchr(cmd, '/')) {
		int rc = check_executable(cmd);
		if (rc)
			return err_set(e, rc, "cannot run '%s': %s", cmd, strerror(rc));
		snprintf(ret, size, "%s", cmd);
		return 0;
	}
	const char *path = getenv("PATH");
	for (const char *dir = path ? path : "/usr/local/bin:/usr/bin:/bin"; *dir;) {
		size_t n = strcspn(dir, ":");
		char candidate[4096];
		snprintf(candidate, sizeof(candidate), "%.*s/%s", n ? (int)n : 1, n ? dir : ".",
			 cmd);
		if (*cmd && !check_executable(candidate)) {
			snprintf(ret, size, "%s", candidate);
			return 0;
		}
		dir += n + (dir[n] == ':');
	}
	return err_set(e, ENOENT, "cannot run '%s': command not found", cmd);
}

void launch_save_limits(struct launch_limits *ret)
{
	getrlimit(RLIMIT_NOFILE, &ret->files);
	getrlimit(RLIMIT_MEMLOCK, &ret->memlock);
}

static void child(char **argv, const struct launch_limits *limits, int gate, int report)
{
	char go;
	if (read(gate, &go, 1) != 1)
		_exit(127); /* eacgm ended before it was ready */
	setrlimit(RLIMIT_NOFILE, &limits->files);
	setrlimit(RLIMIT_MEMLOCK, &limits->memlock);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	execvp(argv[0], argv);
	int code = errno;
	if (write(report, &code, sizeof(code)) != sizeof(code))
		_exit(126);
	_exit(127);
}

int launch_prepare(struct launch *l, char **argv, const struct launch_limits *limits, struct err *e)
{
	int gate[2], report[2];
	if (pipe2(gate, O_CLOEXEC) || pipe2(report, O_CLOEXEC))
		return err_set(e, errno, "cannot make a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		return err_set(e, errno, "cannot fork: %s", strerror(errno));
	if (pid == 0) {
		close(gate[1]);
		close(report[0]);
		child(argv, limits, gate[0], report[1]);
	}
	close(gate[0]);
	close(report[1]);
	*l = (struct launch){.pid = pid, .gate = gate[1], .report = report[0]};
	l->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

int launch_go(struct launch *l, const char *cmd, struct err *e)
{
	int code = 0;
	ssize_t written = write(l->gate, "", 1);
	close(l->gate);
	l->gate = -1;
	ssize_t n = written == 1 ? read(l->report, &code, sizeof(code)) : 0;
	close(l->report);
	l->report = -1;
	if (n == 0)
		return 0; /* closed by the exec */
	waitpid(l->pid, NULL, 0);
	l->pid = 0;
	return err_set(e, code ? code : EIO, "cannot run '%s': %s", cmd, strerror(code));
}

int launch_exit_status(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

void launch_cancel(struct launch *l)
{
	if (l->gate >= 0)
		close(l->gate);
	if (l->report >= 0)
		close(l->report);
	if (l->pid > 0)
		waitpid(l->pid, NULL, 0);
	if (l->pidfd >= 0)
		close(l->pidfd);
}
