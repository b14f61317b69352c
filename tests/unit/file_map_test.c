/* file_map_test.c - files that are cut short or written to while they are read.
 *
 * Each case runs in a process of its own, since a handler of SIGBUS is installed once.
 *
 * links: base symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "symbolize/elf_file.h"
#include "symbolize/file_map.h"
#include "symbolize/unwind_table.h"

/* In children: cmocka's assertions belong to the process that runs the tests. */
#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static int status_of(void (*body)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGBUS, SIG_DFL);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* A copy of this program: it has symbols, sections, and rules to unwind it. */
static void copy_self(char *ret_path)
{
	static char bytes[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t n;

	strcpy(ret_path, "/tmp/file-map-test-XXXXXX");
	to = mkstemp(ret_path);
	CHECK(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		CHECK(write(to, bytes, n) == n);
	close(from);
	close(to);
}

static int count_symbol(const struct elf_symbol *s, void *ctx)
{
	CHECK(strlen(s->name) > 0);
	++*(size_t *)ctx;
	return 0;
}

static int ignore_usdt(const struct elf_usdt *u, void *ctx)
{
	(void)ctx;
	return strlen(u->name) > 1000000;
}

static size_t read_all_of(struct elf_file *f, uint64_t address)
{
	struct unwind_table table = {0};
	struct elf_symbol s;
	const uint8_t *data;
	uint64_t ignored;
	size_t symbols = 0, len;
	struct err e;

	elf_file_symbols(f, count_symbol, &symbols);
	elf_file_find(f, "nobody_has_this_name", &s);
	elf_file_symbol_at(f, address, &s);
	elf_file_section(f, ".eh_frame", &data, &len, &ignored);
	elf_file_usdt(f, ignore_usdt, NULL);
	if (!unwind_table_build(f, &table, NULL, &e))
		unwind_table_free(&table);
	return symbols;
}

static void cut_at(off_t (*cut)(off_t size))
{
	struct elf_symbol main_symbol;
	struct elf_file *f, *indexed;
	char path[64];
	size_t symbols;
	struct stat st;
	struct err e;

	copy_self(path);
	CHECK(!elf_file_open(&f, path, &e) && !elf_file_open(&indexed, path, &e));
	CHECK(elf_file_find(indexed, "main", &main_symbol));
	symbols = read_all_of(indexed, main_symbol.address);
	CHECK(symbols > 100 && !elf_file_changed(f));
	CHECK(!stat(path, &st) && !truncate(path, cut(st.st_size)));
	CHECK(read_all_of(f, main_symbol.address) < symbols);
	CHECK(read_all_of(indexed, main_symbol.address) < symbols);
	CHECK(elf_file_changed(f));
	/* what it is made longer to afterwards does no harm either */
	CHECK(!truncate(path, st.st_size * 2));
	read_all_of(f, main_symbol.address);
	elf_file_close(f);
	elf_file_close(indexed);
	unlink(path);
}

static off_t nothing_left(off_t size)
{
	return size - size;
}

static off_t half_left(off_t size)
{
	return size / 2;
}

static void cut_to_nothing(void)
{
	cut_at(nothing_left);
}

static void cut_in_half(void)
{
	cut_at(half_left);
}

static void test_cut(void **state)
{
	(void)state;
	assert_int_equal(status_of(cut_to_nothing), 0);
	assert_int_equal(status_of(cut_in_half), 0);
}

static void small_file(char *ret_path, size_t len, char byte)
{
	char *bytes = xcalloc(1, len);
	int fd;

	memset(bytes, byte, len);
	strcpy(ret_path, "/tmp/file-map-test-XXXXXX");
	fd = mkstemp(ret_path);
	CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
	close(fd);
	free(bytes);
}

/* A text that fills its pages ends at the zeros behind them. */
static void string_to_the_end(void)
{
	char path[64];
	struct file_map m;
	struct err e;

	small_file(path, 8192, 'x');
	CHECK(!file_map_open(&m, path, 0, &e));
	CHECK(strlen((const char *)m.data) == 8192);
	CHECK(!truncate(path, 4096));
	CHECK(strlen((const char *)m.data) == 4096);
	file_map_close(&m);
	CHECK(!file_map_open(&m, path, 4096, &e));
	CHECK(strlen((const char *)m.data) == 4096);
	file_map_close(&m);
	unlink(path);
}

static void test_string_to_the_end(void **state)
{
	(void)state;
	assert_int_equal(status_of(string_to_the_end), 0);
}

static void copied(void)
{
	char path[64];
	struct file_map m, mapped;
	struct err e;

	small_file(path, 8192, 'x');
	CHECK(!file_map_open(&m, path, 8192, &e) && !file_map_open(&mapped, path, 8191, &e));
	CHECK(m.len == 8192 && m.owner == geteuid());
	CHECK(!truncate(path, 0) && !truncate(path, 8192));
	CHECK(m.data[0] == 'x' && m.data[8191] == 'x' && mapped.data[0] == 0);
	file_map_close(&m);
	file_map_close(&mapped);
	unlink(path);
}

static void test_copied(void **state)
{
	(void)state;
	assert_int_equal(status_of(copied), 0);
}

/* ---- faults that are not of these files ---- */

static sigjmp_buf back;

static void jump_back(int number)
{
	siglongjmp(back, number);
}

static volatile uint8_t *foreign_page(void)
{
	char path[64];
	void *page;
	int fd;

	small_file(path, 4096, 'y');
	fd = open(path, O_RDWR | O_CLOEXEC);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(fd >= 0 && page != MAP_FAILED && !ftruncate(fd, 0));
	close(fd);
	unlink(path);
	return page;
}

static void open_and_close(void)
{
	char path[64];
	struct file_map m;
	struct err e;

	small_file(path, 4096, 'x');
	CHECK(!file_map_open(&m, path, 0, &e));
	file_map_close(&m);
	unlink(path);
}

static void earlier_handler(void)
{
	volatile uint8_t *page = foreign_page();

	signal(SIGBUS, jump_back);
	open_and_close();
	if (sigsetjmp(back, 1) == 0) {
		CHECK(page[0] == 1);
		CHECK(!"went on after a fault");
	}
}

static void no_earlier_handler(void)
{
	volatile uint8_t *page = foreign_page();
	struct rlimit none = {0};

	setrlimit(RLIMIT_CORE, &none);
	open_and_close();
	CHECK(page[0] == 1);
}

static void sent_by_hand(void)
{
	struct rlimit none = {0};

	setrlimit(RLIMIT_CORE, &none);
	open_and_close();
	raise(SIGBUS);
}

static void sent_and_ignored(void)
{
	signal(SIGBUS, SIG_IGN);
	open_and_close();
	raise(SIGBUS);
}

static void test_faults_elsewhere(void **state)
{
	int status;

	(void)state;
	assert_int_equal(status_of(earlier_handler), 0);
	assert_int_equal(status_of(sent_and_ignored), 0);
	status = status_of(no_earlier_handler);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = status_of(sent_by_hand);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/* ---- several threads ---- */

static void *open_cut_read(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++) {
		char path[64];
		struct file_map m;
		struct err e;
		unsigned sum = 0;

		small_file(path, 40000, 'x');
		CHECK(!file_map_open(&m, path, 0, &e));
		CHECK(!truncate(path, (i % 10) * 4096));
		for (size_t at = 39999; at < 40000; at -= 1000)
			sum += m.data[at] == 'x';
		CHECK(sum <= 41);
		CHECK(m.data[39999] == 0);
		file_map_close(&m);
		unlink(path);
	}
	return NULL;
}

static void several_threads(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, open_cut_read, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void test_several_threads(void **state)
{
	(void)state;
	assert_int_equal(status_of(several_threads), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_string_to_the_end),
		cmocka_unit_test(test_copied),
		cmocka_unit_test(test_faults_elsewhere),
		cmocka_unit_test(test_several_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
