/* attach_check_test.c - what /proc tells of a process: its environment however long it is, who
 * traces it, its parent, and whether it has a session's ring.
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
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/attach_check.h"

#define PAD_BYTES 100000

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
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
		cmocka_unit_test(test_tracer_and_parent),
		cmocka_unit_test(test_ring),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
