/* vmstat_test.c - what the kernel did to find memory, and what there is, from files of the test's
 * making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#define COLLECTOR collector_vmstat

static void rates_and_amounts(void **state)
{
	(void)state;
	assert_null(fake_open(&COLLECTOR));
	put("vmstat",
	    "nr_free_pages 9\npgmajfault 10\npgscan_direct 0\npgscan_direct_throttle 5\n"
	    "allocstall_dma 1\nallocstall_normal 2\ncompact_stall 3\npswpin 0\npswpout 0\n"
	    "numa_pages_migrated 7\nnuma_hint_faults 1\nnuma_hint_faults_local 5\n");
	put("meminfo", "MemTotal:  9 kB\nMemAvailable:       2 kB\nDirty:  1 kB\nWriteback: 0 kB\n"
		       "WritebackTmp: 5 kB\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("host memory_available_bytes 2048\nhost dirty_bytes 1024\nhost writeback_bytes 0\n");
	put("vmstat",
	    "pgmajfault 30\npgscan_direct 100\npgscan_direct_throttle 9\n"
	    "allocstall_dma 2\nallocstall_normal 11\ncompact_stall 3\npswpin 4\npswpout 6\n"
	    "numa_pages_migrated 8\nnuma_hint_faults 5\nnuma_hint_faults_local 90\n");
	put("meminfo", "MemAvailable: 1 kB\n");
	COLLECTOR.read(c, 3 * S);
	expect("host major_faults_per_s 10\nhost direct_reclaim_pages_per_s 50\n"
	       "host direct_reclaim_stalls_per_s 5\nhost compaction_stalls_per_s 0\n"
	       "host swap_in_pages_per_s 2\nhost swap_out_pages_per_s 3\n"
	       "host numa_migrated_pages_per_s 0.5\nhost numa_hint_faults_per_s 2\n"
	       "host memory_available_bytes 1024\n");
	COLLECTOR.read(c, 3 * S + 1 * MS);
	expect("");
	put("vmstat", "pgmajfault 29\npswpin 4\nnuma_pages_migrated 9\n"); /* one shrank */
	COLLECTOR.read(c, 4 * S);
	expect("host swap_in_pages_per_s 0\nhost numa_migrated_pages_per_s 1\n"
	       "host memory_available_bytes 1024\n");
	put("vmstat", "pgmajfault 30\npswpin 4\nnuma_pages_migrated 9\npswpout 100\n");
	COLLECTOR.read(c, 5 * S); /* one was not there */
	expect("host major_faults_per_s 1\nhost swap_in_pages_per_s 0\n"
	       "host numa_migrated_pages_per_s 0\nhost memory_available_bytes 1024\n");
	COLLECTOR.close(c);
}

static void allocations_by_node_where_there_are_several(void **state)
{
	static const char before[] = "numa_hit 100\nnuma_miss 1\nnuma_local 90\nnuma_other 11\n"
				     "numa_pte_updates 5\n";
	static const char after[] = "numa_hit 300\nnuma_miss 5\nnuma_local 250\nnuma_other 55\n"
				    "numa_pte_updates 9\n";
	char path[256];
	(void)state;
	put("vmstat", "%s", before);
	for (int several = 0; several < 2; several++) {
		if (several)
			put("sys/devices/system/node/online", "0-1\n");
		else
			put("sys/devices/system/node/online", "0\n");
		void *c = fake_open(&COLLECTOR);
		COLLECTOR.read(c, 1 * S);
		expect("");
		put("vmstat", "%s", after);
		COLLECTOR.read(c, 3 * S);
		expect(several ? "host numa_hit_pages_per_s 100\nhost numa_miss_pages_per_s 2\n"
				 "host numa_local_pages_per_s 80\nhost numa_other_pages_per_s 22\n"
			       : "");
		COLLECTOR.close(c);
		put("vmstat", "%s", before);
	}
	fake_path(path, "sys/devices/system/node/online");
	assert_int_equal(unlink(path), 0); /* nothing is known of nodes */
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	put("vmstat", "%s", after);
	COLLECTOR.read(c, 3 * S);
	expect("");
	COLLECTOR.close(c);
}

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {
		"\n",
		"pgmajfault",
		"pgmajfault\n pswpin 7\nMemAvailable\nDirty: x kB\n",
		"pgmajfault -5\nallocstall_\nallocstall_dma x\n",
		"pgmajfault 99999999999999999999\nMemAvailable: 18446744073709551615 kB\n",
		"pgmajfaults 5\nMemAvailableX: 5\n",
	};
	char path[256];
	(void)state;
	put("vmstat", "x\n");
	fake_path(path, "meminfo/folder"); /* cannot be read */
	void *c = fake_open(&COLLECTOR);
	for (size_t i = 0; i < 2 * sizeof(odd) / sizeof(odd[0]); i++) {
		put("vmstat", "%s", odd[i / 2]);
		COLLECTOR.read(c, (i + 1) * S);
	}
	fake_path(path, "meminfo");
	assert_int_equal(rmdir(path), 0);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put("meminfo", "%s", odd[i]);
		COLLECTOR.read(c, (i + 50) * S);
	}
	COLLECTOR.close(c);
	expect("");
}

static void a_long_file_is_cut(void **state)
{
	char path[256];
	(void)state;
	fake_path(path, "meminfo");
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "Dirty: 1 kB\n");
	for (int n = 0; n < 300000; n++)
		fprintf(f, "Something: 1\n");
	fprintf(f, "Writeback: 1 kB\n");
	fclose(f);
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("host dirty_bytes 1024\n");
	COLLECTOR.close(c);
}

static void files_that_may_not_be_read(void **state)
{
	static const char *const secret[] = {"vmstat", "meminfo"};
	(void)state;
	put("vmstat", "pgmajfault 10\n");
	put("meminfo", "Dirty: 1 kB\n");
	forbid(secret, 2);
	be_nobody();
	void *c = fake_open(&COLLECTOR);
	if (c) {
		COLLECTOR.read(c, 1 * S);
		COLLECTOR.read(c, 2 * S);
		COLLECTOR.close(c);
	}
	expect("");
	be_oneself();
	allow();
	forbid(secret, 1); /* one of them */
	be_nobody();
	c = fake_open(&COLLECTOR);
	assert_non_null(c);
	COLLECTOR.read(c, 3 * S);
	COLLECTOR.read(c, 4 * S);
	expect("host dirty_bytes 1024\nhost dirty_bytes 1024\n");
	COLLECTOR.close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rates_and_amounts, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(allocations_by_node_where_there_are_several,
						fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(a_long_file_is_cut, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(files_that_may_not_be_read, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
