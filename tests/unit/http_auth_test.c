/* http_auth_test.c - tokens: files of them, and what says one.
 *
 * links: serve base */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/http_auth.h"

static int read_text(char **ret, const void *text, size_t n)
{
	char path[] = "/tmp/eacgm-token-XXXXXX";
	struct err e = {""};
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, text, n) == (ssize_t)n);
	close(fd);
	int rc = http_token_read(ret, path, &e);
	unlink(path);
	assert_int_equal(rc != 0, e.msg[0] != 0);
	return rc;
}

static void token_files(void **unused)
{
	(void)unused;
	static const char good[] = "abcDEF0123456789-._~+/==";
	char *token = NULL, many[HTTP_TOKEN_MOST + 3];
	struct err e;
	for (size_t line = 0; line < 2; line++) {
		char text[64];
		snprintf(text, sizeof(text), "%s\n", good);
		assert_int_equal(read_text(&token, text, sizeof(good) - 1 + line), 0);
		assert_string_equal(token, good);
		free(token);
	}
	memset(many, 'a', sizeof(many));
	assert_int_equal(read_text(&token, many, HTTP_TOKEN_MOST), 0);
	free(token);
	assert_int_equal(read_text(&token, many, HTTP_TOKEN_LEAST), 0);
	free(token);
	assert_int_equal(read_text(&token, many, HTTP_TOKEN_MOST + 1), -EINVAL);
	assert_int_equal(read_text(&token, many, HTTP_TOKEN_LEAST - 1), -EINVAL);
	assert_int_equal(read_text(&token, "", 0), -EINVAL);
	assert_int_equal(read_text(&token, "0123456789abcdef\n\n", 18), -EINVAL);
	assert_int_equal(read_text(&token, "0123456789abcdef x", 18), -EINVAL);
	assert_int_equal(read_text(&token, "0123456789abcdef\0x", 18), -EINVAL);
	assert_int_equal(read_text(&token, "0123456789abcde\xff", 16), -EINVAL);
	assert_int_equal(http_token_read(&token, "/no/such", &e), -ENOENT);
	assert_int_equal(http_token_read(&token, "/", &e), -EIO);
	assert_null(token);
}

static void what_says_it(void **unused)
{
	(void)unused;
	static const char token[] = "0123456789abcdef";
	assert_true(http_token_fits(token, "Bearer 0123456789abcdef"));
	assert_true(http_token_fits(token, "bearer 0123456789abcdef"));
	static const char *const wrong[] = {NULL,
					    "",
					    "Bearer",
					    "Bearer ",
					    "0123456789abcdef",
					    "Basic 0123456789abcdef",
					    "Bearer 0123456789abcdeF",
					    "Bearer 0123456789abcde",
					    "Bearer 0123456789abcdef0",
					    "Bearer  0123456789abcdef",
					    "Bearer 0123456789abcdef "};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(http_token_fits(token, wrong[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(token_files),
		cmocka_unit_test(what_says_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
