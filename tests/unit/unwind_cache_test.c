/* unwind_cache_test.c - tables from the cache are those that were compiled, whatever happened to
 * its files in between.
 *
 * links: base symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "cached_files.h"
#include "elf_builder.h"
#include "symbolize/unwind_cache.h"

struct made {
	struct elf_builder elf;
	struct elf_file *file;
	char name[128]; /* of its table in the cache */
};

static void name_table(struct made *m)
{
	char *name = unwind_cache_name(m->file);

	snprintf(m->name, sizeof(m->name), "%s", name ? name : "");
	free(name);
}

/* A file whose one function has a rule of its own; id_len 0: without a build id. */
static void make_claiming(struct made *m, uint8_t number, uint8_t id_number, size_t id_len)
{
	static const uint8_t text[4096];
	uint8_t eh[64] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1};
	uint64_t start = ELF_BASE + 1024, len = sizeof(text);
	uint8_t id[20] = {id_number, 0xab};
	struct buf note = {0};
	struct err e;

	eh[24] = 28; /* the FDE's length */
	eh[28] = 28; /* how far back its CIE is */
	memcpy(eh + 32, &start, 8);
	memcpy(eh + 40, &len, 8);
	eh[48] = 0x0e; /* def_cfa_offset */
	eh[49] = 16 + number;
	elf_builder_init(&m->elf);
	elf_builder_section(&m->elf, ".text", SHT_PROGBITS, text, sizeof(text), 0);
	elf_builder_section(&m->elf, ".eh_frame", SHT_PROGBITS, eh, sizeof(eh), 0);
	if (id_len) {
		elf_builder_note(&note, "GNU", NT_GNU_BUILD_ID, id, id_len);
		elf_builder_section(&m->elf, ".note.gnu.build-id", SHT_NOTE, note.data, note.len,
				    0);
		buf_free(&note);
	}
	elf_builder_finish(&m->elf, ET_DYN);
	assert_int_equal(elf_file_open_memory(&m->file, m->elf.file.data, m->elf.file.len, &e), 0);
	name_table(m);
}

static void make(struct made *m, uint8_t number, size_t id_len)
{
	make_claiming(m, number, number, id_len);
}

static void end(struct made *m)
{
	elf_file_close(m->file);
	elf_builder_free(&m->elf);
}

/* Gets the table, which has to be the right one, and says whether it came from the cache. */
static bool get(struct unwind_cache *c, struct made *m)
{
	struct unwind_table got, fresh;
	struct err e;
	bool hit;

	assert_int_equal(unwind_cache_get(c, m->file, &got, &hit, &e), 0);
	assert_int_equal(unwind_table_build(m->file, &fresh, NULL, &e), 0);
	assert_int_equal(got.len, fresh.len);
	assert_memory_equal(got.words, fresh.words, fresh.len * 4);
	unwind_table_free(&got);
	unwind_table_free(&fresh);
	return hit;
}

static bool is_there(const struct made *m)
{
	return access(path_of(m->name), F_OK) == 0;
}

static void test_kept(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made m;
	struct stat st;

	(void)state;
	make(&m, 1, 20);
	assert_false(get(c, &m));
	assert_true(get(c, &m));
	assert_int_equal(stat(path_of(m.name), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(files_in_folder(), 1);
	unwind_cache_close(c);
	c = unwind_cache_open(folder, 0);
	assert_true(get(c, &m));
	unwind_cache_close(c);
	end(&m);
}

/* What is read from it later is the table that was loaded, and no other of the same name. */
static void test_file(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct unwind_table mine, other;
	struct made m, n;
	struct err e;
	uint32_t last;

	(void)state;
	make(&m, 1, 20);
	make(&n, 2, 20);
	assert_int_equal(unwind_table_build(m.file, &mine, NULL, &e), 0);
	assert_int_equal(unwind_table_build(n.file, &other, NULL, &e), 0);
	assert_int_equal(unwind_cache_file(c, m.name, &mine), -1);
	assert_int_equal(unwind_cache_file(c, NULL, &mine), -1);
	unwind_cache_store(c, m.name, &mine);
	int fd = unwind_cache_file(c, m.name, &mine);
	assert_true(fd >= 0);
	assert_int_equal(unwind_cache_file(c, m.name, &other), -1);
	unwind_cache_store(c, m.name, &other);
	assert_int_equal(unwind_cache_file(c, m.name, &mine), -1);
	assert_int_equal(pread(fd, &last, 4, (off_t)(mine.len - 1) * 4), 4);
	assert_int_equal(last, mine.words[mine.len - 1]);
	close(fd);
	assert_int_equal(chmod(path_of(m.name), 0666), 0);
	assert_int_equal(unwind_cache_file(c, m.name, &other), -1);
	unwind_table_free(&mine);
	unwind_table_free(&other);
	unwind_cache_close(c);
	end(&m);
	end(&n);
}

static void test_no_build_id(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made m;

	(void)state;
	for (size_t len = 0; len < 8; len += 4) { /* four bytes tell no file from another */
		make(&m, 1, len);
		assert_false(get(c, &m));
		assert_false(get(c, &m));
		end(&m);
	}
	assert_int_equal(files_in_folder(), 0);
	unwind_cache_close(c);
}

/* Files that claim the build id of another: with other rules, of another size, of someone else. */
static void test_claimed_build_id(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made real, other;
	char path[] = "/tmp/unwind-cache-file-XXXXXX";
	struct elf_file *file;
	struct err e;
	int fd = mkstemp(path);

	(void)state;
	make(&real, 1, 20);
	assert_false(get(c, &real));

	make_claiming(&other, 2, 1, 20);
	assert_string_equal(elf_file_build_id(other.file), elf_file_build_id(real.file));
	assert_false(get(c, &other));
	assert_true(get(c, &other));
	end(&other);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, real.elf.file.data, real.elf.file.len), real.elf.file.len);
	file = real.file;
	assert_int_equal(elf_file_open(&real.file, path, &e), 0);
	assert_int_equal(get(c, &real), geteuid() == 0); /* bytes in memory are root's */
	elf_file_close(real.file);
	if (geteuid() == 0) {
		assert_int_equal(fchown(fd, 12345, 12345), 0);
		assert_int_equal(elf_file_open(&real.file, path, &e), 0);
		assert_false(get(c, &real));
		assert_true(get(c, &real));
		elf_file_close(real.file);
	}
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(elf_file_open(&real.file, path, &e), 0);
	assert_false(get(c, &real));
	elf_file_close(real.file);
	real.file = file;
	close(fd);
	unlink(path);
	assert_true(get(c, &real));
	unwind_cache_close(c);
	end(&real);
}

