/* http_ask.c - a connection and an event loop for each question: there are few. */
#include "serve/http_ask.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_S    10
#define BODY_BYTES   (16 << 20)
#define HEADER_BYTES 8192

struct asking {
	struct event_base *base;
	struct http_reply *reply;
	bool answered;
};

static void on_answer(struct evhttp_request *r, void *arg)
{
	struct asking *a = arg;
	int status = r ? evhttp_request_get_response_code(r) : 0;
	if (status) {
		struct evbuffer *in = evhttp_request_get_input_buffer(r);
		size_t n = evbuffer_get_length(in);
		buf_reserve(&a->reply->body, n + 1);
		a->reply->status = status;
		a->answered = evbuffer_copyout(in, a->reply->body.data, n) == (ev_ssize_t)n;
		a->reply->body.len = n;
	}
	event_base_loopbreak(a->base);
}

static void say_token(struct evhttp_request *r, const char *token)
{
	char *text = xasprintf("Bearer %s", token);
	evhttp_add_header(evhttp_request_get_output_headers(r), "Authorization", text);
	free(text);
}

static bool ask(struct asking *a, const char *address, uint16_t port, const char *token, bool posts,
		const char *path)
{
	char host[80];
	struct evhttp_connection *c = evhttp_connection_base_new(a->base, NULL, address, port);
	struct evhttp_request *r = c ? evhttp_request_new(on_answer, a) : NULL;
	snprintf(host, sizeof(host), strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, port);
	if (r) {
		evhttp_connection_set_timeout(c, TIMEOUT_S);
		evhttp_connection_set_max_body_size(c, BODY_BYTES);
		evhttp_connection_set_max_headers_size(c, HEADER_BYTES);
		evhttp_add_header(evhttp_request_get_output_headers(r), "Host", host);
		if (token)
			say_token(r, token);
		/* it is the connection's from here on, also where this fails */
		if (!evhttp_make_request(c, r, posts ? EVHTTP_REQ_POST : EVHTTP_REQ_GET, path))
			event_base_dispatch(a->base);
	}
	if (c)
		evhttp_connection_free(c);
	return a->answered;
}

int http_ask(struct http_reply *ret, const char *address, uint16_t port, const char *token,
	     bool posts, const char *path, struct err *e)
{
	*ret = (struct http_reply){0};
	struct asking a = {.base = event_base_new(), .reply = ret};
	if (!a.base)
		return err_set(e, ENOMEM, "cannot ask: no memory");
	bool answered = ask(&a, address, port, token, posts, path);
	event_base_free(a.base);
	if (answered)
		return 0;
	buf_free(&ret->body);
	return err_set(e, ECONNREFUSED, "nothing answers at %s port %u", address, port);
}
