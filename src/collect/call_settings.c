/* call_settings.c - by pwrite(2), as all that is said to processes. A file has its blocks from the
 * first: who maps it cannot fail to read it. */
#include "collect/call_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/buffer.h"

#define FIRST_NS   2000000 /* readings are off by some 50 ns: a thousandth of a bucket's width */
#define PAGE_BYTES 4096

uint64_t call_settings_rate(const struct ticks_pair *a, const struct ticks_pair *b)
{
	if (b->ticks <= a->ticks || b->ns <= a->ns)
		return 0;
	return (uint64_t)((double)(b->ns - a->ns) / (double)(b->ticks - a->ticks) * 4294967296.0);
}

void call_settings_begin(struct call_settings *ret)
{
	memset(ret, 0, sizeof(*ret));
	struct ticks_pair a = ticks_pair_read(true);
	nanosleep(&(struct timespec){.tv_nsec = FIRST_NS}, NULL);
	struct ticks_pair b = ticks_pair_read(true);
	ret->magic = CALL_SETTINGS_MAGIC;
	ret->rate = call_settings_rate(&a, &b);
}

static int make(const struct call_settings *s, int folder_fd)
{
	int fd = openat(folder_fd, CALL_SETTINGS, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	int rc = fchmod(fd, 0644) ? errno : posix_fallocate(fd, 0, sizeof(*s));
	if (!rc && pwrite(fd, s, sizeof(*s), 0) != sizeof(*s))
		rc = EIO;
	if (!rc)
		return fd;
	close(fd);
	return -rc;
}

static int refuse(int rc, struct err *e)
{
	return err_set(e, -rc, "cannot make a file for processes: %s", strerror(-rc));
}

int call_settings_make(const struct call_settings *s, int folder_fd, struct err *e)
{
	int fd = make(s, folder_fd);
	return fd < 0 ? refuse(fd, e) : fd;
}

struct making {
	struct call_settings settings;
	int folder_fd;
	int fd;
};

static int make_there(void *ctx)
{
	struct making *m = ctx;
	m->fd = make(&m->settings, m->folder_fd);
	return m->fd < 0 ? m->fd : 0;
}

static void drop_made(void *ctx)
{
	struct making *m = ctx;
	if (m->fd >= 0)
		close(m->fd);
	close(m->folder_fd);
	free(m);
}

int call_settings_make_as(const struct call_settings *s, int folder_fd, uid_t uid, struct err *e)
{
	struct stat st;
	int rc, fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || fstat(folder_fd, &st)) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return refuse(rc, e);
	}
	struct making *m = xcalloc(1, sizeof(*m));
	const struct fs_user user = {uid, st.st_gid};
	m->settings = *s;
	m->folder_fd = fd;
	m->fd = -1;
	rc = as_user(&user, make_there, m, drop_made);
	if (rc == -ETIMEDOUT)
		return refuse(rc, e);
	fd = m->fd;
	m->fd = -1;
	drop_made(m);
	return rc ? refuse(rc, e) : fd;
}

void call_settings_put(int fd, const struct call_settings *s, size_t offset, size_t size)
{
	pwrite(fd, (const char *)s + offset, size, (off_t)offset);
}

void call_settings_close(int fd)
{
	(void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE_BYTES,
			 (off_t)(sizeof(struct call_settings) - PAGE_BYTES));
	close(fd);
}
