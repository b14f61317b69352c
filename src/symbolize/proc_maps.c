/* proc_maps.c - reads /proc (man 5 proc): mappings, names, relations of processes.
 *
 * Processes come and go while this reads: one that vanishes is left out of lists, and is
 * -ESRCH where it was asked for by number. Lists are of one moment each, not of one moment
 * together. Nothing here changes a process. */
#include "symbolize/proc_maps.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAX_CGROUP_DEPTH 32

/* The whole file as a C string in ret; sizes in /proc are 0, so it is read to its end. */
static int read_file(const char *path, struct buf *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n;

		buf_reserve(ret, 16384);
		n = read(fd, ret->data + ret->len, ret->cap - ret->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = -errno;
		if (n <= 0)
			break;
		ret->len += n;
	}
	close(fd);
	buf_byte(ret, '\0');
	return rc;
}

static int gone(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR ? -ESRCH : rc;
}

void proc_cut_deleted(char *path)
{
	static const char suffix[] = " (deleted)";
	size_t n = strlen(path), m = sizeof(suffix) - 1;

	if (n > m && strcmp(path + n - m, suffix) == 0)
		path[n - m] = '\0';
}

/* The kernel writes a newline in a path as \012. */
static void unescape_newlines(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		if (strncmp(from, "\\012", 4) == 0) {
			*to = '\n';
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* One line of maps: "start-end perms offset major:minor inode   path". */
static bool parse_map(const char *line, struct proc_map *ret)
{
	unsigned int major_number, minor_number;
	struct proc_map m = {0};
	int path_at = 0;
	char perms[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.start,
		   &m.end, perms, &m.file_offset, &major_number, &minor_number, &m.inode,
		   &path_at) < 7 ||
	    !path_at || m.end <= m.start)
		return false;
	m.device = makedev(major_number, minor_number);
	m.executable = strlen(perms) > 2 && perms[2] == 'x';
	m.path = xstrdup(line + path_at);
	if (m.inode)
		proc_cut_deleted(m.path);
	unescape_newlines(m.path);
	*ret = m;
	return true;
}

int proc_maps_read(const char *root, pid_t pid, proc_maps_t *ret, struct err *e)
{
	proc_maps_t maps = {0};
	struct buf text = {0};
	char path[PATH_MAX];
	char *line, *next;
	int rc;

	snprintf(path, sizeof(path), "%s/%d/maps", root, pid);
	rc = gone(read_file(path, &text));
	if (rc < 0) {
		buf_free(&text);
		if (rc == -ESRCH)
			return err_set(e, ESRCH, "process %d does not exist", pid);
		return err_set(e, -rc, "%s: %s", path, strerror(-rc));
	}
	for (line = (char *)text.data; *line; line = next) {
		struct proc_map m;

		next = strchrnul(line, '\n');
		if (*next)
			*next++ = '\0';
		if (parse_map(line, &m))
			*vec_push(&maps) = m;
	}
	buf_free(&text);
	*ret = maps;
	return 0;
}

const struct proc_map *proc_map_at(const proc_maps_t *maps, uint64_t address)
{
	size_t low = 0, high = maps->len;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct proc_map *m = &maps->data[middle];
		if (address < m->start)
			high = middle;
		else if (address >= m->end)
			low = middle + 1;
		else
			return m;
	}
	return NULL;
}

void proc_maps_free(proc_maps_t *maps)
{
	for (size_t i = 0; i < maps->len; i++)
		free(maps->data[i].path);
	vec_free(maps);
}

/* What a path leads to, without opening it yet: opening a device or a fifo has effects. */
static int open_checked(const char *path, int flags, const struct proc_map *m, struct stat *ret)
{
	int fd = open(path, O_PATH | O_CLOEXEC | flags);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, ret) < 0)
		rc = -errno;
	else if (!S_ISREG(ret->st_mode) || (m && ret->st_ino != m->inode))
		rc = -ESTALE;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* The file that is mapped there now, by the kernel's own link: no name is looked up. */
