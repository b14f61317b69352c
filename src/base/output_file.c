/* output_file.c - creates, names and takes away files by paths that may be traps. What was looked
 * at is held by a descriptor, so that nothing can be put in its place between look and use. */
#include "base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/types.h>

#include "base/buffer.h"
#include "base/folder_walk.h"

#define OTHERS_WRITE   (S_IWGRP | S_IWOTH)
#define NAME_TRIES     100
#define NAME_KEPT      200 /* bytes of a name in its temporary one; NAME_MAX is 255 */
#define REOPEN_FLAGS   (O_WRONLY | O_CLOEXEC | O_NOCTTY)
#define TEMPORARY_FLAG (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

int output_file_error(const struct output_file *o, int code, struct err *e)
{
	return err_set(e, code, "cannot write '%s': %s", o->path, strerror(code));
}

/* ---- what stands there ---- */

/* The descriptor that a path names, or -1. It is used as it is: its file may lie where no path
 * leads, and opening it once more would have a place of its own. */
static int own_descriptor(const char *path)
{
	int fd, end = 0;
	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	if (sscanf(path, "/dev/fd/%9d%n", &fd, &end) != 1)
		sscanf(path, "/proc/self/fd/%9d%n", &fd, &end);
	return end && !path[end] && fd >= 0 ? fd : -1;
}

bool output_file_is_direct(const char *path)
{
	struct stat st;
	return own_descriptor(path) >= 0 || (!stat(path, &st) && !S_ISREG(st.st_mode));
}

static bool is_callers(const struct stat *st, const struct output_owner *owner)
{
	return st->st_uid == geteuid() || (owner->known && st->st_uid == owner->uid);
}

/* What the name is, held by *ret without being opened; a link is looked through where only root and
 * the caller can have put it there. -ENOENT: it is free. */
