/* http_server.c - evhttp with limits, TLS, a token, and a table of paths. */
#include "serve/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "serve/http_aside.h"
#include "serve/http_auth.h"
#include "serve/http_peer.h"
#include "serve/http_tls.h"

#define HEADER_BYTES 8192
#define BODY_BYTES   65536
#define CONNECTIONS  128
#define TIMEOUT_S    10		     /* in which nothing is sent or taken */
#define IDLE_NS	     60000000000ULL  /* since the last whole question */
#define SENDING_NS   600000000000ULL /* likewise, where the answer is still being sent */
#define FIRST_NS     15000000000ULL  /* until the first one: slots are for those who ask */
#define TICK_MS	     100
#define STREAMS	     16		/* more are told to come again later */
#define STREAM_S     1		/* between two answers */
#define BACKLOG	     (1u << 18) /* bytes that wait for who does not read */
#define STREAM_IDLE  86400	/* seconds: only a stream's backlog ends it */

/* evhttp tells of a connection when it is made and at each question, never of its end. Each is
 * referred to until its callbacks are gone, which is how an end shows. */
struct connection {
	struct bufferevent *of;
	uint64_t asked_ns; /* or made */
	bool asked;
};

struct stream {
	struct evhttp_request *of;
	const struct http_route *route;
};

struct http_server {
	const struct http_route *routes;
	size_t routes_len;
	void *ctx;
	struct http_tls *tls; /* NULL: none */
	char *token;	      /* NULL: none */
	const char *no_post;
	struct event_base *base;
	struct evhttp *http;
	struct event *ends; /* of end_fd */
	struct event *ticks;
	struct event *beats;
	VEC(struct stream) streams;
	struct http_aside *aside;
	struct evconnlistener *listener;
	VEC(struct connection) open;
	int end_fd;
	uint16_t port;
	pthread_t thread;
	bool runs;
};

/* ---- answers ---- */

static const char *reason_of(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 202:
		return "Accepted";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 429:
		return "Too Many Requests";
	case 503:
		return "Service Unavailable";
	default:
		return "Internal Server Error";
	}
}

static void add_headers(struct evhttp_request *r, const struct http_answer *a)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(r);
	evhttp_add_header(headers, "Content-Type", a->type ? a->type : "text/plain; charset=utf-8");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	evhttp_add_header(headers, "Cache-Control", "no-store");
	if (a->policy)
		evhttp_add_header(headers, "Content-Security-Policy", a->policy);
	if (a->save)
		evhttp_add_header(headers, "Content-Disposition", "attachment");
}

/* A file is closed when it is sent, or cannot be. */
static void add_body(struct evbuffer *to, const struct http_answer *a)
{
	if (!a->from_file)
		evbuffer_add(to, a->body.data, a->body.len);
	else if (!a->file_bytes || evbuffer_add_file(to, a->fd, 0, (ev_off_t)a->file_bytes))
		close(a->fd);
}

static void send_answer(struct evhttp_request *r, const struct http_answer *a)
{
	struct evbuffer *body = evbuffer_new();
	add_headers(r, a);
	if (body)
		add_body(body, a);
	else if (a->from_file)
		close(a->fd);
	evhttp_send_reply(r, a->status, reason_of(a->status), body);
	if (body)
		evbuffer_free(body);
}

/* text: a sentence, or NULL: the status alone. */
static void send_no(struct evhttp_request *r, int status, const char *text)
{
	if (status == 401)
		evhttp_add_header(evhttp_request_get_output_headers(r), "WWW-Authenticate",
				  "Bearer");
	struct http_answer a = {.status = status};
	buf_printf(&a.body, "%s\n", text ? text : reason_of(status));
	send_answer(r, &a);
	buf_free(&a.body);
}

static void send_error(struct evhttp_request *r, int status)
{
	send_no(r, status, NULL);
}

static const char *query_of(struct evhttp_request *r)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r);
	const char *query = uri ? evhttp_uri_get_query(uri) : NULL;
	return query ? query : "";
}

static const char *accept_of(struct evhttp_request *r)
{
	const char *accept = evhttp_find_header(evhttp_request_get_input_headers(r), "Accept");
	return accept ? accept : "";
}

