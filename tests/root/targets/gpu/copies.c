/* copies.c - copies and fills of every kind: copies N. Prints "copy KIND DIRECTION CALLS
 * BYTES" with what is true of the program, and "FUNCTION CALLS". */
#include "gpu.h"

static struct {
	const char *kind, *direction;
	uint64_t calls, bytes;
} sums[] = {{"copy", "HtoD", 0, 0}, {"copy", "DtoH", 0, 0}, {"copy", "DtoD", 0, 0},
	    {"copy", "HtoH", 0, 0}, {"copy", "PtoP", 0, 0}, {"set", "-", 0, 0}};
enum { HTOD, DTOH, DTOD, HTOH, PTOP, SET };

static void add(int which, uint64_t bytes)
{
	sums[which].calls++;
	sums[which].bytes += bytes;
}

static CUdeviceptr p, q;
static char *pinned;
static char pageable[4096];
static CUstream stream;

static void one_way(uint64_t n)
{
	MUST(cuMemcpyHtoD_v2(p, pageable, n));
	add(HTOD, n);
	MUST(cuMemcpyHtoD_v2_ptds(p, pageable, 2 * n));
	add(HTOD, 2 * n);
	MUST(cuMemcpyHtoDAsync_v2(p, pinned, 3 * n, stream));
	add(HTOD, 3 * n);
	MUST(cuMemcpyHtoDAsync_v2_ptsz(p, pinned, n + 1, NULL));
	add(HTOD, n + 1);
	MUST(cuMemcpyDtoH_v2(pinned, p, n + 5));
	add(DTOH, n + 5);
	MUST(cuMemcpyDtoHAsync_v2(pinned, p, n + 6, stream));
	add(DTOH, n + 6);
	MUST(cuMemcpyDtoD_v2(p, q, 7 * n));
	add(DTOD, 7 * n);
	MUST(cuMemcpyDtoDAsync_v2(q, p, 8 * n, stream));
	add(DTOD, 8 * n);
}

/* Where these lead is said by what the addresses are. */
static void unified(uint64_t n)
{
	MUST(cuMemcpy(p, (CUdeviceptr)pinned, n));
	add(HTOD, n);
	MUST(cuMemcpyAsync((CUdeviceptr)pinned, p + 64, n, stream));
	add(DTOH, n);
	MUST(cuMemcpyAsync(q, p, n, stream));
	add(DTOD, n);
	MUST(cuMemcpy((CUdeviceptr)pinned, (CUdeviceptr)pinned + 1024, n));
	add(HTOH, n);
}

static void blocks(CUcontext context)
{
	CUDA_MEMCPY2D flat = {.source_type = CU_MEMORYTYPE_HOST,
			      .destination_type = CU_MEMORYTYPE_DEVICE,
			      .width = 100,
			      .height = 7};
	MUST(cuMemcpy2D_v2(&flat));
	add(HTOD, 700);
	flat.source_type = CU_MEMORYTYPE_DEVICE;
	MUST(cuMemcpy2DAsync_v2(&flat, stream));
	add(DTOD, 700);
	CUDA_MEMCPY3D deep = {.source_type = CU_MEMORYTYPE_DEVICE,
			      .destination_type = CU_MEMORYTYPE_HOST,
			      .width = 10,
			      .height = 20,
			      .depth = 30};
	MUST(cuMemcpy3D_v2(&deep));
	add(DTOH, 6000);
	MUST(cuMemcpy3DAsync_v2(&deep, stream));
	add(DTOH, 6000);
	MUST(cuMemcpyPeer(p, context, q, context, 4321));
	add(PTOP, 4321);
	MUST(cuMemcpyPeerAsync(p, context, q, context, 1234, stream));
	add(PTOP, 1234);
}

static void fills(void)
{
	MUST(cuMemsetD8_v2(p, 0, 11));
	add(SET, 11);
	MUST(cuMemsetD16_v2(p, 0, 11));
	add(SET, 22);
	MUST(cuMemsetD32_v2(p, 0, 11));
	add(SET, 44);
	MUST(cuMemsetD8Async(p, 0, 13, stream));
	add(SET, 13);
	MUST(cuMemsetD16Async(p, 0, 13, stream));
	add(SET, 26);
	MUST(cuMemsetD32Async(p, 0, 13, stream));
	add(SET, 52);
	MUST(cuMemsetD2D8_v2(p, 512, 0, 5, 6));
	add(SET, 30);
	MUST(cuMemsetD2D16_v2(p, 512, 0, 5, 6));
	add(SET, 60);
	MUST(cuMemsetD2D32_v2(p, 512, 0, 5, 6));
	add(SET, 120);
	MUST(cuMemsetD2D8Async(p, 512, 0, 7, 8, stream));
	add(SET, 56);
	MUST(cuMemsetD2D16Async(p, 512, 0, 7, 8, stream));
	add(SET, 112);
	MUST(cuMemsetD2D32Async(p, 512, 0, 7, 8, stream));
	add(SET, 224);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	CUcontext context;
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, 0));
	MUST(cuMemAlloc_v2(&p, 1 << 20));
	MUST(cuMemAlloc_v2(&q, 1 << 20));
	MUST(cuMemHostAlloc((void **)&pinned, 1 << 20, 0));
	for (unsigned i = 0; i < n; i++) {
		one_way(100 + i);
		unified(50 + i);
		blocks(context);
		fills();
	}
	FAILS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, pageable, 99999)); /* moves nothing */
	size_t size = 10;
	MUST(cuMemcpyBatchAsync(&p, &q, &size, 1, NULL, NULL, 0, NULL, stream));
	for (unsigned i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		printf("copy %s %s %lu %lu\n", sums[i].kind, sums[i].direction,
		       (unsigned long)sums[i].calls, (unsigned long)sums[i].bytes);
	printf("cuMemcpyBatchAsync 1\ncuMemcpyHtoD_v2 %u\n", n + 1);
	return 0;
}