static int look(const struct output_file *o, const struct output_owner *owner, int *ret,
		struct stat *st)
{
	int fd = openat(o->folder_fd, o->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret = fd;
	if (fstat(fd, st))
		return -errno;
	if (S_ISLNK(st->st_mode) && folder_is_ours(o->folder_fd, owner)) {
		int behind = openat(o->folder_fd, o->name, O_PATH | O_CLOEXEC);
		if (behind >= 0) {
			close(fd);
			*ret = behind;
			return fstat(behind, st) ? -errno : 0;
		}
	}
	return 0;
}

static bool is_sticky_and_shared(int folder_fd)
{
	struct stat st;
	return fstat(folder_fd, &st) || (st.st_mode & S_ISVTX && st.st_mode & OTHERS_WRITE);
}

/* A pipe or a device, by the descriptor that holds it. */
static int open_directly(struct output_file *o, const struct output_owner *owner, int held,
			 const struct stat *st, struct err *e)
{
	char again[32];
	if (!folder_is_ours(o->folder_fd, owner) && !is_callers(st, owner) && st->st_uid != 0)
		return err_set(e, EPERM,
			       "cannot write '%s': it is a pipe or device of somebody else in a "
			       "folder that others may write",
			       o->path);
	snprintf(again, sizeof(again), "/proc/self/fd/%d", held);
	o->fd = open(again, REOPEN_FLAGS);
	return o->fd < 0 ? output_file_error(o, errno, e) : 0;
}

/* 1: it is written to directly; 0: the name may be given to a new file. */
static int judge(struct output_file *o, const struct output_owner *owner, int held,
		 const struct stat *st, struct err *e)
{
	if (S_ISFIFO(st->st_mode) || S_ISCHR(st->st_mode)) {
		int rc = open_directly(o, owner, held, st, e);
		return rc ? rc : 1;
	}
	if (S_ISDIR(st->st_mode))
		return output_file_error(o, EISDIR, e);
	if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
		return err_set(e, EINVAL, "cannot write '%s': it is neither a file nor a pipe",
			       o->path);
	if (is_sticky_and_shared(o->folder_fd) && !is_callers(st, owner))
		return err_set(e, EPERM,
			       "cannot write '%s': what is there belongs to somebody else; choose "
			       "another name or folder",
			       o->path);
	return 0;
}

/* ---- creating ---- */

static char *temporary_name(const char *name)
{
	uint32_t number = 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = (uint32_t)getpid();
	return xasprintf("%.*s.tmp.%08x", NAME_KEPT, name, number);
}

static int create_temporary(struct output_file *o, struct err *e)
{
	for (int i = 0; i < NAME_TRIES; i++) {
		o->temporary = temporary_name(o->name);
		o->fd = openat(o->folder_fd, o->temporary, TEMPORARY_FLAG, 0666);
		if (o->fd >= 0)
			return 0;
		int code = errno;
		free(o->temporary);
		o->temporary = NULL;
		if (code != EEXIST)
			return output_file_error(o, code, e);
	}
	return output_file_error(o, EEXIST, e);
}

static int create(struct output_file *o, const struct output_owner *owner, struct err *e)
{
	struct stat st = {0};
	int held = -1, rc = look(o, owner, &held, &st);
	if (!rc)
		rc = judge(o, owner, held, &st, e);
	else
		rc = rc == -ENOENT ? 0 : output_file_error(o, -rc, e);
	if (held >= 0)
		close(held);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = create_temporary(o, e);
	if (rc || !owner->known || !fchown(o->fd, owner->uid, owner->gid))
		return rc;
	return 0; /* of a file system without owners */
}

static int use_descriptor(struct output_file *o, int fd, struct err *e)
{
	o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return o->fd < 0 ? output_file_error(o, errno, e) : 0;
}

static int create_by_path(struct output_file *o, const struct output_owner *owner, struct err *e)
{
	int rc = folder_walk(o->path, owner, &o->folder_fd, &o->name, e);
	if (rc)
		return rc;
	rc = create(o, owner, e);
	if (!rc && o->temporary)
		return 0;
	close(o->folder_fd);
	o->folder_fd = -1;
	return rc;
}

int output_file_create(struct output_file *o, const char *path, const struct output_owner *owner,
		       struct err *e)
{
	static const struct output_owner nobody;
	int own = own_descriptor(path);
	*o = (struct output_file){.fd = -1, .folder_fd = -1, .path = xstrdup(path)};
	int rc = own >= 0 ? use_descriptor(o, own, e)
			  : create_by_path(o, owner ? owner : &nobody, e);
	if (rc) {
		free(o->name);
		free(o->path);
	}
	return rc;
}

/* ---- naming and the end ---- */

int output_file_name(struct output_file *o, struct err *e)
{
	if (!o->temporary)
		return 0;
	if (renameat(o->folder_fd, o->temporary, o->folder_fd, o->name))
		return output_file_error(o, errno, e);
	free(o->temporary);
	o->temporary = NULL;
	return 0;
}

static int close_descriptor(struct output_file *o, struct err *e)
{
	int fd = o->fd;
	o->fd = -1;
	return fd >= 0 && close(fd) ? output_file_error(o, errno, e) : 0;
}

int output_file_close(struct output_file *o, struct err *e)
{
	int rc = close_descriptor(o, e);
	if (o->temporary)
		unlinkat(o->folder_fd, o->temporary, 0);
	if (o->folder_fd >= 0)
		close(o->folder_fd);
	free(o->temporary);
	free(o->name);
	free(o->path);
	*o = (struct output_file){.fd = -1, .folder_fd = -1};
	return rc;
}

int output_file_finish(struct output_file *o, int rc, struct err *e)
{
	int closed = close_descriptor(o, rc ? NULL : e);
	if (!rc)
		rc = closed ? closed : output_file_name(o, e);
	output_file_close(o, NULL);
	return rc;
}

/* Whether the name still is this file's. */
static bool has_its_name(const struct output_file *o)
{
	struct stat file, there;
	return o->folder_fd >= 0 && !o->temporary && !fstat(o->fd, &file) &&
	       !fstatat(o->folder_fd, o->name, &there, AT_SYMLINK_NOFOLLOW) &&
	       file.st_dev == there.st_dev && file.st_ino == there.st_ino;
}

void output_file_discard(struct output_file *o)
{
	if (has_its_name(o))
		unlinkat(o->folder_fd, o->name, 0);
	output_file_close(o, NULL);
}
