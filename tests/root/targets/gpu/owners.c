/* owners.c - memory of a device that two libraries and the program itself ask for (memory_owner.c),
 * by the runtime, the driver and its mappings. Does a step for each line that comes, and says what
 * each then holds: "owner NAME BYTES", and "step N". Ends when nothing comes any more. */
#include "gpu.h"

void *first_by_runtime(size_t bytes);
CUdeviceptr second_by_driver(size_t bytes);
CUdeviceptr second_by_mapping(size_t bytes, int location, uint64_t *ret_handle);

static unsigned long first, second, own;
static void *runtimes[3];
static CUdeviceptr driven, mapped, mine, managed;
static uint64_t handle, host_handle;

static void say(int step)
{
	printf("owner libfirst_owner %lu\nowner libsecond_owner %lu\nowner owners %lu\nstep %d\n",
	       first, second, own, step);
	fflush(stdout);
}

static void take(void)
{
	for (int i = 0; i < 3; i++)
		runtimes[i] = first_by_runtime(7 << 20);
	first = 21 << 20;
	driven = second_by_driver(1234567);
	mapped = second_by_mapping(4 << 20, 1, &handle);
	second_by_mapping(8 << 20, 3, &host_handle); /* is on the host: nobody's of the device */
	second = 1234567 + (4 << 20);
	MUST(cuMemAlloc_v2(&mine, 1000));
	MUST(cuMemAllocManaged(&managed, 3 << 20, 1)); /* may be on the host */
	own = 1000;
}

static void give_some_back(void)
{
	MUST(cudaFree(runtimes[1]));
	first = 14 << 20;
	MUST(cuMemRelease(handle)); /* it is mapped still */
	MUST(cuMemFree_v2(driven));
	second = 4 << 20;
}

static void give_more_back(void)
{
	MUST(cuMemUnmap(mapped, 4 << 20));
	second = 0;
	MUST(cuMemFree_v2(mine));
	MUST(cuMemFree_v2(managed));
	own = 0;
}

int main(void)
{
	static void (*const steps[])(void) = {take, give_some_back, give_more_back};
	char line[16];
	CUcontext context;
	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	for (int i = 0; fgets(line, sizeof(line), stdin); i++) {
		if (i < 3)
			steps[i]();
		say(i);
	}
	return 0;
}
