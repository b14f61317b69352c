/* attach_test.c - what cannot be attached is told without the path that opened the file: that is a
 * descriptor of this process's.
 *
 * links: probe symbolize parser base */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach.h"

#define METHODS 3
static const enum attach_method methods[METHODS] = {ATTACH_SESSION, ATTACH_MULTI, ATTACH_SINGLE};

static void expect_no_path(int rc, const struct err *e)
{
	assert_true(rc < 0);
	assert_non_null(strstr(e->msg, "cannot "));
	assert_null(strstr(e->msg, "/proc/self/fd"));
}

static void test_the_sentence_has_no_descriptor(void **state)
{
	const struct attach_programs none = {-1, -1, -1, -1, -1, -1};
	const struct site site = {.offset = 64};
	const struct hook_site hook = {.offset = 64};
	char path[32];
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	(void)state;
	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (int i = 0; i < METHODS; i++) {
		struct attach_links links = {0};
		struct err e = {""};
		expect_no_path(attach_sites(&links, methods[i], &none, path, &site, 1, &e), &e);
		expect_no_path(attach_hooks(&links, methods[i], -1, path, &hook, 1, &e), &e);
		attach_detach(&links);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_sentence_has_no_descriptor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
