/* http_client.c - a queue, one question at a time, and when to try again. Connections are freed
 * from events of ours alone: libevent looks at one after it has called back. */
#include "serve/http_client.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "serve/http_tls.h"

#define ANSWER_BYTES 65536
#define HEADER_BYTES 8192
#define FIRST_NS     1000000000ULL
#define LAST_NS	     60000000000ULL
#define WHY_BYTES    200

struct waiting {
	const char *path, *type;
	char *query; /* NULL: none */
	bool packed; /* by who made it */
	uint64_t until_ns;
	struct buf body;  /* compressed */
	size_t raw_bytes; /* before */
};

struct http_client {
	struct http_client_options o;
	struct http_tls *tls; /* NULL: none */
	struct event_base *base;
	struct event *due, *next, *late, *ends, *over, *wakes;
	struct evdns_base *dns;
	int end_fd, wake_fd;
	pthread_t thread;
	bool runs;
	/* of the thread: */
	struct evhttp_connection *connection;
	struct evhttp_request *question; /* under way, of the first in the queue; NULL: none is */
	bool stale;			 /* the connection is to be freed */
	bool ending;
	int family;   /* of a name's addresses: that which is tried, or was found to work */
	bool reached; /* the server has answered by it, whatever it said */
	uint64_t wait_ns, not_before_ns, random;
	char why[WHY_BYTES];	/* it failed last, "": it did not */
	const char *refused_by; /* the path that was refused last, so that it is said once */
	int refused_status;
	uint64_t end_most_ns;
	VEC(struct waiting) queue;
	pthread_mutex_t lock; /* of stats */
	struct http_client_stats stats;
};

/* ---- counting and telling ---- */

#define COUNT(c, field, n)                                                                         \
	do {                                                                                       \
		pthread_mutex_lock(&(c)->lock);                                                    \
		(c)->stats.field += (n);                                                           \
		pthread_mutex_unlock(&(c)->lock);                                                  \
	} while (0)

void http_client_stats(struct http_client *c, struct http_client_stats *ret)
{
	pthread_mutex_lock(&c->lock);
	*ret = c->stats;
	pthread_mutex_unlock(&c->lock);
}

static void say(struct http_client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct http_client *c, const char *fmt, ...)
{
	char text[WHY_BYTES + HTTP_HOST_BYTES + 200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->o.say(c->o.ctx, text);
}

static const char *scheme_of(const struct http_client *c)
{
	return c->o.to.tls ? "https" : "http";
}

/* ---- the queue ---- */

static size_t bytes_waiting(const struct http_client *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->queue.len; i++)
		n += c->queue.data[i].body.len;
	return n;
}

static void note_waiting(struct http_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->stats.waiting = c->queue.len;
	c->stats.waiting_bytes = bytes_waiting(c);
	pthread_mutex_unlock(&c->lock);
}

static void forget(struct http_client *c, size_t i)
{
	buf_free(&c->queue.data[i].body);
	free(c->queue.data[i].query);
	c->queue.len--;
	memmove(&c->queue.data[i], &c->queue.data[i + 1],
		(c->queue.len - i) * sizeof(c->queue.data[0]));
	note_waiting(c);
}

/* The oldest goes, but never that which is under way. */
static void make_room(struct http_client *c)
{
	while (c->queue.len > HTTP_CLIENT_POSTS || bytes_waiting(c) > c->o.most_bytes) {
		size_t oldest = c->question != NULL;
		if (oldest >= c->queue.len)
			return;
		forget(c, oldest);
		COUNT(c, dropped, 1);
	}
}

static void compress_into(struct buf *ret, const struct buf *body)
{
	z_stream z = {0};
	/* Window bits plus 16: a gzip header and trailer (zlib.h). */
	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		abort(); /* for want of memory only */
	uLong most = deflateBound(&z, body->len);
	buf_reserve(ret, most);
	z.next_in = body->data;
	z.avail_in = (uInt)body->len;
	z.next_out = ret->data;
	z.avail_out = (uInt)most;
	(void)deflate(&z, Z_FINISH); /* there is room for all of it */
	ret->len = most - z.avail_out;
	deflateEnd(&z);
}

void http_client_put(struct http_client *c, struct http_post *p)
{
	struct waiting *w = vec_push(&c->queue);
	w->path = p->path;
	w->type = p->type;
	w->query = p->query;
	w->packed = p->packed;
	w->until_ns = p->until_ns;
	w->raw_bytes = p->body.len;
	if (p->packed) {
		w->body = p->body;
	} else {
		compress_into(&w->body, &p->body);
		buf_free(&p->body);
	}
	make_room(c);
	note_waiting(c);
}

/* ---- when to try again ---- */

