/* gpu_folder.h - a folder for what a session and traced processes share, with the session's lock
 * (wire/gpu_ring.h), and the removal of those that were left behind. All of it goes by descriptors
 * that were checked: what somebody puts in the place of a folder or file is not followed. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/error.h"

#define GPU_FOLDER_PREFIX "eacgm-gpu-" /* of the folders' names */

struct gpu_folder {
	char path[PATH_MAX];
	int parent_fd;
	int fd;
	int lock_fd;
	dev_t device;
	ino_t inode;
};

/* Makes a folder in parent, for our user alone. It goes, and is to be closed, also where its file
 * system has become unreachable by path. */
int gpu_folder_open(struct gpu_folder *ret, const char *parent, struct err *e);

/* The same in a folder that is open; parent: how it is called, for the path alone. owner: who the
 * thread makes files as. */
int gpu_folder_open_at(struct gpu_folder *ret, int parent_fd, const char *parent, uid_t owner,
		       struct err *e);

/* Removes it with all files that are in it. */
void gpu_folder_close(struct gpu_folder *f);

/* Removes those that no session holds any more, each with no more rights than its owner has. */
void gpu_folder_clean_up(const char *parent);
