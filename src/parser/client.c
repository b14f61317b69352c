/* client.c - asks, and waits no longer than told. A worker that is late is left to itself: it ends
 * by its own clock, or with its line, and the next question goes to another. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "parser/host.h"
#include "parser/limits.h"
#include "parser/parser.h"

struct parser {
	struct parser_host *host;
	bool urgent;
	int line;	 /* -1: no worker */
	uint64_t end_ns; /* of the question that is asked; 0 = none */
	bool has_head;
	struct parser_answer head;
	size_t head_len;
	struct buf answer;
};

uint64_t parser_cpu_ns(const struct parser_host *h)
{
	return h->cpu_ns;
}

struct parser *parser_new(struct parser_host *h, bool urgent)
{
	struct parser *p = xcalloc(1, sizeof(*p));
	p->host = h;
	p->urgent = urgent;
	p->line = -1;
	return p;
}

static void drop_worker(struct parser *p)
{
	if (p->line >= 0)
		close(p->line);
	p->line = -1;
}

static void forget_question(struct parser *p)
{
	p->end_ns = 0;
	p->has_head = false;
	p->head_len = 0;
	p->answer.len = 0;
}

void parser_free(struct parser *p)
{
	if (!p)
		return;
	drop_worker(p);
	buf_free(&p->answer);
	free(p);
}

void parser_renew(struct parser *p)
{
	drop_worker(p);
	forget_question(p);
}

int parser_fd(const struct parser *p)
{
	return p->end_ns ? p->line : -1;
}

static int failed(struct parser *p, int code, const char *what, struct err *e)
{
	drop_worker(p);
	forget_question(p);
	return err_set(e, code, "%s", what);
}

#define DIED "the process that reads files (eacgm-parser) ended over it"
#define LATE "reading it took too long"

/* A question is small beside a socket's room: this does not wait for a worker. */
static int put(struct parser *p, const struct parser_question *q, int fd, const void *question)
{
	int rc = message_send(p->line, q, sizeof(*q), fd);
	for (size_t done = 0; !rc && done < q->len;) {
		ssize_t n = send(p->line, (const char *)question + done, q->len - done,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EINTR)
			rc = -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return rc;
}

int parser_send(struct parser *p, unsigned op, int fd, const void *question, size_t len,
		unsigned timeout_ms, struct err *e)
{
	struct parser_question q = {
		.op = op, .len = (uint32_t)len, .timeout_ms = timeout_ms, .has_fd = fd >= 0};
	int rc = -EPIPE;
	forget_question(p);
	for (int tries = 0; rc && tries < 2; tries++) { /* the last one may have died meanwhile */
		if (p->line < 0)
			p->line = host_worker(p->host, p->urgent);
		rc = p->line < 0 ? p->line : put(p, &q, fd, question);
		if (rc)
			drop_worker(p);
	}
	if (rc)
		return err_set(e, -rc, "no process to read files (eacgm-parser): %s",
			       strerror(-rc));
	p->end_ns = monotonic_ns() + PARSER_PATIENCE * timeout_ms * 1000000ULL;
	return 0;
}

/* Takes what is there; -EAGAIN until the answer is whole. */
static int take_some(struct parser *p)
{
	char bytes[65536];
	for (;;) {
		size_t want =
			p->has_head ? p->head.len - p->answer.len : sizeof(p->head) - p->head_len;
		if (p->has_head && !want)
			return 0;
		ssize_t n = recv(p->line, bytes, want < sizeof(bytes) ? want : sizeof(bytes),
				 MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return -EAGAIN;
		if (n <= 0)
			return -EPIPE;
		if (p->has_head) {
			buf_add(&p->answer, bytes, (size_t)n);
			continue;
		}
		memcpy((char *)&p->head + p->head_len, bytes, (size_t)n);
		p->head_len += (size_t)n;
		p->has_head = p->head_len == sizeof(p->head);
		if (p->has_head && (p->head.len > PARSER_ANSWER_BYTES || p->head.rc > 0))
			return -EPIPE;
	}
}

int parser_receive(struct parser *p, struct buf *ret, struct err *e)
{
	if (!p->end_ns)
		return err_set(e, EINVAL, "nothing was asked");
	int rc = take_some(p);
	if (rc == -EAGAIN && monotonic_ns() < p->end_ns)
		return -EAGAIN;
	if (rc == -EAGAIN)
		return failed(p, ETIMEDOUT, LATE, e);
	if (rc)
		return failed(p, EPIPE, DIED, e);
	rc = p->head.rc;
	p->host->cpu_ns += p->head.cpu_ns;
	if (rc) {
		p->head.message[sizeof(p->head.message) - 1] = 0;
		err_set(e, -rc, "%s", p->head.message);
	} else {
		*ret = p->answer;
		p->answer = (struct buf){0};
	}
	forget_question(p);
	return rc;
}

int parser_ask(struct parser *p, unsigned op, int fd, const void *question, size_t len,
	       unsigned timeout_ms, struct buf *ret, struct err *e)
{
	int rc = parser_send(p, op, fd, question, len, timeout_ms, e);
	while (!rc && (rc = parser_receive(p, ret, e)) == -EAGAIN) {
		uint64_t now_ns = monotonic_ns();
		struct pollfd line = {.fd = p->line, .events = POLLIN};
		int left_ms = now_ns < p->end_ns ? (int)((p->end_ns - now_ns) / 1000000) + 1 : 0;
		poll(&line, 1, left_ms);
		rc = 0;
	}
	return rc;
}
