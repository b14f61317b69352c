/* pressure_test.c - shares of time in which threads waited, of the host and of cgroups, from files
 * of the test's making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#define COLLECTOR collector_pressure

static void put_pressure(const char *folder, const char *dot, uint64_t cpu, uint64_t memory,
			 uint64_t io)
{
	const char *const names[] = {"cpu", "memory", "io"};
	const uint64_t totals[] = {cpu, memory, io};
	char name[128];
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%s/%s%s", folder, names[i], dot);
		put(name,
		    "some avg10=1.00 avg60=2.00 avg300=3.00 total=%lu\n"
		    "full avg10=1.00 avg60=2.00 avg300=3.00 total=%lu\n",
		    totals[i], totals[i] / 2);
	}
}

static void shares_of_the_host(void **state)
{
	(void)state;
	assert_null(fake_open(&COLLECTOR));
	put_pressure("pressure", "", 1000, 5000, 7000);
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("");
	put_pressure("pressure", "", 1000 + 250000, 5000 + 100000, 7000 + 1100000);
	COLLECTOR.read(c, 2 * S); /* as the clock was read late, 1.1 is all */
	expect("host cpu_pressure_ratio 0.25\nhost memory_pressure_ratio 0.1\n"
	       "host memory_full_pressure_ratio 0.05\nhost io_pressure_ratio 1\n"
	       "host io_full_pressure_ratio 0.55\n");
	COLLECTOR.read(c, 2 * S + 1 * MS);
	expect("");
	/* began anew; more than there was time for */
	put_pressure("pressure", "", 5, 5000 + 100000, 1000000000);
	COLLECTOR.read(c, 3 * S);
	expect("host memory_pressure_ratio 0\nhost memory_full_pressure_ratio 0\n");
	COLLECTOR.close(c);
}

static void cgroups_of_watched_processes(void **state)
{
	(void)state;
	put_pressure("pressure", "", 0, 0, 0);
	put_pressure("sys/fs/cgroup/job", ".pressure", 0, 0, 0);
	put_pressure("sys/fs/cgroup", ".pressure", 0, 0, 0);
	put("7/cgroup", "0::/job\n");
	put("8/cgroup", "0::/job\n");
	put("9/cgroup", "0::/\n");
	put("10/cgroup", "3:cpu:/\n0::/job/gone\n");
	void *c = fake_open(&COLLECTOR);
	for (pid_t pid = 7; pid < 12; pid++)
		COLLECTOR.add_pid(c, pid, true);
	COLLECTOR.read(c, 1 * S);
	put_pressure("pressure", "", 0, 0, 0);
	put_pressure("sys/fs/cgroup/job", ".pressure", 500000, 0, 0);
	told[0] = 0;
	COLLECTOR.read(c, 2 * S);
	expect("host cpu_pressure_ratio 0\nhost memory_pressure_ratio 0\n"
	       "host memory_full_pressure_ratio 0\nhost io_pressure_ratio 0\n"
	       "host io_full_pressure_ratio 0\n"
	       "cgroup /job cpu_pressure_ratio 0.5\ncgroup /job memory_pressure_ratio 0\n"
	       "cgroup /job memory_full_pressure_ratio 0\ncgroup /job io_pressure_ratio 0\n"
	       "cgroup /job io_full_pressure_ratio 0\n");
	/* one moves, the others end */
	put_pressure("sys/fs/cgroup/unified/other", ".pressure", 0, 0, 0);
	put("8/cgroup", "4:memory:/x\n0::/other/\n");
	COLLECTOR.del_pid(c, 7);
	COLLECTOR.del_pid(c, 10);
	COLLECTOR.read(c, 3 * S); /* some are looked at again at a time */
	COLLECTOR.read(c, 4 * S);
	told[0] = 0;
	put_pressure("sys/fs/cgroup/unified/other", ".pressure", 10000, 0, 0);
	COLLECTOR.read(c, 5 * S);
	assert_null(strstr(told, "/job"));
	assert_non_null(strstr(told, "cgroup /other cpu_pressure_ratio 0.01\n"));
	COLLECTOR.close(c);
}

