/* caching_allocator.cc - a libc10_cuda.so that gives out addresses and nothing behind them. */
#include "caching_allocator.h"

#include <cstdint>

namespace c10::cuda::CUDACachingAllocator::Native
{

static uintptr_t next_address = 0x7f0000000000;
static volatile unsigned long given_back;

__attribute__((noinline)) void NativeCachingAllocator::malloc(void **ret, signed char, size_t size,
							      CUstream_st *)
{
	*ret = reinterpret_cast<void *>(next_address);
	next_address += (size + 511) / 512 * 512;
}

__attribute__((noinline)) void NativeCachingAllocator::free(void *)
{
	given_back++;
}

__attribute__((noinline, used)) static void local_raw_delete(void *)
{
	given_back += 2;
}

deleter raw_deleter()
{
	return local_raw_delete;
}

} // namespace c10::cuda::CUDACachingAllocator::Native
