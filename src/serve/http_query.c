/* http_query.c - by libevent's parser. */
#include "serve/http_query.h"

#include <errno.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *text, uint64_t *ret)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (!*text || strspn(text, "0123456789") != strlen(text) || *end || errno)
		return -EINVAL;
	*ret = v;
	return 0;
}

int http_query_u64(const char *query, const char *name, uint64_t *ret)
{
	struct evkeyvalq pairs = {0};
	int rc = 0;
	if (!*query)
		return 0;
	if (evhttp_parse_query_str(query, &pairs))
		return -EINVAL;
	const char *value = evhttp_find_header(&pairs, name);
	if (value)
		rc = number(value, ret);
	evhttp_clear_headers(&pairs);
	return rc;
}
