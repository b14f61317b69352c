/* readers.h - what the pipeline has read by processes without rights (src/parser): for who starts
 * their host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "parser/parser.h"

struct elf_file;

#define PIPELINE_OPS 5

/* Zeros to begin with; each process has its own copy. */
struct namer_files {
	VEC(struct {
		uint32_t handle;
		struct elf_file *elf;
		uint64_t bytes;
		bool copied;
		uint64_t asked; /* number of the question that asked for it last */
	})
	list;
	uint64_t bytes, copied_bytes, questions;
};

/* The operations, which keep files open in *files. */
void pipeline_parser_ops(struct namer_files *files, struct parser_op ret[PIPELINE_OPS]);