static void test_no_rules(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct elf_builder b;
	struct unwind_table t;
	struct elf_file *f;
	struct err e;
	bool hit = true;

	(void)state;
	elf_builder_init(&b);
	elf_builder_finish(&b, ET_DYN);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	assert_int_equal(unwind_cache_get(c, f, &t, &hit, &e), -ENOENT);
	assert_false(hit);
	elf_file_close(f);
	elf_builder_free(&b);
	unwind_cache_close(c);
}

/* Damaged at each place in turn, cut short, made longer, empty: it is compiled again and kept. */
static void test_damaged(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made m;
	struct stat st;

	(void)state;
	make(&m, 1, 20);
	get(c, &m);
	assert_int_equal(stat(path_of(m.name), &st), 0);
	for (off_t at = 0; at < st.st_size; at++) {
		int fd = open(path_of(m.name), O_RDWR | O_CLOEXEC);
		uint8_t byte;

		assert_true(fd >= 0);
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x40;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		assert_false(get(c, &m));
		assert_true(get(c, &m));
	}
	for (off_t len = 0; len < st.st_size + 40; len += 3) {
		assert_int_equal(truncate(path_of(m.name), len), 0);
		assert_int_equal(get(c, &m), len == st.st_size);
		assert_true(get(c, &m));
	}
	unwind_cache_close(c);
	end(&m);
}

/* A link or a fifo in the place of a table is neither followed nor waited for. */
static void test_no_file(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made m;

	(void)state;
	make(&m, 1, 20);
	assert_int_equal(symlink("/etc/passwd", path_of(m.name)), 0);
	assert_false(get(c, &m));
	assert_true(get(c, &m));
	remove(path_of(m.name));
	assert_int_equal(mkfifo(path_of(m.name), 0600), 0);
	assert_false(get(c, &m));
	assert_true(get(c, &m));
	unwind_cache_close(c);
	end(&m);
}

static void set_age(const struct made *m, time_t age_s)
{
	struct timespec now, times[2];

	clock_gettime(CLOCK_REALTIME, &now);
	times[0] = times[1] = (struct timespec){now.tv_sec - age_s, 0};
	assert_int_equal(utimensat(AT_FDCWD, path_of(m->name), times, 0), 0);
}

/* Room for three tables: the one longest unused goes, and use counts, not age. */
static void test_least_recently_used(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made m[5];
	struct stat st;

	(void)state;
	for (int i = 0; i < 5; i++)
		make(&m[i], i + 1, 20);
	for (int i = 0; i < 3; i++) {
		get(c, &m[i]);
		set_age(&m[i], 100000 - i);
	}
	assert_int_equal(stat(path_of(m[0].name), &st), 0);
	unwind_cache_close(c);
	c = unwind_cache_open(folder, 3 * st.st_size);
	assert_true(get(c, &m[0]));
	assert_false(get(c, &m[3]));
	assert_true(is_there(&m[0]) && !is_there(&m[1]) && is_there(&m[2]) && is_there(&m[3]));
	assert_false(get(c, &m[4]));
	assert_true(is_there(&m[0]) && !is_there(&m[2]) && is_there(&m[3]) && is_there(&m[4]));
	unwind_cache_close(c);
	/* what is larger than all room there is makes none */
	c = unwind_cache_open(folder, st.st_size - 1);
	assert_false(get(c, &m[1]));
	assert_false(is_there(&m[1]));
	assert_int_equal(files_in_folder(), 3);
	unwind_cache_close(c);
	for (int i = 0; i < 5; i++)
		end(&m[i]);
}