static int open_by_range(const char *root, pid_t pid, const struct proc_map *m, struct stat *ret)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/map_files/%" PRIx64 "-%" PRIx64, root, pid, m->start,
		 m->end);
	return open_checked(path, 0, NULL, ret);
}

/* Where those links are closed to us: by name, in the process's view, no further than its root.
 * Names lead where the process wants, so only the file with the mapping's number counts. */
static int open_by_name(const char *root, pid_t pid, const struct proc_map *m, struct stat *ret)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	char path[PATH_MAX];
	int view, fd;

	if (m->path[0] != '/')
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/%d/root", root, pid);
	view = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (view < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, view, m->path, &how, sizeof(how));
	if (fd < 0) {
		int code = errno;

		close(view);
		return -code;
	}
	close(view);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	view = open_checked(path, 0, m, ret);
	close(fd);
	return view;
}

int proc_map_stat(const char *root, pid_t pid, const struct proc_map *m, struct stat *ret)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%d/map_files/%" PRIx64 "-%" PRIx64, root, pid, m->start,
		 m->end);
	if (stat(path, ret) == 0)
		return S_ISREG(ret->st_mode) ? 0 : -ESTALE;
	fd = open_by_name(root, pid, m, ret);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int proc_map_open(const char *root, pid_t pid, const struct proc_map *m, struct stat *ret_stat)
{
	char path[64];
	struct stat st;
	int found = open_by_range(root, pid, m, &st);
	int fd;

	if (found < 0)
		found = open_by_name(root, pid, m, &st);
	if (found < 0)
		return found;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		fd = -errno;
	close(found);
	if (fd >= 0 && ret_stat)
		*ret_stat = st;
	return fd;
}

int proc_comm(const char *root, pid_t pid, pid_t tid, char ret[16])
{
	struct buf text = {0};
	char path[PATH_MAX];
	int rc;

	snprintf(path, sizeof(path), "%s/%d/task/%d/comm", root, pid, tid);
	rc = gone(read_file(path, &text));
	if (rc == 0) {
		/* A name may hold newlines of its own; the last one is the kernel's. */
		if (text.len >= 2 && text.data[text.len - 2] == '\n')
			text.data[text.len - 2] = '\0';
		snprintf(ret, 16, "%s", (char *)text.data);
	}
	buf_free(&text);
	return rc;
}

int proc_parent(const char *root, pid_t pid, pid_t *ret)
{
	struct buf text = {0};
	char path[PATH_MAX];
	const char *after_comm;
	int parent, rc;

	snprintf(path, sizeof(path), "%s/%d/stat", root, pid);
	rc = gone(read_file(path, &text));
	if (rc == 0) {
		/* comm is in parentheses and may hold some itself. */
		after_comm = strrchr((char *)text.data, ')');
		if (after_comm && sscanf(after_comm + 1, " %*c %d", &parent) == 1)
			*ret = parent;
		else
			rc = -ESRCH;
	}
	buf_free(&text);
	return rc;
}

int proc_exe(const char *root, pid_t pid, char *ret, size_t size)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%d/exe", root, pid);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return gone(-errno);
	target[n] = '\0';
	proc_cut_deleted(target);
	if ((size_t)snprintf(ret, size, "%s", target) >= size)
		return -ENAMETOOLONG;
	return 0;
}

const char *proc_inner_path(const char *root, pid_t pid, const char *path)
{
	char link[PATH_MAX], target[PATH_MAX];

	snprintf(link, sizeof(link), "%s/%d/root", root, pid);
	ssize_t n = readlink(link, target, sizeof(target));
	bool is_below = n > 1 && strncmp(path, target, (size_t)n) == 0 && path[n] == '/';
	return is_below ? path + n : path;
}

