/* procfs_test.c - CPU time of processes that come and go, from a /proc of the test's making; and
 * what has ended leaves nothing: counted by the C library's malloc, where that counts.
 *
 * links: base collect symbolize */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/registry.h"

#define PID	    7
#define GROWTH_MOST (64u << 10)

struct proc {
	char root[64], folder[80], stat[96];
	unsigned long tick_ns;
};

static void proc_make(struct proc *p)
{
	snprintf(p->root, sizeof(p->root), "/tmp/procfs-test-XXXXXX");
	assert_non_null(mkdtemp(p->root));
	snprintf(p->folder, sizeof(p->folder), "%s/%d", p->root, PID);
	snprintf(p->stat, sizeof(p->stat), "%s/stat", p->folder);
	assert_int_equal(mkdir(p->folder, 0755), 0);
	p->tick_ns = 1000000000UL / (unsigned long)sysconf(_SC_CLK_TCK);
}

static void proc_remove(const struct proc *p)
{
	unlink(p->stat);
	rmdir(p->folder);
	rmdir(p->root);
}

/* As in proc_pid_stat(5), with so many ticks of user and system time. */
static void proc_write(const struct proc *p, unsigned user, unsigned system)
{
	FILE *f = fopen(p->stat, "we");
	assert_non_null(f);
	fprintf(f, "%d (a) b) S 1 1 1 0 -1 0 0 0 0 0 %u %u 0 0 20 0 3 0 5 4096 2 0\n", PID, user,
		system);
	fclose(f);
}

static unsigned emitted;
static double last_cpu_ratio;

static void emit(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		 double value)
{
	(void)ctx;
	(void)time_ns;
	if (!strcmp(name, "cpu_ratio"))
		last_cpu_ratio = value;
	assert_int_equal(of->kind, ENTITY_PROCESS);
	assert_int_equal(of->pid, PID);
	emitted++;
}

static void ended_processes_keep_their_time_and_nothing_else(void **state)
{
	(void)state;
	struct proc p;
	const struct collect_env env = {.proc_root = p.root};
	const struct collect_sink sink = {.counter = emit};
	void *c;
	struct err e;
	size_t early = 0;
	emitted = 0;
	proc_make(&p);
	assert_int_equal(collector_procfs.open(&c, &env, &sink, &e), 0);
	for (int i = 0; i < 2; i++) { /* the same number twice */
		proc_write(&p, 10, 5);
		collector_procfs.add_pid(c, PID, false);
		proc_write(&p, 30, 6);
		collector_procfs.read(c, 1000);
		collector_procfs.del_pid(c, PID);
		proc_write(&p, 90, 90); /* not ours any more */
		collector_procfs.read(c, 2000);
	}
	assert_int_equal(collector_procfs.cpu_ns(c), 2 * 21 * p.tick_ns);
	assert_int_equal(emitted, 2 * 2); /* memory and threads; rates need two samples */
	collector_procfs.add_pid(c, PID, false);
	for (int i = 1; i <= 100000; i++) {
		collector_procfs.add_pid(c, PID + i, false);
		collector_procfs.del_pid(c, PID + i);
		if (i == 1000)
			early = mallinfo2().uordblks;
	}
	assert_true(mallinfo2().uordblks < early + GROWTH_MOST);
	emitted = 0;
	collector_procfs.read(c, 3000);
	assert_int_equal(emitted, 2);
	collector_procfs.close(c);
	proc_remove(&p);
}

/* Ticks are counted late, and together: four of them in the time of three are not 133 %. */
static void no_thread_uses_more_than_all_of_a_cpu(void **state)
{
	(void)state;
	struct proc p;
	const struct collect_env env = {.proc_root = p.root};
	const struct collect_sink sink = {.counter = emit};
	void *c;
	struct err e;
	proc_make(&p);
	assert_int_equal(collector_procfs.open(&c, &env, &sink, &e), 0);
	proc_write(&p, 10, 5);
	collector_procfs.add_pid(c, PID, false);
	collector_procfs.read(c, 1000);
	proc_write(&p, 20, 5); /* of three threads */
	collector_procfs.read(c, 1000 + 3 * p.tick_ns);
	assert_true(last_cpu_ratio == 3);
	proc_write(&p, 26, 5);
	collector_procfs.read(c, 1000 + 6 * p.tick_ns);
	assert_true(last_cpu_ratio == 2);
	collector_procfs.close(c);
	proc_remove(&p);
}

