/* disks_test.c - what block devices did, from a /proc/diskstats of the test's making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#define COLLECTOR collector_disks

#define IDLE_LINES                                                                                 \
	"   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n"                                                     \
	"   1 0 ram0 5 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"

static void whole_devices_that_work(void **state)
{
	(void)state;
	assert_null(fake_open(&COLLECTOR));
	put("sys/block/vda/size", "1\n");
	put("sys/block/cciss!c0d0/size", "1\n");
	put("sys/block/loop0/size", "1\n");
	put("sys/block/ram0/size", "1\n");
	put("diskstats", IDLE_LINES " 254 0 vda 100 5 1000 50 10 0 80 20 0 500 70 1 2 3\n"
				    " 254 1 vda1 100 5 1000 50 10 0 80 20 0 500 70\n"
				    " 104 0 cciss/c0d0 0 0 0 0 0 0 0 0 0 0 0\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("");
	put("diskstats", IDLE_LINES " 254 0 vda 200 5 3000 250 10 0 80 20 9 1500 2070 1 2 3\n"
				    " 254 1 vda1 200 5 3000 250 10 0 80 20 9 1500 2070\n"
				    " 104 0 cciss/c0d0 0 0 0 0 4 0 8 2 0 1 2\n");
	COLLECTOR.read(c, 3 * S);
	expect("disk vda read_bytes_per_s 5.12e+05\ndisk vda written_bytes_per_s 0\n"
	       "disk vda read_wait_ns 2e+06\ndisk vda busy_ratio 0.5\ndisk vda queue 1\n"
	       "disk cciss/c0d0 read_bytes_per_s 0\ndisk cciss/c0d0 written_bytes_per_s 2048\n"
	       "disk cciss/c0d0 write_wait_ns 5e+05\ndisk cciss/c0d0 busy_ratio 0.0005\n"
	       "disk cciss/c0d0 queue 0.001\n");
	COLLECTOR.read(c, 3 * S + 1 * MS);
	expect("");
	/* the lines move; one is gone, one began anew, and then is busy for longer than there was
	 */
	put("diskstats", " 254 0 vda 3 5 3000 250 10 0 80 20 0 1500 2070\n" IDLE_LINES);
	COLLECTOR.read(c, 4 * S);
	expect("");
	put("diskstats", " 104 0 cciss/c0d0 0 0 0 0 4 0 8 2 0 1 2\n"
			 " 254 0 vda 3 5 3000 250 10 0 80 20 0 9500 2070\n" IDLE_LINES);
	COLLECTOR.read(c, 5 * S);
	expect("disk vda read_bytes_per_s 0\ndisk vda written_bytes_per_s 0\ndisk vda queue 0\n");
	COLLECTOR.close(c);
}

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {
		"\n",
		"254\n254 0\n254 0 \n254 0 vda\n254 0 vda 1 2 3",
		"254 0 vda 1 1 1 1 1 1 1 1 1 1\n",
		"254 0 vda -1 1 1 1 1 1 1 1 1 1 1\n",
		"254 0 vda 99999999999999999999 1 1 1 1 1 1 1 1 1 1\n",
		"254 0 .. 9 9 9 9 9 9 9 9 9 9 9\n254 0 . 9 9 9 9 9 9 9 9 9 9 9\n",
		"254 0 .. 8 9 9 9 9 9 9 9 9 9 9\n254 0 . 9 9 9 9 9 9 9 9 9 99 99\n",
		("254 0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
		 "1 1 1 1 1 1 1 1 1 1 1\n"),
		/* twice in one file */
		"254 0 vda 1 1 1 1 1 1 1 1 1 1 1\n254 0 vda 2 2 2 2 2 2 2 2 2 2 2\n",
	};
	(void)state;
	put("sys/block/vda/size", "1\n");
	put("diskstats", "\n");
	void *c = fake_open(&COLLECTOR);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put("diskstats", "%s", odd[i]);
		COLLECTOR.read(c, (i + 1) * S);
	}
	drop("diskstats");
	COLLECTOR.read(c, 50 * S);
	expect("");
	COLLECTOR.close(c);
}

/* Of very many devices some are told. */
static void there_is_a_bound(void **state)
{
	char path[256], name[64];
	(void)state;
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "sys/block/d%d/size", i);
		put(name, "1\n");
	}
	void *c = NULL;
	for (unsigned read = 1; read < 4; read++) {
		fake_path(path, "diskstats");
		FILE *f = fopen(path, "we");
		assert_non_null(f);
		for (int i = 0; i < 30000; i++)
			fprintf(f, "1 %d d%d %u 1 1 1 1 1 1 1 1 1 1\n", i, i, read);
		fclose(f);
		if (!c)
			c = fake_open(&COLLECTOR);
		told[0] = 0;
		COLLECTOR.read(c, read * S);
	}
	size_t lines = 0;
	for (const char *at = told; (at = strstr(at, "busy")); at++)
		lines++;
	assert_int_equal(lines, 64);
	COLLECTOR.close(c);
}

/* Each pair of reads has another device, with a partition. */
static void what_went_leaves_its_place(void **state)
{
	char name[64];
	(void)state;
	put("diskstats", "\n");
	void *c = fake_open(&COLLECTOR);
	for (uint64_t i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "sys/block/d%u/size", (unsigned)i / 2);
		put(name, "1\n");
		put("diskstats",
		    "1 0 d%u %u 1 1 1 1 1 1 1 1 1 1\n1 1 d%up1 1 1 1 1 1 1 1 1 1 1 1\n",
		    (unsigned)i / 2, (unsigned)i % 2, (unsigned)i / 2);
		told[0] = 0;
		COLLECTOR.read(c, (i + 1) * S);
	}
	assert_non_null(strstr(told, "disk d99 queue"));
	COLLECTOR.close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole_devices_that_work, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(there_is_a_bound, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(what_went_leaves_its_place, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
