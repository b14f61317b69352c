/* folder_walk.h - the folder of a path, held by a descriptor, reached without following a link that
 * somebody else can have put there. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct output_owner;

/* Nobody but root and the caller (this process, and the owner) may write it, as far as its mode
 * tells: a group counts as others. */
bool folder_is_ours(int fd, const struct output_owner *owner);

/* *ret_fd (O_PATH) is the folder, *ret_name what is left, malloc'ed. 0, or negative errno with the
 * sentence. */
int folder_walk(const char *path, const struct output_owner *owner, int *ret_fd, char **ret_name,
		struct err *e);
