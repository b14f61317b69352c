/* error.h - how a library function says what went wrong.
 *
 * Functions return 0 (or a count) on success and a negative errno on failure;
 * the sentence for the user goes into a caller-owned struct err. Libraries never
 * print. A sentence names the thing that is wrong and, where there is one, the
 * remedy. It does not hold a trailing newline. */
#pragma once

#include <stdarg.h>

struct err {
	char msg[512];
};

/* Writes the sentence and returns -code, so that `return err_set(e, EINVAL, ...)`
 * reads as one step. e may be NULL. code is a positive errno. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " in front of the sentence that is there; returns rc unchanged. */
int err_wrap(struct err *e, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The static analyser does not look into variadic functions: what it has to know of them. */
#if defined(__clang_analyzer__) && !defined(ERROR_IMPLEMENTATION)
#define err_set(e, code, ...) ((err_set)(e, code, __VA_ARGS__), -1)
#define err_wrap(e, rc, ...)  ((err_wrap)(e, rc, __VA_ARGS__), (rc))
#endif
