/* sqlite_file.c - SQLite on a file that is open already.
 *
 * Whoever writes by a user's path walks its folders with care and makes a temporary file
 * (base/output_file.h); a library that opens the path once more would throw that care away. So
 * SQLite reads and writes that file by a descriptor of it. There is one writer and no journal:
 * locks and syncs do nothing. Files of SQLite's own, to sort in, are as it makes them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "export/sqlite.h"

#define SECTOR_BYTES 4096

struct sqlite_file {
	sqlite3_vfs vfs;
	const sqlite3_vfs *plain;
	char name[48];
	int fd;
	int failed; /* errno of what failed last */
	sqlite3 *db;
};

/* What SQLite has of the file. */
struct handle {
	sqlite3_file base;
	struct sqlite_file *of;
};

int sqlite_errno(sqlite3 *db, int rc)
{
	int code = db ? sqlite3_system_errno(db) : 0;
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_NOMEM:
		return ENOMEM;
	case SQLITE_TOOBIG:
		return EFBIG;
	case SQLITE_READONLY:
		return EACCES;
	case SQLITE_INTERRUPT:
		return EINTR;
	default:
		return code ? code : EIO;
	}
}

/* ---- the file ---- */

static int fd_of(sqlite3_file *file)
{
	return ((struct handle *)file)->of->fd;
}

/* SQLite asks for errno when others have used it. */
static int failed(sqlite3_file *file, int code, int rc)
{
	((struct handle *)file)->of->failed = code;
	return rc;
}

static int file_close(sqlite3_file *file)
{
	(void)file; /* sqlite_file_close does */
	return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *ret, int n, sqlite3_int64 at)
{
	for (int done = 0; done < n;) {
		ssize_t got = pread(fd_of(file), (char *)ret + done, (size_t)(n - done), at + done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return failed(file, errno, SQLITE_IOERR_READ);
		if (!got) {
			memset((char *)ret + done, 0, (size_t)(n - done));
			return SQLITE_IOERR_SHORT_READ;
		}
		done += (int)got;
	}
	return SQLITE_OK;
}

static int file_write(sqlite3_file *file, const void *data, int n, sqlite3_int64 at)
{
	for (int done = 0; done < n;) {
		ssize_t put = pwrite(fd_of(file), (const char *)data + done, (size_t)(n - done),
				     at + done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return failed(file, put ? errno : ENOSPC, SQLITE_IOERR_WRITE);
		done += (int)put;
	}
	return SQLITE_OK;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	if (ftruncate(fd_of(file), size))
		return failed(file, errno, SQLITE_IOERR_TRUNCATE);
	return SQLITE_OK;
}

static int file_sync(sqlite3_file *file, int flags)
{
	(void)file, (void)flags;
	return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	struct stat st;
	if (fstat(fd_of(file), &st))
		return failed(file, errno, SQLITE_IOERR_FSTAT);
	*ret = st.st_size;
	return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level)
{
	(void)file, (void)level;
	return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *file, int *ret)
{
	(void)file;
	*ret = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int what, void *arg)
{
	(void)file, (void)what, (void)arg;
	return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
	(void)file;
	return SECTOR_BYTES;
}

static int file_traits(sqlite3_file *file)
{
	(void)file;
	return 0;
}

static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_lock,
	.xCheckReservedLock = file_is_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_traits,
};

/* ---- opening ---- */

static int open_one(sqlite3_vfs *vfs, const char *name, sqlite3_file *ret, int flags,
		    int *ret_flags)
{
	struct sqlite_file *f = vfs->pAppData;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return f->plain->xOpen((sqlite3_vfs *)f->plain, name, ret, flags, ret_flags);
	*(struct handle *)ret = (struct handle){.base = {.pMethods = &methods}, .of = f};
	if (ret_flags)
		*ret_flags = flags;
	return SQLITE_OK;
}

static int path_as_it_is(sqlite3_vfs *vfs, const char *path, int size, char *ret)
{
	(void)vfs;
	return snprintf(ret, (size_t)size, "%s", path) < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

static void make_vfs(struct sqlite_file *f)
{
	snprintf(f->name, sizeof(f->name), "eacgm-%p", (void *)f);
	f->plain = sqlite3_vfs_find(NULL);
	f->vfs = *f->plain;
	f->vfs.zName = f->name;
	f->vfs.pNext = NULL;
	f->vfs.pAppData = f;
	f->vfs.xOpen = open_one;
	f->vfs.xFullPathname = path_as_it_is;
	if (f->vfs.szOsFile < (int)sizeof(struct handle))
		f->vfs.szOsFile = (int)sizeof(struct handle);
	sqlite3_vfs_register(&f->vfs, 0);
}

struct sqlite_file *sqlite_file_open(int fd)
{
	char again[32];
	struct sqlite_file *f = xcalloc(1, sizeof(*f));
	/* the stream's can only write */
	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	f->fd = open(again, O_RDWR | O_CLOEXEC);
	if (f->fd < 0) {
		free(f);
		return NULL;
	}
	sqlite3_initialize();
	make_vfs(f);
	int rc = sqlite3_open_v2("export", &f->db, SQLITE_OPEN_READWRITE, f->name);
	if (rc == SQLITE_OK)
		return f;
	int code = sqlite_errno(f->db, rc);
	sqlite_file_close(f);
	errno = code;
	return NULL;
}

int sqlite_file_errno(const struct sqlite_file *f)
{
	return f->failed;
}

sqlite3 *sqlite_file_db(const struct sqlite_file *f)
{
	return f->db;
}

void sqlite_file_close(struct sqlite_file *f)
{
	sqlite3_close(f->db);
	sqlite3_vfs_unregister(&f->vfs);
	close(f->fd);
	free(f);
}
