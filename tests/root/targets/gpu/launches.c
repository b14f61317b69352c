/* launches.c - launches kernels through runtime and driver: launches N [UNKNOWN].
 *
 * Every kernel N times and more in each way, with dimensions of its own; UNKNOWN launches of
 * handles that no call named and that hold no name. Prints a line for each launch that is
 * made: "launch TIMES GRID BLOCK SHARED STREAM NAME", and "FUNCTION CALLS". */
#include "gpu.h"

STUBS = {0};

static unsigned runtime_launches, driver_launches;

static void through_runtime(unsigned n, unsigned i, CUstream stream)
{
	dim3 grid = {i + 1, 2, 3}, block = {32 * (i + 1), 2, 1};
	for (unsigned k = 0; k < n + i; k++)
		MUST(cudaLaunchKernel(&gpu_stubs[i], grid, block, NULL, 1024 * i, stream));
	say_launch(n + i, grid, block, 1024 * i, stream, kernel_name(i));
	cudaLaunchConfig_t c = {{7, i + 1, 1}, {64, 1, 4}, 512 + i, stream, NULL, 0};
	for (unsigned k = 0; k < n; k++)
		MUST(cudaLaunchKernelExC(&c, &gpu_stubs[i], NULL));
	say_launch(n, c.grid, c.block, 512 + i, stream, kernel_name(i));
	MUST(cudaLaunchCooperativeKernel(&gpu_stubs[i], grid, block, NULL, 0, stream));
	say_launch(1, grid, block, 0, stream, kernel_name(i));
	runtime_launches += 2 * n + i + 1;
}

/* The largest grid that there is, and a handle made of another one. */
static void through_driver(unsigned n, unsigned i, CUmodule module, CUstream stream)
{
	CUfunction f, alias;
	MUST(cuModuleGetFunction(&f, module, kernel_name(i)));
	MUST(cuKernelGetFunction(&alias, f));
	dim3 grid = {2147483647, 65535, 65535}, block = {1, 16, 64};
	for (unsigned k = 0; k < n; k++)
		MUST(cuLaunchKernel(f, grid.x, grid.y, grid.z, 1, 16, 64, 48 << 10, stream, NULL,
				    NULL));
	say_launch(n, grid, block, 48 << 10, stream, kernel_name(i));
	dim3 one = {1, 1, 1};
	MUST(cuLaunchKernel_ptsz(alias, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	say_launch(1, one, one, 0, NULL, kernel_name(i));
	dim3 wide = {1, 2, i + 3};
	CUlaunchConfig c = {1, 2, i + 3, 1, 1, 1, 100, stream, NULL, 0};
	MUST(cuLaunchKernelEx(&c, alias, NULL, NULL));
	say_launch(1, wide, one, 100, stream, kernel_name(i));
	MUST(cuLaunchCooperativeKernel(f, 4, 5, 6, 1, 1, 1, 0, stream, NULL));
	say_launch(1, (dim3){4, 5, 6}, one, 0, stream, kernel_name(i));
	driver_launches += n + 3;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	unsigned unknown = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	CUstream streams[2];
	CUmodule module;
	CUcontext context;
	register_kernels();
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuModuleLoadData(&module, "image"));
	MUST(cuStreamCreate(&streams[0], 0));
	MUST(cuStreamCreate(&streams[1], 1));
	for (unsigned i = 0; i < KERNELS; i++) {
		through_runtime(n, i, streams[i % 2]);
		through_driver(n, i, module, streams[1 - i % 2]);
	}
	CUfunction nameless = calloc(1, 512);
	for (unsigned k = 0; k < unknown; k++)
		MUST(cuLaunchKernel(nameless, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	MUST(cudaDeviceSynchronize());
	if (fake_kernels_run() != runtime_launches + driver_launches + unknown)
		return 98;
	printf("runtime_launches %u\ndriver_launches %u\nunknown_launches %u\n", runtime_launches,
	       runtime_launches + driver_launches + unknown, unknown);
	return 0;
}
