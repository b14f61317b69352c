/* python_filter.c - lists of globs for the files of Python functions. */
#include "python_filter.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

#define GLOB_MOST 1024 /* one that is longer fits nothing */

/* A glob without a slash is for the name alone. */
static bool fits(const char *glob, size_t len, const char *file)
{
	char text[GLOB_MOST];
	const char *slash = strrchr(file, '/');
	if (!len || len >= sizeof(text))
		return false;
	memcpy(text, glob, len);
	text[len] = 0;
	if (slash && !memchr(text, '/', len))
		file = slash + 1;
	return !fnmatch(text, file, 0);
}

static bool any_fits(const char *globs, const char *file)
{
	while (*globs) {
		size_t len = strcspn(globs, ",");
		if (fits(globs, len, file))
			return true;
		globs += len + (globs[len] == ',');
	}
	return false;
}

bool python_filter_wants(const char *only, const char *skip, const char *file)
{
	if (skip && *skip && any_fits(skip, file))
		return false;
	return !only || !*only || any_fits(only, file);
}
