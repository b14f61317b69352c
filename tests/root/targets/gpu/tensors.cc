/* tensors.cc - a program that keeps some of what it allocates from the caching allocator, and
 * tells of each function how much that is: "held FUNCTION BYTES", and "peak BYTES". */
#include <cstdio>
#include <vector>

#include "caching_allocator.h"

namespace native = c10::cuda::CUDACachingAllocator::Native;

static native::NativeCachingAllocator allocator;
static size_t live, peak;

struct tensor {
	void *address;
	size_t size;
};

__attribute__((noinline)) static tensor make(size_t size)
{
	tensor t{nullptr, size};
	allocator.malloc(&t.address, 0, size, nullptr);
	live += size;
	peak = live > peak ? live : peak;
	return t;
}

static void drop(const tensor &t, bool by_deleter)
{
	if (by_deleter)
		native::raw_deleter()(t.address);
	else
		allocator.free(t.address);
	live -= t.size;
}

extern "C" __attribute__((noinline)) size_t keep_odd()
{
	size_t sum = 0;
	for (size_t size = 1; size < 4000; size += 37)
		sum += make(size).size;
	return sum;
}

extern "C" __attribute__((noinline)) size_t keep_large()
{
	size_t sum = 0;
	for (int i = 0; i < 5; i++)
		sum += make((64 << 20) + i).size;
	return sum;
}

extern "C" __attribute__((noinline)) size_t drop_all()
{
	std::vector<tensor> tensors;
	for (int i = 0; i < 50; i++)
		tensors.push_back(make((16 << 20) + i));
	for (size_t i = 0; i < tensors.size(); i++)
		drop(tensors[i], i % 2);
	return 0;
}

int main()
{
	size_t odd = keep_odd();
	drop_all();
	size_t large = keep_large();
	std::printf("held keep_odd %zu\nheld keep_large %zu\npeak %zu\n", odd, large, peak);
	return 0;
}
