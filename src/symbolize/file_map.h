/* file_map.h - the bytes of a file that others may write to or cut short meanwhile. Internal to
 * this folder. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct file_map {
	const uint8_t *data; /* what lies behind len bytes reads as zeros, a page at least */
	size_t len;
	uid_t owner;
	void *copy; /* NULL: mapped */
	struct file_range *range;
};

/* Maps a regular file read-only; one of at most copy_bytes is copied instead, so that it stays
 * as it is. Bytes of a mapped file change when somebody writes to it, and are zeros where it was
 * cut short: reading them never ends the program. The sentence names the path. */
int file_map_open(struct file_map *ret, const char *path, size_t copy_bytes, struct err *e);
/* The same of a descriptor, which stays the caller's; the sentence has the name. */
int file_map_open_fd(struct file_map *ret, int fd, const char *name, size_t copy_bytes,
		     struct err *e);
/* Pages that were read are not in this process any more: of a file of gigabytes they would count as
 * its memory. The kernel may keep them, and they come back when they are read. */
void file_map_rest(const struct file_map *m);
void file_map_close(struct file_map *m);
