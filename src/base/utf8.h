/* utf8.h - makes any bytes fit for a format that only takes UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buffer.h"

/* True when the bytes are well-formed UTF-8 (Unicode 15, table 3-7: no surrogates, no
 * overlong forms) and hold no NUL. */
bool utf8_valid(const char *s, size_t len);

/* Appends the bytes, each one that is not part of a well-formed character replaced by
 * U+FFFD, and a terminating NUL that is not counted in out->len. */
void utf8_append(struct buf *out, const char *s, size_t len);
