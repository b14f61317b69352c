/* flight_file.c - writes what was copied as a recording of its own, and keeps the folder within its
 * limits. A file has its name when it is whole and on the disk; until then, and where it fails,
 * there is none. Only regular files whose names are exactly as ours are ever taken away. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/folder_walk.h"
#include "recording/segment_rows.h"
#include "session/flight_impl.h"

#define SECOND_NS   1000000000ULL
#define NAME_BYTES  FLIGHT_NAME_BYTES
#define NUMBER_MOST 999		       /* files of one second */
#define FILES_MOST  (1 << 16)	       /* that are looked at */
#define TEMPORARY   ".tmp."	       /* and eight digits: base/output_file.c's */
#define LEFT_NS	    (3600 * SECOND_NS) /* a temporary file this old is of one that was killed */

struct our_file {
	char name[NAME_BYTES];
	uint64_t time_ns; /* by its name */
	uint32_t number;
	uint64_t id; /* 0: none */
	uint64_t bytes;
};

struct our_files {
	VEC(struct our_file) rows;
	uint64_t bytes;
};

/* ---- names ---- */

static void print_name(char ret[static NAME_BYTES], uint64_t time_ns, uint32_t number, uint64_t id)
{
	time_t seconds = (time_t)(time_ns / SECOND_NS);
	struct tm tm;
	gmtime_r(&seconds, &tm);
	size_t n = strftime(ret, NAME_BYTES, "freeze-%Y%m%dT%H%M%SZ-", &tm);
	n += (size_t)snprintf(ret + n, NAME_BYTES - n, "%" PRIu32, number);
	if (id)
		n += (size_t)snprintf(ret + n, NAME_BYTES - n, "-" FLIGHT_ID, id);
	snprintf(ret + n, NAME_BYTES - n, ".eacgm");
}

/* Whether it is the name that a file of ours of some time has. */
static bool parse_name(struct our_file *ret, const char *name)
{
	struct tm tm = {0};
	unsigned number;
	uint64_t id = 0;
	/* without an id seven are found; that all else fits is seen where it is printed again */
	if (strlen(name) >= sizeof(ret->name) ||
	    sscanf(name, "freeze-%4d%2d%2dT%2d%2d%2dZ-%3u-%16" SCNx64 ".eacgm", &tm.tm_year,
		   &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &number, &id) < 7)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	time_t seconds = timegm(&tm);
	if (seconds < 0)
		return false;
	*ret = (struct our_file){
		.time_ns = (uint64_t)seconds * SECOND_NS, .number = number, .id = id};
	print_name(ret->name, ret->time_ns, number, id);
	return !strcmp(ret->name, name);
}

/* Of one that was being written. */
static bool is_temporary(const char *name)
{
	const char *end = strstr(name, TEMPORARY);
	char whole[NAME_BYTES];
	struct our_file file;
	if (!end || (size_t)(end - name) >= sizeof(whole))
		return false;
	const char *digits = end + strlen(TEMPORARY);
	if (strlen(digits) != 8 || strspn(digits, "0123456789abcdef") != 8)
		return false;
	snprintf(whole, sizeof(whole), "%.*s", (int)(end - name), name);
	return parse_name(&file, whole);
}

/* ---- the folder ---- */

/* As far as the folder above it is there. 0, or why mkdirat failed: also where it was there before.
 */
static int make_folder(const struct flight_options *o)
{
	size_t len = strlen(o->folder);
	int fd, ret = 0;
	char *name;
	while (len > 1 && o->folder[len - 1] == '/')
		len--;
	char *path = xasprintf("%.*s", (int)len, o->folder);
	if (!folder_walk(path, &o->owner, &fd, &name, NULL)) {
		if (mkdirat(fd, name, 0700))
			ret = errno;
		else if (o->owner.known &&
			 fchownat(fd, name, o->owner.uid, o->owner.gid, AT_SYMLINK_NOFOLLOW))
			errno = 0; /* a file system without owners */
		close(fd);
		free(name);
	}
	free(path);
	return ret;
}

int flight_folder_make(const struct flight_options *o, struct err *e)
{
	int made = make_folder(o);
	char *inside = xasprintf("%s/.", o->folder);
	int why = faccessat(AT_FDCWD, inside, W_OK | X_OK, AT_EACCESS) ? errno : 0;
	free(inside);
	if (!why)
		return 0;
	if (why == ENOENT && made && made != EEXIST) /* that of a link to nowhere */
		why = made;
	return err_set(e, why, "nothing can be frozen: the folder '%s': %s", o->folder,
		       strerror(why));
}

