/* jit_names_fuzz.c - hostile maps and jitdump files: what programs write of the code that they
 * make.
 *
 * links: base symbolize */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/jit_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(void *ctx, size_t i, const char *text)
{
	if (i >= *(const size_t *)ctx || !text[0] || strlen(text) >= JIT_NAME_BYTES)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t addresses[] = {0, 0x1000, 0x1001, 0x2000, 0x7f0000001000, UINT64_MAX};
	size_t n = sizeof(addresses) / sizeof(addresses[0]);
	jit_names_find(data, size, addresses, n, check, &n);
	return 0;
}
