/* rivals_test.c - whose programs are that had a thread's CPU: a cgroup's path that is not sure is
 * told until one is that is, and the first process of all leads nobody. Reads a made /proc, and the
 * real file system of cgroups.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_proc.h"
#include "pipeline/pipeline_impl.h"

#define PUT(pid, name, text) put_of_process(pid, name, text, sizeof(text) - 1)
#define LEADER		     20

static struct pipeline *p;
static int begin(void **state)
{
	struct rec_writer *w;
	(void)state;
	assert_int_equal(rec_writer_open(&w, NULL, NULL, NULL), 0);
	p = pipeline_new(w, folder, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	return pipeline_close(p, NULL);
}

static struct m_wait named(uint32_t rival, uint32_t leader, uint64_t cgroup)
{
	struct rec_wait r = {.rival_tgid = rival, .rival_leader = leader, .rival_cgroup = cgroup};
	struct m_wait row = {0};
	rivals_name(p, &r, &row);
	return row;
}

static bool is(uint32_t string, const char *text)
{
	return !strcmp(rec_string_get(p->writer, string), text);
}

/* Of version 2, wherever that is mounted; 0: nowhere. */
static uint64_t root_group(void)
{
	struct stat st;
	if (!stat("/sys/fs/cgroup/unified", &st) || !stat("/sys/fs/cgroup", &st))
		return st.st_ino;
	return 0;
}

static void a_path_that_is_not_sure_is_replaced(void **state)
{
	uint64_t root = root_group();
	(void)state;
	if (!root)
		skip();
	PUT(11, "cgroup", "0::/never-there/one\n");
	PUT(12, "cgroup", "0::/never-there/two\n");
	PUT(13, "cgroup", "0::/\n");
	assert_true(is(named(11, 0, root).rival_cgroup, "/never-there/one"));
	assert_true(is(named(99, 0, root).rival_cgroup, "/never-there/one"));
	for (int i = 0; i < 100 && !is(named(12, 0, root).rival_cgroup, "/never-there/two"); i++)
		usleep(100000);
	assert_true(is(named(12, 0, root).rival_cgroup, "/never-there/two"));
	for (int i = 0; i < 100 && !is(named(13, 0, root).rival_cgroup, "/"); i++)
		usleep(100000);
	assert_true(is(named(13, 0, root).rival_cgroup, "/"));
}

/* The rival itself was moved; its leader was not. */
static void a_leader_that_is_sure_is_asked_first(void **state)
{
	uint64_t root = root_group();
	(void)state;
	if (!root)
		skip();
	PUT(11, "cgroup", "0::/never-there/one\n");
	PUT(LEADER, "cgroup", "0::/\n");
	assert_true(is(named(11, LEADER, root).rival_cgroup, "/"));
}

static void the_first_process_leads_nobody(void **state)
{
	(void)state;
	char path[64];
	for (int pid = 1; pid <= LEADER; pid += LEADER - 1) {
		snprintf(path, sizeof(path), "%s/%d", folder, pid);
		mkdir(path, 0700);
		snprintf(path, sizeof(path), "%s/%d/task", folder, pid);
		mkdir(path, 0700);
		snprintf(path, sizeof(path), "%s/%d/task/%d", folder, pid, pid);
		mkdir(path, 0700);
		snprintf(path, sizeof(path), "task/%d/comm", pid);
		PUT(pid, path, "make\n");
	}
	struct m_wait row = named(11, LEADER, 0);
	assert_int_equal(row.rival_leader_pid, LEADER);
	assert_true(is(row.rival_leader, "make"));
	row = named(11, 1, 0);
	assert_int_equal(row.rival_leader_pid, 0);
	assert_int_equal(row.rival_leader, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_path_that_is_not_sure_is_replaced, begin, end),
		cmocka_unit_test_setup_teardown(a_leader_that_is_sure_is_asked_first, begin, end),
		cmocka_unit_test_setup_teardown(the_first_process_leads_nobody, begin, end),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
