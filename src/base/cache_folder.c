/* cache_folder.c - one folder, without folders in it.
 *
 * The folder is listed before the first file is stored, and then what is stored is counted, for a
 * folder may have thousands of files. Others may store in it too: it is listed again after an
 * eighth of what it may hold, which is how much too much there can be for each that works on it. */
#include "base/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define USED_LATELY_S	  86400
#define TEMPORARY_LASTS_S 600
#define TEMPORARY_ENDING  ".tmp"
#define LISTED_PARTS	  8

struct kept {
	char *name;
	uint64_t bytes;
	struct timespec used;
};

struct cache_folder {
	int dir; /* -1: there is none */
	struct cache_kind kind;
	bool listed;
	uint64_t bytes, files;		     /* there are, by the list and what was stored since */
	uint64_t stored_bytes, stored_files; /* since the list */
	VEC(struct kept) oldest;	     /* by the list, the longest unused first */
	size_t next;			     /* of them, to go */
};

/* ---- the folder ---- */

static bool is_ours(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Makes a folder and those above it; what fails is seen when it is opened. */
static void make_folders(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	mkdir(path, 0700);
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

/* malloc'ed, or NULL where no place is known. */
static char *default_path(const char *folder)
{
	if (variable("EACGM_CACHE"))
		return xasprintf("%s/%s", variable("EACGM_CACHE"), folder);
	if (geteuid() == 0)
		return xasprintf("/var/cache/eacgm/%s", folder);
	if (variable("XDG_CACHE_HOME"))
		return xasprintf("%s/eacgm/%s", variable("XDG_CACHE_HOME"), folder);
	if (variable("HOME"))
		return xasprintf("%s/.cache/eacgm/%s", variable("HOME"), folder);
	return NULL;
}

static int open_folder(char *path)
{
	struct stat st;
	int fd;

	make_folders(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !is_ours(&st))) {
		close(fd);
		return -1;
	}
	return fd;
}

struct cache_folder *cache_folder_open(const char *path, const struct cache_kind *kind)
{
	struct cache_folder *c = xcalloc(1, sizeof(*c));
	char *own = path ? xstrdup(path) : default_path(kind->folder);

	c->dir = own && own[0] ? open_folder(own) : -1;
	c->kind = *kind;
	free(own);
	return c;
}

static void forget_list(struct cache_folder *c)
{
	for (size_t i = 0; i < c->oldest.len; i++)
		free(c->oldest.data[i].name);
	c->oldest.len = c->next = 0;
	c->bytes = c->files = c->stored_bytes = c->stored_files = 0;
	c->listed = false;
}

void cache_folder_close(struct cache_folder *c)
{
	if (!c)
		return;
	forget_list(c);
	vec_free(&c->oldest);
	if (c->dir >= 0)
		close(c->dir);
	free(c);
}

/* ---- reading ---- */

static bool read_all(int fd, uint8_t *to, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, to + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += n;
	}
	return true;
}

static bool read_file(const struct cache_folder *c, int fd, time_t *ret_used, struct buf *ret)
{
	struct buf b = {0};
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_ours(&st) || st.st_size <= 0 ||
	    (uint64_t)st.st_size > c->kind.max_bytes_a_file)
		return false;
	b.data = xrealloc(NULL, st.st_size, 1);
	b.len = b.cap = st.st_size;
	if (!read_all(fd, b.data, b.len)) {
		buf_free(&b);
		return false;
	}
	*ret_used = st.st_mtim.tv_sec;
	*ret = b;
	return true;
}

