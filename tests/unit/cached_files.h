/* cached_files.h - the folder of a cache under test, and what is in it. */
#pragma once

#include <dirent.h>
#include <stdio.h>

static char folder[64];

static inline char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static inline int empty_folder(void **state)
{
	DIR *d = opendir(folder);
	const struct dirent *entry;

	(void)state;
	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			remove(path_of(entry->d_name));
	if (d)
		closedir(d);
	return 0;
}

static inline unsigned files_in_folder(void)
{
	DIR *d = opendir(folder);
	const struct dirent *entry;
	unsigned n = 0;

	while (d && (entry = readdir(d)))
		n += entry->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}
