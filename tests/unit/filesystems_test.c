/* filesystems_test.c - which file systems are told of, by links of the test's making. How much room
 * they have is the machine's affair.
 *
 * links: base collect symbolize */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fake_host.h"

#define COLLECTOR collector_filesystems

/* The lines of what was told that have this entity, with both counters. */
static bool is_told(const char *entity)
{
	char available[160], total[160];
	snprintf(available, sizeof(available), "file system %s available_bytes ", entity);
	snprintf(total, sizeof(total), "file system %s total_bytes ", entity);
	const char *line = strstr(told, available);
	return line && (line == told || line[-1] == '\n') && strstr(told, total);
}

static size_t lines(void)
{
	size_t n = 0;
	for (const char *at = told; *at; at++)
		n += *at == '\n';
	return n;
}

static void link_to(const char *name, const char *target)
{
	char path[256];
	fake_path(path, name);
	assert_int_equal(symlink(target, path), 0);
}

static dev_t device_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_dev;
}

/* Where this is not one, it is told as where it is mounted. */
static bool has_room(const char *path)
{
	struct statvfs v;
	return !statvfs(path, &v) && v.f_blocks && !(v.f_flag & ST_RDONLY);
}

static void each_file_system_once(void **state)
{
	(void)state;
	if (!has_room("/") || !has_room("/dev/shm") || device_of("/") == device_of("/dev/shm"))
		skip();
	link_to("7/cwd", "/usr");
	link_to("7/root", "/");
	link_to("8/cwd", "/dev/shm");
	link_to("8/root", "/");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect(""); /* nobody is watched, nothing is written */
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 6 * S);
	assert_true(is_told("/dev/shm"));
	if (device_of("/usr") == device_of("/"))
		assert_true(is_told("/"));
	assert_true(lines() == 4 || device_of("/tmp") != device_of("/"));
	told[0] = 0;
	COLLECTOR.del_pid(c, 7); /* the next one's */
	COLLECTOR.read(c, 11 * S);
	assert_memory_equal(told, "file system /dev/shm available_bytes", 36);
	told[0] = 0;
	COLLECTOR.del_pid(c, 8);
	COLLECTOR.read(c, 16 * S);
	expect("");
	COLLECTOR.close(c);
}

/* In a container: its folders have names that the host's have as well. */
static void another_root(void **state)
{
	char path[256];
	(void)state;
	fake_path(path, "box/tmp/x");
	fake_path(path, "box");
	link_to("7/root", path);
	link_to("7/cwd", "/tmp");
	if (!has_room(path))
		skip();
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.read(c, 1 * S);
	assert_true(is_told("/ of pid 7"));
	told[0] = 0;
	COLLECTOR.close(c);
}

static void the_recording(void **state)
{
	char path[256];
	(void)state;
	fake_path(path, "out/run.eacgm");
	struct collect_env env = fake_env;
	struct err e;
	void *c = NULL;
	if (!has_room(fake_root))
		skip();
	env.output = path;
	assert_int_equal(COLLECTOR.open(&c, &env, &fake_sink, &e), 0);
	COLLECTOR.read(c, 1 * S);
	assert_int_equal(lines(), 2);
	assert_true(device_of("/") != device_of("/tmp") || is_told("/"));
	COLLECTOR.close(c);
	told[0] = 0;
	fake_path(path, "gone");
	env.output = "/nowhere/at/all";
	assert_int_equal(COLLECTOR.open(&c, &env, &fake_sink, &e), 0);
	COLLECTOR.read(c, 6 * S);
	COLLECTOR.close(c);
	expect("");
}

static void processes_that_have_gone(void **state)
{
	(void)state;
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.read(c, 1 * S);
	COLLECTOR.close(c);
	expect("");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_file_system_once, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(another_root, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(the_recording, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(processes_that_have_gone, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
