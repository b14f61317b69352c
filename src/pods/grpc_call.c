/* grpc_call.c - connects, lets nghttp2 speak, and waits by poll(2) until the stream is closed. */
#include "pods/grpc_call.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

#define HEAD_BYTES   5		 /* of a message: whether it is compressed, and its length */
#define WINDOW_BYTES (1 << 20)	 /* that the server may send before it is told to go on */
#define LIST_BYTES   8192	 /* of headers */
#define BESIDE_BYTES (256 << 10) /* frames and headers around the message */
#define NO_STATUS    (-1)
#define SAID_BYTES   120

struct call {
	const struct grpc_question *q;
	int fd;
	uint64_t until_ns;
	struct buf question; /* with its head */
	size_t asked;	     /* bytes of it that were sent */
	struct buf answer;   /* likewise with its head */
	size_t received;     /* bytes in all */
	int http_status, grpc_status;
	char said[SAID_BYTES]; /* grpc-message */
	bool closed, too_large;
};

/* ---- what nghttp2 calls back ---- */

static ssize_t on_send(nghttp2_session *s, const uint8_t *data, size_t n, int flags, void *arg)
{
	struct call *c = arg;
	(void)s;
	(void)flags;
	ssize_t sent = send(c->fd, data, n, MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	return errno == EAGAIN || errno == EINTR ? NGHTTP2_ERR_WOULDBLOCK
						 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static ssize_t on_receive(nghttp2_session *s, uint8_t *ret, size_t size, int flags, void *arg)
{
	struct call *c = arg;
	(void)s;
	(void)flags;
	if (c->received > c->q->most_bytes + BESIDE_BYTES) {
		c->too_large = true;
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	ssize_t n = recv(c->fd, ret, size, 0);
	if (n > 0)
		c->received += (size_t)n;
	if (n >= 0)
		return n ? n : NGHTTP2_ERR_EOF;
	return errno == EAGAIN || errno == EINTR ? NGHTTP2_ERR_WOULDBLOCK
						 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool is_name(const char *expected, const uint8_t *name, size_t n)
{
	return n == strlen(expected) && !memcmp(name, expected, n);
}

/* A small number, -2: it is none. */
static int number_of(const uint8_t *value, size_t n)
{
	int ret = 0;
	for (size_t i = 0; i < n; i++) {
		if (i > 3 || value[i] < '0' || value[i] > '9')
			return -2;
		ret = ret * 10 + value[i] - '0';
	}
	return n ? ret : -2;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	struct call *c = arg;
	(void)s;
	(void)frame;
	(void)flags;
	if (is_name(":status", name, name_len))
		c->http_status = number_of(value, len);
	else if (is_name("grpc-status", name, name_len))
		c->grpc_status = number_of(value, len);
	else if (is_name("grpc-message", name, name_len))
		snprintf(c->said, sizeof(c->said), "%.*s", len < SAID_BYTES ? (int)len : SAID_BYTES,
			 (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data,
		   size_t len, void *arg)
{
	struct call *c = arg;
	(void)s;
	(void)flags;
	(void)stream;
	if (len > c->q->most_bytes + HEAD_BYTES - c->answer.len) {
		c->too_large = true;
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	buf_add(&c->answer, data, len);
	return 0;
}

static int on_close(nghttp2_session *s, int32_t stream, uint32_t error, void *arg)
{
	struct call *c = arg;
	(void)s;
	(void)stream;
	(void)error;
	c->closed = true;
	return 0;
}

static ssize_t on_ask(nghttp2_session *s, int32_t stream, uint8_t *ret, size_t size,
		      uint32_t *ret_flags, nghttp2_data_source *source, void *arg)
{
	struct call *c = arg;
	(void)s;
	(void)stream;
	(void)source;
	size_t n = c->question.len - c->asked;
	n = n < size ? n : size;
	memcpy(ret, c->question.data + c->asked, n);
	c->asked += n;
	if (c->asked == c->question.len)
		*ret_flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* ---- the connection ---- */

static int connect_to(const char *path, struct err *e)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(to.sun_path))
		return err_set(e, ENAMETOOLONG, "a path longer than %zu bytes",
			       sizeof(to.sun_path) - 1);
	memcpy(to.sun_path, path, strlen(path) + 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, errno, "no socket: %s", strerror(errno));
	if (!connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return fd;
	int rc = err_set(e, errno, "%s", strerror(errno));
	close(fd);
	return rc;
}

/* 0 when something can be read or written, -ETIMEDOUT, -ECANCELED. */
static int wait_for(const struct call *c, bool writes, struct err *e)
{
	struct pollfd fds[] = {
		{.fd = c->fd, .events = (short)(writes ? POLLIN | POLLOUT : POLLIN)},
		{.fd = c->q->stop_fd, .events = POLLIN},
	};
	for (;;) {
		uint64_t now_ns = monotonic_ns();
		int ms = now_ns < c->until_ns ? (int)((c->until_ns - now_ns) / 1000000) + 1 : 0;
		int n = poll(fds, 2, ms);
		if (n > 0 && fds[1].revents)
			return err_set(e, ECANCELED, "given up");
		if (n > 0)
			return 0;
		if (!ms)
			return err_set(e, ETIMEDOUT, "no answer within %llu ms",
				       (unsigned long long)(c->q->most_ns / 1000000));
	}
}

/* ---- the call ---- */

/* NULL: for want of memory. */
static nghttp2_session *new_session(struct call *c)
{
	nghttp2_session_callbacks *calls;
	nghttp2_session *ret = NULL;
	if (nghttp2_session_callbacks_new(&calls))
		return NULL;
	nghttp2_session_callbacks_set_send_callback(calls, on_send);
	nghttp2_session_callbacks_set_recv_callback(calls, on_receive);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	if (nghttp2_session_client_new(&ret, calls, c))
		ret = NULL;
	nghttp2_session_callbacks_del(calls);
	return ret;
}

#define HEADER(key, text)                                                                          \
	{                                                                                          \
		.name = (uint8_t *)(key), .namelen = strlen(key), .value = (uint8_t *)(text),      \
		.valuelen = strlen(text)                                                           \
	}

static int submit(const struct call *c, nghttp2_session *s)
{
	char timeout[32];
	snprintf(timeout, sizeof(timeout), "%llum", (unsigned long long)(c->q->most_ns / 1000000));
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LIST_BYTES},
	};
	const nghttp2_nv headers[] = {
		HEADER(":method", "POST"),
		HEADER(":scheme", "http"),
		HEADER(":path", c->q->method),
		HEADER(":authority", "localhost"),
		HEADER("content-type", "application/grpc"),
		HEADER("te", "trailers"),
		HEADER("grpc-timeout", timeout),
		HEADER("grpc-accept-encoding", "identity"),
		HEADER("user-agent", "eacgm/" EACGM_VERSION),
	};
	const nghttp2_data_provider body = {.read_callback = on_ask};
	int rc = nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, settings,
					 sizeof(settings) / sizeof(settings[0]));
	if (!rc)
		rc = nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES);
	if (!rc && nghttp2_submit_request(s, NULL, headers, sizeof(headers) / sizeof(headers[0]),
					  &body, NULL) < 0)
		rc = -1;
	return rc;
}

static int not_grpc(struct err *e, int rc)
{
	return err_set(e, EPROTO, "speaks no gRPC%s%s", rc ? ": " : "",
		       rc ? nghttp2_strerror(rc) : "");
}

/* Until the stream is closed. */
static int run(struct call *c, nghttp2_session *s, struct err *e)
{
	while (!c->closed && (nghttp2_session_want_read(s) || nghttp2_session_want_write(s))) {
		int rc = nghttp2_session_send(s);
		if (rc)
			return err_set(e, EPROTO, "hangs up");
		if (!nghttp2_session_want_read(s)) /* it is told why, and that was all */
			break;
		rc = wait_for(c, nghttp2_session_want_write(s), e);
		if (rc)
			return rc;
		rc = nghttp2_session_recv(s);
		if (c->too_large)
			return err_set(e, EMSGSIZE, "answers more than %zu bytes",
				       c->q->most_bytes);
		if (rc == NGHTTP2_ERR_EOF || rc == NGHTTP2_ERR_CALLBACK_FAILURE)
			return c->closed ? 0 : err_set(e, EPROTO, "hangs up");
		if (rc)
			return not_grpc(e, rc);
	}
	return c->closed ? 0 : not_grpc(e, 0);
}

/* What the server said, when all of it is there. */
static int take(const struct call *c, struct buf *ret, struct err *e)
{
	const uint8_t *a = c->answer.data;
	if (c->http_status != 200)
		return not_grpc(e, 0);
	if (c->grpc_status > 0)
		return err_set(e, EREMOTEIO, "refuses: status %d%s%s", c->grpc_status,
			       c->said[0] ? ": " : "", c->said);
	if (c->grpc_status < 0 || c->answer.len < HEAD_BYTES)
		return not_grpc(e, 0);
	size_t len = (size_t)a[1] << 24 | (size_t)a[2] << 16 | (size_t)a[3] << 8 | a[4];
	if (a[0] || len != c->answer.len - HEAD_BYTES)
		return err_set(e, EPROTO, "answers something else than one plain message");
	buf_add(ret, a + HEAD_BYTES, len);
	return 0;
}

static void put_question(struct call *c)
{
	size_t n = c->q->len;
	const uint8_t head[HEAD_BYTES] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
					  (uint8_t)(n >> 8), (uint8_t)n};
	buf_add(&c->question, head, sizeof(head));
	buf_add(&c->question, c->q->message, n);
}

int grpc_call(struct buf *ret, int *ret_status, const struct grpc_question *q, struct err *e)
{
	struct call c = {.q = q,
			 .until_ns = monotonic_ns() + q->most_ns,
			 .http_status = NO_STATUS,
			 .grpc_status = NO_STATUS};
	*ret_status = NO_STATUS;
	c.fd = connect_to(q->socket, e);
	if (c.fd < 0)
		return c.fd;
	put_question(&c);
	nghttp2_session *s = new_session(&c);
	int rc = !s || submit(&c, s) ? err_set(e, ENOMEM, "cannot be asked") : run(&c, s, e);
	if (!rc)
		rc = take(&c, ret, e);
	*ret_status = c.grpc_status;
	if (s)
		nghttp2_session_del(s);
	close(c.fd);
	buf_free(&c.question);
	buf_free(&c.answer);
	return rc;
}
