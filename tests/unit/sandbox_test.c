/* sandbox_test.c - what a process that entered a sandbox can no longer do.
 *
 * Each case runs in a process of its own: a sandbox is for good.
 *
 * links: base */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sandbox.h"

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

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
		struct rlimit none = {0};
		setrlimit(RLIMIT_CORE, &none);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* A number of /proc/self/status in this base; -1 where there is no such line. */
static long long status_line(const char *name, int base)
{
	char line[256];
	long long value = -1;
	FILE *f = fopen("/proc/self/status", "re");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = strtoll(line + strlen(name) + 1, NULL, base);
	fclose(f);
	return value;
}

static const struct sandbox_capability kept[] = {{CAP_SYS_PTRACE, "a test"}, {CAP_KILL, "a test"}};

/* ---- capabilities ---- */

static void two_capabilities(void)
{
	const struct sandbox s = {.capabilities = kept, .capabilities_len = LEN(kept)};
	long long had = status_line("CapPrm", 16), two = 1LL << CAP_SYS_PTRACE | 1LL << CAP_KILL;
	struct err e;

	CHECK(!sandbox_enter(&s, &e));
	CHECK(status_line("CapEff", 16) == (had & two));
	CHECK(status_line("CapPrm", 16) == (had & two));
	CHECK(status_line("CapInh", 16) == 0 && status_line("CapAmb", 16) == 0);
	CHECK(!(had >> CAP_SETPCAP & 1) || !(status_line("CapBnd", 16) & ~two));
	CHECK(status_line("NoNewPrivs", 10) == 1);
	CHECK(status_line("Seccomp", 10) == 0);
}

static void no_capabilities(void)
{
	const struct sandbox wide = {.capabilities = kept, .capabilities_len = LEN(kept)};
	const struct sandbox none = {.secret = true};
	struct err e;

	CHECK(!sandbox_enter(&none, &e));
	CHECK(status_line("CapEff", 16) == 0 && status_line("CapPrm", 16) == 0);
	CHECK(prctl(PR_GET_DUMPABLE) == 0);
	/* what has gone does not come back */
	CHECK(!sandbox_enter(&wide, &e));
	CHECK(status_line("CapEff", 16) == 0);
}

static void lowered(void)
{
	long long had = status_line("CapEff", 16), ptrace = 1LL << CAP_SYS_PTRACE;
	struct err e;

	if (had & ptrace) {
		CHECK(!sandbox_lower(CAP_SYS_PTRACE, true));
		CHECK(status_line("CapEff", 16) == (had & ~ptrace));
		CHECK(!sandbox_lower(CAP_SYS_PTRACE, false));
		CHECK(status_line("CapEff", 16) == had);
	}
	CHECK(!sandbox_enter(&(struct sandbox){0}, &e));
	CHECK(sandbox_lower(CAP_SYS_PTRACE, true) == -EPERM);
	CHECK(sandbox_lower(CAP_SYS_PTRACE, false) == -EPERM);
}

static void test_capabilities(void **state)
{
	(void)state;
	assert_int_equal(status_of(lowered), 0);
	assert_int_equal(status_of(two_capabilities), 0);
	assert_int_equal(status_of(no_capabilities), 0);
}

static void test_names(void **state)
{
	char name[SANDBOX_NAME_BYTES];

	(void)state;
	assert_string_equal(sandbox_capability_name(name, CAP_SYS_PTRACE), "sys_ptrace");
	assert_string_equal(sandbox_capability_name(name, CAP_CHECKPOINT_RESTORE),
			    "checkpoint_restore");
	assert_string_equal(sandbox_capability_name(name, 1000), "?");
}

/* ---- system calls ---- */

static const struct sandbox_call to_end[] = {
	{.number = SYS_exit_group},
	{.number = SYS_write},
	{.number = SYS_getpid},
	{.number = SYS_sigaltstack}, /* AddressSanitizer's */
	{.number = SYS_munmap},
	/* memory, but none that is executed */
	{.number = SYS_mmap, .arg = 2, .mask = PROT_EXEC, .value = 0},
};

static bool maps(int protection)
{
	return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static void only_those(void)
{
	const struct sandbox s = {.rule = SANDBOX_ONLY, .calls = to_end, .calls_len = LEN(to_end)};
	struct err e;

	CHECK(!sandbox_enter(&s, &e));
	CHECK(syscall(SYS_getpid) > 0);
	CHECK(syscall(SYS_getppid) == -1 && errno == EPERM);
	CHECK(open("/dev/null", O_RDONLY) == -1 && errno == EPERM);
	CHECK(maps(PROT_READ | PROT_WRITE));
	CHECK(!maps(PROT_READ | PROT_EXEC) && errno == EPERM);
}

static void only_those_or_die(void)
{
	const struct sandbox s = {
		.rule = SANDBOX_ONLY, .calls = to_end, .calls_len = LEN(to_end), .kill = true};
	struct err e;

	CHECK(!sandbox_enter(&s, &e));
	CHECK(syscall(SYS_getpid) > 0);
	socket(AF_INET, SOCK_STREAM, 0);
}

static const struct sandbox_call forbidden[] = {{.number = SYS_execve}, {.number = SYS_execveat}};

static const struct sandbox all_but = {
	.rule = SANDBOX_ALL_BUT, .calls = forbidden, .calls_len = LEN(forbidden)};

static void all_but_those(void)
{
	struct err e;

	CHECK(!sandbox_enter(&all_but, &e));
	CHECK(status_line("Seccomp", 10) == 2);
	CHECK(execl("/bin/true", "true", NULL) == -1 && errno == EPERM);
	/* and so for what it forks */
	pid_t child = fork();
	if (!child)
		_exit(execl("/bin/true", "true", NULL) == -1 && errno == EPERM ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A second filter takes away more, and leaves what the first forbids. */
static void twice(void)
{
	const struct sandbox_call more[] = {{.number = SYS_getppid}};
	const struct sandbox s = {.rule = SANDBOX_ALL_BUT, .calls = more, .calls_len = 1};
	struct err e;

	CHECK(!sandbox_enter(&all_but, &e) && !sandbox_enter(&s, &e));
	CHECK(syscall(SYS_getppid) == -1 && errno == EPERM);
	CHECK(execl("/bin/true", "true", NULL) == -1 && errno == EPERM);
}

static void test_calls(void **state)
{
	int status;

	(void)state;
	assert_int_equal(status_of(only_those), 0);
	status = status_of(only_those_or_die);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	assert_int_equal(status_of(all_but_those), 0);
	assert_int_equal(status_of(twice), 0);
}

/* ---- threads ---- */

static void *wait_for_lock(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

/* Another thread would keep all. */
static void with_threads(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct sandbox s = {0};
	pthread_t thread;
	struct err e;

	pthread_mutex_lock(&lock);
	CHECK(!pthread_create(&thread, NULL, wait_for_lock, &lock));
	CHECK(sandbox_enter(&s, &e) == -EBUSY);
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

static void test_threads(void **state)
{
	(void)state;
	assert_int_equal(status_of(with_threads), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_capabilities),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