static char lines[4096];

static void tell(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		 double value)
{
	(void)ctx;
	(void)time_ns;
	assert_int_equal(of->pid, PID);
	assert_true(value >= 0 && value < 1e18);
	if (strstr(name, "_per_s"))
		snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s %g\n", name,
			 value);
}

/* What a file of the process says. */
static void put(const struct proc *p, const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", p->folder, name);
	unlink(path);
	if (!text)
		return;
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_faults(const struct proc *p, unsigned long minor, unsigned long major)
{
	char text[160];
	snprintf(text, sizeof(text),
		 "7 (a) S 1 1 1 0 -1 0 %lu 9 %lu 9 1 1 0 0 20 0 3 0 5 4096 2 0\n", minor, major);
	put(p, "stat", text);
}

static void expect(const char *text)
{
	assert_string_equal(lines, text);
	lines[0] = 0;
}

#define S 1000000000ULL

static void faults_switches_and_bytes_are_rates(void **state)
{
	(void)state;
	struct proc p;
	const struct collect_env env = {.proc_root = p.root};
	const struct collect_sink sink = {.counter = tell};
	void *c;
	struct err e;
	proc_make(&p);
	assert_int_equal(collector_procfs.open(&c, &env, &sink, &e), 0);
	put_faults(&p, 100, 5);
	put(&p, "status", "voluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n");
	put(&p, "io", "rchar: 900\nread_bytes: 4096\nwrite_bytes: 10\n");
	collector_procfs.add_pid(c, PID, false);
	collector_procfs.read(c, 1 * S);
	expect("");
	put_faults(&p, 140, 7);
	put(&p, "status", "nonvoluntary_ctxt_switches:\t6\n");
	put(&p, "io", "read_bytes: 8192\nwrite_bytes: 30\ncancelled_write_bytes: 7\n");
	collector_procfs.read(c, 1 * S + S / 5); /* bytes once a second */
	expect("preemptions_per_s 10\nminor_faults_per_s 200\nmajor_faults_per_s 10\n");
	collector_procfs.read(c, 1 * S + S / 5 + 1000); /* too soon */
	collector_procfs.read(c, 3 * S);
	expect("preemptions_per_s 0\nminor_faults_per_s 0\nmajor_faults_per_s 0\n"
	       "io_read_bytes_per_s 2048\nio_written_bytes_per_s 10\n");
	put_faults(&p, 139, 8); /* wrapped */
	put(&p, "status", "Name: a\n");
	put(&p, "io", "read_bytes: 0\nwrite_bytes: 40\n");
	collector_procfs.read(c, 4 * S);
	expect("major_faults_per_s 1\nio_written_bytes_per_s 10\n");
	put(&p, "status", "nonvoluntary_ctxt_switches:\t7\n"); /* after it was not told */
	put(&p, "io", NULL);
	collector_procfs.read(c, 5 * S);
	expect("minor_faults_per_s 0\nmajor_faults_per_s 0\n");
	put(&p, "io", "read_bytes: x\n"); /* it is asked no more */
	put(&p, "status", NULL);
	put(&p, "stat", "7 (a S 1 2\n");
	collector_procfs.read(c, 6 * S);
	expect("");
	collector_procfs.close(c);
	put(&p, "io", NULL);
	proc_remove(&p);
}

/* Files longer than what is read of them, and text that is not as it should be. */
static void odd_text_is_left_out(void **state)
{
	(void)state;
	static const char *const odd[] = {"", "x", "read_bytes: -1\nwrite_bytes: 1\n",
					  "read_bytes: 99999999999999999999\nwrite_bytes: 1\n"};
	struct proc p;
	const struct collect_env env = {.proc_root = p.root};
	const struct collect_sink sink = {.counter = tell};
	char *text = malloc(100001);
	void *c;
	struct err e;
	assert_non_null(text);
	memset(text, 'a', 100000);
	text[100000] = 0;
	proc_make(&p);
	assert_int_equal(collector_procfs.open(&c, &env, &sink, &e), 0);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		put_faults(&p, 1, 1);
		put(&p, "io", i % 2 ? text : odd[i]);
		put(&p, "status", i % 2 ? text : odd[i]);
		collector_procfs.add_pid(c, PID, false);
		collector_procfs.read(c, 1 * S);
		put(&p, "io", odd[i]);
		put(&p, "stat", text);
		collector_procfs.read(c, 3 * S);
		collector_procfs.del_pid(c, PID);
	}
	expect("");
	collector_procfs.close(c);
	put(&p, "io", NULL);
	put(&p, "status", NULL);
	proc_remove(&p);
	free(text);
}

