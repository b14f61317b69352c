/* gpu_folder_test.c - who holds a session's folder: another session of the same process does not
 * take it for one that was left behind.
 *
 * links: base collect */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "collect/gpu_folder.h"

static char parent[64];

/* Older than one that is being made. */
static void make_old(const struct gpu_folder *f)
{
	const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	assert_int_equal(futimens(f->fd, long_ago), 0);
}

static bool is_there(const struct gpu_folder *f)
{
	return !access(f->path, F_OK);
}

/* Made by a process that was killed. */
static void leave_folder(char path[PATH_MAX])
{
	struct gpu_folder f;
	struct err e;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (!pid) {
		if (gpu_folder_open(&f, parent, &e))
			_exit(1);
		make_old(&f);
		_exit(write(ends[1], f.path, PATH_MAX) != PATH_MAX);
	}
	assert_int_equal(read(ends[0], path, PATH_MAX), PATH_MAX);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(ends[1]);
}

static void test_other_session(void **state)
{
	struct gpu_folder first, second;
	char left[PATH_MAX];
	struct err e;
	(void)state;
	if (geteuid())
		skip(); /* whose it is decides as whom it is removed */
	leave_folder(left);
	assert_int_equal(gpu_folder_open(&first, parent, &e), 0);
	make_old(&first);
	gpu_folder_clean_up(parent);
	assert_true(is_there(&first));
	assert_int_not_equal(access(left, F_OK), 0);
	/* nor did the look at it take its lock away */
	gpu_folder_clean_up(parent);
	assert_true(is_there(&first));
	assert_int_equal(gpu_folder_open(&second, parent, &e), 0);
	gpu_folder_close(&first);
	assert_false(is_there(&first));
	assert_true(is_there(&second));
	gpu_folder_close(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_other_session)};
	snprintf(parent, sizeof(parent), "/tmp/gpu_folder_test.XXXXXX");
	if (!mkdtemp(parent))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(parent);
	return failed;
}
