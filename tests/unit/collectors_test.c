/* collectors_test.c - collectors are opened by their layers, read at their periods, told of
 * processes and records; a slow one that hangs holds up nobody and tells nothing afterwards.
 *
 * links: base collect symbolize */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/collectors.h"
#include "collect/registry.h"

#define MS 1000000ULL

/* Everything that happened, as text; from any thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char happened[4096];

static void happens(const char *what)
{
	pthread_mutex_lock(&lock);
	strncat(happened, what, sizeof(happened) - strlen(happened) - 1);
	pthread_mutex_unlock(&lock);
}

static void wait_for(const char *what)
{
	bool seen = false;
	while (!seen) {
		pthread_mutex_lock(&lock);
		seen = strstr(happened, what);
		pthread_mutex_unlock(&lock);
		usleep(1000);
	}
}

static void expect(const char *what)
{
	assert_string_equal(happened, what);
	happened[0] = 0;
}

static const struct collect_sink *sink;

static int fake_open(void **ret_state, const struct collect_env *env, const struct collect_sink *to,
		     struct err *e)
{
	(void)e;
	assert_string_equal(env->sys_root, "/made-up");
	sink = to;
	*ret_state = happened;
	happens("open.");
	return 0;
}

static void fake_add(void *state, pid_t pid, bool is_new)
{
	char text[32];
	assert_ptr_equal(state, happened);
	snprintf(text, sizeof(text), "add %d%s.", pid, is_new ? " new" : "");
	happens(text);
}

static void fake_del(void *state, pid_t pid)
{
	(void)state;
	assert_int_equal(pid, 12);
	happens("del.");
}

static void fake_record(void *state, const void *record)
{
	(void)state;
	assert_int_equal(*(const uint8_t *)record, REC_XID);
	happens("record.");
}

static void fake_read(void *state, uint64_t now_ns)
{
	(void)state;
	happens("read.");
	sink_counter(sink, now_ns, &ENTITY_NAMED(ENTITY_INTERFACE, "eth0"), "rx_bytes_per_s", 7);
}

static uint64_t fake_cpu(const void *state)
{
	(void)state;
	return 42;
}

static void fake_close(void *state)
{
	(void)state;
	happens("close.");
}

static const struct collector fake = {"fake",	   LAYER_HAS_GPUS, 200 * MS, NULL,
				      REC_XID,	   fake_open,	   fake_add, fake_del,
				      fake_record, fake_read,	   fake_cpu, fake_close};

static void on_counter(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		       double value)
{
	char entity[64], text[128];
	(void)ctx;
	(void)time_ns;
	entity_text(entity, sizeof(entity), of);
	snprintf(text, sizeof(text), "%s %s %.0f.", entity, name, value);
	happens(text);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	char text[600];
	(void)ctx;
	snprintf(text, sizeof(text), "%s: %s.", subject, reason);
	happens(text);
}

static struct collectors *open_these(const struct collector *const *list, size_t len, bool asked)
{
	const struct collectors_options o = {
		.list = list,
		.len = len,
		.layers = 1u << LAYER_GPU,
		.env = {.sys_root = "/made-up", .asked = asked},
		.sink = {.counter = on_counter, .note = on_note},
		.patience_ns = 50 * MS,
	};
	happened[0] = 0;
	return collectors_open(&o);
}

static void a_collector_is_read_at_its_period(void **state)
{
	(void)state;
	const struct collector *list[] = {&fake};
	struct collectors *c = open_these(list, 1, false);
	struct rec_xid xid = {.kind = REC_XID};
	struct rec_socket socket = {.kind = REC_SOCKET};
	expect("open.");
	collectors_add_pid(c, 12, true);
	collectors_add_pid(c, 13, false);
	collectors_del_pid(c, 12);
	collectors_take_record(c, &socket); /* another's */
	collectors_take_record(c, &xid);
	expect("add 12 new.add 13.del.record.");
	for (uint64_t tick = 0; tick < 9; tick++) /* the beat is late, and never early */
		collectors_tick(c, 1000 * MS + tick * 50 * MS + tick % 2);
	expect("read.interface eth0 rx_bytes_per_s 7.read.interface eth0 rx_bytes_per_s 7."
	       "read.interface eth0 rx_bytes_per_s 7.");
	assert_int_equal(collectors_cpu_ns(c), 42);
	collectors_stop(c);
	collectors_stop(c);
	expect("read.interface eth0 rx_bytes_per_s 7.");
	collectors_close(c);
	expect("close.");
}

static int fails(void **ret_state, const struct collect_env *env, const struct collect_sink *to,
		 struct err *e)
{
	(void)ret_state;
	(void)env;
	(void)to;
	return err_set(e, ENOENT, "it is not there");
}

static int is_none(void **ret_state, const struct collect_env *env, const struct collect_sink *to,
		   struct err *e)
{
	(void)ret_state;
	(void)env;
	(void)to;
	(void)e;
	return -EOPNOTSUPP;
}

static void what_is_not_wanted_or_not_there_is_left_out(void **state)
{
	(void)state;
	struct collector other = fake, failing = fake, always = fake, none = fake;
	other.layers = LAYER_HAS_COLLECTIVES;
	failing.open = always.open = fails;
	always.layers = 0;
	none.open = is_none;
	const struct collector *list[] = {&other, &failing, &always, &none};
	for (int asked = 0; asked < 2; asked++) {
		struct collectors *c = open_these(list, 4, asked);
		collectors_add_pid(c, 12, true);
		collectors_tick(c, 1000 * MS);
		collectors_close(c);
		expect(asked ? "fake: it is not there.fake: it is not there."
			     : "fake: it is not there.");
	}
}

