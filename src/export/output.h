/* output.h - a stream to a file that appears under its name only when it is whole.
 *
 * base/output_file.h says what is written through a temporary name, what directly, and what is
 * refused. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/output_file.h"

struct output {
	FILE *stream;
	struct output_file file; /* its descriptor is the stream's */
};

/* owner: NULL for nobody. 0, or negative errno with the sentence: then there is nothing to close.
 */
int output_open(struct output *o, const char *path, const struct output_owner *owner,
		struct err *e);

/* The sentence of a write that failed, by errno. */
int output_error(const struct output *o, struct err *e);

/* Closes, and names the file, or takes it away where rc says that the writing failed. */
int output_close(struct output *o, int rc, struct err *e);