static void send_at(struct http_client *c, uint64_t in_ns)
{
	const struct timeval in = {.tv_sec = (time_t)(in_ns / 1000000000),
				   .tv_usec = (suseconds_t)(in_ns % 1000000000 / 1000)};
	event_add(c->next, &in);
}

static void clear_question(struct http_client *c)
{
	c->question = NULL;
	event_del(c->late);
}

/* in_ns: as the server says, 0: it does not. */
static void try_again(struct http_client *c, const char *why, uint64_t in_ns)
{
	clear_question(c);
	c->stale = true;
	if (!c->reached) /* by that family of addresses */
		c->family = c->family == AF_INET ? AF_INET6 : AF_INET;
	c->reached = false;
	COUNT(c, failures, 1);
	if (!c->why[0])
		say(c, "cannot push to %s://%s:%u: %s; tries again", scheme_of(c), c->o.to.host,
		    c->o.to.port, why);
	snprintf(c->why, sizeof(c->why), "%s", why);
	c->wait_ns = !c->wait_ns ? FIRST_NS : c->wait_ns * 2 < LAST_NS ? c->wait_ns * 2 : LAST_NS;
	/* so that not all hosts come at once */
	uint64_t wait_ns =
		(uint64_t)((double)c->wait_ns * (0.8 + 0.4 * random_uniform(&c->random)));
	wait_ns = wait_ns > in_ns ? wait_ns : in_ns;
	c->not_before_ns = monotonic_ns() + wait_ns;
	make_room(c);
	if (c->ending)
		event_base_loopbreak(c->base);
	else
		send_at(c, wait_ns);
}

static void go_on(struct http_client *c)
{
	clear_question(c);
	forget(c, 0);
	c->stale |= c->o.apart;
	c->wait_ns = c->not_before_ns = 0;
	send_at(c, 0);
}

/* ---- answers ---- */

static void take(struct http_client *c, struct evhttp_request *r)
{
	const struct waiting *w = &c->queue.data[0];
	struct evbuffer *in = evhttp_request_get_input_buffer(r);
	size_t n = evbuffer_get_length(in);
	pthread_mutex_lock(&c->lock);
	c->stats.sent++;
	c->stats.sent_bytes += w->body.len;
	c->stats.raw_bytes += w->raw_bytes;
	uint64_t dropped = c->stats.dropped;
	pthread_mutex_unlock(&c->lock);
	if (c->why[0])
		say(c, "pushes to %s://%s:%u again; %llu found no room so far", scheme_of(c),
		    c->o.to.host, c->o.to.port, (unsigned long long)dropped);
	c->why[0] = 0;
	c->refused_by = c->refused_by == w->path ? NULL : c->refused_by;
	c->o.taken(c->o.ctx, w->path, n ? evbuffer_pullup(in, -1) : NULL, n);
	go_on(c);
}

static void refuse(struct http_client *c, int status, const char *line)
{
	const struct waiting *w = &c->queue.data[0];
	if (c->refused_by != w->path || c->refused_status != status)
		say(c, "%s:%u does not take %s%s: %d %.60s", c->o.to.host, c->o.to.port,
		    c->o.to.path, w->path, status, line ? line : "");
	c->refused_by = w->path;
	c->refused_status = status;
	COUNT(c, refused, 1);
	go_on(c);
}

/* libevent ends the sending half of a socket before it calls back: of one that is not connected
 * that fails, so that ENOTCONN is what is left of ECONNREFUSED. */
static const char *why_failed(struct http_client *c)
{
	bool connected = errno != ENOTCONN;
	struct bufferevent *b =
		c->connection ? evhttp_connection_get_bufferevent(c->connection) : NULL;
	const char *tls = c->tls && b ? http_tls_problem(b) : NULL;
	int dns = b && !c->tls ? bufferevent_socket_get_dns_error(b) : 0;
	return tls	    ? tls
	       : dns	    ? evutil_gai_strerror(dns)
	       : !connected ? "no connection"
			    : "no answer";
}

static void on_answer(struct evhttp_request *r, void *arg)
{
	struct http_client *c = arg;
	int status = r ? evhttp_request_get_response_code(r) : 0;
	if (!c->question) /* it was given up */
		return;
	c->reached = status != 0;
	if (!status) {
		try_again(c, why_failed(c), 0);
	} else if (status >= 200 && status < 300) {
		take(c, r);
	} else if (status == 429 || (status >= 502 && status <= 504)) {
		const char *after =
			evhttp_find_header(evhttp_request_get_input_headers(r), "Retry-After");
		char why[WHY_BYTES];
		const char *line = evhttp_request_get_response_code_line(r);
		snprintf(why, sizeof(why), "%d %.60s", status, line ? line : "");
		try_again(c, why, after ? http_retry_after(after, realtime_ns()) : 0);
	} else {
		refuse(c, status, evhttp_request_get_response_code_line(r));
	}
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct http_client *c = arg;
	(void)fd;
	(void)what;
	try_again(c, "no answer in time", 0);
}

