/* memory_owner.c - a library that asks for device memory: built several times under several names,
 * each with functions of its own (OWNER), one that calls the runtime and others that call the
 * driver. Keeps nothing but what it gives. */
#include "gpu.h"

#define NAME__(owner, what) owner##_##what
#define NAME_(owner, what)  NAME__(owner, what)
#define NAME(what)	    NAME_(OWNER, what)

void *NAME(by_runtime)(size_t bytes);
CUdeviceptr NAME(by_driver)(size_t bytes);
CUdeviceptr NAME(by_mapping)(size_t bytes, int location, uint64_t *ret_handle);

void *NAME(by_runtime)(size_t bytes)
{
	void *ret = NULL;
	MUST(cudaMalloc(&ret, bytes));
	return ret;
}

CUdeviceptr NAME(by_driver)(size_t bytes)
{
	CUdeviceptr ret = 0;
	MUST(cuMemAlloc_v2(&ret, bytes));
	return ret;
}

/* location: 1 the device, 3 a NUMA node of the host. */
CUdeviceptr NAME(by_mapping)(size_t bytes, int location, uint64_t *ret_handle)
{
	CUmemAllocationProp prop = {.type = 1, .location_type = location, .location_id = 0};
	CUdeviceptr ret = 0;
	MUST(cuMemAddressReserve(&ret, bytes, 0, 0, 0));
	MUST(cuMemCreate(ret_handle, bytes, &prop, 0));
	MUST(cuMemMap(ret, bytes, 0, *ret_handle, 0));
	return ret;
}
