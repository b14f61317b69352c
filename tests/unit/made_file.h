/* made_file.h - the file of the recordings that a test makes: setup and teardown of its group. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/eacgm-unit-XXXXXX";

static int make_path(void **state)
{
	(void)state;
	int fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}
