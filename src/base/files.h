/* files.h - questions about paths. */
#pragma once

#include <stdbool.h>

/* Whether both exist and are the same file, by whatever name. */
bool files_same(const char *a, const char *b);

/* What follows the last '/', in the path itself. */
const char *path_file_name(const char *path);
