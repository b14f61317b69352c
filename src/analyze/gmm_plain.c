/* gmm_plain.c - the kernels of the mixtures for any CPU. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyze/gmm_impl.h"

#define TILE_TARGET
#define TILE_LANES   2
#define TILE_KERNELS gmm_kernels_plain
#define TILE_NAME    "plain"

#include "analyze/gmm_tiles.h"
