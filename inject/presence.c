/* presence.c - looks at the lock that eacgm holds in the session's folder while it runs
 * (wire/gpu_ring.h). */
#include "presence.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "wire/gpu_ring.h"

static char lock_path[4096];

/* The path is opened each time: a job may close descriptors that are not its own. To close it
 * again releases this process's own locks on it, of which there are none. */
bool presence_has_ended(void)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int fd = open(lock_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	bool unlocked = !fcntl(fd, F_GETLK, &lock) && lock.l_type == F_UNLCK;
	close(fd);
	return unlocked;
}

bool presence_set(const char *folder, int len)
{
	int n = snprintf(lock_path, sizeof(lock_path), "%.*s/" GPU_RINGS_LOCK, len, folder);
	return n > 0 && (size_t)n < sizeof(lock_path) && !presence_has_ended();
}
