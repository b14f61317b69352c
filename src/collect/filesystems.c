/* filesystems.c - how much room is left (statvfs(3)) on the file systems that the job needs: where
 * the first watched process works, its /tmp and its /dev/shm, as it sees them, and where the
 * recording is written. Those that cannot be written to are left out. One may hang, as a server's
 * does that has gone: that is why this has a thread of its own. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/growth.h"
#include "collect/registry.h"

#define PLACES	   4
#define PATH_BYTES 4096

struct filesystems {
	const struct collect_env *env;
	const struct collect_sink *sink;
	pthread_mutex_t lock;
	VEC(pid_t) pids; /* under lock: that are watched, in the order in which they came */
	uint64_t last_ns;
	dev_t told[PLACES]; /* in this read */
	size_t told_len;
};

static int filesystems_open(void **ret_state, const struct collect_env *env,
			    const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct filesystems *f = xcalloc(1, sizeof(*f));
	f->env = env;
	f->sink = sink;
	pthread_mutex_init(&f->lock, NULL);
	*ret_state = f;
	return 0;
}

static void filesystems_add_pid(void *state, pid_t pid, bool is_new)
{
	struct filesystems *f = state;
	(void)is_new;
	pthread_mutex_lock(&f->lock);
	*vec_push(&f->pids) = pid;
	pthread_mutex_unlock(&f->lock);
}

static void filesystems_del_pid(void *state, pid_t pid)
{
	struct filesystems *f = state;
	size_t left = 0;
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->pids.len; i++)
		if (f->pids.data[i] != pid)
			f->pids.data[left++] = f->pids.data[i];
	f->pids.len = left;
	pthread_mutex_unlock(&f->lock);
}

/* 0: none is watched. */
static pid_t first_pid(struct filesystems *f)
{
	pthread_mutex_lock(&f->lock);
	pid_t pid = f->pids.len ? f->pids.data[0] : 0;
	pthread_mutex_unlock(&f->lock);
	return pid;
}

/* Shortens a folder's absolute path, as root has it, to where its file system is mounted. */
static void climb(const char *root, char *path, dev_t device)
{
	for (;;) {
		char above[2 * PATH_BYTES];
		struct stat st;
		char *slash = strrchr(path, '/');
		if (!slash || !path[1])
			return;
		size_t len = slash == path ? 1 : (size_t)(slash - path);
		snprintf(above, sizeof(above), "%s%.*s", root, (int)len, path);
		if (stat(above, &st) || st.st_dev != device)
			return;
		path[len] = 0;
	}
}

static bool is_told(struct filesystems *f, dev_t device)
{
	for (size_t i = 0; i < f->told_len; i++)
		if (f->told[i] == device)
			return true;
	if (f->told_len < PLACES)
		f->told[f->told_len++] = device;
	return false;
}

/* folder: a way to it for us; path: what it is called below root, whose changes. */
static void tell(struct filesystems *f, const char *folder, const char *root, char *path, pid_t pid,
		 uint64_t now_ns)
{
	struct statvfs v;
	struct stat st;
	if (stat(folder, &st) || is_told(f, st.st_dev) || statvfs(folder, &v) || !v.f_blocks ||
	    v.f_flag & ST_RDONLY)
		return;
	climb(root, path, st.st_dev);
	char *label = pid ? xasprintf("%s of pid %d", path, pid) : xstrdup(path);
	struct entity of = ENTITY_NAMED(ENTITY_FILESYSTEM, label);
	double unit = (double)v.f_frsize;
	sink_counter(f->sink, now_ns, &of, "available_bytes", (double)v.f_bavail * unit);
	sink_counter(f->sink, now_ns, &of, "total_bytes", (double)v.f_blocks * unit);
	free(label);
}

static bool read_link(const char *path, char ret[PATH_BYTES])
{
	ssize_t n = readlink(path, ret, PATH_BYTES - 1);
	ret[n > 0 ? n : 0] = 0;
	return ret[0] == '/';
}

/* Has the process another root than we, as in a container? */
static bool is_elsewhere(const char *root)
{
	struct stat theirs, ours;
	return stat(root, &theirs) || stat("/", &ours) || theirs.st_dev != ours.st_dev ||
	       theirs.st_ino != ours.st_ino;
}

static void tell_of(struct filesystems *f, pid_t pid, uint64_t now_ns)
{
	static const char *const folders[] = {"/tmp", "/dev/shm"};
	char path[PATH_BYTES];
	char *root = xasprintf("%s/%d/root", f->env->proc_root, pid);
	char *cwd = xasprintf("%s/%d/cwd", f->env->proc_root, pid);
	pid_t named = is_elsewhere(root) ? pid : 0;
	if (read_link(cwd, path))
		tell(f, cwd, root, path, named, now_ns);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char *folder = xasprintf("%s%s", root, folders[i]);
		snprintf(path, sizeof(path), "%s", folders[i]);
		tell(f, folder, root, path, named, now_ns);
		free(folder);
	}
	free(cwd);
	free(root);
}

static void tell_of_output(struct filesystems *f, uint64_t now_ns)
{
	char path[PATH_BYTES], *copy = xstrdup(f->env->output);
	char *slash = strrchr(copy, '/');
	if (slash)
		slash[slash == copy] = 0;
	if (realpath(slash ? copy : ".", path))
		tell(f, path, "", path, 0, now_ns);
	free(copy);
}

static void filesystems_read(void *state, uint64_t now_ns)
{
	struct filesystems *f = state;
	uint64_t passed_ns;
	pid_t pid = first_pid(f);
	if (!growth_passed(&f->last_ns, now_ns, &passed_ns))
		return;
	f->told_len = 0;
	if (pid)
		tell_of(f, pid, now_ns);
	if (f->env->output)
		tell_of_output(f, now_ns);
}

static void filesystems_close(void *state)
{
	struct filesystems *f = state;
	pthread_mutex_destroy(&f->lock);
	vec_free(&f->pids);
	free(f);
}

const struct collector collector_filesystems = {
	.name = "file systems",
	.period_ns = 5000000000,
	.slow = "a file system",
	.open = filesystems_open,
	.add_pid = filesystems_add_pid,
	.del_pid = filesystems_del_pid,
	.read = filesystems_read,
	.close = filesystems_close,
};
