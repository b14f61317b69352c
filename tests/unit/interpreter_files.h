/* interpreter_files.h - the Pythons installed here, and those that EACGM_TEST_PYTHONS names (files,
 * with ':' in between; a file may be a script that executes an interpreter of another root). */
#pragma once

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To be freed by globfree(3). */
static inline glob_t interpreter_files(void)
{
	static const char *const patterns[] = {"/usr/bin/python3.[0-9]*[0-9]",
					       "/usr/local/bin/python3.[0-9]*[0-9]",
					       "~/.pyenv/versions/3.*/bin/python3"};
	const char *named = getenv("EACGM_TEST_PYTHONS");
	char *names = strdup(named ? named : ""), *rest = names;
	glob_t found = {0};

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], i ? GLOB_APPEND | GLOB_TILDE : 0, NULL, &found);
	for (char *name; (name = strsep(&rest, ":"));)
		glob(name, GLOB_APPEND, NULL, &found);
	free(names);
	return found;
}
