/* numa_test.c - nodes of CPUs and of PCI devices and the distances between nodes, from a /sys and a
 * /proc of the test's making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#include "collect/numa.h"

#define NODES "sys/devices/system/node/"
#define GPU   "sys/bus/pci/devices/0000:1b:00.0/numa_node"

static struct numa *two_nodes(void)
{
	put(NODES "online", "0,2\n");
	put(NODES "node0/cpulist", "0-1,4\n");
	put(NODES "node2/cpulist", "2-3\n");
	put(NODES "node0/distance", "10 21\n");
	put(NODES "node2/distance", "22 10\n");
	struct numa *n = numa_read(fake_sys);
	assert_non_null(n);
	return n;
}

static void cpus_and_distances(void **state)
{
	static const int node_of[] = {0, 0, 2, 2, 0, NUMA_UNKNOWN};
	(void)state;
	struct numa *n = two_nodes();
	for (int i = 0; i < 6; i++)
		assert_int_equal(numa_node_of_cpu(n, i), node_of[i]);
	assert_int_equal(numa_node_of_cpu(n, NUMA_UNKNOWN), NUMA_UNKNOWN);
	assert_int_equal(numa_node_of_cpu(n, INT64_MAX), NUMA_UNKNOWN);
	assert_int_equal(numa_distance(n, 0, 0), NUMA_SAME_FAR);
	assert_int_equal(numa_distance(n, 0, 2), 21);
	assert_int_equal(numa_distance(n, 2, 0), 22);
	assert_int_equal(numa_distance(n, 0, 1), 0); /* there is none */
	assert_int_equal(numa_distance(n, NUMA_UNKNOWN, 0), 0);
	numa_free(n);
}

static void one_node_or_none(void **state)
{
	(void)state;
	assert_null(numa_read(fake_sys)); /* nothing is known */
	put(NODES "online", "0\n");
	put(NODES "node0/cpulist", "0-7\n");
	assert_null(numa_read(fake_sys));
	numa_free(NULL);
}

static void nodes_of_devices(void **state)
{
	(void)state;
	assert_int_equal(numa_node_of_pci(fake_sys, "00000000:1B:00.0"), NUMA_UNKNOWN);
	put(GPU, "2\n");
	assert_int_equal(numa_node_of_pci(fake_sys, "00000000:1B:00.0"), 2);
	assert_int_equal(numa_node_of_pci(fake_sys, "0000:1b:00.0"), 2);
	assert_int_equal(numa_node_of_pci(fake_sys, "0001:1b:00.0"), NUMA_UNKNOWN);
	put(GPU, "-1\n"); /* as virtual machines have it */
	assert_int_equal(numa_node_of_pci(fake_sys, "0000:1b:00.0"), NUMA_UNKNOWN);
	put(GPU, "99999999999999999999\n");
	assert_int_equal(numa_node_of_pci(fake_sys, "0000:1b:00.0"), NUMA_UNKNOWN);
	assert_int_equal(numa_node_of_pci(fake_sys, ""), NUMA_UNKNOWN);
	assert_int_equal(numa_node_of_pci(fake_sys, "../../../x"), NUMA_UNKNOWN);
}

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {"\n", "-", "1-", ",", "x", "0-99999999999999999999",
					  "3-1"};
	(void)state;
	struct numa *n = two_nodes();
	numa_free(n);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put(NODES "node0/cpulist", "%s", odd[i]);
		put(NODES "node0/distance", "%s", odd[i]);
		n = numa_read(fake_sys);
		assert_non_null(n);
		assert_int_equal(numa_node_of_cpu(n, 2), 2); /* of the other one */
		assert_int_equal(numa_node_of_cpu(n, 4), NUMA_UNKNOWN);
		assert_int_equal(numa_distance(n, 2, 0), 22);
		assert_int_equal(numa_distance(n, 0, 2), 0);
		numa_free(n);
		put(NODES "online", "%s", odd[i]);
		numa_free(numa_read(fake_sys));
		put(NODES "online", "0,2\n");
	}
	put(NODES "online", "0-99999999\n"); /* more than there can be */
	put(NODES "node0/cpulist", "0-99999999\n");
	n = numa_read(fake_sys);
	assert_non_null(n);
	assert_int_equal(numa_node_of_cpu(n, 5), 0);
	assert_int_equal(numa_node_of_cpu(n, 1 << 20), NUMA_UNKNOWN);
	numa_free(n);
}

static void files_that_may_not_be_read(void **state)
{
	static const char *const secret[] = {NODES "node0/cpulist", NODES "node2/distance", GPU,
					     "7/stat"};
	(void)state;
	numa_free(two_nodes());
	put(GPU, "2\n");
	put("7/stat", "7 (a) S\n");
	forbid(secret, sizeof(secret) / sizeof(secret[0]));
	be_nobody();
	struct numa *n = numa_read(fake_sys);
	assert_non_null(n);
	assert_int_equal(numa_node_of_cpu(n, 0), NUMA_UNKNOWN);
	assert_int_equal(numa_node_of_cpu(n, 2), 2);
	assert_int_equal(numa_distance(n, 0, 2), 21);
	assert_int_equal(numa_distance(n, 2, 0), 0);
	assert_int_equal(numa_node_of_pci(fake_sys, "0000:1b:00.0"), NUMA_UNKNOWN);
	assert_int_equal(numa_cpu_of(fake_root, 7), NUMA_UNKNOWN);
	numa_free(n);
}

static void the_last_cpu_of_a_process(void **state)
{
	(void)state;
	assert_int_equal(numa_cpu_of(fake_root, 7), NUMA_UNKNOWN);
	put("7/stat", "7 (a) 1 2) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 "
		      "27 28 29 30 31 32 33 34 35 36 37 38 3 40 41\n");
	assert_int_equal(numa_cpu_of(fake_root, 7), 3);
	put("7/stat", "7 (a) S 4 5 6\n");
	assert_int_equal(numa_cpu_of(fake_root, 7), NUMA_UNKNOWN);
	put("7/stat", "7 (a S 4 5 6\n");
	assert_int_equal(numa_cpu_of(fake_root, 7), NUMA_UNKNOWN);
	assert_true(numa_cpu_of("/proc", (uint32_t)getpid()) >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cpus_and_distances, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(one_node_or_none, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(nodes_of_devices, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(files_that_may_not_be_read, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(the_last_cpu_of_a_process, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
