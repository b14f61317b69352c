/* thread_now_test.c - what a process of the test's own is said to do: it sleeps, waits for a pipe
 * or a socket, is stopped, and is gone.
 *
 * links: cli */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "session/thread_now.h"

static int ends[2];

static void sleeps(void)
{
	sleep(3600);
}

static void reads(void)
{
	char c;
	(void)!read(ends[0], &c, 1);
}

static void works(void)
{
	while (true)
		;
}

/* With one that it has started, if that is given. */
static int read_with(struct thread_now *ret, pid_t pid, pid_t child)
{
	const struct standing_process p = {
		.pid = (uint32_t)pid, .tid = (uint32_t)pid, .children = child ? 1 : 0};
	return thread_now_read(ret, "/proc", &p, (const uint32_t[]){(uint32_t)child});
}

static int read_now(struct thread_now *ret, pid_t pid)
{
	return read_with(ret, pid, 0);
}

static pid_t start(void (*does)(void))
{
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	does();
	_exit(0);
}

/* Once it does that: before, it begins. */
static struct thread_now seen(pid_t pid, char state, enum wait_reason reason)
{
	struct thread_now ret;
	do {
		assert_int_equal(read_now(&ret, pid), 0);
	} while (ret.state != state || ret.reason != reason);
	return ret;
}

static void end(pid_t pid)
{
	struct thread_now now;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(read_now(&now, pid), -ENOENT);
}

static void may_be_asked(pid_t pid)
{
	char path[64], c;
	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	FILE *f = fopen(path, "re");
	bool can = f && fread(&c, 1, 1, f) == 1;
	if (f)
		fclose(f);
	if (can)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	print_message("skip: the kernel does not say in which system call a process is\n");
	skip();
}

static void what_sleeps(void **state)
{
	(void)state;
	pid_t pid = start(sleeps);
	may_be_asked(pid);
	struct thread_now now = seen(pid, 'S', WAIT_SLEEP), later = seen(pid, 'S', WAIT_SLEEP);
	assert_true(now.switches > 0 && now.switches == later.switches);
	kill(pid, SIGSTOP);
	do
		assert_int_equal(read_now(&later, pid), 0);
	while (later.state != 'T');
	assert_true(later.switches > now.switches);
	end(pid);
}

static void what_reads(void **state)
{
	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = start(reads);
	may_be_asked(pid);
	seen(pid, 'S', WAIT_PIPE);
	end(pid);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = start(reads);
	seen(pid, 'S', WAIT_NETWORK);
	end(pid);
	close(ends[0]);
	close(ends[1]);
}

static void what_works_for_it_counts(void **state)
{
	struct thread_now now, with;
	(void)state;
	pid_t pid = start(sleeps), child = start(works);
	do {
		assert_int_equal(read_with(&with, pid, child), 0);
	} while (with.cpu_ns < 50000000);
	assert_int_equal(read_now(&now, pid), 0);
	assert_true(now.cpu_ns < with.cpu_ns && now.time_ns >= with.time_ns);
	end(child);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_sleeps),
		cmocka_unit_test(what_reads),
		cmocka_unit_test(what_works_for_it_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
