/* program_name_test.c - what a command line's program is called.
 * links: base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/program_name.h"

#define EXPECT(name, ...)                                                                          \
	do {                                                                                       \
		char *argv[] = {__VA_ARGS__, NULL}, *is = program_name_of(argv);                   \
		assert_string_equal(is, name);                                                     \
		free(is);                                                                          \
	} while (0)

static void scripts(void **state)
{
	(void)state;
	EXPECT("train.py", "/usr/bin/python3", "/job/train.py", "--lr", "1");
	EXPECT("train.py", "python3.11", "-u", "-W", "ignore", "train.py");
	EXPECT("train.py", "mpirun", "-n", "2", "python3", "train.py", "secret");
	EXPECT("train.py", "torchrun", "--nproc-per-node", "2", "/job/train.py");
	EXPECT("train.py", "env", "A=1", "taskset", "-c", "0", "python", "train.py");
	EXPECT("run", "bash", "/job/run", "x");
	EXPECT("app.js", "node", "app.js");
}

static void others(void **state)
{
	(void)state;
	EXPECT("python3 -m pytest", "python3", "-m", "pytest", "tests/a.py");
	EXPECT("python3 -c", "/usr/bin/python3", "-c", "print(1)");
	EXPECT("redis-server", "/usr/bin/redis-server", "--port", "1");
	EXPECT("make", "make", "-j2");
	EXPECT("python3", "python3");
}

#define EXPECT_SCRIPT(name, ...)                                                                   \
	do {                                                                                       \
		char *argv[] = {__VA_ARGS__, NULL}, *is = program_script_of(argv);                 \
		assert_string_equal(is ? is : "", name);                                           \
		free(is);                                                                          \
	} while (0)

/* A launcher is not what it launches. */
static void of_one_process(void **state)
{
	(void)state;
	EXPECT_SCRIPT("train.py", "/usr/bin/python3", "-u", "/job/train.py", "secret");
	EXPECT_SCRIPT("torchrun", "/usr/bin/python3", "/usr/bin/torchrun", "train.py");
	EXPECT_SCRIPT("python3 -m pytest", "python3", "-m", "pytest");
	EXPECT_SCRIPT("", "mpirun", "-n", "2", "python3", "train.py");
	EXPECT_SCRIPT("", "sh", "-c", "yes & python3 train.py");
	EXPECT_SCRIPT("", "-bash");
	EXPECT_SCRIPT("", "bash", "-lc", "python train.py --api-key=a/SECRET");
	EXPECT_SCRIPT("", "sh", "-ec", "true; secret");
	EXPECT_SCRIPT("", "bash", "-s", "--", "--token", "SECRET");
	EXPECT_SCRIPT("", "bash", "-euo", "pipefail", "-c", "run secret");
	EXPECT_SCRIPT("run.sh", "bash", "-euo", "pipefail", "/job/run.sh", "secret");
	EXPECT_SCRIPT("", "python3", "-uc", "print('secret')");
	EXPECT_SCRIPT("", "python3", "-Ic", "secret()");
	EXPECT_SCRIPT("python3 -m pytest", "python3", "-mpytest", "tests/a.py");
	EXPECT_SCRIPT("train.py", "python3", "-uX", "faulthandler", "train.py");
	EXPECT_SCRIPT("", "perl", "-ne", "print if /secret/");
	EXPECT_SCRIPT("", "node", "-p", "secret");
	EXPECT_SCRIPT("app.js", "node", "--max-old-space-size=4096", "app.js");
	EXPECT_SCRIPT(
		"python3 -m torch._inductor.compile_worker", "/usr/bin/python3",
		"/venv/lib/python3.12/site-packages/torch/_inductor/compile_worker/__main__.py",
		"--workers=32");
	EXPECT_SCRIPT("python3 -m job", "python3", "/x/job/__main__.py");
	EXPECT_SCRIPT("__main__.py", "python3", "/x/site-packages/__main__.py");
	EXPECT_SCRIPT("__main__.py", "python3", "__main__.py");
	EXPECT_SCRIPT("__main__.py", "python3", "/__main__.py");
	EXPECT_SCRIPT("", "ruby", "--x", "secret");
	EXPECT_SCRIPT("", "python3", "a\nsecret");
	EXPECT_SCRIPT("", "python3");
	char *none[] = {NULL};
	assert_null(program_script_of(none));
}

#define EXPECT_WORKER(what, ...)                                                                   \
	do {                                                                                       \
		char *argv[] = {__VA_ARGS__, NULL};                                                \
		const char *is = program_worker_of(argv);                                          \
		assert_string_equal(is ? is : "", what);                                           \
		assert_null(program_script_of(argv));                                              \
	} while (0)

static void workers_of_multiprocessing(void **state)
{
	(void)state;
	EXPECT_WORKER("spawn worker", "/usr/bin/python3", "-B", "-c",
		      ("from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=6, "
		       "pipe_handle=11)"),
		      "--multiprocessing-fork");
	EXPECT_WORKER("forkserver", "python3", "-c",
		      "from multiprocessing.forkserver import main; main(8, 9, ['__main__'], "
		      "**{'sys_path': ['/tmp']})");
	EXPECT_WORKER("resource tracker", "python3", "-c",
		      "from multiprocessing.resource_tracker import main;main(5)");
	EXPECT_WORKER("", "python3", "-c", "import secret; secret.run()");
	EXPECT_WORKER("", "python3", "-c");
	EXPECT_WORKER("", "sh", "-c", "from multiprocessing.spawn import spawn_main");
	EXPECT_WORKER("", "sleep", "9");
	char *argument[] = {"python3", "train.py", "-c", "from multiprocessing.spawn import x",
			    NULL};
	assert_null(program_worker_of(argument));
	char *none[] = {NULL};
	assert_null(program_worker_of(none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(scripts), cmocka_unit_test(others),
					   cmocka_unit_test(of_one_process),
					   cmocka_unit_test(workers_of_multiprocessing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
