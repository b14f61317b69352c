/* taskstats_test.c - what answers of the kernel's delay accounting say, whole, cut, of other
 * layouts; and that nobody is asked where it is off.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>

#include "collect/taskstats.h"

#define PID   77
#define BYTES 700

static uint8_t message[4096];
static size_t len;

static size_t add_attribute(uint16_t type, const void *value, size_t size)
{
	struct nlattr a = {.nla_type = type, .nla_len = (uint16_t)(NLA_HDRLEN + size)};
	size_t at = len;
	memcpy(message + len, &a, sizeof(a));
	if (value)
		memcpy(message + len + NLA_HDRLEN, value, size);
	len += NLA_ALIGN(NLA_HDRLEN + size);
	return at;
}

static void finish(uint16_t type)
{
	struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_len = (uint32_t)len};
	memcpy(message, &h, sizeof(h));
}

/* Each 64-bit number of the struct is its place in bytes. */
static void make(uint16_t version, size_t bytes)
{
	uint64_t stats[BYTES / 8 + 1];
	uint32_t pid = PID;
	for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++)
		stats[i] = 8 * i;
	memcpy(stats, &version, sizeof(version));
	memset(message, 0, sizeof(message));
	len = NLMSG_HDRLEN + GENL_HDRLEN;
	add_attribute(99, &pid, 3);
	size_t outer = add_attribute(TASKSTATS_TYPE_AGGR_TGID | NLA_F_NESTED, NULL, 0);
	add_attribute(TASKSTATS_TYPE_TGID, &pid, sizeof(pid));
	add_attribute(TASKSTATS_TYPE_STATS, stats, bytes);
	uint16_t all = (uint16_t)(len - outer);
	memcpy(message + outer, &all, sizeof(all));
	finish(30);
}

static void delays_are_where_the_version_has_them(void **state)
{
	struct task_delays d;
	(void)state;
	make(16, BYTES);
	assert_true(taskstats_delays(message, len, PID, &d));
	assert_int_equal(d.known, (1u << TASK_DELAYS) - 1);
	assert_int_equal(d.ns[DELAY_CPU], offsetof(struct taskstats, cpu_delay_total));
	assert_int_equal(d.ns[DELAY_BLKIO], offsetof(struct taskstats, blkio_delay_total));
	assert_int_equal(d.ns[DELAY_SWAPIN], offsetof(struct taskstats, swapin_delay_total));
	assert_int_equal(d.ns[DELAY_FREEPAGES], offsetof(struct taskstats, freepages_delay_total));
	assert_int_equal(d.ns[DELAY_IRQ], 424);
	make(13, 416);
	assert_true(taskstats_delays(message, len, PID, &d));
	assert_int_equal(d.known, (1u << DELAY_IRQ) - 1);
	assert_int_equal(d.ns[DELAY_IRQ], 0);
	make(1, 80);
	assert_true(taskstats_delays(message, len, PID, &d));
	assert_int_equal(d.known, 1u << DELAY_CPU | 1u << DELAY_BLKIO | 1u << DELAY_SWAPIN);
	make(15, BYTES);
	assert_false(taskstats_delays(message, len, PID, &d));
	make(16, 20);
	assert_false(taskstats_delays(message, len, PID, &d));
	make(16, 1);
	assert_false(taskstats_delays(message, len, PID, &d));
	make(16, BYTES);
	assert_false(taskstats_delays(message, len, PID + 1, &d)); /* of another */
	finish(NLMSG_ERROR);
	assert_false(taskstats_delays(message, len, PID, &d));
}

/* In memory of its length, so that a sanitizer sees what lies beyond. */
static void what_is_cut_or_changed_is_no_answer(void **state)
{
	struct task_delays d;
	uint32_t random = 1;
	(void)state;
	make(16, 500);
	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = malloc(n + 1);
		assert_non_null(cut);
		memcpy(cut, message, n);
		assert_false(taskstats_delays(cut, n, PID, &d));
		taskstats_family(cut, n);
		uint32_t says = (uint32_t)n; /* its head agrees */
		if (n >= sizeof(says))
			memcpy(cut, &says, sizeof(says));
		taskstats_delays(cut, n, PID, &d);
		taskstats_family(cut, n);
		free(cut);
	}
	for (int i = 0; i < 20000; i++) {
		uint8_t *changed = malloc(len);
		assert_non_null(changed);
		memcpy(changed, message, len);
		for (int k = 0; k < 3; k++) {
			random = random * 1664525 + 1013904223;
			changed[(random >> 8) % 64] = (uint8_t)(random >> 24);
		}
		taskstats_delays(changed, len, PID, &d);
		taskstats_family(changed, len);
		free(changed);
	}
}

static void a_family_has_a_number(void **state)
{
	uint16_t family = 33;
	(void)state;
	memset(message, 0, sizeof(message));
	len = NLMSG_HDRLEN + GENL_HDRLEN;
	add_attribute(CTRL_ATTR_FAMILY_NAME, "TASKSTATS", 10);
	add_attribute(CTRL_ATTR_FAMILY_ID, &family, sizeof(family));
	finish(GENL_ID_CTRL);
	assert_int_equal(taskstats_family(message, len), 33);
	finish(NLMSG_ERROR);
	assert_int_equal(taskstats_family(message, len), 0);
	assert_int_equal(taskstats_family(message, 3), 0);
}

static void where_it_is_off_there_is_none(void **state)
{
	(void)state;
	put("sys/kernel/task_delayacct", "0\n");
	assert_null(fake_open(&collector_taskstats));
}

/* Only root in the host's own namespaces is answered. CPUs are waited for whether or not the kernel
 * counts the other delays. */
static void this_kernel_answers(void **state)
{
	char line[64];
	(void)state;
	void *c = fake_open(&collector_taskstats);
	if (!c)
		skip();
	collector_taskstats.add_pid(c, getpid(), false);
	collector_taskstats.add_pid(c, 0x3fffffff, false); /* there is none */
	collector_taskstats.read(c, 1 * S);
	expect("");
	collector_taskstats.read(c, 1 * S + 1 * MS);
	expect("");
	collector_taskstats.read(c, 3 * S);
	snprintf(line, sizeof(line), "pid %d cpu_delay_ratio ", getpid());
	assert_non_null(strstr(told, line));
	assert_null(strstr(told, "1073741823"));
	collector_taskstats.del_pid(c, getpid());
	told[0] = 0;
	collector_taskstats.read(c, 5 * S);
	expect("");
	collector_taskstats.close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_are_where_the_version_has_them),
		cmocka_unit_test(what_is_cut_or_changed_is_no_answer),
		cmocka_unit_test(a_family_has_a_number),
		cmocka_unit_test_setup_teardown(this_kernel_answers, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(where_it_is_off_there_is_none, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
