/* unwind_impl.h - what the files that make up unwind_table.h share; not for others. */
#pragma once

#include "symbolize/eh_frame.h"
#include "symbolize/unwind_table.h"

#define UNWIND_PAGE_BYTES (1ULL << UNWIND_PAGE_SHIFT)
#define UNWIND_MAX_WORDS  (64u << 20) /* 256 MiB; the largest library measured has 1 M */

/* unwind_functions.c: fills c; damaged counts entries that were left out. */
int unwind_functions_find(const struct elf_file *f, struct cfi *c, uint64_t *damaged,
			  struct err *e);

/* unwind_rule.c: the rule of a row. False where it says more than a rule can. */
bool unwind_rule_make(struct unwind_rule *r, const struct cfi_row *row, bool signal);

/* unwind_code.c: the rules of code that has none, from its instructions, in rising order of
 * addresses; each holds to the next, NULL: there is none. */
typedef void (*unwind_code_visit)(void *ctx, uint64_t address, const struct unwind_rule *rule);
void unwind_code_run(const uint8_t *bytes, size_t len, uint64_t address, unwind_code_visit visit,
		     void *ctx);

/* unwind_table_check.c: of all words but the head's last, which it is. */
uint32_t unwind_table_crc(const uint32_t *words, size_t len);