/* As of another user's process: what may be read is told, of the others nothing, then or later. */
static void files_that_may_not_be_read(void **state)
{
	static const char *const names[] = {"status", "io", "stat"};
	(void)state;
	struct proc p;
	const struct collect_env env = {.proc_root = p.root};
	const struct collect_sink sink = {.counter = tell};
	void *c;
	struct err e;
	char path[128];
	proc_make(&p);
	assert_int_equal(chmod(p.root, 0755), 0);
	put_faults(&p, 100, 5);
	put(&p, "status", "nonvoluntary_ctxt_switches:\t4\nRssAnon:\t 4 kB\n");
	put(&p, "io", "read_bytes: 4096\nwrite_bytes: 10\n");
	for (int without = 2; without < 4; without++) { /* those two; stat as well */
		for (int i = 0; i < without; i++) {
			snprintf(path, sizeof(path), "%s/%s", p.folder, names[i]);
			assert_int_equal(chmod(path, 0), 0);
		}
		if (!getuid())
			assert_int_equal(seteuid(65534), 0);
		assert_int_equal(collector_procfs.open(&c, &env, &sink, &e), 0);
		collector_procfs.add_pid(c, PID, false);
		for (uint64_t i = 1; i < 10; i++)
			collector_procfs.read(c, i * S);
		assert_int_equal(collector_procfs.cpu_ns(c), 0);
		collector_procfs.close(c);
		if (!getuid())
			assert_int_equal(seteuid(0), 0);
		assert_int_equal(strstr(lines, "minor_faults_per_s 0\nmajor_faults_per_s 0\n") !=
					 NULL,
				 without == 2);
		assert_null(strstr(lines, "preemptions"));
		assert_null(strstr(lines, "io_"));
		lines[0] = 0;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		put(&p, names[i], NULL);
	proc_remove(&p);
}

static double last_anon, last_file, last_shmem;

static void keep_kinds(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		       double value)
{
	(void)ctx;
	(void)time_ns;
	(void)of;
	if (!strcmp(name, "rss_anon_bytes"))
		last_anon = value;
	if (!strcmp(name, "rss_file_bytes"))
		last_file = value;
	if (!strcmp(name, "rss_shmem_bytes"))
		last_shmem = value;
}

static void memory_by_what_stands_behind_it(void **state)
{
	(void)state;
	struct proc p;
	const struct collect_env env = {.proc_root = p.root};
	const struct collect_sink sink = {.counter = keep_kinds};
	void *c;
	struct err e;
	last_anon = last_file = last_shmem = -1;
	proc_make(&p);
	assert_int_equal(collector_procfs.open(&c, &env, &sink, &e), 0);
	put_faults(&p, 1, 1);
	collector_procfs.add_pid(c, PID, false);
	put(&p, "status", "VmRSS:\t  900 kB\n"); /* before Linux 4.5 */
	collector_procfs.read(c, 1 * S);
	assert_true(last_anon == -1 && last_file == -1 && last_shmem == -1);
	put(&p, "status",
	    "VmRSS:\t  900 kB\nRssAnon:\t     396 kB\nRssFile:\t 500 kB\nRssShmem:\t   4 kB\n");
	collector_procfs.read(c, 2 * S);
	assert_true(last_anon == 396 * 1024);
	assert_true(last_file == 500 * 1024);
	assert_true(last_shmem == 4 * 1024);
	collector_procfs.close(c);
	put(&p, "status", NULL);
	proc_remove(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_switches_and_bytes_are_rates),
		cmocka_unit_test(odd_text_is_left_out),
		cmocka_unit_test(files_that_may_not_be_read),
		cmocka_unit_test(memory_by_what_stands_behind_it),
		cmocka_unit_test(no_thread_uses_more_than_all_of_a_cpu),
		cmocka_unit_test(ended_processes_keep_their_time_and_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
