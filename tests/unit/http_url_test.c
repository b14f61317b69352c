/* http_url_test.c - where to push to, when to try again, and what a receiver says of it.
 *
 * links: serve base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/http_url.h"
#include "serve/otlp_answer.h"

#define SECOND 1000000000ULL

static void urls(void **unused)
{
	(void)unused;
	static const struct {
		const char *text, *host, *path;
		uint16_t port;
		bool tls, address;
	} good[] = {
		{"http://collector:4318", "collector", "", 4318, false, false},
		{"http://collector:4318/", "collector", "", 4318, false, false},
		{"https://a.example/otlp//", "a.example", "/otlp", 443, true, false},
		{"HTTP://127.0.0.1", "127.0.0.1", "", 80, false, true},
		{"http://[::1]:4318/x", "::1", "/x", 4318, false, true},
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct http_url u;
		struct err e = {""};
		if (http_url_parse(&u, good[i].text, &e))
			fail_msg("%s", e.msg);
		assert_string_equal(u.host, good[i].host);
		assert_string_equal(u.path, good[i].path);
		assert_true(u.port == good[i].port && u.tls == good[i].tls);
		assert_int_equal(http_url_is_address(&u), good[i].address);
	}
}

static void what_is_none(void **unused)
{
	(void)unused;
	char long_one[600] = "http://";
	memset(long_one + 7, 'a', 400);
	const char *const bad[] = {"",
				   "collector:4318",
				   "unix:/x",
				   "http://",
				   "http://a:0",
				   "http://a:65536",
				   "http://a:x",
				   "http://u@a",
				   "http://u:p@a:1",
				   "http://a/?q=1",
				   "http://a/#f",
				   "http://a/b c",
				   "http://a b",
				   "http://a/\r\nx: y",
				   "http://[::1",
				   long_one};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct http_url u;
		struct err e = {""};
		if (!http_url_parse(&u, bad[i], &e))
			fail_msg("taken: '%s'", bad[i]);
		assert_true(e.msg[0] == '\'' && !u.host[0]);
	}
}

static void retry_after(void **unused)
{
	(void)unused;
	const uint64_t now_ns = 784111777ULL * SECOND; /* Sun, 06 Nov 1994 08:49:37 GMT */
	assert_int_equal(http_retry_after("7", now_ns), 7 * SECOND);
	assert_int_equal(http_retry_after("0", now_ns), 0);
	assert_int_equal(http_retry_after("99999", now_ns), HTTP_RETRY_MOST_NS);
	assert_int_equal(http_retry_after("99999999999999999999999", now_ns), HTTP_RETRY_MOST_NS);
	assert_int_equal(http_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now_ns), 10 * SECOND);
	assert_int_equal(http_retry_after("Sun, 06 Nov 1994 08:49:27 GMT", now_ns), 0);
	assert_int_equal(http_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now_ns),
			 HTTP_RETRY_MOST_NS);
	const char *const none[] = {"", "-1", "1.5", "soon", "7 s", "Sun, 06 Nov 1994 08:49:37"};
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(http_retry_after(none[i], now_ns), 0);
}

static uint64_t rejected(const char *bytes, size_t n, const char *says)
{
	char why[16];
	uint64_t ret = otlp_answer_rejected((const uint8_t *)bytes, n, why, sizeof(why));
	assert_string_equal(why, says);
	return ret;
}

static void answers(void **unused)
{
	(void)unused;
	assert_int_equal(rejected("", 0, ""), 0);
	assert_int_equal(rejected("\x0a\x06\x08\x03\x12\x02no", 8, "no"), 3);
	assert_int_equal(rejected("\x0a\x04\x12\x02no", 6, "no"), 0); /* a warning */
	assert_int_equal(rejected("\x0a\x02\x08\x7f\x1a\x01x", 7, ""),
			 127); /* and what is unknown */
	assert_int_equal(rejected("\x0a\x06\x08\x03\x12\x09no", 8, ""), 0);
	assert_int_equal(rejected("{\"partialSuccess\":{}}", 21, ""), 0);
	assert_int_equal(rejected("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, ""),
			 0); /* -1 */
	char cut[40] = "\x0a\x1e\x12\x1c";
	memset(cut + 4, 'x', 28);
	assert_int_equal(rejected(cut, 32, "xxxxxxxxxxxxxxx"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls),
		cmocka_unit_test(what_is_none),
		cmocka_unit_test(retry_after),
		cmocka_unit_test(answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
