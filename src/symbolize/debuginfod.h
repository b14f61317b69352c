/* debuginfod.h - debug files from the servers of $DEBUGINFOD_URLS, asked for by a process of its
 * own.
 *
 * It has no capabilities, and is the caller of sudo or nobody; it hands over descriptors, and
 * nobody has looked at what they hold. A server that is silent costs a bounded time. */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct debuginfod;

/* Forks it; to be called while the program has one thread. It ends with this process. */
int debuginfod_start(struct debuginfod **ret, struct err *e);
void debuginfod_stop(struct debuginfod *d);

/* The debug file of a build id (hexadecimal): a descriptor; -ENOENT where no server has it or it
 * took more than ten seconds; -ETIMEDOUT: end_ns (monotonic) came; -EINTR: stop_fd is readable;
 * -EIO: it cannot ask at all. After all but -ENOENT it is not to be asked again. */
int debuginfod_find(struct debuginfod *d, const char *build_id, int stop_fd, uint64_t end_ns,
		    struct err *e);
