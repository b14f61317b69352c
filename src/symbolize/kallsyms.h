/* kallsyms.h - the running kernel's functions, as /proc/kallsyms lists them (root only: others
 * read zeros). */
#pragma once

#include <stdint.h>

struct kallsyms;

/* Reads ROOT/kallsyms; NULL when it cannot be read or tells no addresses. */
struct kallsyms *kallsyms_load(const char *root);
void kallsyms_free(struct kallsyms *k);

/* The function at or before an address, and the module that it is of ("" = the kernel
 * itself); valid while k lives. NULL: below the first. */
const char *kallsyms_find(const struct kallsyms *k, uint64_t address, uint64_t *ret_start,
			  const char **ret_module);
