/* midrun.c - names its kernels and makes its communicators, then waits: midrun FILE.
 *
 * Says "ready" and waits until FILE exists; then launches each kernel and calls collectives,
 * 20 times and more, until FILE is gone. So that a tracer can attach in between. Prints what
 * it did, as launches.c and collectives.c do. */
#include <stdbool.h>

#include "gpu.h"
#include "nccl_api.h"

#define RANKS 3

static CUfunction kernels[KERNELS];
static ncclComm_t comms[RANKS];
static unsigned rounds;

static void name_all(void)
{
	CUmodule module;
	MUST(cuInit(0));
	MUST(cuModuleLoadData(&module, "image"));
	for (unsigned i = 0; i < KERNELS; i++) {
		if (i % 2)
			MUST(cuModuleGetFunction(&kernels[i], module, kernel_name(i)));
		else
			MUST(cuLibraryGetKernel(&kernels[i], module, kernel_name(i)));
	}
	ncclUniqueId id = {"midrun"};
	for (int i = 0; i < RANKS; i++)
		MUST(ncclCommInitRank(&comms[i], RANKS + 5, id, i + 2));
}

static void work(void)
{
	for (unsigned i = 0; i < KERNELS; i++)
		MUST(cuLaunchKernel(kernels[i], i + 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	for (int i = 0; i < RANKS; i++)
		MUST(ncclAllReduce(NULL, NULL, 1000, 7, 0, comms[i], NULL));
	rounds++;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	name_all();
	printf("ready\n");
	fflush(stdout);
	while (access(argv[1], F_OK))
		usleep(1000);
	while (rounds < 20 || !access(argv[1], F_OK)) {
		work();
		usleep(500);
	}
	dim3 one = {1, 1, 1}, block = {32, 1, 1};
	for (unsigned i = 0; i < KERNELS; i++) {
		one.x = i + 1;
		say_launch(rounds, one, block, 0, NULL, kernel_name(i));
	}
	for (int i = 0; i < RANKS; i++)
		printf("comm %p %d %d %d\n", (void *)comms[i], i + 2, RANKS + 5, i + 2);
	printf("ncclAllReduce %u\n", rounds * RANKS);
	return 0;
}
