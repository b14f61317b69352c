/* unwind_cache.c - keeps compiled unwind tables as files BUILDID-OWNER-SIZE-CRC.unt.
 *
 * A build id is what a file says of itself, and root's cache has tables of everybody's files: so
 * that nobody plants rules for the files of another, the file's owner is part of the name. Its
 * size and the CRC-32 of its .eh_frame keep files apart whose build ids are the same by mistake.
 *
 * A file is the words of wire/unwind.h and nothing else. It is written as NAME.PID.tmp and
 * renamed, so that processes that work on one folder at once see whole files or none, and it
 * is not synced: what a power failure leaves does not pass unwind_table_check. That removes
 * damaged files and those of another UNWIND_TABLE_VERSION, which is raised with every change
 * of what unwind_table.c makes of a file.
 *
 * A folder or file that belongs to someone else is not used: a table of theirs could not harm
 * BPF, but it could draw wrong stacks. */
#include "symbolize/unwind_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buffer.h"

#define DEFAULT_BYTES	  (512ULL << 20)
#define FILE_BYTES_MAX	  (256ULL << 20)
#define SHORTEST_BUILD_ID 16 /* digits; shorter ones are made by hand and mean nothing */
#define TEMPORARY_LASTS_S 600
#define TABLE_ENDING	  ".unt"
#define TEMPORARY_ENDING  ".tmp"
#define ENDING_LEN	  (sizeof(TABLE_ENDING) - 1)

struct unwind_cache {
	int dir; /* -1: there is none */
	uint64_t max_bytes;
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
static char *default_folder(void)
{
	if (variable("EACGM_CACHE"))
		return xasprintf("%s/unwind", variable("EACGM_CACHE"));
	if (geteuid() == 0)
		return xstrdup("/var/cache/eacgm/unwind");
	if (variable("XDG_CACHE_HOME"))
		return xasprintf("%s/eacgm/unwind", variable("XDG_CACHE_HOME"));
	if (variable("HOME"))
		return xasprintf("%s/.cache/eacgm/unwind", variable("HOME"));
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

struct unwind_cache *unwind_cache_open(const char *dir, uint64_t max_bytes)
{
	struct unwind_cache *c = xcalloc(1, sizeof(*c));
	char *path = dir ? xstrdup(dir) : default_folder();

	c->dir = path && path[0] ? open_folder(path) : -1;
	c->max_bytes = max_bytes ? max_bytes : DEFAULT_BYTES;
	free(path);
	return c;
}

void unwind_cache_close(struct unwind_cache *c)
{
	if (!c)
		return;
	if (c->dir >= 0)
		close(c->dir);
	free(c);
}

/* ---- reading ---- */

static bool read_all(int fd, void *to, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (uint8_t *)to + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += n;
	}
	return true;
}

/* Reads the whole of an open file; false when it is not a table. */
static bool read_table(int fd, struct unwind_table *ret)
{
	struct unwind_table t;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_ours(&st) || st.st_size <= 0 ||
	    (uint64_t)st.st_size > FILE_BYTES_MAX || st.st_size % sizeof(*t.words))
		return false;
	t.len = st.st_size / sizeof(*t.words);
	t.words = xrealloc(NULL, t.len, sizeof(*t.words));
	if (!read_all(fd, t.words, st.st_size) || unwind_table_check(t.words, t.len, NULL) < 0) {
		unwind_table_free(&t);
		return false;
	}
	*ret = t;
	return true;
}

/* A file that is used becomes the newest; one that is no table is removed. */
static bool load(const struct unwind_cache *c, const char *name, struct unwind_table *ret)
{
	int fd = openat(c->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool good;

	if (fd < 0) {
		if (errno == ELOOP)
			unlinkat(c->dir, name, 0);
		return false;
	}
	good = read_table(fd, ret);
	if (good)
		futimens(fd, NULL);
	else
		unlinkat(c->dir, name, 0);
	close(fd);
	return good;
}

/* ---- writing ---- */

static bool write_all(int fd, const void *from, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, (const uint8_t *)from + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += n;
	}
	return true;
}

