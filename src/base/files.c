/* files.c - questions about paths. */
#include "base/files.h"

#include <string.h>
#include <sys/stat.h>

bool files_same(const char *a, const char *b)
{
	struct stat x, y;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

const char *path_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}
