/* detect_cli.h - what the files of 'learn' and 'detect' share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"
#include "detect/model.h"

/* A file is a table of numbers if its name ends in ".csv", else a recording. */
bool path_is_table(const char *path);

/* Judge a table or a recording, and print what was found; *ret_found is how much. m may be NULL
 * for a recording. 0, or negative errno with the sentence. */
int detect_table(const struct args *a, const struct model *m, uint64_t *ret_found, struct err *e);
int detect_recording(const struct args *a, const struct model *m, uint64_t *ret_found,
		     struct err *e);
