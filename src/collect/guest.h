/* gpu_guest.h - the folder through which a running process is given the CUPTI shim: a copy of the
 * shim, the process's ring (wire/gpu_ring.h) and the session's lock.
 *
 * It lies where the process can see it, load from it and write to it, whatever its user and its
 * mount namespace, and belongs to its user. A process that has rights which its user lacks has
 * none. It knows nothing of how the shim comes in. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct gpu_guest;

/* shim: the file to copy. */
int gpu_guest_open(struct gpu_guest **ret, pid_t pid, const char *shim, struct err *e);

/* Whether the process is still one that may load what its user can write to: to be asked once it
 * can no longer become another program unseen. False with a sentence. */
bool gpu_guest_fits(const struct gpu_guest *g, pid_t pid, struct err *e);

/* As the process sees them. */
const char *gpu_guest_shim(const struct gpu_guest *g);
const char *gpu_guest_ring(const struct gpu_guest *g);

int gpu_guest_ring_fd(const struct gpu_guest *g); /* open until the end */

/* Removes the folder: a shim that runs ends its work. */
void gpu_guest_close(struct gpu_guest *g);

/* Removes the folders on this host that sessions left which were killed. */
void gpu_guest_clean_up(void);