static void ask(const struct http_server *s, const struct http_route *route, const char *path,
		struct evhttp_request *r)
{
	struct http_answer a = {.status = 200};
	struct buf body = {0};
	struct evbuffer *in = evhttp_request_get_input_buffer(r);
	size_t n = evbuffer_get_length(in);
	buf_reserve(&body, n + 1);
	if (n && evbuffer_copyout(in, body.data, n) != (ev_ssize_t)n)
		n = 0;
	body.data[n] = 0;
	route->answer(s->ctx,
		      &(struct http_question){path, query_of(r), accept_of(r),
					      (const char *)body.data, n},
		      &a);
	send_answer(r, &a);
	buf_free(&a.body);
	buf_free(&body);
}

/* ---- streams ---- */

/* evhttp takes a question off its connection where it ends while it is answered: it is ours then.
 */
static void forget_streams(struct http_server *s, const struct evhttp_connection *ended)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->streams.len; i++) {
		struct evhttp_request *r = s->streams.data[i].of;
		const struct evhttp_connection *of = evhttp_request_get_connection(r);
		if (of && of != ended)
			s->streams.data[kept++] = s->streams.data[i];
		else if (!of)
			evhttp_send_reply_end(r); /* frees it */
	}
	s->streams.len = kept;
}

static void on_hang_up(struct evhttp_connection *of, void *arg)
{
	forget_streams(arg, of);
}

static void ask_once(const struct http_server *s, const struct http_route *route,
		     struct http_answer *ret)
{
	*ret = (struct http_answer){.status = 200};
	route->answer(s->ctx, &(struct http_question){route->path, "", "", "", 0}, ret);
}

static void stream_send(struct evhttp_request *r, const struct http_answer *a)
{
	struct evbuffer *body = evbuffer_new();
	if (body && !evbuffer_add(body, a->body.data, a->body.len))
		evhttp_send_reply_chunk(r, body);
	if (body)
		evbuffer_free(body);
}

/* 0, or the status of an answer that says no. */
static int stream_begin(struct http_server *s, const struct http_route *route,
			struct evhttp_request *r)
{
	struct evhttp_connection *of = evhttp_request_get_connection(r);
	struct http_answer a;
	if (s->streams.len >= STREAMS)
		return 503;
	ask_once(s, route, &a);
	*vec_push(&s->streams) = (struct stream){r, route};
	evhttp_connection_set_closecb(of, on_hang_up, s);
	evhttp_connection_set_timeout(of, STREAM_IDLE);
	add_headers(r, &a);
	evhttp_send_reply_start(r, 200, reason_of(200));
	stream_send(r, &a);
	buf_free(&a.body);
	return 0;
}

static void stream_next(const struct stream *stream, const struct http_answer *a)
{
	struct bufferevent *b =
		evhttp_connection_get_bufferevent(evhttp_request_get_connection(stream->of));
	if (evbuffer_get_length(bufferevent_get_output(b)) > BACKLOG)
		shutdown(bufferevent_getfd(b), SHUT_RDWR);
	else
		stream_send(stream->of, a);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;
	(void)fd;
	(void)what;
	forget_streams(s, NULL);
	for (size_t i = 0; s->streams.len && i < s->routes_len; i++) {
		const struct http_route *route = &s->routes[i];
		struct http_answer a;
		if (!route->streams)
			continue;
		ask_once(s, route, &a);
		for (size_t k = 0; k < s->streams.len; k++)
			if (s->streams.data[k].route == route)
				stream_next(&s->streams.data[k], &a);
		buf_free(&a.body);
	}
}

static bool is_stream(const struct http_server *s, const struct bufferevent *b)
{
	for (size_t i = 0; i < s->streams.len; i++) {
		struct evhttp_connection *of = evhttp_request_get_connection(s->streams.data[i].of);
		if (of && evhttp_connection_get_bufferevent(of) == b)
			return true;
	}
	return false;
}

/* ---- questions ---- */

/* What browsers let pages of others send: a question with a name that is not an address's would
 * come from a page whose name was made to lead here. */
static bool is_foreign(struct evhttp_request *r)
{
	return evhttp_find_header(evhttp_request_get_input_headers(r), "Origin") != NULL;
}

