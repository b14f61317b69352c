/* http_url.h - where to send: "http://host:4318/base", of which every part is bounded. And when to
 * try again, as a server says. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define HTTP_HOST_BYTES 256
#define HTTP_PATH_BYTES 512

struct http_url {
	bool tls; /* https */
	char host[HTTP_HOST_BYTES];
	uint16_t port;
	char path[HTTP_PATH_BYTES]; /* "" or "/base": does not end in '/' */
};

/* Without a port: 80 or 443. A user, a query or a fragment in it is refused. */
int http_url_parse(struct http_url *ret, const char *text, struct err *e);

/* Whether the host is an address, so that no name has to be resolved. */
bool http_url_is_address(const struct http_url *u);

/* A header Retry-After: seconds, or a date of RFC 9110. In how many ns, 0 where it is neither; at
 * most HTTP_RETRY_MOST_NS. */
#define HTTP_RETRY_MOST_NS 600000000000ULL
uint64_t http_retry_after(const char *text, uint64_t now_realtime_ns);
