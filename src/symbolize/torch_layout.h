/* torch_layout.h - where PyTorch's TensorImpl has its sizes and its data type.
 *
 * The offset differs between versions of PyTorch. But c10::impl::SizesAndStrides keeps up to five
 * sizes in itself, and code that asks for them compares their number with five
 * (c10/core/impl/SizesAndStrides.h): the offset is read from such code. */
#pragma once

#include <stdint.h>

#include "symbolize/elf_file.h"

/* Bytes from where a TensorImpl begins; all 0 when they were not found. */
struct torch_layout {
	uint32_t sizes;	 /* u64 number of dimensions, then i64 sizes[5], i64 strides[5] */
	uint32_t numel;	 /* i64: the product of the sizes */
	uint32_t scalar; /* u16: c10::ScalarType */
};

/* f is a libtorch_cpu. */
void torch_layout_find(const struct elf_file *f, struct torch_layout *ret);
