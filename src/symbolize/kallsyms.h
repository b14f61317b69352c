/* kallsyms.h - the running kernel's functions, as /proc/kallsyms lists them (root only: others
 * read zeros). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kallsyms;

/* Reads ROOT/kallsyms; NULL when it cannot be read or tells no addresses. */
struct kallsyms *kallsyms_load(const char *root);
void kallsyms_free(struct kallsyms *k);

/* A function of the kernel; module "" = the kernel itself. */
struct kernel_symbol {
	uint64_t start;
	const char *name, *module;
};

#define KERNEL_SYMBOL_TEXT 256 /* bytes of what follows */

/* Takes apart what the kernel prints of an address, "name+0x1c/0x40 [module]" (lib/vsprintf.c,
 * %pS); the text is changed, and ret refers to it. False when it names nothing. */
bool kernel_symbol_parse(char *text, uint64_t address, struct kernel_symbol *ret);

/* The function at or before an address, and the module that it is of ("" = the kernel
 * itself); valid while k lives. NULL: below the first. */
const char *kallsyms_find(const struct kallsyms *k, uint64_t address, uint64_t *ret_start,
			  const char **ret_module);
