/* jit_names.h - names of code that a program made while it ran, from what it wrote for perf: a map
 * in text, or a jitdump file (tools/perf/Documentation/jit-interface.txt and
 * jitdump-specification.txt of the Linux kernel). Never trusts the bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Calls name for each address that lies in a function, with the name that was written last, as
 * people write it: at most JIT_NAME_BYTES with the zero. Addresses are in rising order. */
#define JIT_NAME_BYTES 512
void jit_names_find(const uint8_t *data, size_t len, const uint64_t *addresses, size_t n,
		    void (*name)(void *ctx, size_t i, const char *text), void *ctx);

/* What a runtime calls a function, readable: "LazyCompile:*fib /x.js:3:4" is "fib (x.js:3)",
 * "int Fib.fib(int)" is "Fib.fib". Cut to size. */
void jit_name_clean(const char *name, size_t len, char *ret, size_t size);
