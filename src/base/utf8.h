/* utf8.h - makes any bytes fit for a format that only takes UTF-8, and for the eyes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

/* True when the bytes are well-formed UTF-8 (Unicode 15, table 3-7: no surrogates, no
 * overlong forms) and hold no NUL. */
bool utf8_valid(const char *s, size_t len);

/* Appends the bytes, each one that is not part of a well-formed character replaced by
 * U+FFFD, and a terminating NUL that is not counted in out->len. */
void utf8_append(struct buf *out, const char *s, size_t len);

/* The length of the character at s when it is a control, else 0. Controls are what terminals obey
 * (C0, DEL, C1), what ends a line, and what turns the direction of text around (Unicode 15,
 * Bidi_Control). s is well-formed. */
size_t utf8_control(const uint8_t *s, size_t len);

/* As utf8_append, with `instead` in the place of each control. */
void utf8_append_clean(struct buf *out, const char *s, size_t len, char instead);
