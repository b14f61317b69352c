/* shipped.h - the libraries that come with eacgm, for processes that are traced. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* The path of one: beside the binary, as in the tarball, or where it is installed. */
int shipped_find(const char *name, char *ret, size_t size, struct err *e);
