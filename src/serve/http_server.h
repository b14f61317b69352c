/* http_server.h - answers HTTP/1.1 on one address, on a thread of its own: libevent's evhttp. Knows
 * nothing of what it answers: that is in the host's table of paths.
 *
 * Everything that a client sends is bounded: its headers, its body, and the time that it may take
 * for either. TLS and a token are the host's to ask for: it decides which addresses are safe
 * without. Where there is a token, no path is answered to who does not say it but a route's that is
 * open; where there is none, only root and this process's user may POST.
 *
 * A route whose answers take a while is answered aside (http_aside.h): others do not wait for it.
 *
 * A route may stream: who asks is given its answer again and again, once a second, until it hangs
 * up. The answer is made once for all of them; who does not read is cut off. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct http_question {
	const char *path;   /* decoded, begins with '/' */
	const char *query;  /* what follows '?', as it was sent; "" if nothing does */
	const char *accept; /* the header, "" if there is none */
	const char *body;   /* ends in a NUL */
	size_t body_len;
};

/* As the host leaves it. */
struct http_answer {
	int status;	    /* 200 unless told */
	const char *type;   /* Content-Type; text/plain unless told */
	const char *policy; /* Content-Security-Policy, or NULL; valid until the next question */
	struct buf body;
	/* In place of the body: the first bytes of a file, which the server closes. */
	bool from_file;
	int fd;
	uint64_t file_bytes;
	bool save; /* browsers keep it as a file, of the path's name, and do not show it */
};

struct http_route {
	const char *path; /* whole: "/metrics"; one that ends in '/' but "/": all below it */
	bool posts;	  /* POST, else GET and HEAD; where there is no token: by root and by this
			   * process's own user alone, as http_peer.h tells */
	/* On the server's thread, one at a time; of those that are aside on theirs. */
	void (*answer)(void *ctx, const struct http_question *q, struct http_answer *ret);
	bool aside;   /* GET: its answer takes a while, and is made on another thread */
	bool streams; /* GET: see above; the question of the answer has no more than its path */
	/* Only for who asks a number or "localhost": a page from elsewhere, whose name was made to
	 * lead here, may not read it. */
	bool guarded;
	/* GET: whether who says no token is answered, by what is accepted ("" if nothing is said);
	 * NULL: nobody is. What it answers then is for anybody to read. */
	bool (*open)(const char *accept);
};

struct http_server;

struct http_server_options {
	const char *address;		  /* numeric, "127.0.0.1" or "::1" */
	uint16_t port;			  /* 0: one that is free */
	const char *cert_file, *key_file; /* of TLS; NULL: there is none */
	const char *token_file;		  /* NULL: no token is asked for */
	const char
		*no_post;  /* a sentence, for who may not POST; NULL: none; as long as the server */
	const int *socket; /* listens there already, and is duplicated; NULL: one is made */
	/* These live as long as the server. */
	const struct http_route *routes;
	size_t routes_len;
	void *ctx;
};

/* Files are read here. The socket listens when this returns; nothing is answered before
 * http_server_start. */
int http_server_open(struct http_server **ret, const struct http_server_options *o, struct err *e);
int http_server_start(struct http_server *s, struct err *e);
uint16_t http_server_port(const struct http_server *s);
/* The socket that listens; the server's. */
int http_server_socket(const struct http_server *s);
/* Whether a socket listens at an address and a port, 0: any. */
bool http_socket_is_at(int fd, const char *address, uint16_t port);
/* Open answers are cut off. NULL: nothing. */
void http_server_close(struct http_server *s);
