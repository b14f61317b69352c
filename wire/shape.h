/* shape.h - a tensor's sizes in 64 bits: packed by BPF and inject/calls, unpacked by whoever reads
 * a recording.
 *
 * Bits 0..2 hold the number of dimensions + 1, 0 meaning that the shape is not known; bits 3..5
 * which dimension is the largest; then the sizes follow, the first one lowest: the largest in
 * more bits than the others. A shape with more dimensions, or with one that does not fit, is not
 * known. Needs no header but the kernel's types, and does no memory access beyond its arguments. */
#pragma once

#include <linux/types.h>

#define SHAPE_DIMS    5
#define SHAPE_UNKNOWN 0ULL

/* How many bits a size has: 58 in all. Sequences of half a million fit into attention's four
 * dimensions, and images of 8,191 by 8,191. */
static inline __u32 shape_bits(__u32 dims, int largest)
{
	switch (dims) {
	case 1:
		return 58;
	case 2:
		return 29;
	case 3:
		return largest ? 24 : 17;
	case 4:
		return largest ? 19 : 13;
	default:
		return largest ? 18 : 10;
	}
}

/* c10::impl::SizesAndStrides and the fields that follow it in c10::TensorImpl. */
struct tensor_sizes {
	__u64 dims;
	__u64 sizes[SHAPE_DIMS];
	__u64 strides[SHAPE_DIMS];
	__u64 storage_offset;
	__u64 numel;
};

static inline __u64 shape_pack(const __u64 sizes[SHAPE_DIMS], __u32 dims)
{
	__u32 largest = 0, at = 6;
	if (dims > SHAPE_DIMS)
		return SHAPE_UNKNOWN;
	for (__u32 i = 1; i < SHAPE_DIMS; i++)
		if (i < dims && sizes[i] > sizes[largest])
			largest = i;
	__u64 packed = (dims + 1) | (__u64)largest << 3;
	for (__u32 i = 0; i < SHAPE_DIMS; i++) {
		__u32 bits = shape_bits(dims, i == largest) & 63;
		if (i >= dims)
			break;
		if (sizes[i] >> bits)
			return SHAPE_UNKNOWN;
		packed |= sizes[i] << (at & 63);
		at += bits;
	}
	return packed;
}

/* The number of dimensions, 0 for a single value; negative when the shape is not known. */
static inline int shape_dims(__u64 shape)
{
	int dims = (int)(shape & 7) - 1;
	return dims <= SHAPE_DIMS ? dims : -1;
}

/* The size of a dimension from 0 on; 0 of one that the shape does not have. */
static inline __u64 shape_size(__u64 shape, int dim)
{
	int dims = shape_dims(shape), largest = (int)(shape >> 3 & 7);
	__u32 at = 6;
	if (dim < 0 || dim >= dims)
		return 0;
	for (int i = 0; i < dim; i++)
		at += shape_bits((__u32)dims, i == largest);
	__u32 bits = shape_bits((__u32)dims, dim == largest);
	return at < 64 ? shape >> at & ((1ULL << bits) - 1) : 0;
}
