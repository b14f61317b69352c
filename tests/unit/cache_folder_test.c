/* cache_folder_test.c - what is kept beside thousands of files, where there is no room, and where
 * others write too. Tables are kept in such a folder: unwind_cache_test.c has the rest.
 *
 * links: base */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cache_folder.h"
#include "cached_files.h"

static const struct cache_kind kind = {
	.folder = "things",
	.ending = ".thing",
	.max_bytes = 1000,
	.max_files = 100,
	.max_bytes_a_file = 400,
};

static bool is_there(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

static bool begins_with_x(void *ctx, const uint8_t *bytes, size_t len)
{
	(void)ctx;
	return len && bytes[0] == 'x';
}

static void store(struct cache_folder *c, const char *name, size_t len)
{
	char bytes[2000];

	memset(bytes, 'x', sizeof(bytes));
	cache_folder_store(c, name, bytes, len);
}

/* Makes a file as another process would, used so long ago. */
static void make(const char *name, size_t len, time_t age_s)
{
	char bytes[2000];
	struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
	int fd = open(path_of(name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(write(fd, bytes, len), len);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

static bool has(struct cache_folder *c, const char *name)
{
	struct buf b = {0};
	bool there = cache_folder_load(c, name, begins_with_x, NULL, &b);

	assert_true(!there || (b.len && b.data[b.len - 1] == 'x'));
	buf_free(&b);
	return there;
}

static void test_bounds(void **state)
{
	struct cache_folder *c = cache_folder_open(folder, &kind);

	(void)state;
	store(c, "a.thing", 400);
	store(c, "larger.thing", 401);
	assert_true(has(c, "a.thing") && !is_there("larger.thing"));
	make("long.thing", 401, 0);
	make("empty.thing", 0, 0);
	assert_false(has(c, "long.thing") || has(c, "empty.thing"));
	assert_false(is_there("long.thing") || is_there("empty.thing"));
	cache_folder_close(c);
}

/* Files of which there are too many go one by one, the longest unused first (by the day); those
 * that were used since the folder was listed stay. */
static void test_many(void **state)
{
	struct cache_folder *c = cache_folder_open(folder, &kind);
	char name[32];

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "old%03d.thing", i);
		make(name, 1, 100000 - i);
	}
	store(c, "new0.thing", 1);
	assert_false(is_there("old000.thing"));
	assert_int_equal(files_in_folder(), 100);
	assert_true(has(c, "old001.thing"));
	for (int i = 1; i < 40; i++) {
		snprintf(name, sizeof(name), "new%d.thing", i);
		store(c, name, 1);
		assert_int_equal(files_in_folder(), 100);
	}
	assert_true(is_there("old001.thing") && !is_there("old040.thing"));
	assert_true(is_there("old041.thing") && is_there("new0.thing"));
	cache_folder_close(c);
}

/* What others store meanwhile is seen before it is much. */
static void test_others_store(void **state)
{
	struct cache_folder *one = cache_folder_open(folder, &kind);
	struct cache_folder *two = cache_folder_open(folder, &kind);
	char name[32];

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "n%d.thing", i);
		store(i % 2 ? one : two, name, 10);
		assert_in_range(files_in_folder(), 1, 100 + 2 * (100 / 8 + 1));
	}
	assert_true(is_there("n299.thing") && !is_there("n0.thing"));
	cache_folder_close(one);
	cache_folder_close(two);
}

/* A folder that was listed is not listed again: what lies in it is looked at once. */
static void test_listed_once(void **state)
{
	struct cache_folder *c = cache_folder_open(folder, &kind);

	(void)state;
	store(c, "a.thing", 1);
	make("left.1.tmp", 1, 3600);
	for (int i = 0; i < 8; i++)
		store(c, "b.thing", 1);
	assert_true(is_there("left.1.tmp"));
	cache_folder_close(c);
	c = cache_folder_open(folder, &kind);
	store(c, "c.thing", 1);
	assert_false(is_there("left.1.tmp"));
	cache_folder_close(c);
}

/* A disk without room, here: files that may not grow. Nothing is left of what was begun. */
static void test_full(void **state)
{
	struct cache_folder *c = cache_folder_open(folder, &kind);
	struct rlimit was, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	none = (struct rlimit){0, was.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &none);
	store(c, "a.thing", 100);
	setrlimit(RLIMIT_FSIZE, &was);
	assert_int_equal(files_in_folder(), 0);
	store(c, "a.thing", 100);
	assert_true(has(c, "a.thing"));
	cache_folder_close(c);
}

/* A file that another user has put there, or may write to, is not believed; a folder of others is
 * not used at all. */
static void test_others_files(void **state)
{
	struct cache_folder *c = cache_folder_open(folder, &kind);

	(void)state;
	store(c, "open.thing", 1);
	assert_int_equal(chmod(path_of("open.thing"), 0602), 0);
	assert_false(has(c, "open.thing"));
	if (geteuid() == 0) {
		store(c, "theirs.thing", 1);
		assert_int_equal(chown(path_of("theirs.thing"), 65534, 65534), 0);
		assert_false(has(c, "theirs.thing"));
		store(c, "ours.thing", 1);
		cache_folder_close(c);
		assert_int_equal(chown(folder, 65534, 65534), 0);
		c = cache_folder_open(folder, &kind);
		assert_false(has(c, "ours.thing"));
		store(c, "more.thing", 1);
		assert_false(is_there("more.thing"));
		assert_int_equal(chown(folder, 0, 0), 0);
	}
	cache_folder_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_bounds, empty_folder),
		cmocka_unit_test_setup(test_many, empty_folder),
		cmocka_unit_test_setup(test_others_store, empty_folder),
		cmocka_unit_test_setup(test_listed_once, empty_folder),
		cmocka_unit_test_setup(test_full, empty_folder),
		cmocka_unit_test_setup(test_others_files, empty_folder),
	};
	int rc;

	snprintf(folder, sizeof(folder), "%s", "/tmp/eacgm-folder-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	empty_folder(NULL);
	rmdir(folder);
	return rc;
}