bool proc_link(const char *root, pid_t pid, const char *exe, const char *comm, char *ret,
	       size_t size)
{
	char path[PATH_MAX];
	struct stat link, file;
	const char *slash = strrchr(exe, '/');
	if (!slash || !*comm || strchr(comm, '/') || !strncmp(slash + 1, comm, 15) ||
	    (size_t)snprintf(ret, size, "%.*s/%s", (int)(slash - exe), exe, comm) >= size ||
	    (size_t)snprintf(path, sizeof(path), "%s/%d/root%s", root, pid, ret) >= sizeof(path) ||
	    stat(path, &link))
		return false;
	snprintf(path, sizeof(path), "%s/%d/exe", root, pid);
	return !stat(path, &file) && link.st_dev == file.st_dev && link.st_ino == file.st_ino;
}

/* Appends the entries of a folder whose names are numbers. */
static int numbered_entries(const char *path, pids_t *ret)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char *end;
		long n;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		n = strtol(entry->d_name, &end, 10);
		if (*end == '\0' && n > 0 && n <= INT_MAX)
			*vec_push(ret) = n;
	}
	closedir(dir);
	return 0;
}

int proc_all(const char *root, pids_t *ret)
{
	return numbered_entries(root, ret);
}

int proc_threads(const char *root, pid_t pid, pids_t *ret)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/task", root, pid);
	return gone(numbered_entries(path, ret));
}

int proc_descendants(const char *root, pid_t pid, pids_t *ret)
{
	pids_t all = {0}, parents = {0}, family = {0};
	pid_t parent;
	int rc;

	rc = proc_parent(root, pid, &parent);
	if (rc == 0)
		rc = proc_all(root, &all);
	if (rc < 0) {
		vec_free(&all);
		return rc;
	}
	for (size_t i = 0; i < all.len; i++) {
		pid_t *p = vec_push(&parents);

		if (proc_parent(root, all.data[i], &parent) == 0 && all.data[i] != pid)
			*p = parent;
	}
	*vec_push(&family) = pid;
	for (size_t done = 0; done < family.len; done++) {
		for (size_t i = 0; i < all.len; i++) {
			if (parents.data[i] != family.data[done])
				continue;
			parents.data[i] = 0; /* each once, also if numbers were reused meanwhile */
			*vec_push(&family) = all.data[i];
		}
	}
	for (size_t i = 0; i < family.len; i++)
		*vec_push(ret) = family.data[i];
	vec_free(&all);
	vec_free(&parents);
	vec_free(&family);
	return 0;
}

static int cgroup_own_members(const char *path, pids_t *ret)
{
	char procs[PATH_MAX];
	struct buf text = {0};
	char *p, *end;
	int rc;

	if ((size_t)snprintf(procs, sizeof(procs), "%s/cgroup.procs", path) >= sizeof(procs))
		return -ENAMETOOLONG;
	rc = read_file(procs, &text);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): after 0 there is a text */
	for (p = (char *)text.data; rc == 0 && *p; p = end) {
		long n = strtol(p, &end, 10);

		if (end == p)
			break;
		if (n > 0 && n <= INT_MAX)
			*vec_push(ret) = n;
		end += strspn(end, "\n");
	}
	buf_free(&text);
	/* A threaded cgroup lists no processes: those are in the domain above it. */
	return rc == -EOPNOTSUPP ? 0 : rc;
}

static int cgroup_members(const char *path, int depth, pids_t *ret)
{
	struct dirent *entry;
	int rc = cgroup_own_members(path, ret);
	DIR *dir;

	if (rc < 0 || depth == MAX_CGROUP_DEPTH)
		return rc;
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		char child[PATH_MAX];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(child, sizeof(child), "%s/%s", path, entry->d_name) <
		    sizeof(child))
			cgroup_members(child, depth + 1, ret); /* removed meanwhile: no members */
	}
	if (dir)
		closedir(dir);
	return 0;
}

int proc_cgroup_members(const char *cgroup_path, pids_t *ret, struct err *e)
{
	int rc = cgroup_members(cgroup_path, 0, ret);

	if (rc == -ENOENT || rc == -ENOTDIR)
		return err_set(e, -rc, "%s is not a cgroup: it has no cgroup.procs", cgroup_path);
	if (rc < 0)
		return err_set(e, -rc, "%s: %s", cgroup_path, strerror(-rc));
	return 0;
}
