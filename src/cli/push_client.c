/* push_client.c - bodies wait here for the client's thread, which compresses them; in its queue
 * they wait for the receiver. */
#include "cli/push_client.h"

#include <pthread.h>
#include <string.h>

#include "serve/http_auth.h"

#define MADE_BYTES  (32u << 20) /* of those that wait here, the newest apart */
#define QUEUE_BYTES (8u << 20)	/* of those in the client's queue, compressed */
#define LAST_NS	    3000000000ULL

struct push_client {
	struct push_client_options o;
	struct http_client *client;
	struct pairs headers;
	struct http_header header_list[PUSH_PAIRS];
	pthread_mutex_t lock; /* of what follows */
	VEC(struct http_post) made;
	size_t made_bytes;
	uint64_t made_ns, dropped;
};

/* ---- bodies ---- */

static void post_free(struct http_post *p)
{
	buf_free(&p->body);
	free(p->query);
}

/* The oldest goes; the lock is held. */
static void make_room(struct push_client *c)
{
	size_t n = 0;
	while (c->made.len - n > HTTP_CLIENT_POSTS ||
	       (c->made.len - n > 1 && c->made_bytes > MADE_BYTES)) {
		c->made_bytes -= c->made.data[n].body.len;
		post_free(&c->made.data[n++]);
	}
	c->dropped += n;
	c->made.len -= n;
	if (n)
		memmove(c->made.data, &c->made.data[n], c->made.len * sizeof(c->made.data[0]));
}

void push_client_put(struct push_client *c, struct http_post *p)
{
	if (!p->body.len) {
		post_free(p);
		return;
	}
	pthread_mutex_lock(&c->lock);
	*vec_push(&c->made) = *p;
	c->made_bytes += p->body.len;
	make_room(c);
	pthread_mutex_unlock(&c->lock);
}

void push_client_wake(struct push_client *c)
{
	http_client_wake(c->client);
}

static void on_due(void *ctx, struct http_client *client)
{
	struct push_client *c = ctx;
	if (c->o.due)
		c->o.due(c->o.ctx, c);
	pthread_mutex_lock(&c->lock);
	typeof(c->made) made = c->made;
	memset(&c->made, 0, sizeof(c->made));
	c->made_bytes = 0;
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; i < made.len; i++)
		http_client_put(client, &made.data[i]);
	vec_free(&made);
}

static void on_taken(void *ctx, const char *path, const uint8_t *answer, size_t n)
{
	struct push_client *c = ctx;
	if (c->o.taken)
		c->o.taken(c->o.ctx, path, answer, n);
}

static void on_say(void *ctx, const char *sentence)
{
	struct push_client *c = ctx;
	c->o.say(c->o.ctx, sentence);
}

/* ---- figures ---- */

void push_client_dropped(struct push_client *c, uint64_t n)
{
	pthread_mutex_lock(&c->lock);
	c->dropped += n;
	pthread_mutex_unlock(&c->lock);
}

void push_client_took(struct push_client *c, uint64_t ns)
{
	pthread_mutex_lock(&c->lock);
	c->made_ns = ns;
	pthread_mutex_unlock(&c->lock);
}

void push_client_stats(struct push_client *c, struct agent_pushed *ret)
{
	struct http_client_stats s;
	http_client_stats(c->client, &s);
	*ret = (struct agent_pushed){.to = c->o.to,
				     .sent = s.sent,
				     .bytes = s.sent_bytes,
				     .raw_bytes = s.raw_bytes,
				     .failures = s.failures,
				     .refused = s.refused,
				     .dropped = s.dropped,
				     .waiting = s.waiting};
	pthread_mutex_lock(&c->lock);
	ret->dropped += c->dropped;
	ret->made_ns = c->made_ns;
	pthread_mutex_unlock(&c->lock);
}

/* ---- its life ---- */

static int read_token(struct push_client *c, const char *path, struct err *e)
{
	char *token;
	int rc = http_token_read(&token, path, e);
	if (rc)
		return rc;
	char *pair = xasprintf("Authorization=Bearer %s", token);
	rc = pairs_add(&c->headers, pair, strlen(pair), false, path, e);
	free(pair);
	free(token);
	return rc;
}

static int read_headers(struct push_client *c, const struct push_wanted *w, struct err *e)
{
	int rc = w->headers ? pairs_add_headers(&c->headers, w->headers, c->o.header_option, e) : 0;
	if (!rc && w->token_file)
		rc = read_token(c, w->token_file, e);
	if (!rc)
		rc = pairs_add_list(&c->headers, w->more_headers, c->o.variable, e);
	if (!rc)
		rc = pairs_check_headers(&c->headers, c->o.variable, e);
	for (size_t i = 0; !rc && i < c->headers.len; i++)
		c->header_list[i] = (struct http_header){c->headers.names[i], c->headers.values[i]};
	return rc;
}

static int open_client(struct push_client *c, const struct push_wanted *w, struct err *e)
{
	struct http_client_options o = {.ca_file = w->ca_file,
					.headers = c->header_list,
					.headers_len = c->headers.len,
					.interval_ns = w->interval_ns,
					.timeout_ns = w->timeout_ns,
					.most_bytes = QUEUE_BYTES,
					.apart = c->o.rare,
					.ctx = c,
					.due = on_due,
					.taken = on_taken,
					.say = on_say};
	int rc = http_url_parse(&o.to, w->url, e);
	return rc ? err_wrap(e, rc, "--%s", c->o.option) : http_client_open(&c->client, &o, e);
}

int push_client_open(struct push_client **ret, const struct push_wanted *w,
		     const struct push_client_options *o, struct err *e)
{
	struct push_client *c = xcalloc(1, sizeof(*c));
	pthread_mutex_init(&c->lock, NULL);
	c->o = *o;
	int rc = read_headers(c, w, e);
	if (!rc)
		rc = open_client(c, w, e);
	if (rc)
		push_client_close(c);
	else
		*ret = c;
	return rc;
}

int push_client_start(struct push_client *c, struct err *e)
{
	return http_client_start(c->client, e);
}

void push_client_close(struct push_client *c)
{
	if (!c)
		return;
	http_client_close(c->client, c->o.rare ? 0 : LAST_NS);
	for (size_t i = 0; i < c->made.len; i++)
		post_free(&c->made.data[i]);
	vec_free(&c->made);
	pairs_free(&c->headers);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
