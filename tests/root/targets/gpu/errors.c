/* errors.c - calls that fail, with the code of each: errors N. Prints "error FUNCTION CODE
 * CALLS" lines, and "FUNCTION CALLS" of questions whose answer is no error. */
#include "gpu.h"

STUBS = {0};

static void expect_error(const char *function, int code, int rc, unsigned n)
{
	fails(rc, code, function);
	if (n)
		printf("error %s %d %u\n", function, code, n);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	CUmodule module;
	CUfunction f;
	CUstream stream;
	CUdeviceptr p;
	dim3 one = {1, 1, 1}, wide = {2048, 1, 1};
	register_kernels();
	MUST(cuInit(0));
	MUST(cuModuleLoadData(&module, "image"));
	MUST(cuModuleGetFunction(&f, module, "plain_kernel"));
	MUST(cuStreamCreate(&stream, 0));
	for (unsigned i = n; i-- > 0;) { /* says it the last time */
		unsigned times = i ? 0 : n;
		expect_error("cuMemAlloc_v2", 2, cuMemAlloc_v2(&p, 1ull << 50), times);
		expect_error("cuMemAllocAsync", 1, cuMemAllocAsync(&p, 0, stream), times);
		expect_error("cuLaunchKernel", 701,
			     cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, stream, NULL, NULL), times);
		expect_error("cuModuleGetFunction", 500,
			     cuModuleGetFunction(&f, module, "missing_kernel"), times);
		expect_error("cuMemFreeAsync", 1, cuMemFreeAsync(0x42, stream), times);
		expect_error("cudaMalloc", 1, cudaMalloc(NULL, 10), times);
		expect_error("cudaMemcpy", 21, cudaMemcpy(&p, &p, 8, 9), times);
	}
	/* both levels say so */
	expect_error("cudaFree", 1, cudaFree((void *)0x77), 1);
	expect_error("cuMemFree_v2", 1, cuMemFree_v2(0x77), 2);
	expect_error("cudaLaunchKernel", 98, cudaLaunchKernel("none", one, one, NULL, 0, NULL), 1);
	expect_error("cudaLaunchKernel", 701,
		     cudaLaunchKernel(&gpu_stubs[0], one, wide, NULL, 0, NULL), 1);
	printf("error cuLaunchKernel 701 1\n");
	for (int i = 0; i < 3; i++)
		FAILS(CUDA_ERROR_NOT_READY, i ? cuStreamQuery(stream) : cudaStreamQuery(stream));
	MUST(cuStreamQuery(stream));
	printf("cuStreamQuery 4\ncudaStreamQuery 1\n");
	return 0;
}
