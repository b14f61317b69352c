/* unwind_table.h - the rules to unwind one file's functions, compiled into a compact table.
 *
 * Reads .eh_frame, and .debug_frame for what it leaves out (DWARF 5, section 6.4; Linux
 * Standard Base, "Exception Frames"; x86-64 only). The form of a table is in
 * wire/unwind.h. Never trusts the file. Knows nothing of processes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbolize/elf_file.h"
#include "wire/unwind.h"

struct unwind_table {
	uint32_t *words; /* malloc'ed; a struct unwind_table_head first */
	size_t len;	 /* in words */
};

/* What was met while compiling; for tests, doctor and notes. */
struct unwind_table_stats {
	uint64_t fdes;
	uint64_t rows;
	uint64_t unsupported; /* rows that became CFA_NONE because their rules say more */
	uint64_t damaged;     /* CIEs and FDEs that do not parse: left out */
};

/* Compiles the rules of f; stats may be NULL. -ENOENT: the file has none. -EFBIG: they come to
 * more than 256 MiB. Anything else is a table, though of damaged sections only in part; free it
 * with unwind_table_free. */
int unwind_table_build(const struct elf_file *f, struct unwind_table *ret,
		       struct unwind_table_stats *stats, struct err *e);
void unwind_table_free(struct unwind_table *t);

/* Whether the words are a table that BPF may search: head, bounds, order, checksum. */
int unwind_table_check(const uint32_t *words, size_t len, struct err *e);
