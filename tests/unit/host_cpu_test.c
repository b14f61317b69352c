/* host_cpu_test.c - what CPUs did, and how much was stolen from those of the job, from a /proc/stat
 * of the test's making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#define COLLECTOR collector_host_cpu

static void put_stat(const char *host, const char *cpu0, const char *cpu1)
{
	put("stat",
	    "cpu  %s 0 0\ncpu0 %s 0 0\ncpu1 %s 0 0\nintr 9 1 2\nctxt 5\nprocs_running 3\n"
	    "procs_blocked 2\nsoftirq 1 2\n",
	    host, cpu0, cpu1);
}

static void shares_of_all_cpus(void **state)
{
	(void)state;
	put_stat("100 0 100 800 0 0 0 0", "50 0 50 400 0 0 0 0", "50 0 50 400 0 0 0 0");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("host runnable_threads 3\nhost blocked_threads 2\n");
	put_stat("120 10 120 830 10 2 3 5", "60 5 60 415 5 1 2 2", "60 5 60 415 5 1 1 3");
	COLLECTOR.read(c, 2 * S);
	expect("host cpu_ratio 0.6\nhost cpu_steal_ratio 0.05\nhost cpu_irq_ratio 0.02\n"
	       "host cpu_softirq_ratio 0.03\nhost cpu_iowait_ratio 0.1\n"
	       "host runnable_threads 3\nhost blocked_threads 2\n");
	COLLECTOR.read(c, 2 * S + 1 * MS); /* too soon to tell anything */
	expect("");
	COLLECTOR.close(c);
}

static void the_jobs_cpus_where_these_are_not_all(void **state)
{
	(void)state;
	put_stat("0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0");
	put("7/status", "Name:\tx\nCpus_allowed:\t2\nCpus_allowed_list:\t1,4-99999999999\n");
	put("8/status", "Cpus_allowed_list:\t0-1\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 1 * S);
	put_stat("100 0 0 0 0 0 0 50", "100 0 0 0 0 0 0 0", "50 0 0 0 0 0 0 50");
	COLLECTOR.read(c, 2 * S);
	assert_non_null(strstr(told, "host cpu_steal_ratio 0.3333\n"));
	assert_non_null(strstr(told, "host job_cpus_steal_ratio 0.5\n"));
	told[0] = 0;
	COLLECTOR.del_pid(c, 7); /* the next one may run anywhere */
	for (int i = 3; i < 8; i++)
		COLLECTOR.read(c, (uint64_t)i * S);
	told[0] = 0;
	put_stat("200 0 0 0 0 0 0 90", "150 0 0 0 0 0 0 0", "50 0 0 0 0 0 0 90");
	COLLECTOR.read(c, 9 * S);
	assert_non_null(strstr(told, "cpu_steal_ratio"));
	assert_null(strstr(told, "job_cpus"));
	COLLECTOR.del_pid(c, 8);
	COLLECTOR.read(c, 10 * S);
	COLLECTOR.close(c);
}

/* As Linux counts a thread's wait as idle time after all when it wakes up elsewhere. */
static void what_shrinks_tells_nothing(void **state)
{
	(void)state;
	put_stat("0 0 0 100 50 0 0 9", "", "");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	told[0] = 0;
	put_stat("50 0 0 190 10 0 0 9", "", "");
	COLLECTOR.read(c, 2 * S);
	expect("host cpu_ratio 0.5\nhost cpu_steal_ratio 0\nhost cpu_irq_ratio 0\n"
	       "host cpu_softirq_ratio 0\nhost runnable_threads 3\nhost blocked_threads 2\n");
	put_stat("60 0 0 200 20 0 0 3", "", ""); /* the host was moved */
	COLLECTOR.read(c, 3 * S);
	expect("host runnable_threads 3\nhost blocked_threads 2\n");
	put_stat("60 0 0 100 20 0 0 3", "", "");
	COLLECTOR.read(c, 4 * S);
	expect("host runnable_threads 3\nhost blocked_threads 2\n");
	COLLECTOR.read(c, 5 * S); /* nothing passed */
	expect("host runnable_threads 3\nhost blocked_threads 2\n");
	COLLECTOR.close(c);
}

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {
		"",
		"\n",
		"cpu\n",
		"cpu  1 2 3\ncpu0\ncpu1 x\n",
		"cpu99999999999999999999 1 1 1 1 1 1 1 1\n",
		"cpu5000 1 1 1 1 1 1 1 1\n",
		"cpu  99999999999999999999 1 1 1 1 1 1 1\n",
		"cpu  -1 1 1 1 1 1 1 1\nprocs_running -5\nprocs_blocked\nprocs_running",
		"nonsense",
	};
	(void)state;
	assert_null(fake_open(&COLLECTOR));
	put("stat", "cpu\n");
	put("7/status", "Cpus_allowed_list:\t,,-\nCpus_allowed_list");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, false);
	for (size_t i = 0; i < 2 * sizeof(odd) / sizeof(odd[0]); i++) {
		put("stat", "%s", odd[i / 2]);
		COLLECTOR.read(c, (i + 1) * S);
	}
	drop("stat");
	COLLECTOR.read(c, 100 * S);
	expect("");
	COLLECTOR.close(c);
}

/* A line of interrupts longer than what is read at most: what stands before it is told. */
static void a_long_file_is_cut(void **state)
{
	char path[256];
	(void)state;
	fake_path(path, "stat");
	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(path, "we");
		assert_non_null(f);
		fprintf(f, "cpu  %d 0 0 100 0 0 0 0 0 0\nprocs_running 2\nintr", 100 * i);
		for (int n = 0; n < 1000000; n++)
			fprintf(f, " 0");
		fprintf(f, "\nprocs_blocked 2\n");
		fclose(f);
		void *c = fake_open(&COLLECTOR);
		COLLECTOR.read(c, 1 * S);
		expect("host runnable_threads 2\n");
		COLLECTOR.close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shares_of_all_cpus, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(the_jobs_cpus_where_these_are_not_all,
						fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(what_shrinks_tells_nothing, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(a_long_file_is_cut, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
