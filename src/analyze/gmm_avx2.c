/* gmm_avx2.c - the kernels of the mixtures with AVX2, for CPUs that have it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyze/gmm_impl.h"

#define TILE_TARGET  __attribute__((target("avx2,fma")))
#define TILE_LANES   4
#define TILE_KERNELS gmm_kernels_avx2
#define TILE_NAME    "AVX2"

#include "analyze/gmm_tiles.h"
