/* gmm_avx512.c - the kernels of the mixtures with AVX-512, for CPUs that have it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyze/gmm_impl.h"

#define TILE_TARGET  __attribute__((target("avx512f,avx512dq,avx2,fma")))
#define TILE_LANES   8
#define TILE_KERNELS gmm_kernels_avx512
#define TILE_NAME    "AVX-512"

#include "analyze/gmm_tiles.h"
