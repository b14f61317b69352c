/* proc_fuzz.c - hostile files of /proc and of cgroups, as a kernel that lies would write them.
 *
 * The first byte chooses: 'c' the groups of a process, then after a zero each cpu.max,
 * cpu.cfs_quota_us and cpu.cfs_period_us of the root; 'm' mappings, looked up as well; 'n' a name;
 * 'g' the members of a cgroup; 's' stat, then after a zero status, read twice as of a process that
 * goes on.
 *
 * links: base symbolize collect */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/registry.h"
#include "symbolize/proc_cgroup.h"
#include "symbolize/proc_maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/proc_fuzz-XXXXXX";
static const char *const folders[] = {"7", "7/task", "7/task/7", "fs", "fs/cpu"};
static const char *const files[] = {
	"7/cgroup", "fs/cpu.max", "fs/cpu/cpu.cfs_quota_us", "fs/cpu/cpu.cfs_period_us", "7/maps",
	"7/stat",   "7/status",	  "7/task/7/comm",	     "fs/cgroup.procs"};
enum { CGROUP, CPU_MAX, QUOTA, PERIOD, MAPS, STAT, STATUS, COMM, MEMBERS, FILES };
static int fds[FILES];

static void check(int holds)
{
	if (!holds)
		abort();
}

static const char *path_of(char ret[64], const char *name)
{
	snprintf(ret, 64, "%s/%s", folder, name);
	return ret;
}

static void remove_files(void)
{
	char path[64];
	for (size_t i = 0; i < FILES; i++)
		unlink(path_of(path, files[i]));
	for (size_t i = sizeof(folders) / sizeof(folders[0]); i-- > 0;)
		rmdir(path_of(path, folders[i]));
	rmdir(folder);
}

static void make_files(void)
{
	char path[64];
	check(mkdtemp(folder) != NULL);
	atexit(remove_files);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		check(mkdir(path_of(path, folders[i]), 0700) == 0);
	for (size_t i = 0; i < FILES; i++) {
		fds[i] = open(path_of(path, files[i]), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		check(fds[i] >= 0);
	}
}

static void put(int file, const uint8_t *data, size_t size)
{
	check(ftruncate(fds[file], 0) == 0);
	check(pwrite(fds[file], data, size, 0) == (ssize_t)size);
}

/* Files one after the other, zeros between them; what is behind the last one belongs to it. */
static void put_files(int file, int last, const uint8_t *data, size_t size)
{
	for (; file <= last; file++) {
		const uint8_t *end = file < last && size ? memchr(data, 0, size) : NULL;
		size_t len = end ? (size_t)(end - data) : size;
		put(file, data, len);
		data += len + (end != NULL);
		size -= len + (end != NULL);
	}
}

static void look_at_limit(void)
{
	char groups[64];
	double limit = proc_cpu_limit(folder, path_of(groups, "fs"), 7);
	check(isfinite(limit) && limit >= 0);
}

static void look_at_maps(void)
{
	proc_maps_t maps = {0}, copy = {0};
	struct err e;
	check(proc_maps_read(folder, 7, &maps, &e) == 0);
	for (size_t i = 0; i < maps.len; i++) {
		const struct proc_map *m = &maps.data[i], *at = proc_map_at(&maps, m->start);
		check(m->start < m->end && m->path && strlen(m->path) < SIZE_MAX);
		check(!at || (at->start <= m->start && m->start < at->end));
		check(proc_map_same(m, m));
	}
	proc_maps_copy(&copy, &maps);
	check(copy.len == maps.len);
	proc_maps_free(&copy);
	proc_maps_free(&maps);
}

static void look_at_name(void)
{
	char comm[16];
	check(proc_comm(folder, 7, 7, comm) == 0 && strlen(comm) < sizeof(comm));
}

static void look_at_members(void)
{
	char groups[64];
	pids_t pids = {0};
	struct err e;
	check(proc_cgroup_members(path_of(groups, "fs"), &pids, &e) == 0);
	for (size_t i = 0; i < pids.len; i++)
		check(pids.data[i] > 0);
	vec_free(&pids);
}

static void on_counter(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		       double value)
{
	(void)ctx;
	(void)time_ns;
	check(of->pid == 7 && name[0] && isfinite(value) && value >= 0);
}

static void look_at_counters(void)
{
	const struct collect_env env = {.proc_root = folder};
	const struct collect_sink sink = {.counter = on_counter};
	struct err e;
	pid_t parent = 0;
	void *state;
	proc_parent(folder, 7, &parent);
	check(collector_procfs.open(&state, &env, &sink, &e) == 0);
	collector_procfs.add_pid(state, 7, true);
	collector_procfs.read(state, 1000000000);
	collector_procfs.read(state, 2000000000);
	collector_procfs.cpu_ns(state);
	collector_procfs.close(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!fds[0])
		make_files();
	if (size < 1)
		return 0;
	char kind = (char)*data++;
	size--;
	if (kind == 'c') {
		put_files(CGROUP, PERIOD, data, size);
		look_at_limit();
	} else if (kind == 'm') {
		put(MAPS, data, size);
		look_at_maps();
	} else if (kind == 'n') {
		put(COMM, data, size);
		look_at_name();
	} else if (kind == 'g') {
		put(MEMBERS, data, size);
		look_at_members();
	} else if (kind == 's') {
		put_files(STAT, STATUS, data, size);
		look_at_counters();
	}
	return 0;
}
