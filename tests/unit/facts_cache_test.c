/* facts_cache_test.c - what is kept of a file is found for that file as it was, that question and
 * that program, and for nothing else.
 *
 * Needs root, as the cache does, and a file system whose times the kernel sets in its folder,
 * /var/tmp.
 *
 * links: base probe parser */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "probe/facts_cache.h"

#define OP	1
#define ASKED	"/usr/lib/liba.so"
#define ANSWER	"what was found"
#define PATIENT 200 /* times 50 ms */

static char folder[64];

static char *path_of(const char *name)
{
	static char paths[2][512];
	static int next;
	char *path = paths[next++ % 2];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static char *cache_path(void)
{
	return path_of("cache");
}

static void empty(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *entry;
	char name[1024];

	while (d && (entry = readdir(d))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			remove(name);
	}
	if (d)
		closedir(d);
}

static int empty_folder(void **state)
{
	(void)state;
	empty(cache_path());
	empty(folder);
	return 0;
}

/* The one file in the cache; NULL when there is none. */
static char *kept_file(void)
{
	static char path[1024];
	DIR *d = opendir(cache_path());
	const struct dirent *entry;
	bool there = false;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", cache_path(), entry->d_name);
			there = true;
		}
	if (d)
		closedir(d);
	return there ? path : NULL;
}

static int make_file(const char *name, const char *text)
{
	int fd = open(path_of(name), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static struct buf key_of(const struct facts_cache *c, int fd, unsigned op, const char *asked)
{
	struct buf key;

	facts_cache_key(c, fd, op, asked, strlen(asked), &key);
	return key;
}

/* Waits until the file has been as it is for so long that it is kept. */
static struct buf settled_key(const struct facts_cache *c, int fd)
{
	struct buf key = key_of(c, fd, OP, ASKED);

	for (int i = 0; !key.len && i < PATIENT; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
		key = key_of(c, fd, OP, ASKED);
	}
	if (!key.len) {
		print_message("nothing is kept of files in %s\n", folder);
		skip();
	}
	return key;
}

static bool finds(struct facts_cache *c, const struct buf *key)
{
	struct buf answer = {0};
	bool hit = facts_cache_load(c, key, &answer);

	if (hit) {
		assert_int_equal(answer.len, strlen(ANSWER));
		assert_memory_equal(answer.data, ANSWER, answer.len);
	}
	buf_free(&answer);
	return hit;
}

static void store(struct facts_cache *c, int fd, const struct buf *key)
{
	const struct buf answer = {.data = (uint8_t *)ANSWER, .len = strlen(ANSWER)};

	facts_cache_store(c, fd, key, &answer);
}

static struct facts_cache *open_cache(void)
{
	if (geteuid() != 0)
		skip();
	return facts_cache_open(cache_path(), 0);
}

static void test_kept(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd);

	(void)state;
	assert_false(finds(c, &key));
	store(c, fd, &key);
	assert_true(finds(c, &key) && finds(c, &key));
	facts_cache_close(c);
	c = facts_cache_open(cache_path(), 0);
	assert_true(finds(c, &key));
	facts_cache_close(c);
	buf_free(&key);
	close(fd);
}

/* Other operations, questions, files, and the same file after it was written, cut, linked. */
static void test_other_keys(void **state)
{
	static const char *const asked[] = {"", "/usr/lib/liba.s", "/usr/lib/liba.soo",
					    "/usr/lib/libb.so"};
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text"), other = make_file("b", "text");
	struct buf key = settled_key(c, fd), changed;

	(void)state;
	store(c, fd, &key);
	changed = key_of(c, fd, OP + 1, ASKED);
	assert_true(changed.len && !finds(c, &changed));
	buf_free(&changed);
	for (size_t i = 0; i < 4; i++) {
		changed = key_of(c, fd, OP, asked[i]);
		assert_true(changed.len && !finds(c, &changed));
		buf_free(&changed);
	}
	changed = settled_key(c, other);
	assert_false(finds(c, &changed));
	buf_free(&changed);
	assert_int_equal(fchown(fd, 65534, 65534), 0);
	changed = settled_key(c, fd);
	assert_false(finds(c, &changed));
	buf_free(&changed);
	assert_true(finds(c, &key));
	facts_cache_close(c);
	buf_free(&key);
	close(fd);
	close(other);
}

/* The same bytes in number, and the same time of modification: still another file. */
static void test_rewritten(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd), changed;
	struct stat before;

	(void)state;
	store(c, fd, &key);
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_equal(pwrite(fd, "TEXT", 4, 0), 4);
	assert_int_equal(futimens(fd, (struct timespec[]){before.st_atim, before.st_mtim}), 0);
	changed = settled_key(c, fd);
	assert_false(finds(c, &changed));
	buf_free(&changed);
	buf_free(&key);
	facts_cache_close(c);
	close(fd);
}

/* Written to between the question and the answer: whose answer it is nobody knows. */
static void test_changed_while_read(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd);

	(void)state;
	assert_int_equal(pwrite(fd, "TEXT", 4, 0), 4);
	store(c, fd, &key);
	assert_null(kept_file());
	assert_false(finds(c, &key));
	facts_cache_close(c);
	buf_free(&key);
	close(fd);
}

/* What was changed a moment ago may be changed again with the same time. */
static void test_young(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct timespec before, after;
	struct buf key;

	(void)state;
	do { /* on a busy host a moment may be long */
		clock_gettime(CLOCK_REALTIME, &before);
		assert_int_equal(pwrite(fd, "TEXT", 4, 0), 4);
		key = key_of(c, fd, OP, ASKED);
		clock_gettime(CLOCK_REALTIME, &after);
		if (after.tv_sec - before.tv_sec > 1)
			buf_free(&key);
	} while (after.tv_sec - before.tv_sec > 1);
	assert_int_equal(key.len, 0);
	assert_false(finds(c, &key));
	store(c, fd, &key);
	assert_null(kept_file());
	facts_cache_close(c);
	close(fd);
}