/* Before anything of the question is looked at. */
static bool is_admitted(const struct http_server *s, struct evhttp_request *r)
{
	return !s->token ||
	       http_token_fits(s->token, evhttp_find_header(evhttp_request_get_input_headers(r),
							    "Authorization"));
}

/* The path is compared as it was sent: who says no token is told nothing of others. */
static bool is_open(const struct http_server *s, struct evhttp_request *r)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	enum evhttp_cmd_type how = evhttp_request_get_command(r);
	if (!path || (how != EVHTTP_REQ_GET && how != EVHTTP_REQ_HEAD))
		return false;
	for (size_t i = 0; i < s->routes_len; i++)
		if (s->routes[i].open && !strcmp(s->routes[i].path, path))
			return s->routes[i].open(accept_of(r));
	return false;
}

/* "127.0.0.1:9477", "[::1]", "localhost:80", as RFC 9110 has them: no name that is somebody's. */
static bool is_asked_by_number(struct evhttp_request *r)
{
	const char *host = evhttp_find_header(evhttp_request_get_input_headers(r), "Host");
	char name[64];
	struct in6_addr unused;
	if (!host)
		return true; /* HTTP/1.0, no browser */
	size_t len = host[0] == '[' ? strcspn(host + 1, "]") : strcspn(host, ":");
	snprintf(name, sizeof(name), "%.*s", (int)(len < sizeof(name) ? len : sizeof(name)),
		 host + (host[0] == '['));
	return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &unused) == 1 ||
	       inet_pton(AF_INET6, name, &unused) == 1;
}

/* What changes something is root's, or for who says the token. */
static bool may_post(const struct http_server *s, struct evhttp_request *r)
{
	struct bufferevent *b = evhttp_connection_get_bufferevent(evhttp_request_get_connection(r));
	return s->token || http_peer_is_ours(bufferevent_getfd(b));
}

/* 0, or the status of an answer that says no. */
static int refusal(const struct http_server *s, const struct http_route *route,
		   struct evhttp_request *r)
{
	enum evhttp_cmd_type how = evhttp_request_get_command(r);
	bool fits = route->posts
			    ? how == EVHTTP_REQ_POST && !is_foreign(r)
			    : how == EVHTTP_REQ_GET || (how == EVHTTP_REQ_HEAD && !route->streams);
	if (!fits)
		return 405;
	return route->guarded && !s->token && !is_asked_by_number(r) ? 403 : 0;
}

static bool route_has(const struct http_route *route, const char *path)
{
	size_t len = strlen(route->path);
	if (len > 1 && route->path[len - 1] == '/')
		return !strncmp(path, route->path, len) && path[len];
	return !strcmp(path, route->path);
}

/* What is known of it is the last route that has it: two may, by their methods. */
static int route_to(struct http_server *s, const char *path, struct evhttp_request *r)
{
	int status = 404;
	for (size_t i = 0; i < s->routes_len; i++) {
		const struct http_route *route = &s->routes[i];
		if (!route_has(route, path))
			continue;
		status = refusal(s, route, r);
		if (status)
			continue;
		if (route->posts && !may_post(s, r)) {
			send_no(r, 403, s->no_post);
			return 0;
		}
		if (route->streams)
			return stream_begin(s, route, r);
		if (route->aside)
			return http_aside_ask(
				s->aside, route, s->ctx,
				&(struct http_question){path, query_of(r), accept_of(r), "", 0}, r);
		ask(s, route, path, r);
		return 0;
	}
	return status;
}

static void answer(struct http_server *s, struct evhttp_request *r)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r);
	const char *raw = uri ? evhttp_uri_get_path(uri) : NULL;
	size_t len = 0;
	char *path = raw ? evhttp_uridecode(raw, 0, &len) : NULL;
	int status = path && strlen(path) == len ? route_to(s, path, r) : 400;
	if (status)
		send_error(r, status);
	free(path);
}

/* ---- connections ---- */

static bool has_ended(struct bufferevent *b)
{
	bufferevent_data_cb reads, writes;
	bufferevent_event_cb happens;
	void *ctx;
	bufferevent_getcb(b, &reads, &writes, &happens, &ctx);
	return !reads && !writes && !happens;
}

static void forget_ended(struct http_server *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->open.len; i++) {
		if (has_ended(s->open.data[i].of))
			bufferevent_decref(s->open.data[i].of);
		else
			s->open.data[kept++] = s->open.data[i];
	}
	s->open.len = kept;
}

