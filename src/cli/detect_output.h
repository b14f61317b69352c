/* detect_output.h - a file that detect writes beside what it prints: as export/output.h has it, and
 * nothing of it is left where a signal ends the program. */
#pragma once

#include "base/error.h"
#include "export/output.h"

/* At most two are open at a time. 0, or negative errno with the sentence: then there is nothing to
 * close. */
int detect_output_open(struct output *o, const char *path, struct err *e);
int detect_output_close(struct output *o, int rc, struct err *e);
