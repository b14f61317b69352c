/* strtab.h - interned strings: each distinct byte string has one small number.
 *
 * Number 0 is the empty string. Strings may hold any bytes; each is kept with a
 * terminating NUL beside its length. Numbers are dense and never reused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

struct strtab {
	VEC(struct {
		char *s;
		uint32_t len;
	})
	strings;
	uint32_t *index; /* open addressing: string number + 1, 0 = free */
	size_t index_cap;
};

/* The number of the string, added if it is new. */
uint32_t strtab_add(struct strtab *t, const char *s, size_t len);
uint32_t strtab_add_z(struct strtab *t, const char *s);

/* Likewise, of a string that is there; false when it is not. */
bool strtab_find(const struct strtab *t, const char *s, size_t len, uint32_t *ret);

/* The string of a number, valid while the table lives; "" for an unknown number. */
const char *strtab_get(const struct strtab *t, uint32_t id, size_t *ret_len);

/* How many strings there are, the empty one included. */
size_t strtab_len(const struct strtab *t);
void strtab_free(struct strtab *t);
