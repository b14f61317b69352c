/* proc_cgroup.c - the quotas of CPU time of a process's cgroup and of those above it; its path. */
#include "symbolize/proc_cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MOST 64 /* of /proc/PID/cgroup: one for each controller of version 1 */

static bool read_line(const char *path, char *ret, size_t size)
{
	FILE *f = fopen(path, "re");
	bool is = f && fgets(ret, (int)size, f);
	if (f)
		fclose(f);
	return is;
}

static double ratio(const char *quota, const char *period)
{
	double of = strtod(quota, NULL), in = strtod(period, NULL);
	return of > 0 && in > 0 && isfinite(of / in) ? of / in : 0;
}

/* "50000 100000", "max 100000" */
static double limit_of_v2(const char *folder)
{
	char path[PATH_MAX + 32], line[64];
	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	if (!read_line(path, line, sizeof(line)) || !strchr(line, ' '))
		return 0;
	return ratio(line, strchr(line, ' '));
}

/* A quota of -1 is none. */
static double limit_of_v1(const char *folder)
{
	char path[PATH_MAX + 32], quota[64], period[64];
	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
	if (!read_line(path, quota, sizeof(quota)))
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
	return read_line(path, period, sizeof(period)) ? ratio(quota, period) : 0;
}

/* The least of a group and of those above it, up to the root; the path is cut on the way. */
static double least_limit(const char *root, char *group, bool is_v1)
{
	char folder[PATH_MAX];
	double least = 0;
	for (;;) {
		size_t len = strlen(group);
		while (len && group[len - 1] == '/')
			group[--len] = 0;
		if ((size_t)snprintf(folder, sizeof(folder), "%s%s", root, group) <
		    sizeof(folder)) {
			double limit = is_v1 ? limit_of_v1(folder) : limit_of_v2(folder);
			least = limit > 0 && (!least || limit < least) ? limit : least;
		}
		char *slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

/* Whether a list with commas names the controller of CPU time. */
static bool has_cpu(const char *list)
{
	for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ','))
		if (!strncmp(list, "cpu", 3) && (list[3] == ',' || !list[3]))
			return true;
	return false;
}

/* "0::/job" of version 2, "1:cpu,cpuacct:/job" of version 1, which has a mount by that name. */
static double limit_of_line(const char *groups, char *line)
{
	char root[PATH_MAX], *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!path)
		return 0;
	*path++ = 0;
	path[strcspn(path, "\n")] = 0;
	controllers++;
	if (!*controllers)
		return least_limit(groups, path, false);
	if (!has_cpu(controllers) ||
	    (size_t)snprintf(root, sizeof(root), "%s/%s", groups, controllers) >= sizeof(root))
		return 0;
	return least_limit(root, path, true);
}

double proc_cpu_limit(const char *proc, const char *groups, pid_t pid)
{
	char path[PATH_MAX], line[PATH_MAX];
	double least = 0;
	snprintf(path, sizeof(path), "%s/%d/cgroup", proc, pid);
	FILE *f = fopen(path, "re");
	for (int i = 0; f && i < LINES_MOST && fgets(line, sizeof(line), f); i++) {
		double limit = limit_of_line(groups, line);
		least = limit > 0 && (!least || limit < least) ? limit : least;
	}
	if (f)
		fclose(f);
	return least;
}

/* ---- its path ---- */

/* In a root of cgroups' file systems, or in a folder of it. */
static enum proc_cgroup_found compare(const char *groups, const char *tree, const char *path,
				      uint64_t number)
{
	char folder[PATH_MAX];
	struct stat st;
	if ((size_t)snprintf(folder, sizeof(folder), "%s%s%s%s", groups, *tree ? "/" : "", tree,
			     path) >= sizeof(folder) ||
	    stat(folder, &st))
		return PROC_CGROUP_UNSURE;
	return st.st_ino == number ? PROC_CGROUP_IS : PROC_CGROUP_NOT;
}

/* Beside version 1 the tree of version 2 is mounted in a folder of its own. */
static enum proc_cgroup_found compare_any(const char *groups, const char *controllers,
					  const char *path, uint64_t number)
{
	if (*controllers)
		return compare(groups, controllers, path, number);
	enum proc_cgroup_found beside = compare(groups, "unified", path, number);
	return beside == PROC_CGROUP_UNSURE ? compare(groups, "", path, number) : beside;
}

enum proc_cgroup_found proc_cgroup_path(char *ret, size_t size, const char *proc,
					const char *groups, pid_t pid,
					const struct proc_cgroup_number *of)
{
	char name[PATH_MAX], line[PATH_MAX];
	enum proc_cgroup_found found = PROC_CGROUP_NOT;
	snprintf(name, sizeof(name), "%s/%d/cgroup", proc, pid);
	FILE *f = fopen(name, "re");
	for (int i = 0; f && i < LINES_MOST && fgets(line, sizeof(line), f); i++) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*controllers++ = *path++ = 0;
		path[strcspn(path, "\n")] = 0;
		if ((of->is_v1 ? !has_cpu(controllers) : *controllers) || strlen(path) >= size)
			continue;
		found = compare_any(groups, controllers, path, of->number);
		memcpy(ret, path, strlen(path) + 1);
		break;
	}
	if (f)
		fclose(f);
	return found;
}