/* ---- questions ---- */

static void free_connection(struct http_client *c)
{
	if (c->connection) /* with what is under way on it */
		evhttp_connection_free(c->connection);
	c->connection = NULL;
	c->stale = false;
}

static void on_close(struct evhttp_connection *connection, void *arg)
{
	struct http_client *c = arg;
	if (connection == c->connection)
		c->stale = true;
}

/* It lives as long as the client: libevent may still call back for a name that nobody waits for any
 * more. What the host says of its servers is read each time, its own names but once. */
static void look_for_names(struct http_client *c)
{
	if (!c->dns) {
		c->dns = evdns_base_new(c->base, EVDNS_BASE_INITIALIZE_NAMESERVERS);
		return;
	}
	evdns_base_clear_nameservers_and_suspend(c->dns);
	evdns_base_resolv_conf_parse(c->dns, DNS_OPTIONS_ALL & ~DNS_OPTION_HOSTSFILE,
				     "/etc/resolv.conf");
	evdns_base_resume(c->dns);
}

static bool connect_to(struct http_client *c)
{
	const struct http_url *to = &c->o.to;
	struct bufferevent *b = c->tls ? http_tls_connect(c->tls, c->base, to->host) : NULL;
	bool is_name = !http_url_is_address(to);
	if (c->tls && !b)
		return false;
	if (is_name)
		look_for_names(c);
	if (!is_name || c->dns)
		c->connection = evhttp_connection_base_bufferevent_new(c->base, c->dns, b, to->host,
								       to->port);
	if (!c->connection) {
		if (b)
			bufferevent_free(b);
		return false;
	}
	if (is_name)
		evhttp_connection_set_family(c->connection, c->family);
	evhttp_connection_set_timeout(c->connection, (int)(c->o.timeout_ns / 1000000000 + 1));
	evhttp_connection_set_max_headers_size(c->connection, HEADER_BYTES);
	evhttp_connection_set_max_body_size(c->connection, ANSWER_BYTES);
	evhttp_connection_set_closecb(c->connection, on_close, c);
	return true;
}

static void add_headers(const struct http_client *c, struct evhttp_request *r,
			const struct waiting *w)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(r);
	bool v6 = strchr(c->o.to.host, ':') != NULL;
	char host[HTTP_HOST_BYTES + 16];
	snprintf(host, sizeof(host), v6 ? "[%s]:%u" : "%s:%u", c->o.to.host, c->o.to.port);
	evhttp_add_header(headers, "Host", host);
	evhttp_add_header(headers, "User-Agent", "eacgm/" EACGM_VERSION);
	evhttp_add_header(headers, "Content-Type", w->type);
	if (!w->packed)
		evhttp_add_header(headers, "Content-Encoding", "gzip");
	for (size_t i = 0; i < c->o.headers_len; i++)
		evhttp_add_header(headers, c->o.headers[i].name, c->o.headers[i].value);
}

static bool ask(struct http_client *c)
{
	const struct waiting *w = &c->queue.data[0];
	const struct timeval late = {.tv_sec = (time_t)(c->o.timeout_ns / 1000000000),
				     .tv_usec = (suseconds_t)(c->o.timeout_ns % 1000000000 / 1000)};
	char *path = xasprintf("%s%s%s", c->o.to.path, w->path, w->query ? w->query : "");
	struct evhttp_request *r = evhttp_request_new(on_answer, c);
	if (r) {
		add_headers(c, r, w);
		evbuffer_add(evhttp_request_get_output_buffer(r), w->body.data, w->body.len);
		c->question = r; /* it may end at once */
		event_add(c->late, &late);
		if (evhttp_make_request(c->connection, r, EVHTTP_REQ_POST, path))
			r = NULL;
	}
	free(path);
	return r != NULL;
}

/* Nothing is under way. */
static void drop_late(struct http_client *c)
{
	uint64_t now_ns = monotonic_ns();
	while (c->queue.len && c->queue.data[0].until_ns && c->queue.data[0].until_ns < now_ns) {
		forget(c, 0);
		COUNT(c, dropped, 1);
	}
}

static void send_first(struct http_client *c)
{
	if (c->stale)
		free_connection(c);
	drop_late(c);
	if (!c->queue.len && c->ending)
		event_base_loopbreak(c->base);
	if (!c->queue.len)
		return;
	errno = 0;
	bool asked = (c->connection || connect_to(c)) && ask(c);
	if (!asked && (c->question || !c->connection))
		try_again(c, "no connection can be made", 0);
}

