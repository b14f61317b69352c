/* folder_walk.c - walks a path folder by folder with openat(2) and O_NOFOLLOW. Links are read and
 * walked in the same way. Those of /proc lead where no text does: the kernel follows them. */
#include "base/folder_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/output_file.h"

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)
#define LINKS_MOST   40 /* as the kernel: path_resolution(7) */

struct walk {
	int fd;	    /* where it has come */
	char *rest; /* of the path */
	unsigned links;
	const struct output_owner *owner;
};

bool folder_is_ours(int fd, const struct output_owner *owner)
{
	struct stat st;
	return !fstat(fd, &st) && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	       (st.st_uid == 0 || st.st_uid == geteuid() ||
		(owner->known && st.st_uid == owner->uid));
}

static bool is_of_proc(int fd)
{
	struct statfs fs;
	return !fstatfs(fd, &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

static int go_to(struct walk *w, int fd)
{
	if (fd < 0)
		return -errno;
	if (w->fd >= 0)
		close(w->fd);
	w->fd = fd;
	return 0;
}

static int follow(struct walk *w, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(w->fd, name, target, sizeof(target));
	if (n < 0)
		return errno == EINVAL ? -ENOTDIR : -errno;
	if (++w->links > LINKS_MOST)
		return -ELOOP;
	if (!folder_is_ours(w->fd, w->owner))
		return -EXDEV;
	if (is_of_proc(w->fd))
		return go_to(w, openat(w->fd, name, FOLDER_FLAGS));
	if ((size_t)n == sizeof(target))
		return -ENAMETOOLONG;
	char *rest = xasprintf("%.*s/%s", (int)n, target, w->rest);
	free(w->rest);
	w->rest = rest;
	return target[0] == '/' ? go_to(w, open("/", FOLDER_FLAGS)) : 0;
}

/* With O_DIRECTORY, for O_PATH alone mounts nothing where a folder waits to be (open(2)). */
static int enter(struct walk *w, const char *name)
{
	int fd = openat(w->fd, name, FOLDER_FLAGS | O_NOFOLLOW);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return follow(w, name);
	return go_to(w, fd);
}

/* Takes the next name off the rest; NULL: there is none. The caller's. */
static char *next_name(struct walk *w)
{
	const char *from = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(from, "/");
	if (!len)
		return NULL;
	char *name = xasprintf("%.*s", (int)len, from);
	memmove(w->rest, from + len, strlen(from + len) + 1);
	return name;
}

static int walk_all(struct walk *w, const char *path, struct err *e)
{
	char *name;
	int rc = go_to(w, open(w->rest[0] == '/' ? "/" : ".", FOLDER_FLAGS));
	while (!rc && (name = next_name(w))) {
		rc = enter(w, name);
		if (rc == -EXDEV)
			err_set(e, EXDEV,
				"cannot write '%s': '%s' in it is a symbolic link in a folder that "
				"others may write; give the path without the link",
				path, name);
		else if (rc)
			err_set(e, -rc, "cannot write '%s': %s", path, strerror(-rc));
		free(name);
	}
	return rc;
}

/* Where the last name begins; NULL where the path names a folder. */
static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 ? name : NULL;
}

int folder_walk(const char *path, const struct output_owner *owner, int *ret_fd, char **ret_name,
		struct err *e)
{
	const char *name = last_name(path);
	if (!name) {
		int code = *path ? EISDIR : ENOENT;
		return err_set(e, code, "cannot write '%s': %s", path, strerror(code));
	}
	struct walk w = {.fd = -1, .owner = owner};
	w.rest = xasprintf("%.*s", (int)(name - path), path);
	int rc = walk_all(&w, path, e);
	free(w.rest);
	if (rc) {
		if (w.fd >= 0)
			close(w.fd);
		return rc;
	}
	*ret_fd = w.fd;
	*ret_name = xstrdup(name);
	return 0;
}