static bool load(struct cache_folder *c, const char *name,
		 bool (*is_good)(void *ctx, const uint8_t *bytes, size_t len), void *ctx,
		 struct buf *ret)
{
	int fd = openat(c->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct buf b = {0};
	time_t used;
	bool good;

	if (fd < 0) {
		if (errno == ELOOP)
			unlinkat(c->dir, name, 0);
		return false;
	}
	good = read_file(c, fd, &used, &b) && is_good(ctx, b.data, b.len);
	if (good) {
		if (time(NULL) - used > USED_LATELY_S) /* a disk may take long for it */
			futimens(fd, NULL);
		*ret = b;
	} else {
		unlinkat(c->dir, name, 0);
		buf_free(&b);
	}
	close(fd);
	return good;
}

bool cache_folder_load(struct cache_folder *c, const char *name,
		       bool (*is_good)(void *ctx, const uint8_t *bytes, size_t len), void *ctx,
		       struct buf *ret)
{
	return c->dir >= 0 && load(c, name, is_good, ctx, ret);
}

int cache_folder_open_file(const struct cache_folder *c, const char *name)
{
	struct stat st;
	int fd = c->dir < 0 ? -1
			    : openat(c->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_ours(&st))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* ---- making room ---- */

static bool has_ending(const char *name, const char *ending)
{
	size_t len = strlen(name), ending_len = strlen(ending);

	return len > ending_len && strcmp(name + len - ending_len, ending) == 0;
}

static int compare_used(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	if (x->used.tv_nsec != y->used.tv_nsec)
		return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* A file of the folder: one to count, or what a writer that died has left. */
static void look_at(struct cache_folder *c, const char *name)
{
	struct stat st;

	if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	if (has_ending(name, c->kind.ending)) {
		*vec_push(&c->oldest) = (struct kept){xstrdup(name), st.st_size, st.st_mtim};
		c->bytes += st.st_size;
		c->files++;
	} else if (has_ending(name, TEMPORARY_ENDING) &&
		   time(NULL) - st.st_mtim.tv_sec > TEMPORARY_LASTS_S) {
		unlinkat(c->dir, name, 0);
	}
}

static void list(struct cache_folder *c)
{
	/* its own place in the folder, not that of c->dir */
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	forget_list(c);
	c->listed = true;
	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(folder)))
		look_at(c, entry->d_name);
	closedir(folder);
	if (c->oldest.len)
		qsort(c->oldest.data, c->oldest.len, sizeof(*c->oldest.data), compare_used);
}

/* Removes a file of the list, unless it was used or written since. */
static void remove_unused(struct cache_folder *c, const struct kept *k)
{
	struct stat st;
	bool there = fstatat(c->dir, k->name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (there && (st.st_mtim.tv_sec != k->used.tv_sec || st.st_mtim.tv_nsec != k->used.tv_nsec))
		return;
	if (there && unlinkat(c->dir, k->name, 0) < 0)
		return;
	c->bytes -= k->bytes;
	c->files--;
}

static bool has_room(const struct cache_folder *c, uint64_t bytes)
{
	return c->bytes + bytes <= c->kind.max_bytes && c->files + 1 <= c->kind.max_files;
}

static bool is_list_old(const struct cache_folder *c)
{
	return !c->listed || c->stored_bytes > c->kind.max_bytes / LISTED_PARTS ||
	       c->stored_files > c->kind.max_files / LISTED_PARTS;
}

/* False where there is no room for so many bytes more. */
static bool make_room(struct cache_folder *c, uint64_t bytes)
{
	bool fresh = is_list_old(c);

	if (fresh)
		list(c);
	while (!has_room(c, bytes)) {
		if (c->next < c->oldest.len) {
			remove_unused(c, &c->oldest.data[c->next++]);
		} else if (fresh) {
			return false;
		} else {
			list(c);
			fresh = true;
		}
	}
	return true;
}

/* ---- writing ---- */

static bool write_all(int fd, const uint8_t *from, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, from + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += n;
	}
	return true;
}

static bool store(const struct cache_folder *c, const char *name, const void *bytes, size_t len)
{
	char *temporary = xasprintf("%s.%d" TEMPORARY_ENDING, name, (int)getpid());
	int fd = openat(c->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool good = fd >= 0;

	if (good) {
		good = write_all(fd, bytes, len);
		good = close(fd) == 0 && good;
		good = good && renameat(c->dir, temporary, c->dir, name) == 0;
		if (!good)
			unlinkat(c->dir, temporary, 0);
	}
	free(temporary);
	return good;
}

void cache_folder_store(struct cache_folder *c, const char *name, const void *bytes, size_t len)
{
	if (c->dir < 0 || len > c->kind.max_bytes || len > c->kind.max_bytes_a_file ||
	    !make_room(c, len) || !store(c, name, bytes, len))
		return;
	c->bytes += len;
	c->files++;
	c->stored_bytes += len;
	c->stored_files++;
}
