/* proc_code_test.c - what the kernel answers about executable mappings is what its text says.
 *
 * links: base symbolize */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/proc_maps.h"

#define PAGE	  4096
#define MANY	  500
#define PLAIN	  "plain.so"
#define DELETED	  "gone.so"
#define TWO_LINES "two\nlines.so"

static char folder[] = "/tmp/proc_code_test.XXXXXX";

static char *path_of(const char *name)
{
	return xasprintf("%s/%s", folder, name);
}

/* Maps two pages of a new file from its second one. */
static void map_file(const char *name)
{
	char *path = path_of(name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4L * PAGE), 0);
	assert_true(mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, PAGE) !=
		    MAP_FAILED);
	close(fd);
	free(path);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	map_file(PLAIN);
	map_file(DELETED);
	map_file(TWO_LINES);
	char *path = path_of(DELETED);
	unlink(path);
	free(path);
	/* each page apart from the next: the kernel joins those that are alike */
	char *many = mmap(NULL, 2UL * MANY * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (many == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < MANY; i++)
		mprotect(many + 2 * i * PAGE, PAGE, PROT_READ | PROT_EXEC);
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {PLAIN, TWO_LINES};
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = path_of(names[i]);
		unlink(path);
		free(path);
	}
	return rmdir(folder);
}

static void need_answers(void)
{
	proc_maps_t maps = {0};
	int rc = proc_code_ask("/proc", getpid(), &maps);
	proc_maps_free(&maps);
	if (rc == -ENOTTY) {
		print_message("this kernel has no PROCMAP_QUERY (Linux 6.11)\n");
		skip();
	}
	assert_int_equal(rc, 0);
}

static const struct proc_map *named(const proc_maps_t *maps, const char *path)
{
	for (size_t i = 0; i < maps->len; i++)
		if (!strcmp(maps->data[i].path, path))
			return &maps->data[i];
	return NULL;
}

static void read_text(pid_t pid, proc_maps_t *ret)
{
	proc_maps_t all = {0};
	struct err e;
	assert_int_equal(proc_maps_read("/proc", pid, &all, &e), 0);
	for (size_t i = 0; i < all.len; i++) {
		if (all.data[i].executable)
			*vec_push(ret) = all.data[i];
		else
			free(all.data[i].path);
	}
	vec_free(&all);
}

/* Both readings of a process, which rests meanwhile. */
static void assert_alike(pid_t pid)
{
	proc_maps_t asked = {0}, text = {0};
	assert_int_equal(proc_code_ask("/proc", pid, &asked), 0);
	read_text(pid, &text);
	if (!named(&text, "[vsyscall]"))
		free(asked.data[--asked.len].path);
	assert_int_equal(asked.len, text.len);
	for (size_t i = 0; i < text.len; i++) {
		const struct proc_map *a = &asked.data[i], *b = &text.data[i];
		assert_true(proc_map_same(a, b));
		assert_true(a->executable);
		assert_string_equal(a->path, b->path);
	}
	assert_true(asked.len > MANY);
	assert_non_null(named(&asked, "[vdso]"));
	static const char *const names[] = {PLAIN, DELETED, TWO_LINES};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = path_of(names[i]);
		const struct proc_map *m = named(&asked, path);
		assert_non_null(m);
		assert_int_equal(m->file_offset, PAGE);
		assert_int_equal(m->end - m->start, 2 * PAGE);
		free(path);
	}
	proc_maps_free(&asked);
	proc_maps_free(&text);
}

static void test_this_process(void **state)
{
	(void)state;
	need_answers();
	assert_alike(getpid());
}

static void test_child(void **state)
{
	(void)state;
	need_answers();
	int gate[2];
	assert_int_equal(pipe(gate), 0);
	pid_t child = fork();
	if (!child) {
		char c;
		close(gate[1]);
		_exit(read(gate[0], &c, 1) != 0);
	}
	close(gate[0]);
	assert_alike(child);
	close(gate[1]);
	/* ended, and nobody has asked how: it has no memory any more */
	siginfo_t ended;
	assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
	proc_maps_t maps = {0};
	struct err e;
	assert_int_equal(proc_code_read("/proc", child, &maps, &e), 0);
	assert_int_equal(maps.len, 0);
	waitpid(child, NULL, 0);
	assert_int_equal(proc_code_read("/proc", child, &maps, &e), -ESRCH);
	assert_non_null(strstr(e.msg, "does not exist"));
}

/* A file is no /proc, and gives no answers: as a kernel before 6.11. */
static void test_text(void **state)
{
	(void)state;
	char *process = path_of("7"), *path = path_of("7/maps");
	assert_int_equal(mkdir(process, 0755), 0);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs("1000-2000 r--p 00000000 08:01 5   /lib/a.so\n"
	      "2000-3000 r-xp 00001000 08:01 5   /lib/a.so (deleted)\n"
	      "3000-4000 rw-p 00002000 08:01 5   /lib/a.so\n"
	      "5000-6000 rwxp 00000000 00:00 0 \n",
	      f);
	fclose(f);
	proc_maps_t maps = {0};
	struct err e;
	assert_int_equal(proc_code_ask(folder, 7, &maps), -ENOTTY);
	assert_int_equal(proc_code_read(folder, 7, &maps, &e), 0);
	assert_int_equal(maps.len, 2);
	assert_string_equal(maps.data[0].path, "/lib/a.so");
	assert_int_equal(maps.data[0].start, 0x2000);
	assert_string_equal(maps.data[1].path, "");
	proc_maps_free(&maps);
	unlink(path);
	rmdir(process);
	free(path);
	free(process);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_process),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_text),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
