/* files.h - questions about paths. */
#pragma once

#include <stdbool.h>

/* Whether both exist and are the same file, by whatever name. */
bool files_same(const char *a, const char *b);
