/* nccl_layout.h - where NCCL's communicator object has rank, size and device.
 *
 * struct ncclComm is private and differs between versions. But ncclCommUserRank,
 * ncclCommCount and ncclCommCuDevice are public (nccl.h) and do little else than copy one
 * field each: the offset is read from their code. */
#pragma once

#include <stdint.h>

#include "symbolize/elf_file.h"

/* Bytes from the communicator's address; 0 where it was not found. */
struct nccl_layout {
	uint32_t rank;
	uint32_t size;
	uint32_t device;
};

void nccl_layout_find(const struct elf_file *f, struct nccl_layout *ret);
