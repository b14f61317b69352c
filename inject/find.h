/* find.h - where a process has its CUPTI. */
#pragma once

#include <stddef.h>

#include "cupti_abi.h"

/* Opens the CUPTI that fits the process: the one that is loaded, else the one that came with
 * its CUDA runtime, else the system's. NULL, or why there is none. path gets its file's. */
const char *cupti_find(struct cupti *ret, char *path, size_t size);