static uint64_t patience_ns(const struct connection *c)
{
	if (!c->asked)
		return FIRST_NS;
	return evbuffer_get_length(bufferevent_get_output(c->of)) ? SENDING_NS : IDLE_NS;
}

/* Who sends a byte now and then is never idle for libevent. */
static void cut_off_idle(struct http_server *s)
{
	uint64_t now_ns = monotonic_ns();
	for (size_t i = 0; i < s->open.len; i++) {
		const struct connection *c = &s->open.data[i];
		if (now_ns - c->asked_ns > patience_ns(c) && !is_stream(s, c->of))
			shutdown(bufferevent_getfd(c->of), SHUT_RDWR);
	}
}

/* While there are connections. */
static const struct timeval tick = {.tv_usec = TICK_MS * 1000};

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;
	(void)fd;
	(void)what;
	forget_ended(s);
	cut_off_idle(s);
	if (s->open.len < CONNECTIONS)
		evconnlistener_enable(s->listener);
	if (!s->open.len)
		event_del(s->ticks);
}

/* Where there are too many, others wait in the kernel's queue until one has ended. */
static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
	struct http_server *s = arg;
	struct bufferevent *b = s->tls ? http_tls_accept(s->tls, base)
				       : bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!b)
		return NULL;
	/* What is sent while an answer goes out, or events do, is read by nobody until then. */
	bufferevent_setwatermark(b, EV_READ, 0, 2 * (HEADER_BYTES + BODY_BYTES));
	bufferevent_incref(b);
	if (!s->open.len)
		event_add(s->ticks, &tick);
	*vec_push(&s->open) = (struct connection){b, monotonic_ns(), false};
	if (s->open.len >= CONNECTIONS)
		evconnlistener_disable(s->listener);
	return b;
}

static void note_question(struct http_server *s, struct evhttp_request *r)
{
	const struct bufferevent *b =
		evhttp_connection_get_bufferevent(evhttp_request_get_connection(r));
	for (size_t i = 0; i < s->open.len; i++)
		if (s->open.data[i].of == b) {
			s->open.data[i].asked_ns = monotonic_ns();
			s->open.data[i].asked = true;
		}
}

static void on_question(struct evhttp_request *r, void *arg)
{
	struct http_server *s = arg;
	struct bufferevent *b = evhttp_connection_get_bufferevent(evhttp_request_get_connection(r));
	note_question(s, r);
	if (s->tls &&
	    !bufferevent_openssl_get_ssl(b)) /* libevent's own, where ours had no memory */
		shutdown(bufferevent_getfd(b), SHUT_RDWR);
	else if (is_admitted(s, r) || is_open(s, r))
		answer(s, r);
	else
		send_error(r, 401);
}

/* ---- the server ---- */

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(((struct http_server *)arg)->base);
}

