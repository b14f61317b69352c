/* human.h - numbers as people read them, and text cut and padded to columns. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HUMAN_BYTES 32

/* Three digits and a unit: "0", "912 ns", "1.23 ms", "45.6 s", "1,234 s". */
const char *human_ns(char ret[static HUMAN_BYTES], uint64_t ns);

/* "512 B", "1.23 MB" (powers of 1,000). */
const char *human_bytes(char ret[static HUMAN_BYTES], uint64_t bytes);

/* "1,234,567". */
const char *human_count(char ret[static HUMAN_BYTES], uint64_t n);

/* "2.1", "1,690"; of no number, and what is beyond all, "many". */
const char *human_times(char ret[static HUMAN_BYTES], double times);

/* Columns that UTF-8 text takes on a terminal, one for each character. */
size_t text_columns(const char *s);

/* What comes from outside (recordings, models, traced processes, the command line) may hold what a
 * terminal obeys. The text with a "?" for each control character (Unicode's Cc), and U+FFFD for
 * bytes that are no UTF-8; malloc'ed. */
char *text_clean(const char *s);

/* Prints a line with such texts in it, likewise; a line break at its end stays. Returns the columns
 * that it takes. */
size_t text_printf(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copies text into ret so that it takes at most columns columns, clean as above; where it is too
 * long the middle is left out, as an ellipsis. Returns the columns it takes. */
size_t text_fit(char *ret, size_t size, const char *s, size_t columns);
