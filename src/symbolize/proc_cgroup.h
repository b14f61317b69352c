/* proc_cgroup.h - how much of the CPUs the cgroup of a process lets it use. Reads /proc and the
 * file system of cgroups, versions 1 and 2; changes nothing. */
#pragma once

#include <sys/types.h>

/* So many CPUs at once, by the quota of its cgroup or of one above it, the least: 0.5. 0: there is
 * no quota, or none that can be read. proc: "/proc"; groups: "/sys/fs/cgroup". */
double proc_cpu_limit(const char *proc, const char *groups, pid_t pid);
