/* http_aside_test.c - answers that take a while: others do not wait for them, they come in turn,
 * too many are refused, and who hangs up, or the server's end, harms nothing.
 *
 * links: serve base */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/http_aside.h"

static sem_t entered, may; /* a slow answer has begun; it may go on */
static struct http_server *server;

static void slow(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	(void)ctx;
	sem_post(&entered);
	sem_wait(&may);
	buf_printf(&ret->body, "slow %s?%s\n", q->path, q->query);
}

static void fast(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	(void)ctx, (void)q;
	buf_printf(&ret->body, "fast\n");
}

static const struct http_route routes[] = {{"/slow", .answer = slow, .aside = true},
					   {"/fast", .answer = fast}};

static int begin(void **unused)
{
	struct err e = {0};
	const struct http_server_options o = {
		.address = "127.0.0.1", .routes = routes, .routes_len = 2};
	(void)unused;
	sem_init(&entered, 0, 0);
	sem_init(&may, 0, 0);
	if (http_server_open(&server, &o, &e) || http_server_start(server, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		return -1;
	}
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	http_server_close(server);
	sem_destroy(&entered);
	sem_destroy(&may);
	return 0;
}

static int asks(const char *path)
{
	char text[256];
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(http_server_port(server)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	int n = snprintf(text, sizeof(text),
			 "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
	assert_int_equal(write(fd, text, (size_t)n), n);
	return fd;
}

/* The whole answer, which ends with the connection. */
static void assert_answers(int fd, const char *status, const char *body)
{
	char text[4096];
	size_t len = 0;
	ssize_t n;
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	close(fd);
	assert_memory_equal(text, status, strlen(status));
	assert_non_null(strstr(text, body));
}

static void others_do_not_wait(void **unused)
{
	(void)unused;
	int first = asks("/slow?a=1");
	sem_wait(&entered);
	int second = asks("/slow?b=2");
	for (int i = 0; i < 3; i++)
		assert_answers(asks("/fast"), "HTTP/1.1 200", "fast");
	sem_post(&may);
	assert_answers(first, "HTTP/1.1 200", "slow /slow?a=1");
	sem_wait(&entered); /* one after the other */
	sem_post(&may);
	assert_answers(second, "HTTP/1.1 200", "slow /slow?b=2");
}

static void too_many_are_refused(void **unused)
{
	int open[ASIDE_MOST + 1];
	(void)unused;
	open[0] = asks("/slow");
	sem_wait(&entered);
	for (int i = 1; i <= ASIDE_MOST; i++)
		open[i] = asks("/slow");
	/* whoever of them comes last is refused: a question is asked when its bytes are read */
	assert_answers(asks("/fast"), "HTTP/1.1 200", "fast");
	for (;;) {
		int more = asks("/slow");
		char first[16] = "";
		const struct timeval patience = {.tv_usec = 200000};
		setsockopt(more, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		if (recv(more, first, 12, MSG_WAITALL) == 12) {
			assert_memory_equal(first, "HTTP/1.1 503", 12);
			close(more);
			break;
		}
		close(more);
	}
	for (int i = 0; i <= 2 * ASIDE_MOST; i++)
		sem_post(&may);
	assert_answers(open[0], "HTTP/1.1 200", "slow");
	for (int i = 1; i <= ASIDE_MOST; i++)
		assert_answers(open[i], "HTTP/1.1", "");
}

static void who_hangs_up_is_forgotten(void **unused)
{
	(void)unused;
	int first = asks("/slow");
	sem_wait(&entered);
	int second = asks("/slow");
	assert_answers(asks("/fast"), "HTTP/1.1 200", "fast");
	close(first);
	close(second);
	for (int i = 0; i < 3; i++) /* the server has seen it */
		assert_answers(asks("/fast"), "HTTP/1.1 200", "fast");
	sem_post(&may);
	sem_wait(&entered);
	sem_post(&may);
	int third = asks("/slow");
	sem_wait(&entered);
	sem_post(&may);
	assert_answers(third, "HTTP/1.1 200", "slow");
}

/* One is being made, one waits, one waits of who is gone. */
static void the_server_ends_meanwhile(void **unused)
{
	(void)unused;
	int first = asks("/slow"), second = asks("/slow");
	sem_wait(&entered);
	int gone = asks("/slow");
	assert_answers(asks("/fast"), "HTTP/1.1 200", "fast");
	close(gone);
	assert_answers(asks("/fast"), "HTTP/1.1 200", "fast");
	for (int i = 0; i < 3; i++)
		sem_post(&may);
	http_server_close(server);
	server = NULL;
	close(first);
	close(second);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(others_do_not_wait),
		TEST(too_many_are_refused),
		TEST(who_hangs_up_is_forgotten),
		TEST(the_server_ends_meanwhile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
