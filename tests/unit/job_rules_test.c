/* job_rules_test.c - which rule a process is under, by what /proc says of it, and who is under one.
 * links: session symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fake_proc.h"
#include "session/job_rules.h"

#define PUT(pid, name, text) put_of_process(pid, name, text, sizeof(text) - 1)

static void put_process(int pid)
{
	PUT(pid, "cmdline",
	    "python3\0-u\0/job/serve.py\0--port\0"
	    "80\0");
	PUT(pid, "cgroup", "12:cpu,cpuacct:/old/one\n0::/kubepods/besteffort/pod7/c1\n");
	PUT(pid, "status", "Name:\tpython3\nUid:\t1000\t1001\t1000\t1000\nGid:\t5\t6\t7\t8\n");
}

static size_t match_one(int pid, const struct job_rule *rule)
{
	struct job_rules r = {.list = {*rule}, .len = 1};
	struct job_facts f;
	job_facts_read(&f, folder, pid);
	size_t ret = job_rules_match(&r, &f);
	job_facts_free(&f);
	return ret;
}

static void all_that_is_given_has_to_fit(void **state)
{
	(void)state;
	static const struct {
		struct job_rule rule;
		size_t fits;
	} cases[] = {
		{{.command = "python3 *serve*"}, 1},
		{{.command = "python3 -u /job/serve.py --port 80"}, 1},
		{{.command = "*"}, 1},
		{{.command = "*serve"}, 0}, /* of the whole line */
		{{.command = "*serve.py --port [0-9][0-9]"}, 1},
		{{.command = "*serve.py --port ?"}, 0},
		{{.cgroup = "/kubepods/*"}, 1},
		{{.cgroup = "*/c1"}, 1},
		{{.cgroup = "/old/*"}, 1},
		{{.cgroup = "/kubepods"}, 0},
		{{.cgroup = "cpu*"}, 0}, /* paths alone */
		{{.by_user = true, .user = 1001}, 1},
		{{.by_user = true, .user = 1000}, 0}, /* it runs as another */
		{{.by_user = true, .user = 0}, 0},
		{{.command = "*serve*", .cgroup = "/kubepods/*", .by_user = true, .user = 1001}, 1},
		{{.command = "*train*", .cgroup = "/kubepods/*", .by_user = true, .user = 1001}, 0},
		{{.command = "*serve*", .cgroup = "/system/*", .by_user = true, .user = 1001}, 0},
		{{.command = "*serve*", .cgroup = "/kubepods/*", .by_user = true, .user = 7}, 0},
	};
	put_process(10);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (match_one(10, &cases[i].rule) != cases[i].fits)
			fail_msg("case %zu", i);
}

static void the_first_that_fits_holds(void **state)
{
	(void)state;
	struct job_rules r = {
		.list = {{.command = "*train*"}, {.command = "*serve*"}, {.command = "*"}},
		.len = 3};
	struct job_facts f = {.command = "python3 serve.py", .cgroups = ""};
	assert_int_equal(job_rules_match(&r, &f), 2);
	f.command = "sh";
	assert_int_equal(job_rules_match(&r, &f), 3);
	r.len = 2;
	assert_int_equal(job_rules_match(&r, &f), 0);
}

static void what_has_ended_fits_what_says_nothing_of_it(void **state)
{
	(void)state;
	assert_int_equal(match_one(99, &(struct job_rule){.command = "*"}), 1);
	assert_int_equal(match_one(99, &(struct job_rule){.command = "?*"}), 0);
	assert_int_equal(match_one(99, &(struct job_rule){.cgroup = "*"}), 0);
	assert_int_equal(match_one(99, &(struct job_rule){.by_user = true, .user = 0}), 0);
}

static void workers_are_under_their_parents_rule(void **state)
{
	(void)state;
	put_process(20);
	PUT(21, "cmdline",
	    "python3\0-c\0from multiprocessing.spawn import spawn_main; spawn_main()\0"
	    "--multiprocessing-fork\0");
	PUT(21, "stat", "21 (python3) S 20 1 1");
	assert_int_equal(match_one(21, &(struct job_rule){.command = "*serve.py*"}), 1);
	assert_int_equal(match_one(21, &(struct job_rule){.command = "*spawn_main*"}), 0);
}

static void who_is_under_a_rule(void **state)
{
	(void)state;
	struct job_rules r;
	job_rules_init(&r);
	r.len = 2;
	job_rules_put(&r, 7, 1);
	job_rules_put(&r, 8, 2);
	job_rules_put(&r, 9, 2);
	job_rules_put(&r, 10, 0);
	assert_int_equal(job_rules_of(&r, 8), 2);
	assert_int_equal(job_rules_of(&r, 10), 0);
	assert_int_equal(job_rules_count(&r, 1), 1);
	assert_int_equal(job_rules_count(&r, 2), 2);
	job_rules_put(&r, 8, 1);
	job_rules_put(&r, 9, 0);
	assert_int_equal(job_rules_count(&r, 1), 2);
	assert_int_equal(job_rules_count(&r, 2), 0);
	assert_int_equal(job_rules_of(&r, 9), 0);
	job_rules_free(&r);
}

/* It is so at each program that it executes; a child is, too. */
static void who_is_traced_against_a_rule(void **state)
{
	(void)state;
	struct job_rules r;
	job_rules_init(&r);
	r.len = 2;
	job_rules_put(&r, 7, 1);
	assert_int_equal(job_rules_failed(&r, 7, 2), 1);
	assert_int_equal(job_rules_failed(&r, 7, 2), 0);
	assert_int_equal(job_rules_failed(&r, 8, 2), 2);
	assert_int_equal(job_rules_of(&r, 7), 0);
	assert_int_equal(job_rules_count(&r, 1), 0);
	assert_int_equal(job_rules_count(&r, 2), 0);
	assert_int_equal(job_rules_meant(&r, 7), 2);
	job_rules_put(&r, 8, 2); /* there is room */
	assert_int_equal(job_rules_of(&r, 8), 2);
	job_rules_put(&r, 7, 0); /* it has ended, and another has its number */
	assert_int_equal(job_rules_meant(&r, 7), 0);
	assert_int_equal(job_rules_failed(&r, 7, 1), 3);
	assert_int_equal(job_rules_failures(&r), 3);
	job_rules_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_is_given_has_to_fit),
		cmocka_unit_test(the_first_that_fits_holds),
		cmocka_unit_test(what_has_ended_fits_what_says_nothing_of_it),
		cmocka_unit_test(workers_are_under_their_parents_rule),
		cmocka_unit_test(who_is_under_a_rule),
		cmocka_unit_test(who_is_traced_against_a_rule),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
