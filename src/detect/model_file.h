/* model_file.h - the model as a file: JSON, one object, "eacgm_model": 1. The keys stand at the
 * top of model_file.c. Every number is checked when it is read; the file is replaced as a whole. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/output_file.h"
#include "detect/model.h"

#define MODEL_FILE_MOST ((size_t)64 << 20) /* bytes of a file that is read */

/* ret is written on success only; model_free it. -EINVAL: not a model, of a newer version, or
 * damaged, with the sentence; files above MODEL_FILE_MOST are refused. */
int model_read(struct model *ret, const char *path, struct err *e);
/* The same from memory, for tests and fuzzing; name is what errors call it. */
int model_parse(struct model *ret, const char *text, size_t len, const char *name, struct err *e);

/* The file's text, malloc'ed, and its length (there is a NUL behind it). Reading it gives the same
 * numbers to the bit. -EINVAL: what it holds could not be read again, with the sentence. */
int model_print(const struct model *m, char **ret, size_t *ret_len, struct err *e);
/* As base/output_file.h says: what is there is replaced as a whole; a pipe, or /dev/stdout, is
 * written to directly. owner: NULL for nobody. */
int model_write(const struct model *m, const char *path, const struct output_owner *owner,
		struct err *e);

/* Of the kind that it is to be used for; else a sentence that says what `what` is: "a recording".
 */
int model_read_for(struct model *ret, const char *path, enum model_kind kind, const char *what,
		   struct err *e);
