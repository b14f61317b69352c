/* shapes.h - shapes as arguments have them: SHAPE(3, 5). Needs linux/types.h before it. */
#pragma once

#include <stdint.h>

#include "wire/event.h"

static inline uint64_t shape_of(int dims, const uint64_t *sizes)
{
	__u64 raw[SHAPE_DIMS] = {0};
	for (int i = 0; i < dims; i++)
		raw[i] = sizes[i];
	return shape_pack(raw, (__u32)dims);
}
#define SHAPE(...) shape_of(sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__})
