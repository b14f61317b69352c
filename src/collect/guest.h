/* guest.h - the folder through which a running process is given a library of ours: a copy of it,
 * the process's ring where it needs one (wire/gpu_ring.h), and the session's lock.
 *
 * It lies where the process can see it, load from it and write to it, whatever its user and its
 * mount namespace, and belongs to its user. A process that has rights which its user lacks has
 * none. It knows nothing of how the shim comes in. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct guest;

enum guest_files {
	GUEST_RING,  /* the library and a ring */
	GUEST_ALONE, /* the library: the process makes files beside it */
};

/* shim: the file to copy. */
int guest_open(struct guest **ret, pid_t pid, const char *shim, enum guest_files files,
	       struct err *e);

/* Whether the process is still one that may load what its user can write to: to be asked once it
 * can no longer become another program unseen. False with a sentence. */
bool guest_fits(const struct guest *g, pid_t pid, struct err *e);

/* As the process sees them. */
const char *guest_shim(const struct guest *g);
const char *guest_ring(const struct guest *g);
const char *guest_folder(const struct guest *g);

int guest_folder_fd(const struct guest *g);
uid_t guest_uid(const struct guest *g);	  /* whose it is */
int guest_ring_fd(const struct guest *g); /* open until the end */

/* Removes the folder: a shim that runs ends its work. */
void guest_close(struct guest *g);

/* Removes the folders on this host that sessions left which were killed. */
void guest_clean_up(void);
