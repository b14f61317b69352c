/* gpu_guest.c - makes the folder in the process's own view of the file system. */
#include "collect/gpu_guest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/gpu_folder.h"
#include "wire/gpu_ring.h"

#define SHIM_NAME "libeacgm_gpu.so"
#define RING_NAME "ring"

/* As the smallest of inject/ring.c. */
#define LEAST_RING_BYTES (GPU_RING_HEADER_BYTES + (256 << 10))

/* The first is memory; it is often mounted without the right to execute, in containers above
 * all. */
static const char *const parents[] = {"/dev/shm", "/tmp", "/var/tmp"};

struct gpu_guest {
	struct gpu_folder folder;
	char shim[PATH_MAX + 64];
	char ring[PATH_MAX + 64];
	int ring_fd;
};

/* ---- the process's user ---- */

static int read_user(pid_t pid, uid_t *uid, gid_t *gid)
{
	char path[64], line[256];
	unsigned real, effective;
	int found = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Uid: %u %u", &real, &effective) == 2)
			*uid = effective, found |= 1;
		if (sscanf(line, "Gid: %u %u", &real, &effective) == 2)
			*gid = effective, found |= 2;
	}
	fclose(f);
	return found == 3 ? 0 : -ESRCH;
}

/* ---- files ---- */

static int copy_file(const char *from, int folder_fd, const char *name)
{
	struct stat st = {0};
	int rc = 0;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (in < 0 || out < 0 || fstat(in, &st))
		rc = -errno;
	for (off_t done = 0; !rc && done < st.st_size;)
		if (sendfile(out, in, &done, (size_t)(st.st_size - done)) <= 0)
			rc = errno ? -errno : -EIO;
	if (!rc && fchmod(out, 0755)) /* whatever our umask */
		rc = -errno;
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return rc;
}

static int make_ring(struct gpu_guest *g, pid_t pid)
{
	uid_t uid = 0;
	gid_t gid = 0;
	int rc = read_user(pid, &uid, &gid);
	if (rc)
		return rc;
	g->ring_fd = openat(g->folder.fd, RING_NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (g->ring_fd < 0 || fchown(g->ring_fd, uid, gid))
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
static int open_parent(pid_t pid, const char *parent)
{
	char root[64];
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	int fd = (int)syscall(SYS_openat2, root_fd, parent + 1, &how, sizeof(how));
	int rc = fd < 0 ? -errno : fd;
	close(root_fd);
	if (fd >= 0 && !admits_code(fd)) {
		close(fd);
		rc = -EACCES;
	}
	return rc;
}

/* The process may have any user: it reads, and writes to its ring alone. */
static int fill(struct gpu_guest *g, pid_t pid, const char *parent, const char *shim)
{
	char path[64];
	struct err e;
	int parent_fd = open_parent(pid, parent);
	if (parent_fd < 0)
		return parent_fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", parent_fd);
	int rc = gpu_folder_open(&g->folder, path, &e);
	close(parent_fd);
	if (rc)
		return rc;
	if (fchmod(g->folder.fd, 0711) || fchmod(g->folder.lock_fd, 0644))
		rc = -errno;
	if (!rc)
		rc = copy_file(shim, g->folder.fd, SHIM_NAME);
	if (!rc)
		rc = make_ring(g, pid);
	if (rc) {
		if (g->ring_fd >= 0)
			close(g->ring_fd);
		g->ring_fd = -1;
		gpu_folder_close(&g->folder);
		return rc;
	}
	const char *name = strrchr(g->folder.path, '/');
	snprintf(g->shim, sizeof(g->shim), "%s%s/" SHIM_NAME, parent, name);
	snprintf(g->ring, sizeof(g->ring), "%s%s/" RING_NAME, parent, name);
	return 0;
}

int gpu_guest_open(struct gpu_guest **ret, pid_t pid, const char *shim, struct err *e)
{
	struct gpu_guest *g = xcalloc(1, sizeof(*g));
	int rc = -ENOENT;
	g->ring_fd = -1;
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]) && rc; i++)
		rc = fill(g, pid, parents[i], shim);
	if (rc) {
		free(g);
		return err_set(e, -rc,
			       "neither /dev/shm nor /tmp nor /var/tmp, as it sees them, takes "
			       "the shim: %s",
			       strerror(-rc));
	}
	*ret = g;
	return 0;
}

const char *gpu_guest_shim(const struct gpu_guest *g)
{
	return g->shim;
}

const char *gpu_guest_ring(const struct gpu_guest *g)
{
	return g->ring;
}

int gpu_guest_ring_fd(const struct gpu_guest *g)
{
	return g->ring_fd;
}

void gpu_guest_close(struct gpu_guest *g)
{
	close(g->ring_fd);
	gpu_folder_close(&g->folder);
	free(g);
}

void gpu_guest_clean_up(void)
{
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++)
		gpu_folder_clean_up(parents[i]);
}