static atomic_bool may_go_on;

static void hanging_read(void *state, uint64_t now_ns)
{
	happens("hangs.");
	while (!atomic_load(&may_go_on))
		usleep(1000);
	fake_read(state, now_ns);
}

/* What hangs at the end is noted, and what it says later goes nowhere. */
static void a_driver_that_hangs_is_left_behind(void **state)
{
	(void)state;
	struct collector slow = fake;
	slow.slow = "ITS DRIVER";
	slow.read = hanging_read;
	slow.add_pid = fake_add;
	const struct collector *list[] = {&slow};
	struct collectors *c = open_these(list, 1, false);
	collectors_tick(c, 1000 * MS); /* not here */
	wait_for("hangs.");
	collectors_add_pid(c, 12, false);
	expect("open.hangs.add 12.");
	collectors_close(c);
	expect("fake: ITS DRIVER did not answer at the end: telemetry is cut short.");
	atomic_store(&may_go_on, true);
	wait_for("close.");
	assert_null(strstr(happened, "interface"));
}

static void a_slow_one_is_read_on_its_own(void **state)
{
	(void)state;
	struct collector slow = fake;
	slow.slow = "ITS DRIVER";
	slow.period_ns = MS;
	const struct collector *list[] = {&slow};
	struct collectors *c = open_these(list, 1, false);
	wait_for("read.interface eth0 rx_bytes_per_s 7.read.");
	collectors_close(c);
	assert_non_null(strstr(happened, "7.close."));
}

static void the_registry_has_no_two_of_a_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < collector_registry_len; i++) {
		const struct collector *c = collector_registry[i];
		assert_true(c->open && c->close && (c->read ? c->period_ns : c->record));
		assert_false(c->slow && c->record);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(c->name, collector_registry[k]->name);
	}
}

static void entities_are_text_and_back(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint8_t kind;
		size_t host_len;
		uint32_t pid, gpu;
		int32_t instance;
		const char *label;
	} known[] = {
		{"pid 12", ENTITY_PROCESS, 0, 12, 0, -1, ""},
		{"gpu 3", ENTITY_GPU, 0, 0, 3, -1, ""},
		{"gpu 3 mig 1", ENTITY_GPU, 0, 0, 3, 1, ""},
		{"gpu 3 pid 9", ENTITY_GPU, 0, 9, 3, -1, ""},
		{"gpu 3 mig 0 pid 9", ENTITY_GPU, 0, 9, 3, 0, ""},
		{"node 7 gpu 3 pid 9", ENTITY_GPU, 6, 9, 3, -1, ""},
		{"node7 eacgm", ENTITY_EACGM, 5, 0, 0, -1, ""},
		{"host", ENTITY_HOST, 0, 0, 0, -1, ""},
		{"a interface eth0", ENTITY_INTERFACE, 1, 0, 0, -1, "eth0"},
		{"cgroup /a b", ENTITY_CGROUP, 0, 0, 0, -1, "/a b"},
		{"disk nvme0n1", ENTITY_DISK, 0, 0, 0, -1, "nvme0n1"},
		{"node7 disk vda", ENTITY_DISK, 5, 0, 0, -1, "vda"},
		{"file system /dev/shm", ENTITY_FILESYSTEM, 0, 0, 0, -1, "/dev/shm"},
		{"disks", ENTITY_OTHER, 0, 0, 0, -1, "disks"},
		{"gpu 03", ENTITY_OTHER, 0, 0, 0, -1, "gpu 03"},
		{"gpu -1", ENTITY_OTHER, 0, 0, 0, -1, "gpu -1"},
		{"gpu 0 pid 0", ENTITY_OTHER, 0, 0, 0, -1, "gpu 0 pid 0"},
		{"gpu 99999999999", ENTITY_OTHER, 0, 0, 0, -1, "gpu 99999999999"},
		{"pid 1 pid 2", ENTITY_OTHER, 0, 0, 0, -1, "pid 1 pid 2"},
		{"gpu at 0000:00:06", ENTITY_OTHER, 0, 0, 0, -1, "gpu at 0000:00:06"},
		{" gpu 0", ENTITY_OTHER, 0, 0, 0, -1, " gpu 0"},
		{"eacgm ", ENTITY_OTHER, 0, 0, 0, -1, "eacgm "},
		{"", ENTITY_OTHER, 0, 0, 0, -1, ""},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct entity e;
		char text[64];
		entity_parse(&e, known[i].text);
		assert_int_equal(e.kind, known[i].kind);
		assert_int_equal(e.host_len, known[i].host_len);
		assert_int_equal(e.pid, known[i].pid);
		assert_int_equal(e.gpu, known[i].gpu);
		assert_int_equal(e.instance, known[i].instance);
		assert_string_equal(e.label, known[i].label);
		entity_text(text, sizeof(text), &e);
		assert_string_equal(text, known[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_collector_is_read_at_its_period),
		cmocka_unit_test(what_is_not_wanted_or_not_there_is_left_out),
		cmocka_unit_test(a_driver_that_hangs_is_left_behind),
		cmocka_unit_test(a_slow_one_is_read_on_its_own),
		cmocka_unit_test(the_registry_has_no_two_of_a_name),
		cmocka_unit_test(entities_are_text_and_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
