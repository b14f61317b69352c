/* proc_cgroup_test.c - quotas of CPU time, from files as both versions of cgroups have them.
 * links: symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fake_proc.h"
#include "symbolize/proc_cgroup.h"

/* Makes the folders of a path below the folder as well. */
static void put(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect(int pid, int thousandths)
{
	char groups[128];
	snprintf(groups, sizeof(groups), "%s/fs", folder);
	assert_int_equal((int)(1000 * proc_cpu_limit(folder, groups, pid) + 0.5), thousandths);
}

static void version_2(void **state)
{
	(void)state;
	put("fs/cpu.max", "max 100000\n");
	put("fs/job/cpu.max", "150000 100000\n");
	put("fs/job/inner/cpu.max", "max 100000\n");
	put("fs/job/small/cpu.max", "5000 10000\n");
	put("1/cgroup", "0::/\n");
	put("2/cgroup", "0::/job\n");
	put("3/cgroup", "0::/job/inner\n"); /* the one above counts */
	put("4/cgroup", "0::/job/small\n");
	put("5/cgroup", "0::/gone\n");
	expect(1, 0);
	expect(2, 1500);
	expect(3, 1500);
	expect(4, 500);
	expect(5, 0);
	expect(99, 0);
}

static void version_1(void **state)
{
	(void)state;
	put("fs/cpu,cpuacct/job/cpu.cfs_quota_us", "25000\n");
	put("fs/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
	put("fs/cpu,cpuacct/free/cpu.cfs_quota_us", "-1\n");
	put("fs/cpu,cpuacct/free/cpu.cfs_period_us", "100000\n");
	put("6/cgroup", "9:cpuset:/job\n3:cpu,cpuacct:/job\n0::/\n");
	put("7/cgroup", "9:cpuset:/job\n3:cpu,cpuacct:/free\n");
	expect(6, 250);
	expect(7, 0);
}

static void what_is_none(void **state)
{
	(void)state;
	put("fs/odd/cpu.max", "many\n");
	put("fs/none/cpu.max", "1000 0\n");
	put("8/cgroup", "0::/odd\n");
	put("9/cgroup", "0::/none\n");
	put("10/cgroup", "nothing\n:\n::\n");
	expect(8, 0);
	expect(9, 0);
	expect(10, 0);
}

static uint64_t number_of(const char *name)
{
	char path[256];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static enum proc_cgroup_found path_of(int pid, uint64_t number, bool is_v1, char ret[64])
{
	char groups[128];
	snprintf(groups, sizeof(groups), "%s/fs", folder);
	ret[0] = 0;
	return proc_cgroup_path(ret, 64, folder, groups, pid,
				&(struct proc_cgroup_number){number, is_v1});
}

static void the_path_of_a_number(void **state)
{
	(void)state;
	char path[64];
	put("fs/unified/job/cgroup.procs", "");
	put("fs/cpu,cpuacct/old/cgroup.procs", "");
	put("fs/only/cgroup.procs", "");
	put("7/cgroup", "4:cpu,cpuacct:/old\n3:memory:/m\n0::/job\n");
	put("8/cgroup", "0::/only\n"); /* version 2 alone is mounted as the root itself */
	put("9/cgroup", "0::/../elsewhere\n");
	assert_int_equal(path_of(7, number_of("fs/unified/job"), false, path), PROC_CGROUP_IS);
	assert_string_equal(path, "/job");
	assert_int_equal(path_of(7, number_of("fs/cpu,cpuacct/old"), true, path), PROC_CGROUP_IS);
	assert_string_equal(path, "/old");
	assert_int_equal(path_of(7, number_of("fs/only"), false, path), PROC_CGROUP_NOT);
	assert_int_equal(path_of(8, number_of("fs/only"), false, path), PROC_CGROUP_IS);
	assert_string_equal(path, "/only");
	assert_int_equal(path_of(8, 1, true, path), PROC_CGROUP_NOT); /* no version 1 */
	assert_int_equal(path_of(9, 1, false, path), PROC_CGROUP_UNSURE);
	assert_string_equal(path, "/../elsewhere");
	assert_int_equal(path_of(99, 1, false, path), PROC_CGROUP_NOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(version_2), cmocka_unit_test(version_1),
					   cmocka_unit_test(what_is_none),
					   cmocka_unit_test(the_path_of_a_number)};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
