/* http_url.c - by libevent's parser, and then what it lets pass. */
#include "serve/http_url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static bool fits(const char *text, size_t size)
{
	for (const char *s = text; *s; s++)
		if (*s <= ' ' || *s > '~')
			return false;
	return strlen(text) < size;
}

static void set_host(struct http_url *ret, const char *host)
{
	size_t n = strlen(host);
	bool bracket = n > 2 && host[0] == '[' && host[n - 1] == ']';
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)(n - 2 * bracket), host + bracket);
}

static void set_path(struct http_url *ret, const char *path)
{
	size_t n = path ? strlen(path) : 0;
	while (n && path[n - 1] == '/')
		n--;
	snprintf(ret->path, sizeof(ret->path), "%.*s", (int)n, path ? path : "");
}

/* NULL: it is one that can be used. */
static const char *problem_of(const struct evhttp_uri *uri)
{
	const char *scheme = uri ? evhttp_uri_get_scheme(uri) : NULL;
	const char *host = uri ? evhttp_uri_get_host(uri) : NULL;
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	if (!scheme || (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0) ||
	    !host || !*host)
		return "is no http://HOST:PORT or https://HOST:PORT";
	if (evhttp_uri_get_userinfo(uri))
		return "has a user in it: give that as a header";
	if (evhttp_uri_get_query(uri) || evhttp_uri_get_fragment(uri))
		return "has a query or a fragment";
	if (!fits(host, HTTP_HOST_BYTES) || (path && !fits(path, HTTP_PATH_BYTES)))
		return "is too long, or holds what is no URL";
	if (evhttp_uri_get_port(uri) == 0 || evhttp_uri_get_port(uri) > 65535)
		return "has no such port";
	return NULL;
}

int http_url_parse(struct http_url *ret, const char *text, struct err *e)
{
	struct evhttp_uri *uri = evhttp_uri_parse(text);
	const char *problem = problem_of(uri);
	*ret = (struct http_url){.port = 0};
	if (!problem) {
		int port = evhttp_uri_get_port(uri);
		ret->tls = !strcasecmp(evhttp_uri_get_scheme(uri), "https");
		ret->port = (uint16_t)(port > 0 ? port : ret->tls ? 443 : 80);
		set_host(ret, evhttp_uri_get_host(uri));
		set_path(ret, evhttp_uri_get_path(uri));
	}
	if (uri)
		evhttp_uri_free(uri);
	return problem ? err_set(e, EINVAL, "'%s' %s", text, problem) : 0;
}

bool http_url_is_address(const struct http_url *u)
{
	struct in6_addr any;
	return inet_pton(AF_INET, u->host, &any) == 1 || inet_pton(AF_INET6, u->host, &any) == 1;
}

static uint64_t of_date(const char *text, uint64_t now_ns)
{
	struct tm tm = {.tm_isdst = 0};
	const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	time_t at = end && !*end ? timegm(&tm) : 0;
	uint64_t now_s = now_ns / 1000000000;
	return at > 0 && (uint64_t)at > now_s ? (uint64_t)at - now_s : 0;
}

uint64_t http_retry_after(const char *text, uint64_t now_realtime_ns)
{
	const uint64_t most_s = HTTP_RETRY_MOST_NS / 1000000000;
	size_t digits = strspn(text, "0123456789");
	uint64_t s = 0;
	if (digits && !text[digits])
		s = digits > 9 ? most_s : strtoul(text, NULL, 10);
	else
		s = of_date(text, now_realtime_ns);
	return (s < most_s ? s : most_s) * 1000000000;
}