static void test_left_behind(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct made old = {.name = "00.1.tmp"}, young = {.name = "00.2.tmp"}, m;

	(void)state;
	close(open(path_of(old.name), O_CREAT | O_CLOEXEC | O_WRONLY, 0600));
	close(open(path_of(young.name), O_CREAT | O_CLOEXEC | O_WRONLY, 0600));
	set_age(&old, 3600);
	make(&m, 1, 20);
	get(c, &m);
	assert_true(!is_there(&old) && is_there(&young) && is_there(&m));
	unwind_cache_close(c);
	end(&m);
}

/* No folder, one that cannot be made, one that others may write to: all is compiled. */
static void test_no_folder(void **state)
{
	struct unwind_cache *c;
	struct made m;

	(void)state;
	make(&m, 1, 20);
	c = unwind_cache_open("/proc/none/unwind", 0);
	assert_false(get(c, &m));
	assert_false(get(c, &m));
	unwind_cache_close(c);
	c = unwind_cache_open("", 0);
	assert_false(get(c, &m));
	unwind_cache_close(c);
	assert_int_equal(chmod(folder, 0777), 0);
	c = unwind_cache_open(folder, 0);
	assert_false(get(c, &m));
	assert_false(get(c, &m));
	unwind_cache_close(c);
	assert_int_equal(chmod(folder, 0700), 0);
	assert_int_equal(files_in_folder(), 0);
	end(&m);
}

static void test_folders_are_made(void **state)
{
	struct unwind_cache *c;
	struct stat st;
	char *variable = path_of("a/b"), made[160];
	struct made m;

	(void)state;
	make(&m, 1, 20);
	setenv("EACGM_CACHE", variable, 1);
	c = unwind_cache_open(NULL, 0);
	unsetenv("EACGM_CACHE");
	assert_false(get(c, &m));
	assert_true(get(c, &m));
	assert_int_equal(stat(path_of("a/b/unwind"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	unwind_cache_close(c);
	snprintf(made, sizeof(made), "a/b/unwind/%s", m.name);
	assert_int_equal(remove(path_of(made)), 0);
	assert_int_equal(rmdir(path_of("a/b/unwind")) | rmdir(path_of("a/b")) | rmdir(path_of("a")),
			 0);
	end(&m);
}

/* A disk that is full after some bytes: nothing half-written is left. */
static void test_full_disk(void **state)
{
	struct unwind_cache *c = unwind_cache_open(folder, 0);
	struct rlimit before, small;
	struct made m;

	(void)state;
	make(&m, 1, 20);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_false(get(c, &m));
	assert_false(get(c, &m));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(files_in_folder(), 0);
	assert_false(get(c, &m));
	assert_true(get(c, &m));
	unwind_cache_close(c);
	end(&m);
}

#define ROUNDS 300

/* Asks for tables that do not all fit, so that they come and go. Returns wrong answers. */
static int hammer(struct made *m, int n, uint64_t max_bytes)
{
	struct unwind_cache *c = unwind_cache_open(folder, max_bytes);
	int wrong = 0;
	struct err e;

	for (int i = 0; i < ROUNDS; i++) {
		struct made *at = &m[i % n];
		struct unwind_table got, fresh;

		if (unwind_cache_get(c, at->file, &got, NULL, &e) < 0 ||
		    unwind_table_build(at->file, &fresh, NULL, &e) < 0)
			return 100;
		wrong += got.len != fresh.len || memcmp(got.words, fresh.words, got.len * 4) != 0;
		unwind_table_free(&got);
		unwind_table_free(&fresh);
	}
	unwind_cache_close(c);
	return wrong;
}

static void test_processes_at_once(void **state)
{
	struct made m[5];
	pid_t children[4];
	int status;

	(void)state;
	for (int i = 0; i < 5; i++)
		make(&m[i], i + 1, 20);
	for (int i = 0; i < 4; i++) {
		children[i] = fork();
		if (children[i] == 0)
			_exit(hammer(m, 3 + i % 3, 600));
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i < 5; i++)
		end(&m[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_kept, empty_folder),
		cmocka_unit_test_setup(test_file, empty_folder),
		cmocka_unit_test_setup(test_no_build_id, empty_folder),
		cmocka_unit_test_setup(test_claimed_build_id, empty_folder),
		cmocka_unit_test_setup(test_no_rules, empty_folder),
		cmocka_unit_test_setup(test_damaged, empty_folder),
		cmocka_unit_test_setup(test_no_file, empty_folder),
		cmocka_unit_test_setup(test_least_recently_used, empty_folder),
		cmocka_unit_test_setup(test_left_behind, empty_folder),
		cmocka_unit_test_setup(test_no_folder, empty_folder),
		cmocka_unit_test_setup(test_folders_are_made, empty_folder),
		cmocka_unit_test_setup(test_full_disk, empty_folder),
		cmocka_unit_test_setup(test_processes_at_once, empty_folder),
	};
	int failed;

	snprintf(folder, sizeof(folder), "/tmp/unwind-cache-test-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	empty_folder(NULL);
	rmdir(folder);
	return failed;
}
