/* gpu_folder.h - a folder for what a session and traced processes share, with the session's lock
 * (wire/gpu_ring.h), and the removal of those that were left behind. */
#pragma once

#include <limits.h>

#include "base/error.h"

#define GPU_FOLDER_PREFIX "eacgm-gpu-" /* of the folders' names */

struct gpu_folder {
	char path[PATH_MAX];
	int parent_fd;
	int fd;
	int lock_fd;
};

/* Makes a folder in parent. It goes, and is to be closed, also where its file system has become
 * unreachable by path. */
int gpu_folder_open(struct gpu_folder *ret, const char *parent, struct err *e);

/* Removes it with all that is in it. */
void gpu_folder_close(struct gpu_folder *f);

/* Removes those of our user that no session holds any more. */
void gpu_folder_clean_up(const char *parent);
