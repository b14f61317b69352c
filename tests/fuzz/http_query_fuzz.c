/* http_query_fuzz.c - what follows '?' in an address that a server is asked for: a number is one of
 * digits, and all else is refused.
 *
 * links: serve base */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/http_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	uint64_t value = 7;
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	int rc = http_query_u64(text, "from", &value);
	if (rc && (rc != -EINVAL || value != 7))
		abort();
	if (!rc && value != 7 && !strpbrk(text, "0123456789%"))
		abort();
	free(text);
	return 0;
}