/* As a container sees it: its own group is the uppermost, others are beside it. */
static void the_group_of_a_container(void **state)
{
	(void)state;
	put_pressure("pressure", "", 0, 0, 0);
	put_pressure("sys/fs/cgroup", ".pressure", 0, 0, 0);
	put("sys/fs/cgroup/cgroup.events", "populated 1\n");
	put("7/cgroup", "0::/\n");
	put("8/cgroup", "0::/../other\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 1 * S);
	put_pressure("sys/fs/cgroup", ".pressure", 500000, 0, 0);
	COLLECTOR.read(c, 2 * S);
	assert_non_null(strstr(told, "cgroup / cpu_pressure_ratio 0.5\n"));
	assert_null(strstr(told, "other"));
	COLLECTOR.del_pid(c, 7); /* of the other one nothing is seen from here */
	COLLECTOR.read(c, 3 * S);
	told[0] = 0;
	COLLECTOR.read(c, 4 * S);
	assert_null(strstr(told, "cgroup"));
	COLLECTOR.close(c);
}

/* Of very many cgroups some are told. */
static void there_is_a_bound(void **state)
{
	char name[64];
	(void)state;
	put_pressure("pressure", "", 0, 0, 0);
	void *c = fake_open(&COLLECTOR);
	for (pid_t pid = 100; pid < 140; pid++) {
		snprintf(name, sizeof(name), "sys/fs/cgroup/g%d", pid);
		put_pressure(name, ".pressure", 0, 0, 0);
		snprintf(name, sizeof(name), "%d/cgroup", pid);
		put(name, "0::/g%d\n", pid);
		COLLECTOR.add_pid(c, pid, true);
	}
	for (uint64_t i = 1; i < 5; i++)
		COLLECTOR.read(c, i * S);
	told[0] = 0;
	COLLECTOR.read(c, 5 * S);
	size_t lines = 0;
	for (const char *at = told; (at = strstr(at, "cpu_pressure")); at++)
		lines++;
	assert_int_equal(lines, 17);
	COLLECTOR.close(c);
}

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {
		"",
		"some",
		"some total=",
		"some total=x\n",
		"total=5",
		"full total=5\nsome avg10=1 total=-5\n",
		"some\nfull total=99999999999999999999999",
		"some avg10=0.00\nx total=7\n",
	};
	char path[256];
	(void)state;
	put_pressure("pressure", "", 0, 0, 0);
	put("7/cgroup", "::\n0:\n0::\n0::x\n0::/../..\n:cpu");
	put("sys/fs/cgroup/x", "\n");
	fake_path(path, "sys/fs/cgroup/j/cpu.pressure/x"); /* a folder cannot be read */
	put("8/cgroup", "0::/j");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put("pressure/cpu", "%s", odd[i]);
		put("pressure/memory", "%s", odd[i]);
		put("pressure/io", "%s", odd[i]);
		COLLECTOR.read(c, (i + 1) * S);
	}
	drop("pressure/io");
	COLLECTOR.read(c, 100 * S);
	expect("");
	COLLECTOR.close(c);
}

/* As where the kernel has the files and no pressure to tell, which it answers with an error. */
static void files_that_may_not_be_read(void **state)
{
	static const char *const secret[] = {"pressure/cpu", "pressure/io",
					     "sys/fs/cgroup/job/memory.pressure"};
	(void)state;
	put_pressure("pressure", "", 0, 0, 0);
	put_pressure("sys/fs/cgroup/job", ".pressure", 0, 0, 0);
	put("7/cgroup", "0::/job\n");
	forbid(secret, sizeof(secret) / sizeof(secret[0]));
	be_nobody();
	void *c = fake_open(&COLLECTOR);
	assert_non_null(c);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.read(c, 1 * S);
	expect("");
	COLLECTOR.read(c, 2 * S);
	expect("host memory_pressure_ratio 0\nhost memory_full_pressure_ratio 0\n"
	       "cgroup /job cpu_pressure_ratio 0\ncgroup /job io_pressure_ratio 0\n"
	       "cgroup /job io_full_pressure_ratio 0\n");
	COLLECTOR.close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shares_of_the_host, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(cgroups_of_watched_processes, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(the_group_of_a_container, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(there_is_a_bound, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(files_that_may_not_be_read, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
