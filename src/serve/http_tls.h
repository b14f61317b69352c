/* http_tls.h - TLS for both ends of HTTP, by OpenSSL: from version 1.2 on. A client asks for a
 * certificate of the host that it means, by the authorities that this host trusts or those of a
 * file. */
#pragma once

#include "base/error.h"

struct bufferevent;
struct event_base;
struct http_tls;

/* ca_file NULL: where distributions keep theirs. */
int http_tls_client(struct http_tls **ret, const char *ca_file, struct err *e);
/* Both in PEM; the certificate with those between it and its authority behind it. */
int http_tls_server(struct http_tls **ret, const char *cert_file, const char *key_file,
		    struct err *e);
void http_tls_free(struct http_tls *t);

/* Of a connection that is to be made, NULL for want of memory. host: its name or address. */
struct bufferevent *http_tls_connect(struct http_tls *t, struct event_base *base, const char *host);
/* Of one that evhttp accepts. */
struct bufferevent *http_tls_accept(struct http_tls *t, struct event_base *base);
/* Why the connection failed: "self-signed certificate"; NULL: not for TLS. */
const char *http_tls_problem(struct bufferevent *b);