/* File systems whose times are not told by the kernel at each change. */
static void test_no_times(void **state)
{
	struct facts_cache *c = open_cache();
	int fds[] = {memfd_create("a", MFD_CLOEXEC), open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
		     open("/dev/null", O_RDONLY | O_CLOEXEC)};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct buf key = key_of(c, fds[i], OP, ASKED);

		assert_int_equal(key.len, 0);
		close(fds[i]);
	}
	facts_cache_close(c);
}

/* Damaged at each place in turn (also where the version stands), cut short, made longer. */
static void test_damaged(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd);
	struct stat st;

	(void)state;
	store(c, fd, &key);
	assert_int_equal(stat(kept_file(), &st), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		int kept = open(kept_file(), O_RDWR | O_CLOEXEC);
		uint8_t byte;

		assert_int_equal(pread(kept, &byte, 1, at), 1);
		byte ^= 0x41;
		assert_int_equal(pwrite(kept, &byte, 1, at), 1);
		close(kept);
		assert_false(finds(c, &key));
		assert_null(kept_file());
		store(c, fd, &key);
		assert_true(finds(c, &key));
	}
	for (off_t len = 0; len < st.st_size + 40; len += 3) {
		assert_int_equal(truncate(kept_file(), len), 0);
		assert_int_equal(finds(c, &key), len == st.st_size);
		store(c, fd, &key);
	}
	facts_cache_close(c);
	buf_free(&key);
	close(fd);
}

/* As if the hash of two keys were the same: what is found is the other's, and is not taken. */
static void test_same_name(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd), other = key_of(c, fd, OP, "other");
	char name[1024], other_name[1024];

	(void)state;
	store(c, fd, &other);
	snprintf(other_name, sizeof(other_name), "%s", kept_file());
	remove(other_name);
	store(c, fd, &key);
	snprintf(name, sizeof(name), "%s", kept_file());
	assert_string_not_equal(name, other_name);
	assert_int_equal(rename(name, other_name), 0);
	assert_false(finds(c, &other));
	assert_null(kept_file());
	facts_cache_close(c);
	buf_free(&key);
	buf_free(&other);
	close(fd);
}

/* More than a file may have. */
static void test_too_much(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd);
	struct buf much = {.len = 16 << 20, .data = xcalloc(16, 1 << 20)};

	(void)state;
	facts_cache_store(c, fd, &key, &much);
	assert_null(kept_file());
	facts_cache_close(c);
	buf_free(&key);
	buf_free(&much);
	close(fd);
}

/* Who is not root has none, whatever folder is his. */
static void test_other_user(void **state)
{
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid_t child = fork();
	if (child == 0) {
		char own[128];
		snprintf(own, sizeof(own), "%s", path_of("own"));
		mkdir(own, 0700);
		if (chown(own, 65534, 65534) || setuid(65534))
			_exit(2);
		struct facts_cache *c = facts_cache_open(own, 0);
		int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
		struct buf key = key_of(c, fd, OP, ASKED);
		_exit(key.len != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rmdir(path_of("own"));
}

/* ---- another build of the program ---- */

static const char *self;

/* In a program of its own: whether the answer about file "a" is found there. */
static int find_as(const char *in)
{
	snprintf(folder, sizeof(folder), "%s", in);
	struct facts_cache *c = facts_cache_open(cache_path(), 0);
	int fd = open(path_of("a"), O_RDONLY | O_CLOEXEC);
	struct buf key = key_of(c, fd, OP, ASKED);
	bool found = finds(c, &key);
	buf_free(&key);
	facts_cache_close(c);
	close(fd);
	return found ? 0 : 3;
}

static int run(const char *program)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		execl(program, program, folder, NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static void test_other_program(void **state)
{
	struct facts_cache *c = open_cache();
	int fd = make_file("a", "text");
	struct buf key = settled_key(c, fd);
	char copy[1200];

	(void)state;
	store(c, fd, &key);
	snprintf(copy, sizeof(copy), "cp %s %s", self, path_of("program"));
	assert_int_equal(system(copy), 0); /* NOLINT(cert-env33-c): both paths are ours */
	assert_int_equal(run(path_of("program")), 3);
	assert_int_equal(run(self), 0);
	facts_cache_close(c);
	buf_free(&key);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_kept, empty_folder),
		cmocka_unit_test_setup(test_other_keys, empty_folder),
		cmocka_unit_test_setup(test_rewritten, empty_folder),
		cmocka_unit_test_setup(test_changed_while_read, empty_folder),
		cmocka_unit_test_setup(test_young, empty_folder),
		cmocka_unit_test_setup(test_no_times, empty_folder),
		cmocka_unit_test_setup(test_damaged, empty_folder),
		cmocka_unit_test_setup(test_same_name, empty_folder),
		cmocka_unit_test_setup(test_too_much, empty_folder),
		cmocka_unit_test_setup(test_other_user, empty_folder),
		cmocka_unit_test_setup(test_other_program, empty_folder),
	};
	int rc;

	if (argc > 1)
		return find_as(argv[1]);
	self = argv[0];
	snprintf(folder, sizeof(folder), "%s", "/var/tmp/eacgm-facts-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	empty_folder(NULL);
	rmdir(cache_path());
	rmdir(folder);
	return rc;
}
