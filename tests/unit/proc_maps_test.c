/* proc_maps_test.c - reading /proc: a made-up one, and this process in the real one.
 *
 * links: base symbolize */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbolize/proc_maps.h"

static char root[] = "/tmp/proc_maps_test.XXXXXX";

/* Writes a file below the root, making its folders. */
static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int set_up(void **state)
{
	char path[128];

	(void)state;
	if (!mkdtemp(root))
		return -1;
	put("100/maps", "55d0c0a00000-55d0c0a01000 r--p 00000000 fe:01 1234                       "
			"/usr/bin/app\n"
			"55d0c0a01000-55d0c0a05000 r-xp 00001000 fe:01 1234                       "
			"/usr/bin/app\n"
			"55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          "
			"[heap]\n"
			"7f0000000000-7f0000001000 r-xp 00002000 08:10 99                         "
			"/tmp/with space/a\\012b.so (deleted)\n"
			"7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n"
			"garbage\n"
			"7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                          "
			"[vdso]\n"
			"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0");
	put("100/stat", "100 (a ) R (b) S 1 100 100 0 -1");
	put("100/task/100/comm", "main name\n");
	put("100/task/101/comm", "a name of more than fifteen bytes\n");
	put("100/map_files/7f0000000000-7f0000001000", "");
	put("101/stat", "101 (child) S 100 100");
	put("102/stat", "102 (other) S 1 100");
	put("103/stat", "103 (grandchild) S 101 100");
	put("104/stat", "104 (cut");
	put("self/stat", "100 (x) S 1");
	put("1/stat", "1 (init) S 0 1");
	snprintf(path, sizeof(path), "%s/100/exe", root);
	if (symlink("/usr/bin/app (deleted)", path) < 0)
		return -1;
	put("group/cgroup.procs", "7\n100\n");
	put("group/child/cgroup.procs", "9\n");
	put("group/child/deep/cgroup.procs", "");
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void test_maps(void **state)
{
	proc_maps_t maps = {0};
	struct err e;

	(void)state;
	assert_int_equal(proc_maps_read(root, 100, &maps, &e), 0);
	assert_int_equal(maps.len, 7);
	assert_int_equal(maps.data[1].start, 0x55d0c0a01000);
	assert_int_equal(maps.data[1].end, 0x55d0c0a05000);
	assert_int_equal(maps.data[1].file_offset, 0x1000);
	assert_int_equal(maps.data[1].device, makedev(0xfe, 1));
	assert_int_equal(maps.data[1].inode, 1234);
	assert_true(maps.data[1].executable);
	assert_false(maps.data[0].executable);
	assert_string_equal(maps.data[1].path, "/usr/bin/app");
	assert_string_equal(maps.data[2].path, "[heap]");
	assert_int_equal(maps.data[2].inode, 0);
	assert_string_equal(maps.data[3].path, "/tmp/with space/a\nb.so");
	assert_string_equal(maps.data[4].path, "");
	assert_int_equal(maps.data[6].start, 0xffffffffff600000);
	assert_string_equal(maps.data[6].path, "");

	proc_maps_free(&maps);

	assert_int_equal(proc_maps_read(root, 555, &maps, &e), -ESRCH);
	assert_string_equal(e.msg, "process 555 does not exist");
}

static ino_t inode_of(const char *name)
{
	struct stat st;
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(lstat(path, &st), 0);
	return st.st_ino;
}

static void close_good(int fd)
{
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

/* By name only the very file that is mapped is opened, wherever the process's links lead. */
static void test_open_checked(void **state)
{
	struct proc_map by_range = {.start = 0x7f0000000000, .end = 0x7f0000001000, .inode = 99};
	struct proc_map by_name = {
		.start = 1, .end = 2, .inode = 1234, .path = (char *)"/usr/bin/app"};
	struct proc_map link = {.start = 1, .end = 2, .path = (char *)"/usr/bin/link"};
	struct proc_map fifo = {.start = 1, .end = 2, .path = (char *)"/usr/bin/fifo"};
	char path[256];
	struct stat st;

	(void)state;
	by_range.path = (char *)"";
	close_good(proc_map_open(root, 100, &by_range, &st));
	assert_int_equal(st.st_ino, inode_of("100/map_files/7f0000000000-7f0000001000"));
	put("100/root/usr/bin/app", "ELF");
	put("100/root/secret", "of another");
	assert_int_equal(proc_map_open(root, 100, &by_name, NULL), -ESTALE);
	by_name.inode = inode_of("100/root/usr/bin/app");
	close_good(proc_map_open(root, 100, &by_name, NULL));
	assert_int_equal(proc_map_stat(root, 100, &by_name, &st), 0);

	snprintf(path, sizeof(path), "%s/100/root/usr/bin/link", root);
	assert_int_equal(symlink("/secret", path), 0);
	link.inode = inode_of("100/root/usr/bin/app");
	assert_int_equal(proc_map_open(root, 100, &link, NULL), -ESTALE);
	link.inode = inode_of("100/root/secret"); /* in the process's view, not in ours */
	close_good(proc_map_open(root, 100, &link, NULL));

	snprintf(path, sizeof(path), "%s/100/root/usr/bin/fifo", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	fifo.inode = inode_of("100/root/usr/bin/fifo"); /* opening it would wait for ever */
	assert_int_equal(proc_map_open(root, 100, &fifo, NULL), -ESTALE);
	snprintf(path, sizeof(path), "%s/100/map_files/1-2", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(proc_map_open(root, 100, &fifo, NULL), -ESTALE);
	assert_int_equal(proc_map_stat(root, 100, &fifo, &st), -ESTALE);
}

static void test_names(void **state)
{
	char comm[16], exe[64];
	pid_t parent = -1;

	(void)state;
	assert_int_equal(proc_comm(root, 100, 100, comm), 0);
	assert_string_equal(comm, "main name");
	assert_int_equal(proc_comm(root, 100, 101, comm), 0);
	assert_string_equal(comm, "a name of more ");
	assert_int_equal(proc_comm(root, 100, 555, comm), -ESRCH);
	assert_int_equal(proc_parent(root, 100, &parent), 0);
	assert_int_equal(parent, 1);
	assert_int_equal(proc_parent(root, 104, &parent), -ESRCH);
	assert_int_equal(parent, 1);
	assert_int_equal(proc_exe(root, 100, exe, sizeof(exe)), 0);
	assert_string_equal(exe, "/usr/bin/app");
	assert_int_equal(proc_exe(root, 100, exe, 4), -ENAMETOOLONG);
	assert_int_equal(proc_exe(root, 555, exe, sizeof(exe)), -ESRCH);
}

static void test_inner_path(void **state)
{
	char link[256];

	(void)state;
	snprintf(link, sizeof(link), "%s/107", root);
	assert_int_equal(mkdir(link, 0755), 0);
	snprintf(link, sizeof(link), "%s/107/root", root);
	assert_int_equal(symlink("/srv/other", link), 0);
	assert_string_equal(proc_inner_path(root, 107, "/srv/other/lib/a.so"), "/lib/a.so");
	assert_string_equal(proc_inner_path(root, 107, "/srv/others/a.so"), "/srv/others/a.so");
	assert_string_equal(proc_inner_path(root, 107, "/srv/other"), "/srv/other");
	assert_string_equal(proc_inner_path(root, 555, "/lib/a.so"), "/lib/a.so");
	assert_string_equal(proc_inner_path("/proc", getpid(), "/lib/a.so"), "/lib/a.so");
	unlink(link);
	snprintf(link, sizeof(link), "%s/107", root);
	rmdir(link);
}

static int compare_pids(const void *a, const void *b)
{
	return *(const pid_t *)a - *(const pid_t *)b;
}

static void assert_pids(pids_t *pids, size_t skip_sorting, const char *expected)
{
	struct buf text = {0};

	qsort(pids->data + skip_sorting, pids->len - skip_sorting, sizeof(pid_t), compare_pids);
	for (size_t i = 0; i < pids->len; i++)
		buf_printf(&text, "%d ", pids->data[i]);
	buf_byte(&text, 0);
	assert_string_equal((char *)text.data, expected);
	buf_free(&text);
	vec_free(pids);
}

static void test_lists(void **state)
{
	pids_t pids = {0};
	struct err e;
	char path[128];

	(void)state;
	assert_int_equal(proc_all(root, &pids), 0);
	assert_pids(&pids, 0, "1 100 101 102 103 104 ");
	assert_int_equal(proc_threads(root, 100, &pids), 0);
	assert_pids(&pids, 0, "100 101 ");
	assert_int_equal(proc_threads(root, 555, &pids), -ESRCH);
	assert_int_equal(proc_descendants(root, 100, &pids), 0);
	assert_pids(&pids, 1, "100 101 103 ");
	assert_int_equal(proc_descendants(root, 1, &pids), 0);
	assert_pids(&pids, 1, "1 100 101 102 103 ");
	assert_int_equal(proc_descendants(root, 555, &pids), -ESRCH);
	assert_int_equal(pids.len, 0);

	snprintf(path, sizeof(path), "%s/group", root);
	assert_int_equal(proc_cgroup_members(path, &pids, &e), 0);
	assert_pids(&pids, 0, "7 9 100 ");
	assert_int_equal(proc_cgroup_members(root, &pids, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "is not a cgroup"));
}

static void test_this_process(void **state)
{
	proc_maps_t maps = {0};
	pids_t family = {0};
	char exe[4096], comm[16];
	pid_t parent, child;
	bool found = false;
	struct err e;
	int gate[2];

	(void)state;
	assert_int_equal(proc_maps_read("/proc", getpid(), &maps, &e), 0);
	assert_int_equal(proc_exe("/proc", getpid(), exe, sizeof(exe)), 0);
	for (size_t i = 0; i < maps.len; i++) {
		uintptr_t here = (uintptr_t)test_this_process;

		if (here < maps.data[i].start || here >= maps.data[i].end)
			continue;
		found = true;
		assert_true(maps.data[i].executable);
		assert_string_equal(maps.data[i].path, exe);
	}
	assert_true(found);
	proc_maps_free(&maps);
	assert_int_equal(proc_comm("/proc", getpid(), getpid(), comm), 0);
	assert_int_equal(proc_parent("/proc", getpid(), &parent), 0);
	assert_int_equal(parent, getppid());

	assert_int_equal(pipe(gate), 0);
	child = fork();
	if (child == 0) {
		char c;

		close(gate[1]);
		_exit(read(gate[0], &c, 1) != 0);
	}
	assert_int_equal(proc_descendants("/proc", getpid(), &family), 0);
	close(gate[0]);
	close(gate[1]);
	waitpid(child, NULL, 0);
	assert_int_equal(family.len, 2);
	assert_int_equal(family.data[0], getpid());
	assert_int_equal(family.data[1], child);
	vec_free(&family);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps),	     cmocka_unit_test(test_open_checked),
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_lists),
		cmocka_unit_test(test_this_process), cmocka_unit_test(test_inner_path),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