static void store(const struct unwind_cache *c, const char *name, const struct unwind_table *t)
{
	char *temporary = xasprintf("%s.%d" TEMPORARY_ENDING, name, (int)getpid());
	int fd = openat(c->dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool good;

	if (fd >= 0) {
		good = write_all(fd, t->words, t->len * sizeof(*t->words));
		good = close(fd) == 0 && good;
		if (!good || renameat(c->dir, temporary, c->dir, name) < 0)
			unlinkat(c->dir, temporary, 0);
	}
	free(temporary);
}

/* ---- making room ---- */

struct kept {
	char *name;
	uint64_t bytes;
	struct timespec used;
};
typedef VEC(struct kept) kept_t;

static bool has_ending(const char *name, const char *ending)
{
	size_t len = strlen(name);

	return len > ENDING_LEN && strcmp(name + len - ENDING_LEN, ending) == 0;
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

/* Lists the tables, and removes what writers that died have left. */
static void list_kept(const struct unwind_cache *c, kept_t *ret)
{
	/* its own place in the folder, not that of c->dir */
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	struct stat st;

	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(folder))) {
		if (fstatat(c->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (has_ending(entry->d_name, TABLE_ENDING))
			*vec_push(ret) =
				(struct kept){xstrdup(entry->d_name), st.st_size, st.st_mtim};
		else if (has_ending(entry->d_name, TEMPORARY_ENDING) &&
			 time(NULL) - st.st_mtim.tv_sec > TEMPORARY_LASTS_S)
			unlinkat(c->dir, entry->d_name, 0);
	}
	closedir(folder);
}

/* Removes the tables longest unused until so many bytes more are not too many. */
static void make_room(const struct unwind_cache *c, uint64_t bytes)
{
	kept_t kept = {0};

	list_kept(c, &kept);
	for (size_t i = 0; i < kept.len; i++)
		bytes += kept.data[i].bytes;
	if (kept.len)
		qsort(kept.data, kept.len, sizeof(*kept.data), compare_used);
	for (size_t i = 0; i < kept.len; i++) {
		if (bytes > c->max_bytes && unlinkat(c->dir, kept.data[i].name, 0) == 0)
			bytes -= kept.data[i].bytes;
		free(kept.data[i].name);
	}
	vec_free(&kept);
}

/* ---- both ---- */

char *unwind_cache_name(const struct elf_file *f)
{
	return unwind_cache_name_of(elf_file_build_id(f), elf_file_owner(f), elf_file_size(f),
				    unwind_cache_sum(f));
}

uint32_t unwind_cache_sum(const struct elf_file *f)
{
	const uint8_t *eh_frame;
	uint64_t ignored;
	size_t len;

	if (!elf_file_section(f, ".eh_frame", &eh_frame, &len, &ignored))
		return 0;
	return crc32_z(0, eh_frame, len);
}

char *unwind_cache_name_of(const char *build_id, uid_t owner, uint64_t size, uint32_t sum)
{
	if (strlen(build_id) < SHORTEST_BUILD_ID ||
	    build_id[strspn(build_id, "0123456789abcdef")] != '\0')
		return NULL;
	return xasprintf("%s-%u-%" PRIx64 "-%08x" TABLE_ENDING, build_id, owner, size, sum);
}

bool unwind_cache_load(const struct unwind_cache *c, const char *name, struct unwind_table *ret)
{
	return c->dir >= 0 && name && load(c, name, ret);
}

void unwind_cache_store(const struct unwind_cache *c, const char *name,
			const struct unwind_table *t)
{
	uint64_t bytes = t->len * sizeof(*t->words);

	if (c->dir < 0 || !name || bytes > c->max_bytes)
		return;
	make_room(c, bytes);
	store(c, name, t);
}

int unwind_cache_get(struct unwind_cache *c, const struct elf_file *f, struct unwind_table *ret,
		     bool *ret_hit, struct err *e)
{
	char *name = unwind_cache_name(f);
	bool hit = unwind_cache_load(c, name, ret);
	int rc = hit ? 0 : unwind_table_build(f, ret, NULL, e);

	/* a file that was written to meanwhile is not what its name says */
	if (rc == 0 && !hit && !elf_file_changed(f))
		unwind_cache_store(c, name, ret);
	if (ret_hit)
		*ret_hit = hit;
	free(name);
	return rc;
}
