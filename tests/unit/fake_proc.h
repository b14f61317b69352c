/* fake_proc.h - a folder in place of /proc, made for a group of tests and removed after them, and
 * files of processes in it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

static char folder[] = "/tmp/eacgm-proc-XXXXXX";

static inline int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command); /* NOLINT(cert-env33-c): a name of our own */
}

static inline void put_of_process(int pid, const char *name, const char *text, size_t len)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%d", folder, pid);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%d/%s", folder, pid, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fwrite(text, 1, len, f);
	fclose(f);
}
