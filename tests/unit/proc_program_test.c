/* proc_program_test.c - what processes run, by command lines of theirs and of their parents.
 * links: symbolize base */
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
#include "symbolize/proc_program.h"

/* words: each ends with a zero. */
static void put_process(int pid, int parent, const char *words, size_t len)
{
	char stat[64];
	snprintf(stat, sizeof(stat), "%d (python3) S %d 1 1", pid, parent);
	put_of_process(pid, "stat", stat, strlen(stat));
	put_of_process(pid, "cmdline", words, len);
}
#define PUT(pid, parent, words) put_process(pid, parent, words, sizeof(words) - 1)

static void expect(int pid, const char *name)
{
	char *script = proc_script(folder, pid);
	assert_string_equal(script ? script : "", name);
	free(script);
}

#define SPAWN                                                                                      \
	"python3\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)\0"   \
	"--multiprocessing-fork\0"
#define SERVER "python3\0-c\0from multiprocessing.forkserver import main; main(8, 9, [])\0"

static void workers_have_their_parents_script(void **state)
{
	(void)state;
	PUT(10, 1, "/usr/bin/python3\0-u\0/job/train.py\0--key\0SECRET\0");
	PUT(11, 10, SPAWN);
	PUT(12, 10, SERVER);
	PUT(13, 12, SERVER); /* forked by it */
	PUT(14, 11, SPAWN);  /* a worker's worker */
	expect(10, "train.py");
	expect(11, "train.py, spawn worker");
	expect(12, "train.py, forkserver");
	expect(13, "train.py, forkserver worker");
	expect(14, "train.py, spawn worker, spawn worker");
}

static void others_have_none(void **state)
{
	(void)state;
	PUT(20, 1, "python3\0-c\0import secret\0");
	PUT(21, 20, SPAWN); /* of a text */
	PUT(22, 99, SPAWN); /* its parent is gone */
	PUT(23, 23, SPAWN); /* no kernel says so */
	expect(20, "");
	expect(21, "");
	expect(22, "");
	expect(23, "");
	expect(24, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_have_their_parents_script),
		cmocka_unit_test(others_have_none),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
