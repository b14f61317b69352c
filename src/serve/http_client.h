/* http_client.h - brings bodies to one server by POST, gzipped, one after another, on a thread of
 * its own: libevent's evhttp. Knows nothing of what they are.
 *
 * What cannot be brought waits in a queue of bounded size, of which the oldest goes when there is
 * no room, and is tried again: at 429, 502, 503 and 504 when the server says so (Retry-After), else
 * after a second and then twice as long each time, up to a minute. Any other refusal is final: the
 * body is dropped and counted. No answer is waited for longer than the timeout, in whatever small
 * pieces it comes; answers have at most 64 KiB. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "serve/http_url.h"

#define HTTP_CLIENT_POSTS 128

struct http_header {
	const char *name, *value;
};

/* One body. */
struct http_post {
	const char *path; /* behind the URL's; borrowed for as long as the client lives */
	const char *type; /* Content-Type, likewise */
	char *query;	  /* "?a=b" behind the path, malloc'ed; NULL: none */
	bool packed;	  /* the body is compressed in its own way: it goes as it is */
	/* CLOCK_MONOTONIC: an attempt that would begin later is none, and it is dropped; 0: it is
	 * tried as long as there is room for it. */
	uint64_t until_ns;
	struct buf body;
};

struct http_client;
struct http_client_options {
	struct http_url to;
	const char *ca_file; /* for https; NULL: the host's */
	const struct http_header *headers;
	size_t headers_len;
	uint64_t interval_ns, timeout_ns;
	size_t most_bytes; /* of all that wait, compressed */
	bool apart; /* each body over a connection of its own: of one that was kept for long nobody
		     * knows whether its other end is still there */
	void *ctx;
	/* Each interval, and when the client is closed, on its thread: http_client_put what there
	 * is. */
	void (*due)(void *ctx, struct http_client *c);
	/* The server took one, and said so much; likewise. */
	void (*taken)(void *ctx, const char *path, const uint8_t *answer, size_t n);
	/* One sentence, when something changes; likewise. */
	void (*say)(void *ctx, const char *sentence);
};

struct http_client_stats {
	uint64_t sent, sent_bytes,
		raw_bytes; /* bodies that were taken; bytes on the wire, before */
	uint64_t failures; /* attempts that are, or will be, made again */
	uint64_t refused;  /* bodies that the server will never take */
	uint64_t dropped;  /* bodies that found no room, or came too late */
	uint64_t waiting, waiting_bytes;
};

/* The options' strings live as long as it. Starts no thread: what files say is read here. */
int http_client_open(struct http_client **ret, const struct http_client_options *o, struct err *e);
int http_client_start(struct http_client *c, struct err *e);
/* From any thread: as if the interval were over; and what waits is tried again at once, unless an
 * answer is waited for. */
void http_client_wake(struct http_client *c);
/* On the client's thread. Takes the body and the query. */
void http_client_put(struct http_client *c, struct http_post *p);
/* From any thread. */
void http_client_stats(struct http_client *c, struct http_client_stats *ret);
/* Brings the last there is, for at most so long. NULL: nothing. */
void http_client_close(struct http_client *c, uint64_t most_ns);
