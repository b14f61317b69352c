/* proc_maps.h - a process as /proc tells it. root is "/proc" but for tests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

struct proc_map {
	uint64_t start;
	uint64_t end;
	uint64_t file_offset;
	uint64_t device; /* makedev(major, minor) */
	uint64_t inode;	 /* 0 = not a file */
	bool executable;
	char *path; /* as the process sees it, " (deleted)" removed; "" for anonymous, or
		     * the kernel's name in brackets: "[stack]", "[vdso]" */
};
typedef VEC(struct proc_map) proc_maps_t;

/* Reads ROOT/PID/maps. -ESRCH when the process is gone. */
int proc_maps_read(const char *root, pid_t pid, proc_maps_t *ret, struct err *e);
void proc_maps_free(proc_maps_t *maps);
void proc_maps_copy(proc_maps_t *ret, const proc_maps_t *from);

/* The executable ones alone, in a tenth of the time where the kernel can be asked for them (Linux
 * 6.11). Mappings that change meanwhile are there as they were seen last. */
int proc_code_read(const char *root, pid_t pid, proc_maps_t *ret, struct err *e);
/* By the kernel's answers or not at all: -ENOTTY where it gives none. */
int proc_code_ask(const char *root, pid_t pid, proc_maps_t *ret);

/* The one at an address, or NULL; they are sorted by it. */
const struct proc_map *proc_map_at(const proc_maps_t *maps, uint64_t address);

/* The same place of the same file. Its name is not looked at: the file may have been moved. */
bool proc_map_same(const struct proc_map *a, const struct proc_map *b);
/* Takes the " (deleted)" off that the kernel puts behind a file's name. */
void proc_cut_deleted(char *path);

/* Opens the mapped file itself for reading, also from another mount namespace or when deleted: by
 * ROOT/PID/map_files/START-END, or, where that is closed to us, by its name in the process's view
 * if that is still the file with the mapping's inode number. Only regular files are opened, so
 * nothing waits and no device is touched; links that the process lays lead nowhere else. ret_stat
 * may be NULL. The descriptor, or negative errno: -ESTALE where something else is there. */
int proc_map_open(const char *root, pid_t pid, const struct proc_map *m, struct stat *ret_stat);
/* What it would open, likewise. */
int proc_map_stat(const char *root, pid_t pid, const struct proc_map *m, struct stat *ret);

/* comm, parent, thread ids, children (all descendants), cgroup members (those of the
 * cgroups below it too). Lists are appended to. -ESRCH when the process is gone. */
int proc_comm(const char *root, pid_t pid, pid_t tid, char ret[16]);
int proc_parent(const char *root, pid_t pid, pid_t *ret);
int proc_exe(const char *root, pid_t pid, char *ret, size_t size);
/* Its path as the process has it, of one that we read in its mappings: /proc puts the process's
 * root before it, where that is another (chroot). Within path. */
const char *proc_inner_path(const char *root, pid_t pid, const char *path);
/* The path of an executable by the name that the process has, where that is a link to it in the
 * same folder: redis-server, which is redis-check-rdb. False: it is none. */
bool proc_link(const char *root, pid_t pid, const char *exe, const char *comm, char *ret,
	       size_t size);
typedef VEC(pid_t) pids_t;
int proc_all(const char *root, pids_t *ret);
int proc_descendants(const char *root, pid_t pid, pids_t *ret); /* pid itself first */
int proc_cgroup_members(const char *cgroup_path, pids_t *ret, struct err *e);
int proc_threads(const char *root, pid_t pid, pids_t *ret);