static DIR *open_folder(const struct flight_options *o)
{
	char *path = xasprintf("%s/freeze", o->folder), *name;
	int fd, held;
	DIR *ret = NULL;
	if (!folder_walk(path, &o->owner, &held, &name, NULL)) {
		fd = openat(held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ret = fd >= 0 ? fdopendir(fd) : NULL;
		if (!ret && fd >= 0)
			close(fd);
		close(held);
		free(name);
	}
	free(path);
	return ret;
}

/* ---- what is over the limits ---- */

static int by_time(const void *a, const void *b)
{
	const struct our_file *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static void look_at(struct our_files *files, int fd, const char *name, uint64_t now_ns)
{
	struct our_file file;
	struct stat st;
	bool is_file = parse_name(&file, name);
	if ((!is_file && !is_temporary(name)) || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return;
	if (!is_file && timespec_ns(&st.st_mtim) + LEFT_NS < now_ns)
		unlinkat(fd, name, 0);
	if (!is_file || files->rows.len == FILES_MOST)
		return;
	file.bytes = (uint64_t)st.st_size;
	files->bytes += file.bytes;
	*vec_push(&files->rows) = file;
}

static bool is_over(const struct flight_options *o, const struct our_files *files, size_t gone,
		    uint64_t now_ns)
{
	return (o->most_files && files->rows.len - gone > o->most_files) ||
	       (o->most_bytes && files->bytes > o->most_bytes) ||
	       (o->most_age_ns && files->rows.data[gone].time_ns + o->most_age_ns < now_ns);
}

void flight_files_bound(const struct flight_options *o, const char *newest)
{
	struct our_files files = {0};
	uint64_t now_ns = realtime_ns();
	DIR *dir = open_folder(o);
	if (!dir)
		return;
	for (const struct dirent *entry; (entry = readdir(dir));)
		look_at(&files, dirfd(dir), entry->d_name, now_ns);
	if (files.rows.len)
		qsort(files.rows.data, files.rows.len, sizeof(*files.rows.data), by_time);
	for (size_t i = 0; i < files.rows.len && is_over(o, &files, i, now_ns); i++) {
		const struct our_file *file = &files.rows.data[i];
		if (newest && !strcmp(file->name, path_file_name(newest)))
			break; /* those behind it are newer, unless somebody set the clock back */
		unlinkat(dirfd(dir), file->name, 0);
		files.bytes -= file->bytes;
	}
	vec_free(&files.rows);
	closedir(dir);
}

/* ---- to be read ---- */

static void look_for_files(struct our_files *ret, const struct flight_options *o)
{
	DIR *dir = open_folder(o);
	if (!dir)
		return;
	for (const struct dirent *entry; (entry = readdir(dir));)
		look_at(ret, dirfd(dir), entry->d_name, 0); /* nothing is old then */
	if (ret->rows.len)
		qsort(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data), by_time);
	closedir(dir);
}

size_t flight_files_list(const struct flight_options *o, struct flight_found *ret, size_t most)
{
	struct our_files files = {0};
	size_t n = 0;
	look_for_files(&files, o);
	for (size_t i = files.rows.len; i-- && n < most; n++) {
		const struct our_file *file = &files.rows.data[i];
		ret[n] = (struct flight_found){.time_ns = file->time_ns, .bytes = file->bytes};
		memcpy(ret[n].name, file->name, sizeof(ret[n].name));
	}
	vec_free(&files.rows);
	return n;
}

int flight_file_read(const struct flight_options *o, const char *name, uint64_t *ret_bytes)
{
	struct our_file file;
	struct stat st;
	DIR *dir = parse_name(&file, name) ? open_folder(o) : NULL;
	if (!dir)
		return -ENOENT;
	int fd = openat(dirfd(dir), file.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int rc = fd < 0 ? -errno : 0;
	closedir(dir);
	if (!rc && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		rc = -ENOENT;
	if (rc && fd >= 0)
		close(fd);
	if (rc)
		return rc;
	*ret_bytes = (uint64_t)st.st_size;
	return fd;
}

/* ---- a file ---- */

static char *free_path(const struct flight_options *o, uint64_t time_ns, uint64_t id)
{
	char name[NAME_BYTES];
	struct stat st;
	for (uint32_t number = 1;; number++) {
		print_name(name, time_ns, number, id);
		char *path = xasprintf("%s/%s", o->folder, name);
		if (number == NUMBER_MOST || lstat(path, &st))
			return path;
		free(path);
	}
}

static void put_table(struct rec_writer *w, const struct rec_tables *t, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *rows = rec_rows(t, k);
	/* the number of no stack is not written */
	for (size_t i = kind == ROW_STACK; i < rows->len; i++) {
		const uint8_t *row = rows->data + i * k->row_bytes;
		if (k->keeping == ROWS_INDEXED)
			rec_add(w, kind, row);
		else
			rec_put(w, kind, row);
	}
}

static void put_tables(struct rec_writer *w, const struct rec_tables *t)
{
	for (uint32_t i = 0; i < strtab_len(&t->strings); i++)
		segment_rows_string(w, i, strtab_get(&t->strings, i, NULL));
#define X(number, NAME, stem, members) put_table(w, t, ROW_##NAME);
	ROW_TABLES(X)
#undef X
}

static void put_rows(void *ctx, const struct visited_rows *v)
{
	const uint8_t *row = v->rows;
	if (v->kind == ROW_CALL) {
		rec_put_calls(ctx, v->rows, v->len);
		return;
	}
	for (size_t i = 0; i < v->len; i++)
		rec_put(ctx, v->kind, row + i * row_kind_info(v->kind)->row_bytes);
}

static int write_all(struct rec_writer *w, struct row_window *rows, struct err *e)
{
	const struct row_source *s = row_window_source(rows);
	put_tables(w, s->tables);
#define X(number, NAME, stem, members) rows_read(s, ROW_##NAME, put_rows, w);
	ROW_BULKS(X)
#undef X
	int rc = rec_writer_end(w, true, e);
	return rc ? rc : rec_writer_name(w, e);
}

int flight_file_write(const struct flight_options *o, struct row_window *rows, uint64_t time_ns,
		      uint64_t id, char **ret_path, struct err *e)
{
	struct rec_writer_options options = {.owner = o->owner, .named_when_told = true};
	struct rec_writer *w = NULL;
	make_folder(o);
	*ret_path = free_path(o, time_ns, id);
	int rc = rec_writer_open(&w, *ret_path, &options, e);
	if (rc)
		return rc;
	rc = write_all(w, rows, e);
	int closed = rec_writer_close(w, false, rc ? NULL : e);
	return rc ? rc : closed;
}
