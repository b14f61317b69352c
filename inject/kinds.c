/* kinds.c - kernels, copies, sets, waits where they are asked for, and the driver's calls that
 * start work. Reads no records. */
#include "kinds.h"

#include <stddef.h>

#include "driver_calls.h"
#include "wire/gpu_ring.h"

static const uint32_t kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET,
				 CUPTI_KIND_MEMCPY2};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

int kinds_enable(const struct cupti *c, unsigned options, bool *calls)
{
	for (size_t i = 0; i < KINDS; i++) {
		int rc = c->ActivityEnable(kinds[i]);
		if (rc)
			return rc;
	}
	if (options & GPU_OPTION_WAITS)
		c->ActivityEnable(CUPTI_KIND_SYNCHRONIZATION);
	*calls = driver_calls_enable(c);
	return 0;
}

void kinds_disable(const struct cupti *c)
{
	for (size_t i = 0; i < KINDS; i++)
		c->ActivityDisable(kinds[i]);
	c->ActivityDisable(CUPTI_KIND_SYNCHRONIZATION);
	driver_calls_disable(c);
}