static void *serve(void *arg)
{
	event_base_dispatch(((struct http_server *)arg)->base);
	return NULL;
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool address_of(int fd, union address *ret)
{
	socklen_t len = sizeof(*ret);
	*ret = (union address){.v6 = {0}};
	return !getsockname(fd, &ret->any, &len) &&
	       (ret->any.sa_family == AF_INET || ret->any.sa_family == AF_INET6);
}

static uint16_t port_of(int fd)
{
	union address a;
	if (!address_of(fd, &a))
		return 0;
	return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

bool http_socket_is_at(int fd, const char *address, uint16_t port)
{
	union address a;
	struct in6_addr want;
	int listens = 0;
	socklen_t len = sizeof(listens);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens ||
	    !address_of(fd, &a) || inet_pton(a.any.sa_family, address, &want) != 1)
		return false;
	bool same = a.any.sa_family == AF_INET6
			    ? !memcmp(&want, &a.v6.sin6_addr, sizeof(a.v6.sin6_addr))
			    : !memcmp(&want, &a.v4.sin_addr, sizeof(a.v4.sin_addr));
	return same && (!port || port == port_of(fd));
}

static struct evhttp_bound_socket *bind_to(struct http_server *s,
					   const struct http_server_options *o)
{
	if (!o->socket)
		return evhttp_bind_socket_with_handle(s->http, o->address, o->port);
	int fd = fcntl(*o->socket, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return NULL;
	struct evhttp_bound_socket *ret = evutil_make_socket_nonblocking(fd)
						  ? NULL
						  : evhttp_accept_socket_with_handle(s->http, fd);
	if (!ret)
		close(fd);
	return ret;
}

static int listen_on(struct http_server *s, const struct http_server_options *o, struct err *e)
{
	errno = 0;
	struct evhttp_bound_socket *bound = bind_to(s, o);
	if (!bound)
		return err_set(e, errno ? errno : EINVAL, "cannot listen on %s port %u: %s",
			       o->address, o->port,
			       errno ? strerror(errno) : "this is no address of this host");
	s->port = port_of(evhttp_bound_socket_get_fd(bound));
	s->listener = evhttp_bound_socket_get_listener(bound);
	return 0;
}

int http_server_socket(const struct http_server *s)
{
	return evconnlistener_get_fd(s->listener);
}

static int make(struct http_server *s)
{
	s->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->base = event_base_new();
	s->http = s->base ? evhttp_new(s->base) : NULL;
	s->ends = s->base ? event_new(s->base, s->end_fd, EV_READ, on_end, s) : NULL;
	s->ticks = s->base ? event_new(s->base, -1, EV_PERSIST, on_tick, s) : NULL;
	s->beats = s->base ? event_new(s->base, -1, EV_PERSIST, on_beat, s) : NULL;
	s->aside = s->base ? http_aside_new(s->base, send_answer) : NULL;
	const struct timeval beat = {.tv_sec = STREAM_S};
	if (s->end_fd < 0 || !s->http || !s->ends || !s->ticks || !s->beats || !s->aside ||
	    event_add(s->ends, NULL) || event_add(s->beats, &beat))
		return -ENOMEM;
	evhttp_set_max_headers_size(s->http, HEADER_BYTES);
	evhttp_set_max_body_size(s->http, BODY_BYTES);
	evhttp_set_timeout(s->http, TIMEOUT_S);
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
	evhttp_set_bevcb(s->http, on_connection, s);
	evhttp_set_gencb(s->http, on_question, s);
	return 0;
}

static int read_files(struct http_server *s, const struct http_server_options *o, struct err *e)
{
	int rc = o->token_file ? http_token_read(&s->token, o->token_file, e) : 0;
	if (!rc && o->cert_file)
		rc = http_tls_server(&s->tls, o->cert_file, o->key_file, e);
	return rc;
}

int http_server_open(struct http_server **ret, const struct http_server_options *o, struct err *e)
{
	struct http_server *s = xcalloc(1, sizeof(*s));
	s->routes = o->routes;
	s->routes_len = o->routes_len;
	s->ctx = o->ctx;
	s->no_post = o->no_post;
	s->end_fd = -1;
	int rc = read_files(s, o, e);
	if (!rc && make(s))
		rc = err_set(e, ENOMEM, "cannot start the HTTP server: %s", strerror(ENOMEM));
	if (!rc)
		rc = listen_on(s, o, e);
	if (rc)
		http_server_close(s);
	else
		*ret = s;
	return rc;
}

int http_server_start(struct http_server *s, struct err *e)
{
	int rc = thread_start(&s->thread, serve, s, "eacgm-http");
	s->runs = !rc;
	return rc ? err_set(e, -rc, "cannot start a thread: %s", strerror(-rc)) : 0;
}

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

void http_server_close(struct http_server *s)
{
	if (!s)
		return;
	if (s->runs && eventfd_write(s->end_fd, 1) == 0)
		pthread_join(s->thread, NULL);
	if (s->ends)
		event_free(s->ends);
	if (s->ticks)
		event_free(s->ticks);
	if (s->beats)
		event_free(s->beats);
	forget_streams(s, NULL);
	http_aside_free(s->aside);
	if (s->http)
		evhttp_free(s->http);
	for (size_t i = 0; i < s->open.len; i++)
		bufferevent_decref(s->open.data[i].of);
	vec_free(&s->open);
	vec_free(&s->streams);
	if (s->base)
		event_base_free(s->base);
	if (s->end_fd >= 0)
		close(s->end_fd);
	http_tls_free(s->tls);
	free(s->token);
	free(s);
}
