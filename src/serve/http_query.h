/* http_query.h - what follows '?' in an address: "from=1&to=2". */
#pragma once

#include <stdint.h>

/* The first value of that name as a number, digits alone; *ret stays where there is none of it.
 * -EINVAL: it is no such number, or the query none. */
int http_query_u64(const char *query, const char *name, uint64_t *ret);
