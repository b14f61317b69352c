/* gpu_folder.c - folders of sessions. A lock of fcntl(2) goes with its process, however that
 * ends: a folder whose lock is free was left behind. */
#include "collect/gpu_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "wire/gpu_ring.h"

#define STALE_S 10 /* a folder without its lock is being made, or was left */

/* Write-locks the session's file; false when another process holds it. */
static bool take_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return !fcntl(fd, F_SETLK, &lock);
}

static void remove_folder(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(dir));)
		unlinkat(fd, entry->d_name, 0); /* "." and ".." do not go */
	closedir(dir);
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* Whether a folder is ours, and no session holds it. */
static bool is_stale(int parent_fd, const char *name)
{
	struct stat st;
	char path[NAME_MAX + 16];
	if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
	    st.st_uid != geteuid())
		return false;
	if (time(NULL) - st.st_mtime < STALE_S)
		return false;
	snprintf(path, sizeof(path), "%s/" GPU_RINGS_LOCK, name);
	int fd = openat(parent_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	bool free_of_lock = take_lock(fd);
	close(fd);
	return free_of_lock;
}

void gpu_folder_clean_up(const char *parent)
{
	DIR *dir = opendir(parent);
	if (!dir)
		return;
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (!strncmp(entry->d_name, GPU_FOLDER_PREFIX, strlen(GPU_FOLDER_PREFIX)) &&
		    is_stale(dirfd(dir), entry->d_name))
			remove_folder(dirfd(dir), entry->d_name);
	closedir(dir);
}

static void close_all(struct gpu_folder *f)
{
	const int fds[] = {f->lock_fd, f->fd, f->parent_fd};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static const char *name_of(const struct gpu_folder *f)
{
	return strrchr(f->path, '/') + 1;
}

int gpu_folder_open(struct gpu_folder *ret, const char *parent, struct err *e)
{
	struct gpu_folder f = {.parent_fd = -1, .fd = -1, .lock_fd = -1};
	int n = snprintf(f.path, sizeof(f.path), "%s/" GPU_FOLDER_PREFIX "XXXXXX", parent);
	if (n < 0 || (size_t)n >= sizeof(f.path) || !mkdtemp(f.path))
		return err_set(e, errno, "cannot make a folder in %s: %s", parent, strerror(errno));
	f.parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f.lock_fd = openat(f.fd, GPU_RINGS_LOCK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (f.parent_fd < 0 || f.lock_fd < 0 || !take_lock(f.lock_fd)) {
		int code = errno;
		remove_folder(f.parent_fd >= 0 ? f.parent_fd : AT_FDCWD, name_of(&f));
		close_all(&f);
		return err_set(e, code, "cannot make a file in %s: %s", f.path, strerror(code));
	}
	*ret = f;
	return 0;
}

void gpu_folder_close(struct gpu_folder *f)
{
	remove_folder(f->parent_fd, name_of(f));
	close_all(f);
}
