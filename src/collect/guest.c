/* guest.c - makes the folder in the process's own view of the file system, as the process's
 * user: nothing is made or removed there that the process could not make or remove itself
 * (base/as_user.h). */
#include "collect/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/as_user.h"
#include "base/buffer.h"
#include "collect/gpu_folder.h"
#include "wire/gpu_ring.h"

#define RING_NAME "ring"

/* As the smallest of inject/ring.c. */
#define LEAST_RING_BYTES (GPU_RING_HEADER_BYTES + (256 << 10))

/* The first is memory; it is often mounted without the right to execute, in containers above
 * all. */
static const char *const parents[] = {"/dev/shm", "/tmp", "/var/tmp"};

struct guest {
	struct fs_user user;
	int root_fd; /* the process's; while the folder is made */
	int shim_fd; /* likewise */
	enum guest_files files;
	char name[64]; /* of the library's file */
	bool made;
	struct gpu_folder folder;
	char shim[PATH_MAX + 64];
	char ring[PATH_MAX + 64];
	int ring_fd;
};

/* ---- the process's user ---- */

struct ids {
	unsigned uid[4], gid[4]; /* real, effective, saved, of files */
	unsigned long long capabilities;
};

static int read_ids(pid_t pid, struct ids *ret)
{
	char path[64], line[256];
	int found = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return -ESRCH;
	while (fgets(line, sizeof(line), f)) {
		found += sscanf(line, "Uid: %u %u %u %u", &ret->uid[0], &ret->uid[1], &ret->uid[2],
				&ret->uid[3]) == 4;
		found += sscanf(line, "Gid: %u %u %u %u", &ret->gid[0], &ret->gid[1], &ret->gid[2],
				&ret->gid[3]) == 4;
		found += sscanf(line, "CapPrm: %llx", &ret->capabilities) == 1;
	}
	fclose(f);
	return found == 3 ? 0 : -ESRCH;
}

static bool all_same(const unsigned id[4])
{
	return id[0] == id[1] && id[0] == id[2] && id[0] == id[3];
}

static bool in_our_user_namespace(pid_t pid)
{
	char path[64];
	struct stat st, own;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return stat(path, &st) || stat("/proc/self/ns/user", &own) || st.st_ino == own.st_ino;
}

/* Whether a process may do no more than all others of its user: only then may it load what its
 * user can write to. The kernel, which asks itself the same, gives the files in /proc of one that
 * was raised, or has set out to become another, to root. */
static bool has_rights_of_user(pid_t pid, const struct ids *ids)
{
	char path[64];
	struct stat st;
	if (!all_same(ids->uid) || !all_same(ids->gid))
		return false;
	if (!ids->uid[0])
		return true;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	return !stat(path, &st) && st.st_uid == ids->uid[0] &&
	       (!ids->capabilities || !in_our_user_namespace(pid));
}

static int read_user(pid_t pid, struct fs_user *ret, struct err *e)
{
	struct ids ids = {0};
	if (read_ids(pid, &ids))
		return err_set(e, ESRCH, "the process ended");
	if (!has_rights_of_user(pid, &ids))
		return err_set(e, EPERM,
			       "it has rights that its user %u has not, and would load what that "
			       "user may write to",
			       ids.uid[0]);
	*ret = (struct fs_user){ids.uid[0], ids.gid[0]};
	return 0;
}

bool guest_fits(const struct guest *g, pid_t pid, struct err *e)
{
	struct fs_user now;
	if (read_user(pid, &now, e))
		return false;
	if (now.uid != g->user.uid)
		err_set(e, EAGAIN, "it has become another user's");
	return now.uid == g->user.uid;
}

/* ---- files ---- */

