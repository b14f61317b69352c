/* model_file.h - the model as a file: JSON, one object, "eacgm_model": 1. The keys stand at the
 * top of model_file.c. Every number is checked when it is read; the file is replaced as a whole. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "detect/model.h"

/* ret is written on success only; model_free it. -EINVAL: not a model, of a newer version, or
 * damaged, with the sentence; files above 64 MiB are refused. */
int model_read(struct model *ret, const char *path, struct err *e);
/* The same from memory, for tests and fuzzing; name is what errors call it. */
int model_parse(struct model *ret, const char *text, size_t len, const char *name, struct err *e);
/* Writes PATH.part, renames it. */
int model_write(const struct model *m, const char *path, struct err *e);
