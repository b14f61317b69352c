/* proc_cgroup.h - how much of the CPUs the cgroup of a process lets it use, and the path of that
 * cgroup. Reads /proc and the file system of cgroups, versions 1 and 2; changes nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* So many CPUs at once, by the quota of its cgroup or of one above it, the least: 0.5. 0: there is
 * no quota, or none that can be read. proc: "/proc"; groups: "/sys/fs/cgroup". */
double proc_cpu_limit(const char *proc, const char *groups, pid_t pid);

/* What the kernel calls a cgroup: the inode of its folder. */
struct proc_cgroup_number {
	uint64_t number;
	bool is_v1; /* in the tree of version 1 that has the controller cpu */
};

enum proc_cgroup_found {
	PROC_CGROUP_NOT,    /* the process is gone, or in another cgroup */
	PROC_CGROUP_UNSURE, /* it has one that no file system of groups shows here */
	PROC_CGROUP_IS,
};

/* Whether a process is in the cgroup of a number; its path as /proc/PID/cgroup has it, "/job",
 * into ret unless it is not. proc, groups: as above. */
enum proc_cgroup_found proc_cgroup_path(char *ret, size_t size, const char *proc,
					const char *groups, pid_t pid,
					const struct proc_cgroup_number *of);
