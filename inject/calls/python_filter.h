/* python_filter.h - which files' functions are told. */
#pragma once

#include <stdbool.h>

/* only, skip: globs with commas between them; NULL or "": there are none. */
bool python_filter_wants(const char *only, const char *skip, const char *file);
