/* caching_allocator.h - the functions of PyTorch's caching allocator that eacgm traces, by the
 * names that they have in libc10_cuda.so (c10/cuda/CUDACachingAllocator.cpp). */
#pragma once

#include <cstddef>

struct CUstream_st;

namespace c10::cuda::CUDACachingAllocator::Native
{

class NativeCachingAllocator
{
      public:
	/* As there: size is what the tensor asks for; the address lies in a larger block. */
	void malloc(void **ret, signed char device, size_t size, CUstream_st *stream);
	void free(void *address);
};

/* What a tensor's memory is given back by; it does not call free(). */
using deleter = void (*)(void *);
deleter raw_deleter();

} // namespace c10::cuda::CUDACachingAllocator::Native
