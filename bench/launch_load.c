/* launch_load.c - a training that is bound by its launches, without a GPU: threads that launch
 * kernels of many names through a libcuda.so.1 (the tests' fake one), copy, record events and
 * synchronize, at a steady rate. What an agent takes of itself beside such a job is measured with
 * it. Knows nothing of eACGM.
 *
 *   usage: launch_load SECONDS CALLS_PER_S [THREADS [KERNELS]]
 *
 * A step of a thread is KERNELS launches (300 unless told), a copy and an event for each eight of
 * them, and a synchronization. Prints "calls N" at its end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda_api.h"

#define NS	     1000000000ULL
#define SLICE_NS     1000000L /* calls come in bursts of a millisecond */
#define MOST_KERNELS 4096
#define MOST_THREADS 64
#define NAME_BYTES   160

static double seconds, calls_per_s;
static unsigned threads = 2, kernels = 300;
static CUfunction functions[MOST_KERNELS];
static CUcontext context;

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(int rc)
{
	if (rc)
		exit(99);
}

/* Names as those of PyTorch's templates: they differ at their end. */
static void find_functions(void)
{
	CUmodule module;
	char name[NAME_BYTES];
	must(cuModuleLoadData(&module, "image"));
	for (unsigned i = 0; i < kernels; i++) {
		snprintf(name, sizeof(name),
			 "_ZN2at6native29vectorized_elementwise_kernelILi%uENS0_13BinaryFunctorI"
			 "fffEESt5arrayIPcLm%uEEEEviT0_T1_",
			 4 + i % 4, i);
		must(cuModuleGetFunction(&functions[i], module, name));
	}
}

/* Launch i of a step and what goes with it; returns how many calls that were. */
static unsigned call(unsigned i, CUstream stream, CUevent event)
{
	static char host[64];
	must(cuLaunchKernel(functions[i], i + 1, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
	if (i % 8 == 3) {
		must(cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)host, host, sizeof(host),
					  stream));
		must(cuEventRecord(event, stream));
		return 3;
	}
	if (i + 1 == kernels) {
		must(cuStreamSynchronize(stream));
		return 2;
	}
	return 1;
}

static void *train(void *arg)
{
	unsigned long *calls = arg;
	CUstream stream;
	CUevent event;
	must(cuCtxSetCurrent(context));
	must(cuStreamCreate(&stream, 0));
	must(cuEventCreate(&event, 0));
	double began = now_s(), s;
	unsigned i = 0;
	while ((s = now_s() - began) < seconds) {
		unsigned long due = (unsigned long)(s * calls_per_s / threads);
		for (unsigned n = 0; *calls < due && n < 100000; n++) {
			*calls += call(i, stream, event);
			i = i + 1 < kernels ? i + 1 : 0;
		}
		nanosleep(&(struct timespec){.tv_nsec = SLICE_NS}, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t ids[MOST_THREADS];
	unsigned long calls[MOST_THREADS] = {0}, sum = 0;
	if (argc > 2) {
		seconds = strtod(argv[1], NULL);
		calls_per_s = strtod(argv[2], NULL);
	}
	if (argc > 3)
		threads = (unsigned)atoi(argv[3]);
	if (argc > 4)
		kernels = (unsigned)atoi(argv[4]);
	if (seconds <= 0 || calls_per_s <= 0 || !threads || threads > MOST_THREADS || !kernels ||
	    kernels > MOST_KERNELS) {
		fprintf(stderr, "usage: launch_load SECONDS CALLS_PER_S [THREADS [KERNELS]]\n");
		return 2;
	}
	must(cuInit(0));
	must(cuDevicePrimaryCtxRetain(&context, 0));
	must(cuCtxSetCurrent(context));
	find_functions();
	for (unsigned i = 0; i < threads; i++)
		must(pthread_create(&ids[i], NULL, train, &calls[i]));
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		sum += calls[i];
	}
	printf("calls %lu\n", sum);
	return 0;
}
