/* output_file.h - a file that is written by a path that a user gave, perhaps by root in a folder
 * where others write too.
 *
 * It is written under a temporary name beside its own and takes its name by a rename, so that the
 * path holds what it held before until then. Nothing that exists is opened for writing, emptied or
 * followed: a link or a further hard link of that name is replaced, what it leads to stays.
 *
 * Folders are walked one by one. A symbolic link among them is followed only in a folder that
 * nobody but root and the caller may write. A file of somebody else in a sticky folder that others
 * write (/tmp) is refused. Pipes and character devices, also behind a link as above, are written to
 * directly, unless others put them where others may write; so are descriptors of this process
 * (/dev/stdout, /dev/fd/N).
 *
 * Does not sync, and knows nothing of what is written. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Whom root's files are for. Zero: nobody but this process. */
struct output_owner {
	bool known;
	uid_t uid;
	gid_t gid;
};

/* Who called sudo, where this process is root: $SUDO_UID and $SUDO_GID. All else here takes the
 * owner as data and reads no environment. */
struct output_owner output_owner_from_sudo(void);

struct output_file {
	int fd;		 /* to write to */
	int folder_fd;	 /* negative: written to directly */
	char *path;	 /* as it was given, for sentences */
	char *name;	 /* in the folder */
	char *temporary; /* likewise, until it has its name; NULL: it has */
};

/* Whether a path would be written to directly. */
bool output_file_is_direct(const char *path);

/* Creates it with the mode that the umask leaves, for the owner; of a file system without owners it
 * is whose it is. 0, or negative errno with the sentence: then there is nothing to close. */
int output_file_create(struct output_file *o, const char *path, const struct output_owner *owner,
		       struct err *e);

/* Gives it its name; where it has one nothing happens. It may be written further. */
int output_file_name(struct output_file *o, struct err *e);

/* Closes, where fd is not negative, and frees. What has no name is taken away. */
int output_file_close(struct output_file *o, struct err *e);

/* Closes; then names it, or takes it away where rc or closing failed, which is returned; frees. */
int output_file_finish(struct output_file *o, int rc, struct err *e);

/* The same, and what has its name already is taken away too. */
void output_file_discard(struct output_file *o);

/* The sentence for an errno, and -code. */
int output_file_error(const struct output_file *o, int code, struct err *e);
