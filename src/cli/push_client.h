/* push_client.h - one receiver of what an agent pushes: its client with the headers that it asks
 * for, a list of bodies that any thread puts in, and the figures of both. What the bodies are, and
 * what an answer says, is for who owns it. */
#pragma once

#include "cli/push_pairs.h"
#include "serve/agent_series.h"
#include "serve/http_client.h"

/* As told: strings live as long as the client. */
struct push_wanted {
	const char *url;	    /* NULL: nothing is pushed */
	const char *ca_file;	    /* NULL: the host's */
	const struct args *headers; /* its options header_option, "NAME=VALUE"; NULL: none */
	const char *more_headers;   /* "name=value,name=value", percent-encoded; or NULL */
	const char *token_file; /* it is said to the receiver: serve/http_auth.h; NULL: none is */
	uint64_t interval_ns, timeout_ns;
};

struct push_client;
struct push_client_options {
	const char *to;			      /* "otlp": its name in series */
	const char *option;		      /* "otlp": what told the URL, for sentences */
	const char *header_option, *variable; /* what told headers and more of them; or NULL */
	void *ctx;
	/* Each interval, and when it is closed, on its thread: push_client_put what is due. NULL:
	 * others put alone. */
	void (*due)(void *ctx, struct push_client *c);
	/* See http_client.h; NULL: answers say nothing. */
	void (*taken)(void *ctx, const char *path, const uint8_t *answer, size_t n);
	void (*say)(void *ctx, const char *sentence);
	/* What is put comes rarely and is soon of no use: each body has a connection of its own,
	 * and what waits when it is closed is dropped. */
	bool rare;
};

/* Before privileges are given up: files are read. Starts no thread. -EINVAL and others with a
 * sentence. */
int push_client_open(struct push_client **ret, const struct push_wanted *w,
		     const struct push_client_options *o, struct err *e);
int push_client_start(struct push_client *c, struct err *e);
/* Brings the last there is, for three seconds at most, unless it is rare. NULL: nothing. */
void push_client_close(struct push_client *c);

/* From any thread, until it is closed. Takes the body and the query, which are brought when the
 * interval is over; what is too much by then is dropped, the oldest first, and counted. A body of
 * no bytes is none. */
void push_client_put(struct push_client *c, struct http_post *p);
/* From any thread, likewise: the interval is over now. */
void push_client_wake(struct push_client *c);
/* Counts what was never made, and what it took to make what was put last. From any thread. */
void push_client_dropped(struct push_client *c, uint64_t n);
void push_client_took(struct push_client *c, uint64_t ns);
void push_client_stats(struct push_client *c, struct agent_pushed *ret);
