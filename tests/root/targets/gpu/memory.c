/* memory.c - device and host memory in every way, some of it never given back.
 *
 * Device 0: freed and kept as the table says; device 1: one allocation, kept. Prints
 * "FUNCTION CALLS", and "memory DEVICE PEAK LEAKED_BYTES LEAKED_COUNT ALLOCS FREES" for each
 * device and for "host": what is true of the program. */
#include "gpu.h"

static struct sums {
	uint64_t live, peak, leaked, allocs, frees;
} device[2], host;

static void add(struct sums *s, uint64_t bytes)
{
	s->live += bytes;
	s->allocs++;
	if (s->live > s->peak)
		s->peak = s->live;
}

static void drop(struct sums *s, uint64_t bytes)
{
	s->live -= bytes;
	s->frees++;
}

static void plain(CUstream stream, void *pool)
{
	CUdeviceptr a, b, c, d, e, kept;
	size_t pitch;
	MUST(cuMemAlloc_v2(&a, 1000000));
	add(&device[0], 1000000);
	MUST(cuMemAllocManaged(&b, 3 << 20, 1));
	add(&device[0], 3 << 20);
	MUST(cuMemAllocPitch_v2(&c, &pitch, 1000, 64, 4));
	add(&device[0], pitch * 64);
	MUST(cuMemAllocAsync(&d, 12345678, stream));
	add(&device[0], 12345678);
	MUST(cuMemAllocFromPoolAsync(&e, 5000, pool, stream));
	add(&device[0], 5000);
	MUST(cuMemFree_v2(a));
	drop(&device[0], 1000000);
	MUST(cuMemFree_v2(0)); /* does nothing */
	MUST(cuMemFreeAsync(d, stream));
	drop(&device[0], 12345678);
	MUST(cuMemFree_v2(c));
	drop(&device[0], pitch * 64);
	MUST(cuMemAllocAsync_ptsz(&kept, 777777, NULL));
	add(&device[0], 777777);
	FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, 1ull << 40));
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(0x1234));
	device[0].leaked = 3; /* b, e and the last one */
	MUST(cuMemPrefetchAsync(b, 4096, 0, stream));
	MUST(cuMemPoolTrimTo(pool, 0));
	printf("cuMemAlloc_v2 2\ncuMemAllocManaged 1\ncuMemAllocPitch_v2 1\ncuMemAllocAsync 1\n"
	       "cuMemAllocAsync_ptsz 1\ncuMemAllocFromPoolAsync 1\ncuMemFree_v2 4\n"
	       "cuMemFreeAsync 1\ncuMemPrefetchAsync 1\ncuMemPoolTrimTo 1\n");
}

/* Reserve, create, map; the one that is not released is kept. */
static void mapped(void)
{
	CUmemAllocationProp prop = {.type = 1, .location_type = 1, .location_id = 0};
	CUdeviceptr p[2];
	uint64_t handle[2];
	for (int i = 0; i < 2; i++) {
		MUST(cuMemAddressReserve(&p[i], 4 << 20, 0, 0, 0));
		MUST(cuMemCreate(&handle[i], 4 << 20, &prop, 0));
		add(&device[0], 4 << 20);
		MUST(cuMemMap(p[i], 4 << 20, 0, handle[i], 0));
		MUST(cuMemSetAccess(p[i], 4 << 20, &prop, 1));
	}
	MUST(cuMemUnmap(p[0], 4 << 20));
	MUST(cuMemRelease(handle[0]));
	drop(&device[0], 4 << 20);
	MUST(cuMemAddressFree(p[0], 4 << 20));
	device[0].leaked++;
	printf("cuMemAddressReserve 2\ncuMemCreate 2\ncuMemMap 2\ncuMemSetAccess 2\n"
	       "cuMemUnmap 1\ncuMemRelease 1\ncuMemAddressFree 1\n");
}

static void pinned(void)
{
	void *a, *b, *own = malloc(65536);
	MUST(cuMemHostAlloc(&a, 100000, 0));
	add(&host, 100000);
	MUST(cuMemAllocHost_v2(&b, 200000));
	add(&host, 200000);
	MUST(cuMemHostRegister_v2(own, 65536, 0));
	add(&host, 65536);
	MUST(cuMemHostUnregister(own));
	drop(&host, 65536);
	MUST(cuMemFreeHost(a));
	drop(&host, 100000);
	host.leaked = 1;
	printf("cuMemHostAlloc 1\ncuMemAllocHost_v2 1\ncuMemHostRegister_v2 1\n"
	       "cuMemHostUnregister 1\ncuMemFreeHost 1\n");
	free(own);
}

static void say(const char *name, const struct sums *s)
{
	printf("memory %s %lu %lu %lu %lu %lu\n", name, (unsigned long)s->peak,
	       (unsigned long)s->live, (unsigned long)s->leaked, (unsigned long)s->allocs,
	       (unsigned long)s->frees);
}

int main(void)
{
	CUcontext contexts[2], popped;
	CUstream stream;
	CUdeviceptr p;
	int pool;
	MUST(cuInit(0));
	for (int i = 0; i < 2; i++)
		MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
	MUST(cuCtxSetCurrent(contexts[0]));
	MUST(cuStreamCreate(&stream, 0));
	plain(stream, &pool);
	MUST(cuCtxPushCurrent_v2(contexts[1]));
	MUST(cuMemAlloc_v2(&p, 1 << 30));
	add(&device[1], 1 << 30);
	device[1].leaked = 1;
	MUST(cuCtxPopCurrent_v2(&popped));
	mapped();
	pinned();
	printf("cuMemAlloc_v2 1\n");
	say("0", &device[0]);
	say("1", &device[1]);
	say("host", &host);
	return 0;
}