static void on_next(evutil_socket_t fd, short what, void *arg)
{
	struct http_client *c = arg;
	uint64_t now_ns = monotonic_ns();
	(void)fd;
	(void)what;
	if (c->question)
		return;
	if (c->ending || now_ns >= c->not_before_ns)
		send_first(c);
	else /* libevent's clock is coarse: it may call some milliseconds before */
		send_at(c, c->not_before_ns - now_ns + 1000000);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct http_client *c = arg;
	(void)fd;
	(void)what;
	c->o.due(c->o.ctx, c);
	if (!c->question && monotonic_ns() >= c->not_before_ns)
		send_at(c, 0);
}

void http_client_wake(struct http_client *c)
{
	eventfd_write(c->wake_fd, 1);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct http_client *c = arg;
	eventfd_t times;
	(void)what;
	eventfd_read(fd, &times);
	c->o.due(c->o.ctx, c);
	c->wait_ns = c->not_before_ns = 0;
	if (!c->question)
		send_at(c, 0);
}

/* ---- the end ---- */

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct http_client *c = arg;
	uint64_t most_ns = c->end_most_ns;
	const struct timeval most = {.tv_sec = (time_t)(most_ns / 1000000000),
				     .tv_usec = (suseconds_t)(most_ns % 1000000000 / 1000)};
	(void)fd;
	(void)what;
	c->ending = true;
	event_del(c->due);
	event_del(c->wakes);
	event_add(c->over, &most);
	c->o.due(c->o.ctx, c);
	if (!c->question)
		send_at(c, 0);
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(((struct http_client *)arg)->base);
}

/* ---- its life ---- */

static void *run(void *arg)
{
	event_base_dispatch(((struct http_client *)arg)->base);
	return NULL;
}

static int make(struct http_client *c, struct err *e)
{
	const struct timeval interval = {
		.tv_sec = (time_t)(c->o.interval_ns / 1000000000),
		.tv_usec = (suseconds_t)(c->o.interval_ns % 1000000000 / 1000)};
	int rc = c->o.to.tls ? http_tls_client(&c->tls, c->o.ca_file, e) : 0;
	if (rc)
		return rc;
	c->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->base = event_base_new();
	if (c->base) {
		c->due = event_new(c->base, -1, EV_PERSIST, on_due, c);
		c->next = evtimer_new(c->base, on_next, c);
		c->late = evtimer_new(c->base, on_late, c);
		c->over = evtimer_new(c->base, on_over, c);
		c->ends = event_new(c->base, c->end_fd, EV_READ, on_end, c);
		c->wakes = event_new(c->base, c->wake_fd, EV_READ | EV_PERSIST, on_wake, c);
	}
	if (c->end_fd < 0 || c->wake_fd < 0 || !c->ends || !c->wakes || !c->due || !c->next ||
	    !c->late || !c->over || event_add(c->ends, NULL) || event_add(c->wakes, NULL) ||
	    event_add(c->due, &interval))
		return err_set(e, ENOMEM, "cannot start the HTTP client");
	return 0;
}

int http_client_open(struct http_client **ret, const struct http_client_options *o, struct err *e)
{
	struct http_client *c = xcalloc(1, sizeof(*c));
	c->o = *o;
	c->end_fd = c->wake_fd = -1;
	c->family = AF_INET;
	c->random = realtime_ns();
	pthread_mutex_init(&c->lock, NULL);
	int rc = make(c, e);
	if (rc)
		http_client_close(c, 0);
	else
		*ret = c;
	return rc;
}

int http_client_start(struct http_client *c, struct err *e)
{
	int rc = thread_start(&c->thread, run, c, "eacgm-push");
	c->runs = !rc;
	return rc ? err_set(e, -rc, "cannot start a thread: %s", strerror(-rc)) : 0;
}

static void free_events(struct http_client *c)
{
	struct event *events[] = {c->due, c->next, c->late, c->ends, c->over, c->wakes};
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i])
			event_free(events[i]);
}

void http_client_close(struct http_client *c, uint64_t most_ns)
{
	if (!c)
		return;
	c->end_most_ns = most_ns;
	if (c->runs && eventfd_write(c->end_fd, 1) == 0)
		pthread_join(c->thread, NULL);
	free_connection(c);
	if (c->dns)
		evdns_base_free(c->dns, 0);
	free_events(c);
	if (c->base)
		event_base_free(c->base);
	for (size_t i = 0; i < c->queue.len; i++) {
		buf_free(&c->queue.data[i].body);
		free(c->queue.data[i].query);
	}
	vec_free(&c->queue);
	http_tls_free(c->tls);
	if (c->end_fd >= 0)
		close(c->end_fd);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
