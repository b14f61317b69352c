/* gpu_folder.c - folders of sessions. A lock goes with the descriptor that it was taken by
 * (fcntl(2), open file description locks), and so with its process, however that ends: a folder
 * whose lock is free was left behind. Another session of the same process finds it taken.
 *
 * Whoever may write to the parent can put anything in a folder's place as soon as it is there, by
 * renaming or by mounting. So a folder is opened once, is ours only as it was made, and what is
 * made or removed in it goes by that descriptor. */
#include "collect/gpu_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/as_user.h"
#include "wire/gpu_ring.h"

#define STALE_S	    10	 /* a folder without its lock is being made, or was left */
#define NAME_TRIES  16	 /* of 48 bits each */
#define MOST_FILES  8192 /* that are removed with a folder: more than there are rings */
#define MOST_STALE  256	 /* folders that are looked at */
#define FOLDER_MODE 0700

/* Write-locks the session's file; false when another session holds it. */
static bool take_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return !fcntl(fd, F_OFD_SETLK, &lock);
}

/* Neither a link nor anything that is mounted there. */
static int open_folder(int parent_fd, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	return (int)syscall(SYS_openat2, parent_fd, name, &how, sizeof(how));
}

static bool is_at(int parent_fd, const char *name, dev_t device, ino_t inode)
{
	struct stat st;
	return !fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_dev == device &&
	       st.st_ino == inode;
}

/* The folder's own entries, then the folder, if it still lies there. Folders that somebody put in
 * it stay, and so does it. */
static void remove_folder(int parent_fd, const char *name, int folder_fd)
{
	struct stat st;
	int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (int i = 0; i < MOST_FILES && (entry = readdir(dir)); i++)
		unlinkat(fd, entry->d_name, 0); /* "." and ".." do not go */
	closedir(dir);
	if (!fstat(folder_fd, &st) && is_at(parent_fd, name, st.st_dev, st.st_ino))
		unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* ---- making ---- */

static bool make_name(char ret[NAME_MAX])
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return false;
	snprintf(ret, NAME_MAX, GPU_FOLDER_PREFIX "%012llx",
		 (unsigned long long)(number & 0xffffffffffffULL));
	return true;
}

/* Whether what was opened is what was made. */
static bool is_as_made(int fd, int parent_fd, uid_t owner)
{
	struct stat st, parent;
	return !fstat(fd, &st) && !fstat(parent_fd, &parent) && S_ISDIR(st.st_mode) &&
	       st.st_uid == owner && (st.st_mode & 0777) == FOLDER_MODE && st.st_nlink <= 2 &&
	       st.st_dev == parent.st_dev;
}

static int make_folder(struct gpu_folder *f, uid_t owner, char name[NAME_MAX])
{
	struct stat st;
	int rc = -1;
	for (int i = 0; i < NAME_TRIES && rc; i++) {
		if (!make_name(name))
			return -errno;
		rc = mkdirat(f->parent_fd, name, FOLDER_MODE);
		if (rc && errno != EEXIST)
			return -errno;
	}
	if (rc)
		return -EEXIST;
	f->fd = open_folder(f->parent_fd, name);
	if (f->fd < 0)
		return -errno;
	if (!is_as_made(f->fd, f->parent_fd, owner) || fstat(f->fd, &st))
		return -ESTALE;
	f->device = st.st_dev;
	f->inode = st.st_ino;
	return 0;
}

static int make_lock(struct gpu_folder *f)
{
	f->lock_fd = openat(f->fd, GPU_RINGS_LOCK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return f->lock_fd < 0 || !take_lock(f->lock_fd) ? -errno : 0;
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

static int refuse(struct gpu_folder *f, const char *parent, int rc, struct err *e)
{
	close_all(f);
	if (rc == -ESTALE)
		return err_set(e, ESTALE,
			       "somebody puts other things in the place of folders in %s", parent);
	return err_set(e, -rc, "cannot make a folder in %s: %s", parent, strerror(-rc));
}

int gpu_folder_open_at(struct gpu_folder *ret, int parent_fd, const char *parent, uid_t owner,
		       struct err *e)
{
	struct gpu_folder f = {.fd = -1, .lock_fd = -1};
	char name[NAME_MAX];
	f.parent_fd = fcntl(parent_fd, F_DUPFD_CLOEXEC, 3);
	int rc = f.parent_fd < 0 ? -errno : make_folder(&f, owner, name);
	if (rc)
		return refuse(&f, parent, rc, e);
	int n = snprintf(f.path, sizeof(f.path), "%s/%s", parent, name);
	rc = n < 0 || (size_t)n >= sizeof(f.path) ? -ENAMETOOLONG : make_lock(&f);
	if (rc) {
		remove_folder(f.parent_fd, name, f.fd);
		return refuse(&f, parent, rc, e);
	}
	*ret = f;
	return 0;
}

int gpu_folder_open(struct gpu_folder *ret, const char *parent, struct err *e)
{
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "%s: %s", parent, strerror(errno));
	int rc = gpu_folder_open_at(ret, fd, parent, geteuid(), e);
	close(fd);
	return rc;
}

void gpu_folder_close(struct gpu_folder *f)
{
	remove_folder(f->parent_fd, name_of(f), f->fd);
	close_all(f);
}

/* ---- what was left behind ---- */

struct leftover {
	int parent_fd;
	char name[NAME_MAX + 1];
};

static void free_leftover(void *ctx)
{
	struct leftover *l = ctx;
	close(l->parent_fd);
	free(l);
}

static bool is_locked(int folder_fd)
{
	int fd = openat(folder_fd, GPU_RINGS_LOCK,
			O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	bool locked = !take_lock(fd);
	close(fd);
	return locked;
}

/* As the folder's owner. */
static int remove_stale(void *ctx)
{
	const struct leftover *l = ctx;
	int fd = open_folder(l->parent_fd, l->name);
	if (fd < 0)
		return -errno;
	if (!is_locked(fd))
		remove_folder(l->parent_fd, l->name, fd);
	close(fd);
	return 0;
}

static bool is_old(int parent_fd, const char *name, struct fs_user *owner)
{
	struct stat st;
	if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode))
		return false;
	*owner = (struct fs_user){st.st_uid, st.st_gid};
	return time(NULL) - st.st_mtime >= STALE_S;
}

static void remove_as_owner(int parent_fd, const char *name, const struct fs_user *owner)
{
	struct leftover *l = calloc(1, sizeof(*l));
	if (!l)
		return;
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->parent_fd = fcntl(parent_fd, F_DUPFD_CLOEXEC, 3);
	if (as_user(owner, remove_stale, l, free_leftover) != -ETIMEDOUT)
		free_leftover(l);
}

void gpu_folder_clean_up(const char *parent)
{
	DIR *dir = opendir(parent);
	struct fs_user owner;
	const struct dirent *entry;
	if (!dir)
		return;
	for (int n = 0; n < MOST_STALE && (entry = readdir(dir));) {
		if (strncmp(entry->d_name, GPU_FOLDER_PREFIX, strlen(GPU_FOLDER_PREFIX)) != 0)
			continue;
		n++;
		if (is_old(dirfd(dir), entry->d_name, &owner))
			remove_as_owner(dirfd(dir), entry->d_name, &owner);
	}
	closedir(dir);
}