static int copy_shim(const struct guest *g)
{
	struct stat st = {0};
	int rc = 0;
	int out = openat(g->folder.fd, g->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
	if (out < 0 || fstat(g->shim_fd, &st))
		rc = -errno;
	for (off_t done = 0; !rc && done < st.st_size;)
		if (sendfile(out, g->shim_fd, &done, (size_t)(st.st_size - done)) <= 0)
			rc = errno ? -errno : -EIO;
	if (!rc && fchmod(out, 0500)) /* whatever our umask */
		rc = -errno;
	if (out >= 0)
		close(out);
	return rc;
}

static int make_ring(struct guest *g)
{
	g->ring_fd = openat(g->folder.fd, RING_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (g->ring_fd < 0)
		return -errno;
	/* the process takes more if there is: that there is none would be said by nobody */
	return -posix_fallocate(g->ring_fd, 0, LEAST_RING_BYTES);
}

static bool admits_code(int fd)
{
	struct statvfs st;
	return !fstatvfs(fd, &st) && !(st.f_flag & (ST_NOEXEC | ST_RDONLY));
}

/* A folder as the process sees it. Links are not followed: one that the process made would lead
 * into our file system. */
static int open_parent(const struct guest *g, const char *parent)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, g->root_fd, parent + 1, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (admits_code(fd))
		return fd;
	close(fd);
	return -EACCES;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int fill(struct guest *g, const char *parent)
{
	struct err e;
	int parent_fd = open_parent(g, parent);
	if (parent_fd < 0)
		return parent_fd;
	int rc = gpu_folder_open_at(&g->folder, parent_fd, parent, g->user.uid, &e);
	close(parent_fd);
	if (rc)
		return rc;
	rc = copy_shim(g);
	if (!rc && g->files == GUEST_RING)
		rc = make_ring(g);
	if (rc) {
		close_fd(&g->ring_fd);
		gpu_folder_close(&g->folder);
		return rc;
	}
	g->made = true;
	snprintf(g->shim, sizeof(g->shim), "%s/%s", g->folder.path, g->name);
	snprintf(g->ring, sizeof(g->ring), "%s/" RING_NAME, g->folder.path);
	return 0;
}

/* ---- as the process's user ---- */

static int make(void *ctx)
{
	struct guest *g = ctx;
	int rc = -ENOENT;
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]) && rc; i++)
		rc = fill(g, parents[i]);
	return rc;
}

static int unmake(void *ctx)
{
	struct guest *g = ctx;
	close_fd(&g->ring_fd);
	gpu_folder_close(&g->folder);
	return 0;
}

static void drop(void *ctx)
{
	struct guest *g = ctx;
	close_fd(&g->root_fd);
	close_fd(&g->shim_fd);
	close_fd(&g->ring_fd);
	free(g);
}

static void drop_made(void *ctx)
{
	struct guest *g = ctx;
	if (g->made)
		unmake(g);
	drop(g);
}

/* What only eacgm itself may open. */
static int open_sources(struct guest *g, pid_t pid, const char *shim, struct err *e)
{
	char root[64];
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	g->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (g->root_fd < 0)
		return err_set(e, ESRCH, "the process ended");
	g->shim_fd = open(shim, O_RDONLY | O_CLOEXEC);
	return g->shim_fd < 0 ? err_set(e, errno, "%s: %s", shim, strerror(errno)) : 0;
}

int guest_open(struct guest **ret, pid_t pid, const char *shim, enum guest_files files,
	       struct err *e)
{
	struct guest *g = xcalloc(1, sizeof(*g));
	const char *slash = strrchr(shim, '/');
	snprintf(g->name, sizeof(g->name), "%s", slash ? slash + 1 : shim);
	g->files = files;
	g->root_fd = g->shim_fd = g->ring_fd = -1;
	int rc = read_user(pid, &g->user, e);
	if (!rc)
		rc = open_sources(g, pid, shim, e);
	if (rc) {
		drop(g);
		return rc;
	}
	rc = as_user(&g->user, make, g, drop_made);
	if (rc == -ETIMEDOUT)
		return err_set(e, EIO, "its file systems do not answer");
	if (rc) {
		drop(g);
		return err_set(e, -rc,
			       "neither /dev/shm nor /tmp nor /var/tmp, as it sees them, takes "
			       "the shim: %s",
			       strerror(-rc));
	}
	close_fd(&g->root_fd);
	close_fd(&g->shim_fd);
	*ret = g;
	return 0;
}

const char *guest_shim(const struct guest *g)
{
	return g->shim;
}

const char *guest_ring(const struct guest *g)
{
	return g->ring;
}

const char *guest_folder(const struct guest *g)
{
	return g->folder.path;
}

int guest_folder_fd(const struct guest *g)
{
	return g->folder.fd;
}

uid_t guest_uid(const struct guest *g)
{
	return g->user.uid;
}

int guest_ring_fd(const struct guest *g)
{
	return g->ring_fd;
}

void guest_close(struct guest *g)
{
	if (as_user(&g->user, unmake, g, drop) != -ETIMEDOUT)
		drop(g);
}

void guest_clean_up(void)
{
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++)
		gpu_folder_clean_up(parents[i]);
}
