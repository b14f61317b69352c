/* gpu.h - what the programs of this folder share: checks of results, kernels with names of
 * every length, lines that say what was done. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_api.h"

#define KERNELS	   5
#define NAME_BYTES 1200

static inline void must(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: %d\n", what, rc);
	exit(99);
}
#define MUST(call) must(call, #call)

/* For calls that are to fail: with that code and no other. */
static inline void fails(int rc, int expected, const char *what)
{
	if (rc == expected)
		return;
	fprintf(stderr, "%s: %d, expected %d\n", what, rc, expected);
	exit(99);
}
#define FAILS(code, call) fails(call, code, #call)

/* Of C, of C++, and of templates deep in namespaces: 191, 555 and 997 characters. */
static inline const char *kernel_name(unsigned i)
{
	static char names[KERNELS][NAME_BYTES];
	static const unsigned depth[KERNELS] = {0, 0, 12, 38, 69};
	if (i == 0)
		return "plain_kernel";
	if (i == 1)
		return "_Z9small_addPfi";
	char *s = names[i];
	if (*s)
		return s;
	int n = snprintf(s, NAME_BYTES, "_ZN");
	for (unsigned k = 0; k < depth[i]; k++)
		n += snprintf(s + n, NAME_BYTES - (size_t)n, "12namespace_%02u", k);
	snprintf(s + n, NAME_BYTES - (size_t)n, "6kernelIfLi%uEEEvPT_i", i);
	return s;
}

/* The host stubs that runtime launches are given; never called. */
extern const char gpu_stubs[KERNELS];
#define STUBS const char gpu_stubs[KERNELS]

static inline void register_kernels(void)
{
	for (unsigned i = 0; i < KERNELS; i++)
		__cudaRegisterFunction(NULL, &gpu_stubs[i], NULL, kernel_name(i), -1, NULL, NULL,
				       NULL, NULL, NULL);
}

/* "launch TIMES GRID BLOCK SHARED STREAM NAME" */
static inline void say_launch(unsigned times, dim3 grid, dim3 block, unsigned shared,
			      CUstream stream, const char *name)
{
	printf("launch %u %u,%u,%u %u,%u,%u %u %p %s\n", times, grid.x, grid.y, grid.z, block.x,
	       block.y, block.z, shared, (void *)stream, name);
}
