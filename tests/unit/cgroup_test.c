/* cgroup_test.c - quotas of CPU time and limits of memory of watched processes' cgroups, versions 1
 * and 2, from files of the test's making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#define COLLECTOR collector_cgroup
#define ROOT	  "sys/fs/cgroup/"

static void put_v2_cpu(const char *name, unsigned throttled, unsigned usec)
{
	put(name, "usage_usec 5\nnr_periods 10\nnr_throttled %u\nthrottled_usec %u\nnr_bursts 0\n",
	    throttled, usec);
}

static void put_v2_memory(unsigned max, unsigned high, unsigned kills)
{
	put(ROOT "job/memory.events", "low 0\nhigh %u\nmax %u\noom 1\noom_kill %u\n", high, max,
	    kills);
}

/* The quota is that of the group above, the memory's limit its own, less than above. */
static void version_2(void **state)
{
	(void)state;
	put(ROOT "slice/cpu.max", "50000 100000\n");
	put(ROOT "slice/memory.max", "900\n");
	put(ROOT "slice/job/cpu.max", "max 100000\n");
	put(ROOT "slice/job/memory.max", "1000\n");
	put(ROOT "slice/job/memory.current", "700\n");
	put(ROOT "slice/job/memory.events", "max 5\noom_kill 0\n");
	put_v2_cpu(ROOT "slice/cpu.stat", 5, 100000);
	put_v2_cpu(ROOT "slice/job/cpu.stat", 0, 0);
	put("7/cgroup", "0::/slice/job\n");
	put("8/cgroup", "0::/slice/job\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 1 * S);
	expect("cgroup /slice/job memory_used_bytes 700\ncgroup /slice/job memory_limit_bytes "
	       "900\n");
	put_v2_cpu(ROOT "slice/cpu.stat", 9, 100000 + 300000);
	put(ROOT "slice/job/memory.current", "800\n");
	COLLECTOR.read(c, 3 * S);
	expect("cgroup /slice throttled_ratio 0.15\ncgroup /slice throttled_periods_per_s 2\n"
	       "cgroup /slice/job memory_used_bytes 800\ncgroup /slice/job memory_limit_bytes "
	       "900\n");
	COLLECTOR.read(c, 3 * S + 1 * MS);
	expect("");
	put_v2_cpu(ROOT "slice/cpu.stat", 8, 0); /* made anew */
	put(ROOT "slice/job/memory.current", "\n");
	COLLECTOR.read(c, 4 * S);
	expect("cgroup /slice/job memory_limit_bytes 900\n");
	put_v2_cpu(ROOT "slice/cpu.stat", 8, 4000000000u); /* more than all CPUs have */
	COLLECTOR.read(c, 4 * S + 60 * MS);
	expect("cgroup /slice throttled_periods_per_s 0\ncgroup /slice/job memory_limit_bytes "
	       "900\n");
	COLLECTOR.close(c);
}

static void events_of_memory(void **state)
{
	(void)state;
	put(ROOT "job/memory.current", "700\n");
	put(ROOT "job/memory.max", "max\n");
	put_v2_memory(5, 0, 1);
	put("7/cgroup", "0::/job\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.read(c, 1 * S);
	expect("cgroup /job memory_used_bytes 700\n"); /* what was before is nobody's affair */
	put_v2_memory(7, 1, 3);
	COLLECTOR.read(c, 2 * S);
	expect("cgroup /job memory_used_bytes 700\ncgroup /job memory_limit_hit: 3 times\n"
	       "cgroup /job oom_kill: 2 killed\n");
	put_v2_memory(8, 1, 3);
	COLLECTOR.read(c, 3 * S); /* later */
	expect("cgroup /job memory_used_bytes 700\n");
	put_v2_memory(9, 1, 3);
	COLLECTOR.read(c, 12 * S);
	expect("cgroup /job memory_used_bytes 700\ncgroup /job memory_limit_hit: 2 times\n");
	put_v2_memory(0, 0, 0);
	COLLECTOR.read(c, 30 * S);
	expect("cgroup /job memory_used_bytes 700\n");
	COLLECTOR.close(c);
}

/* Of the root the memory is the host's; of the uppermost group that a container sees it is not. */
static void the_group_of_a_container(void **state)
{
	(void)state;
	put(ROOT "memory.current", "5\n");
	put(ROOT "cgroup.procs", "\n");
	put("7/cgroup", "0::/\n");
	for (int i = 0; i < 2; i++) {
		void *c = fake_open(&COLLECTOR);
		COLLECTOR.add_pid(c, 7, true);
		COLLECTOR.read(c, 1 * S);
		expect(i ? "cgroup / memory_used_bytes 5\n" : "");
		COLLECTOR.close(c);
		put(ROOT "cgroup.events", "populated 1\n");
	}
}

/* A limit that is set while the job runs is seen; what is no group any more is not told. */
static void limits_and_places_change(void **state)
{
	(void)state;
	put(ROOT "a/memory.current", "1\n");
	put(ROOT "b/memory.current", "2\n");
	put("7/cgroup", "0::/a\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 9, true); /* has ended */
	COLLECTOR.read(c, 1 * S);
	expect("cgroup /a memory_used_bytes 1\n");
	put(ROOT "a/memory.max", "50\n");
	for (uint64_t i = 2; i < 4; i++) /* within a second, at two reads in one */
		COLLECTOR.read(c, i * S);
	assert_non_null(strstr(told, "cgroup /a memory_limit_bytes 50\n"));
	put(ROOT "a/memory.high", "40\n");
	for (uint64_t i = 4; i < 6; i++)
		COLLECTOR.read(c, i * S);
	assert_non_null(
		strstr(told, "cgroup /a memory_limit_bytes 50\ncgroup /a memory_high_bytes 40"));
	put(ROOT "a/memory.high", "max\n");
	for (uint64_t i = 6; i < 40; i++)
		COLLECTOR.read(c, i * S);
	put("7/cgroup", "0::/b\n");
	told[0] = 0;
	COLLECTOR.read(c, 50 * S);
	expect("cgroup /b memory_used_bytes 2\n");
	COLLECTOR.del_pid(c, 7);
	COLLECTOR.read(c, 51 * S);
	expect("");
	COLLECTOR.close(c);
}

/* One process of forty is moved, as a quota does that is put on a job with many workers. */
static void one_of_many_moves(void **state)
{
	char name[32];
	(void)state;
	put(ROOT "a/memory.current", "1\n");
	put(ROOT "b/memory.current", "2\n");
	void *c = fake_open(&COLLECTOR);
	for (int pid = 100; pid < 140; pid++) {
		snprintf(name, sizeof(name), "%d/cgroup", pid);
		put(name, "0::/a\n");
		COLLECTOR.add_pid(c, pid, true);
	}
	COLLECTOR.read(c, 1 * S);
	COLLECTOR.read(c, 2 * S);
	put("117/cgroup", "0::/b\n");
	told[0] = 0;
	for (uint64_t i = 3; i < 6; i++)
		COLLECTOR.read(c, i * S);
	assert_non_null(strstr(told, "cgroup /b memory_used_bytes 2\n"));
	COLLECTOR.close(c);
}

static void version_1(void **state)
{
	(void)state;
	put(ROOT "cpu,cpuacct/job/cpu.cfs_quota_us", "25000\n");
	put(ROOT "cpu,cpuacct/job/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 5\n");
	put(ROOT "memory/memory.limit_in_bytes", "9223372036854771712\n");
	put(ROOT "memory/memory.usage_in_bytes", "99\n");
	put(ROOT "memory/job/memory.limit_in_bytes", "4096\n");
	put(ROOT "memory/job/memory.usage_in_bytes", "2048\n");
	put(ROOT "memory/job/memory.failcnt", "3\n");
	put(ROOT "memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
	put(ROOT "unified/cgroup.procs", "\n");
	put("7/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job/gone\n0::/\n");
	put("8/cgroup", "4:memory:/\n2:cpu,cpuacct:/\n0::/\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 1 * S);
	expect("cgroup /job memory_used_bytes 2048\ncgroup /job memory_limit_bytes 4096\n");
	put(ROOT "cpu,cpuacct/job/cpu.stat",
	    "nr_periods 19\nnr_throttled 5\nthrottled_time 250000005\n");
	put(ROOT "memory/job/memory.failcnt", "4\n");
	put(ROOT "memory/job/memory.oom_control", "under_oom 0\noom_kill 1\n");
	COLLECTOR.read(c, 2 * S);
	expect("cgroup /job throttled_ratio 0.25\ncgroup /job throttled_periods_per_s 4\n"
	       "cgroup /job memory_used_bytes 2048\ncgroup /job memory_limit_bytes 4096\n"
	       "cgroup /job memory_limit_hit: 1 times\ncgroup /job oom_kill: 1 killed\n");
	COLLECTOR.close(c);
}

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {
		"\n", "-1\n", "max", "x 5\n", "99999999999999999999999\n", "nr_throttled\n", " \t",
	};
	char path[256];
	(void)state;
	assert_null(fake_open(&COLLECTOR));
	put("7/cgroup", "0::/j/k\n");
	put("8/cgroup", "nonsense\n::\n4:cpu\n5:cpu:\n6:memory:x\n");
	put("9/cgroup", "0::/l\n");
	fake_path(path, ROOT "l/cpu.max/folder");
	fake_path(path, ROOT "l/memory.current/folder");
	put(ROOT "j/k/memory.current", "\n");
	put(ROOT "j/cpu.max", "1 1\n");
	void *c = fake_open(&COLLECTOR);
	for (pid_t pid = 7; pid < 10; pid++)
		COLLECTOR.add_pid(c, pid, false);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put(ROOT "j/cpu.stat", "%s", odd[i]);
		put(ROOT "j/k/memory.current", "%s", odd[i]);
		put(ROOT "j/k/memory.events", "max %soom_kill %s", odd[i], odd[i]);
		put(ROOT "j/k/memory.max", "%s", odd[i]);
		COLLECTOR.read(c, (i + 1) * S);
	}
	expect("");
	COLLECTOR.close(c);
}

/* Of /proc/PID/cgroup and of memory.events as much is read as there is room for. */
static void long_files_are_cut(void **state)
{
	char path[256];
	(void)state;
	put(ROOT "job/memory.current", "1\n");
	put("7/cgroup", "0::/job\n");
	for (int i = 0; i < 2; i++) {
		fake_path(path, i ? "7/cgroup" : ROOT "job/memory.events");
		FILE *f = fopen(path, "we");
		assert_non_null(f);
		for (int n = 0; n < 300000; n++)
			fprintf(f, "%s", i ? "1:x:/y\n" : "low 1\n");
		fprintf(f, "oom_kill 1\n0::/job\n");
		fclose(f);
		void *c = fake_open(&COLLECTOR);
		COLLECTOR.add_pid(c, 7, true);
		COLLECTOR.read(c, 1 * S);
		expect(i ? "" : "cgroup /job memory_used_bytes 1\n");
		COLLECTOR.close(c);
	}
}

/* Files in memory do not bring a group to its limit; asked for once a second. */
static void what_can_be_taken_back(void **state)
{
	(void)state;
	put(ROOT "job/memory.max", "1000\n");
	put(ROOT "job/memory.current", "700\n");
	put(ROOT "job/memory.stat", "anon 300\nfile 400\nshmem 50\ninactive_file 200\n"
				    "active_file 150\nslab_reclaimable 20\nslab 90\n");
	put(ROOT "free/memory.current", "700\n"); /* has no limit */
	put(ROOT "free/memory.stat", "inactive_file 200\n");
	put("7/cgroup", "0::/job\n");
	put("8/cgroup", "0::/free\n");
	put(ROOT "job/cgroup.controllers", "memory\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 1 * S);
	expect("cgroup /job memory_used_bytes 700\ncgroup /job memory_unreclaimable_bytes 330\n"
	       "cgroup /job memory_limit_bytes 1000\ncgroup /free memory_used_bytes 700\n");
	COLLECTOR.read(c, 1 * S + 500 * MS);
	expect("cgroup /job memory_used_bytes 700\ncgroup /job memory_limit_bytes 1000\n"
	       "cgroup /free memory_used_bytes 700\n");
	put(ROOT "job/memory.stat", "inactive_file 5000\n"); /* not read at one moment */
	COLLECTOR.read(c, 2 * S);
	expect("cgroup /job memory_used_bytes 700\ncgroup /job memory_unreclaimable_bytes 0\n"
	       "cgroup /job memory_limit_bytes 1000\ncgroup /free memory_used_bytes 700\n");
	COLLECTOR.close(c);
}

/* Of a group and of a process; what is there to be read is told, and the rest once it may be. */
static void what_may_not_be_read_is_not_told(void **state)
{
	static const char *const secret[] = {ROOT "job/memory.max",
					     ROOT "job/memory.stat",
					     ROOT "job/memory.events",
					     ROOT "job/cpu.stat",
					     "8/cgroup",
					     ROOT "dark",
					     ROOT "dim/memory.current"};
	(void)state;
	put(ROOT "job/cpu.max", "50000 100000\n");
	put(ROOT "job/cpu.stat", "nr_throttled 1\nthrottled_usec 5\n");
	put(ROOT "job/memory.max", "1000\n");
	put(ROOT "job/memory.current", "700\n");
	put(ROOT "job/memory.stat", "inactive_file 200\n");
	put(ROOT "job/memory.events", "max 5\noom_kill 0\n");
	put(ROOT "dark/memory.current", "1\n");
	put(ROOT "dim/memory.current", "2\n");
	put(ROOT "dim/memory.max", "50\n");
	put("7/cgroup", "0::/job\n");
	put("8/cgroup", "0::/job\n");
	put("9/cgroup", "0::/dark\n");
	put("10/cgroup", "0::/dim\n");
	forbid(secret, sizeof(secret) / sizeof(secret[0]));
	be_nobody();
	void *c = fake_open(&COLLECTOR);
	for (pid_t pid = 7; pid < 11; pid++)
		COLLECTOR.add_pid(c, pid, true);
	for (uint64_t i = 1; i < 20; i++) {
		COLLECTOR.read(c, i * S);
		expect("cgroup /job memory_used_bytes 700\ncgroup /dim memory_limit_bytes 50\n");
	}
	be_oneself();
	allow();
	for (uint64_t i = 20; i < 23; i++)
		COLLECTOR.read(c, i * S);
	assert_non_null(strstr(told, "cgroup /job throttled_ratio 0\n"));
	assert_non_null(strstr(told, "cgroup /job memory_unreclaimable_bytes 500\n"));
	assert_non_null(strstr(told, "cgroup /job memory_limit_bytes 1000\n"));
	assert_non_null(strstr(told, "cgroup /dim memory_used_bytes 2\n"));
	COLLECTOR.close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(version_2, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(what_can_be_taken_back, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(events_of_memory, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(the_group_of_a_container, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(limits_and_places_change, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(one_of_many_moves, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(version_1, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(long_files_are_cut, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(what_may_not_be_read_is_not_told, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
