/* debug_file.c - /usr/lib/debug/.build-id/ab/cdef....debug (GDB's documentation, "Debugging
 * Information in Separate Files"). */
#include "symbolize/debug_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

int debug_file_open(const char *build_id, char ret_path[PATH_MAX])
{
	if (strlen(build_id) < 8)
		return -ENOENT;
	snprintf(ret_path, PATH_MAX, "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id,
		 build_id + 2);
	int fd = open(ret_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}
