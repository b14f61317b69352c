/* attach_check_test.c - what /proc tells of a process: its environment however long it is, or is
 * said to be, who traces it, its parent, and whether it has a session's ring.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "session/attach_check.h"

#define PAD_BYTES 100000

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* exec(2) closes files before it says where the environment is. */
static void await_environment(pid_t pid)
{
	char path[64], byte;
	ssize_t n = 0;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	while (n <= 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		n = read(fd, &byte, 1);
		close(fd);
	}
}

/* A program that waits, with an environment of its own. */
static pid_t start_with(char *const *environment)
{
	char *const words[] = {"sleep", "60", NULL};
	int begun[2];
	char byte;
	assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		execve("/bin/sleep", words, environment);
		_exit(127);
	}
	close(begun[1]);
	assert_int_equal(read(begun[0], &byte, 1), 0); /* closed by exec */
	close(begun[0]);
	await_environment(pid);
	return pid;
}

static void test_variable_behind_a_long_one(void **state)
{
	(void)state;
	char *pad = malloc(PAD_BYTES + 1);
	memset(pad, 'x', PAD_BYTES);
	memcpy(pad, "PAD=", 4);
	pad[PAD_BYTES] = 0;
	char *const environment[] = {pad, "CUDA_INJECTION64_PATH=/none.so", "LAST=", NULL};
	pid_t pid = start_with(environment);
	bool has = process_has_variable(pid, "CUDA_INJECTION64_PATH=");
	bool has_last = process_has_variable(pid, "LAST=");
	bool has_none = process_has_variable(pid, "INJECTION64_PATH=");
	end_child(pid);
	free(pad);
	assert_true(has);
	assert_true(has_last);
	assert_false(has_none);
	assert_false(process_has_variable(pid, "LAST=")); /* it has ended */
}

#define LIE_BYTES ((size_t)64 << 20)
#define HIDDEN_AT ((size_t)16 << 20) /* behind all that is read */
#define MOST_KIB  (4 << 10)	     /* of memory that asking may take */
#define HOSTILE	  "HOSTILE="

/* One long string, and a variable far in it. */
static void lie_about_environment(void)
{
	char *at =
		mmap(NULL, LIE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		_exit(1);
	memset(at, 'x', LIE_BYTES);
	memcpy(at + HIDDEN_AT, "\0" HOSTILE, sizeof(HOSTILE) + 1);
	uint64_t start = (uintptr_t)at;
	struct prctl_mm_map map = {.start_code = start,
				   .end_code = start + 1,
				   .start_data = start,
				   .end_data = start + 1,
				   .start_brk = start + 4096,
				   .brk = start + 4096,
				   .start_stack = start,
				   .arg_start = start,
				   .arg_end = start,
				   .env_start = start,
				   .env_end = start + LIE_BYTES,
				   .exe_fd = (uint32_t)-1};
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0))
		_exit(2);
	kill(getpid(), SIGSTOP);
	_exit(0);
}

static void test_environment_that_is_none(void **state)
{
	(void)state;
	int status;
	struct rusage before, after;
	pid_t pid = fork();
	if (!pid)
		lie_about_environment();
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip(); /* a kernel without CONFIG_CHECKPOINT_RESTORE */
	assert_true(WIFSTOPPED(status));
	getrusage(RUSAGE_SELF, &before);
	bool has = process_has_variable(pid, HOSTILE), has_none = process_has_variable(pid, "Y=");
	getrusage(RUSAGE_SELF, &after);
	end_child(pid);
	assert_false(has);
	assert_false(has_none);
	assert_true(after.ru_maxrss - before.ru_maxrss < MOST_KIB);
}

static void test_tracer_and_parent(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(process_parent(pid), getpid());
	assert_int_equal(process_tracer(pid), 0);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	assert_int_equal(process_tracer(pid), getpid());
	end_child(pid);
	assert_int_equal(waitpid(pid, &status, WNOHANG), -1);
	assert_int_equal(process_tracer(pid), 0);
	assert_int_equal(process_parent(pid), 0);
}

static void test_ring(void **state)
{
	(void)state;
	char folder[] = "/dev/shm/eacgm-gpu-XXXXXX", path[64];
	assert_false(process_has_ring(getpid()));
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/ring", folder);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 4096), 0);
	void *ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bool has = process_has_ring(getpid());
	munmap(ring, 4096);
	close(fd);
	unlink(path);
	rmdir(folder);
	assert_true(has);
	assert_false(process_has_ring(getpid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variable_behind_a_long_one),
		cmocka_unit_test(test_environment_that_is_none),
		cmocka_unit_test(test_tracer_and_parent),
		cmocka_unit_test(test_ring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
