/* cupti_client.c - the least that a client of CUPTI's activity records can be, to compare the
 * timeline with: it asks for kernels, copies and sets, goes through the records and counts them.
 *
 * CUDA loads it (CUDA_INJECTION64_PATH). At the process's end it says on the standard error how
 * many records of each kind there were. Finds CUPTI as the shim does, and hands over buffers of
 * the same size; flushes at no intervals. Where CUPTI_CLIENT_LAUNCHES is set it asks for the
 * driver's launches too, as the shim does, which tell the thread of a kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "find.h"

#define BUFFER_BYTES (1u << 20)

__attribute__((visibility("default"))) int InitializeInjection(void);

static struct cupti cupti;
static unsigned long kernels, others, dropped;

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void on_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	*buffer = aligned_alloc(64, BUFFER_BYTES);
	*bytes = *buffer ? BUFFER_BYTES : 0;
	*most_records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			size_t valid_bytes)
{
	void *record = NULL;
	size_t lost = 0;
	(void)context, (void)stream, (void)bytes;
	while (!cupti.ActivityGetNextRecord(buffer, valid_bytes, &record)) {
		uint32_t kind = ((const struct cupti_record *)record)->kind;
		if (kind == CUPTI_KIND_KERNEL || kind == CUPTI_KIND_CONCURRENT_KERNEL)
			__atomic_fetch_add(&kernels, 1, __ATOMIC_RELAXED);
		else
			__atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
	}
	if (!cupti.ActivityGetNumDroppedRecords(NULL, 0, &lost))
		__atomic_fetch_add(&dropped, lost, __ATOMIC_RELAXED);
	free(buffer);
}

static void say(void)
{
	cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
	fprintf(stderr, "cupti_client: %lu kernels, %lu copies and sets, %lu dropped\n", kernels,
		others, dropped);
}

int InitializeInjection(void)
{
	static const uint32_t kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY,
					 CUPTI_KIND_MEMSET, CUPTI_KIND_MEMCPY2};
	/* cuLaunchKernel, cuLaunchCooperativeKernel, cuLaunchKernelEx, each with _ptsz: see
	 * inject/driver_calls.c */
	static const uint32_t launches[] = {307, 442, 477, 478, 652, 653};
	char path[512] = "";
	const char *missing = cupti_find(&cupti, path, sizeof(path));
	int rc = 0;
	if (!missing && cupti.ActivityRegisterTimestampCallback)
		rc = cupti.ActivityRegisterTimestampCallback(now_ns);
	if (!missing && !rc)
		rc = cupti.ActivityRegisterCallbacks(on_request, on_complete);
	for (int i = 0; i < 4 && !missing && !rc; i++)
		rc = cupti.ActivityEnable(kinds[i]);
	if (!missing && !rc && getenv("CUPTI_CLIENT_LAUNCHES"))
		for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++)
			cupti.ActivityEnableDriverApi(launches[i], 1);
	if (missing || rc)
		fprintf(stderr, "cupti_client: %s (%d)\n", missing ? missing : "refused", rc);
	else
		atexit(say);
	return 1;
}
