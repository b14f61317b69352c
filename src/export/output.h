/* output.h - a file that appears under its name only when it is whole.
 *
 * It is written through a temporary name beside it, so that the path holds either what it
 * held before or all of it. Where the path is no regular file (a pipe, /dev/stdout) it is
 * written to directly. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct output {
	FILE *stream;
	const char *path; /* the caller's */
	char *temporary;  /* NULL: written to directly */
};

/* Whether a path is written to directly. */
bool output_is_direct(const char *path);

/* 0, or negative errno with the sentence: then there is nothing to close. */
int output_open(struct output *o, const char *path, struct err *e);

/* The sentence of a write that failed, by errno. */
int output_error(const struct output *o, struct err *e);

/* Closes, and names the file, or takes it away where rc says that the writing failed. */
int output_close(struct output *o, int rc, struct err *e);
