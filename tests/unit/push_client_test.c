/* push_client_test.c - what waits for a receiver that nobody has asked yet: bounded, the oldest
 * going first, and counted.
 *
 * links: cli base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/push_client.h"

#define SECOND 1000000000ULL

extern const struct command cmd_agent;

static struct push_client *client;
static const struct args none = {.command = &cmd_agent};

static void on_say(void *ctx, const char *sentence)
{
	(void)ctx;
	(void)sentence;
}

/* Its thread is not started: what is put stays. */
static int begin(void **unused)
{
	static const struct push_wanted to = {.url = "http://127.0.0.1:1",
					      .headers = &none,
					      .interval_ns = SECOND,
					      .timeout_ns = SECOND};
	static const struct push_client_options o = {.to = "pprof",
						     .option = "pprof-push",
						     .header_option = "pprof-header",
						     .say = on_say};
	struct err e = {""};
	(void)unused;
	return push_client_open(&client, &to, &o, &e);
}

static int end(void **unused)
{
	(void)unused;
	push_client_close(client);
	return 0;
}

static void put(size_t n)
{
	struct http_post post = {.path = "/", .type = "text/plain", .query = strdup("?a=b")};
	buf_reserve(&post.body, n + 1);
	memset(post.body.data, 'x', n);
	post.body.len = n;
	push_client_put(client, &post);
}

static uint64_t dropped(void)
{
	struct agent_pushed s;
	push_client_stats(client, &s);
	assert_string_equal(s.to, "pprof");
	return s.dropped;
}

static void bodies_are_bounded(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < HTTP_CLIENT_POSTS + 7; i++)
		put(1);
	assert_int_equal(dropped(), 7);
	put(0); /* is none */
	assert_int_equal(dropped(), 7);
	push_client_dropped(client, 3);
	assert_int_equal(dropped(), 10);
}

static void bytes_are_bounded(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < 4; i++)
		put(10u << 20);
	assert_int_equal(dropped(), 1); /* 32 MB */
	put(40u << 20);
	assert_int_equal(dropped(), 4); /* the newest stays */
}

static void what_was_wrong_is_told(void **unused)
{
	(void)unused;
	const struct push_client_options o = {.to = "pprof",
					      .option = "pprof-push",
					      .header_option = "pprof-header",
					      .say = on_say};
	struct push_client *c = NULL;
	struct err e = {""};
	assert_true(push_client_open(&c, &(struct push_wanted){.url = "ftp://x", .headers = &none},
				     &o, &e) < 0);
	assert_null(c);
	assert_ptr_equal(strstr(e.msg, "--pprof-push: "), e.msg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bodies_are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(bytes_are_bounded, begin, end),
		cmocka_unit_test(what_was_wrong_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
