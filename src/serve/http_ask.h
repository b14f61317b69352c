/* http_ask.h - asks one question of a server on this host, and waits for the answer: libevent's
 * evhttp. No TLS, no redirects; what comes back is bounded in size and time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct http_reply {
	int status;
	struct buf body; /* the caller's */
};

/* address: numeric. token: that is said (http_auth.h), or NULL. path: begins with '/', and is
 * encoded. posts: POST, without a body, else GET. 0, or negative errno with the sentence: nobody
 * answers there. */
int http_ask(struct http_reply *ret, const char *address, uint16_t port, const char *token,
	     bool posts, const char *path, struct err *e);
