/* unwind_facts.h - what the unwinder has to know of a mapped file before its rules: where it is
 * loaded, by what name its rules are kept, whether an interpreter is in it. Read in a process of
 * its own (src/parser), as the rules are. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "symbolize/elf_file.h"
#include "symbolize/unwind_table.h"
#include "wire/event.h"
#include "wire/unwind.h"

struct unwind_facts {
	struct elf_segments segments;
	char build_id[129];
	uint32_t sum; /* unwind_cache_sum */
	bool is_python;
	uint64_t runtime; /* of the interpreter; addresses are those of the file */
	uint64_t eval[PY_EVAL_RANGES][2];
	struct py_frames frames;
	struct py_layout layout;
};

void unwind_facts_of(const struct elf_file *elf, const char *path, struct unwind_facts *ret);

/* In the worker, parser_fns: the question is the path. The table's answer is its words. */
int unwind_facts_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			struct err *e);
int unwind_table_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			struct err *e);

/* In the tracer: -EPROTO where the bytes are no such answer. The table is a copy, to be freed. */
int unwind_facts_take(struct unwind_facts *ret, const struct buf *answer, struct err *e);
int unwind_table_take(struct unwind_table *ret, const struct buf *answer, struct err *e);
