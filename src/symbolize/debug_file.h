/* debug_file.h - symbols that were stripped from a file and are kept elsewhere on this host.
 *
 * Found by build id alone. Whether what is there fits, who reads it finds out. */
#pragma once

#include <limits.h>

/* build_id: hexadecimal. A descriptor, or negative errno. */
int debug_file_open(const char *build_id, char ret_path[PATH_MAX]);
