/* hold_test.c - all threads of a process stand still while they are held, and notice nothing: what
 * they wait for goes on, signals arrive, threads that have ended are none.
 *
 * links: remote symbolize base */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "remote/hold.h"

#define LONG_NS	 2000000000ULL
#define SPINNERS 3

/* What a child tells. */
struct told {
	volatile uint64_t turns[SPINNERS];
	volatile uint64_t waits, interrupted, signals;
	volatile int ready, end;
};
static struct told *told;

static void *spin(void *arg)
{
	volatile uint64_t *turns = arg;
	while (!told->end)
		++*turns;
	return NULL;
}

static void *wait_for_nothing(void *unused)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);
	(void)unused;
	while (!told->end) {
		if (epoll_wait(fd, &event, 1, 50) < 0 && errno == EINTR)
			told->interrupted++;
		told->waits++;
	}
	return NULL;
}

static void on_signal(int number)
{
	(void)number;
	told->signals++;
}

static void start(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, arg))
		_exit(1);
}

static void run_threads(void)
{
	for (int i = 0; i < SPINNERS; i++)
		start(spin, (void *)&told->turns[i]);
	start(wait_for_nothing, NULL);
}

static pid_t begin(void (*child)(void))
{
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(told != MAP_FAILED);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
		child();
		told->ready = 1;
		while (!told->end)
			usleep(1000);
		_exit(0);
	}
	while (!told->ready)
		usleep(1000);
	return pid;
}

static void end(pid_t pid)
{
	int status;
	told->end = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	munmap(told, sizeof(*told));
}

static void wait_until_above(volatile uint64_t *what, uint64_t than)
{
	while (*what <= than)
		usleep(1000);
}

static void test_they_stand_and_go_on(void **state)
{
	pid_t pid = begin(run_threads);
	struct err e;
	struct hold *h;
	const struct hold_thread *threads;
	uint64_t turns[SPINNERS];
	(void)state;
	for (int i = 0; i < SPINNERS; i++)
		wait_until_above(&told->turns[i], 0);
	assert_int_equal(hold_process(&h, pid, LONG_NS, &e), 0);
	size_t n = hold_threads(h, &threads);
	assert_int_equal(n, SPINNERS + 2);
	for (size_t i = 0; i < n; i++)
		assert_true(threads[i].ip && threads[i].sp);
	memcpy(turns, (void *)told->turns, sizeof(turns));
	usleep(20000);
	assert_memory_equal(turns, (void *)told->turns, sizeof(turns));
	assert_true(hold_let_go(h) >= 20000000);
	for (int i = 0; i < SPINNERS; i++)
		wait_until_above(&told->turns[i], turns[i]);
	end(pid);
}

static void test_waits_go_on(void **state)
{
	pid_t pid = begin(run_threads);
	struct err e;
	struct hold *h;
	(void)state;
	for (int i = 0; i < 30; i++) {
		assert_int_equal(hold_process(&h, pid, LONG_NS, &e), 0);
		hold_let_go(h);
		usleep(3000);
	}
	wait_until_above(&told->waits, 2);
	assert_int_equal(told->interrupted, 0);
	end(pid);
}

static void take_signals(void)
{
	signal(SIGUSR1, on_signal);
	run_threads();
}

static void test_signals_arrive(void **state)
{
	pid_t pid = begin(take_signals);
	struct err e;
	struct hold *h;
	(void)state;
	for (uint64_t i = 1; i <= 20; i++) {
		kill(pid, SIGUSR1); /* maybe taken just as they are stopped */
		assert_int_equal(hold_process(&h, pid, LONG_NS, &e), 0);
		hold_let_go(h);
		wait_until_above(&told->signals, i - 1);
		assert_int_equal(told->signals, i);
	}
	end(pid);
}

static void *end_process(void *unused)
{
	(void)unused;
	while (!told->end)
		usleep(1000);
	_exit(0);
}

static void lose_first_thread(void)
{
	start(end_process, NULL);
	told->ready = 1;
	pthread_exit(NULL);
}

static void test_a_first_thread_that_has_ended(void **state)
{
	pid_t pid = begin(lose_first_thread);
	struct err e;
	struct hold *h;
	const struct hold_thread *threads;
	(void)state;
	usleep(20000); /* either way is right */
	assert_int_equal(hold_process(&h, pid, LONG_NS, &e), 0);
	assert_true(hold_threads(h, &threads) >= 1);
	hold_let_go(h);
	end(pid);
}

static void nothing(void)
{
}

static void *trace(void *arg)
{
	pid_t pid = *(pid_t *)arg;
	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		return (void *)1;
	told->turns[0] = 1;
	while (!told->turns[1])
		usleep(1000);
	return NULL; /* and it is let go */
}

static void test_one_that_is_traced_already(void **state)
{
	pid_t pid = begin(nothing);
	pthread_t tracer;
	struct err e;
	struct hold *h;
	(void)state;
	assert_int_equal(pthread_create(&tracer, NULL, trace, &pid), 0);
	wait_until_above(&told->turns[0], 0);
	assert_int_equal(hold_process(&h, pid, LONG_NS, &e), -EPERM);
	assert_non_null(strstr(e.msg, "debugger"));
	told->turns[1] = 1;
	pthread_join(tracer, NULL);
	assert_int_equal(hold_process(&h, pid, LONG_NS, &e), 0);
	hold_let_go(h);
	end(pid);
	assert_int_equal(hold_process(&h, pid, LONG_NS, &e), -ESRCH);
}

static volatile int reaping;

static void *reap_on_and_on(void *arg)
{
	pid_t pid = *(pid_t *)arg;
	while (reaping)
		hold_reap(pid);
	return NULL;
}

static void test_another_takes_note_of_ends_meanwhile(void **state)
{
	pid_t pid = begin(run_threads);
	pthread_t reaper;
	struct err e;
	struct hold *h;
	(void)state;
	reaping = 1;
	assert_int_equal(pthread_create(&reaper, NULL, reap_on_and_on, &pid), 0);
	for (int i = 0; i < 300; i++) {
		assert_int_equal(hold_process(&h, pid, LONG_NS, &e), 0);
		hold_let_go(h);
	}
	reaping = 0;
	pthread_join(reaper, NULL);
	end(pid);
}

static void *wait_for_vforked(void *unused)
{
	(void)unused;
	if (!vfork()) { /* and so its parent waits */
		told->turns[0] = 1;
		while (!told->end)
			usleep(1000);
		_exit(0);
	}
	return NULL;
}

static void run_vfork(void)
{
	start(wait_for_vforked, NULL);
}

/* In a process of its own: the thread stays seized until its tracer ends. */
static int hold_one_that_waits(void)
{
	pid_t pid = begin(run_vfork);
	struct err e;
	struct hold *h;
	wait_until_above(&told->turns[0], 0);
	int rc = hold_process(&h, pid, LONG_NS, &e);
	told->end = 1;
	if (rc == -ETIMEDOUT && strstr(e.msg, "(hold_test) did not stop in ") &&
	    strstr(e.msg, ", state D"))
		return 0;
	fprintf(stderr, "%d: %s\n", rc, e.msg);
	return 1;
}

static void test_a_thread_that_takes_no_signals(void **state)
{
	int status;
	(void)state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(hold_one_that_waits());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_they_stand_and_go_on),
		cmocka_unit_test(test_waits_go_on),
		cmocka_unit_test(test_signals_arrive),
		cmocka_unit_test(test_a_first_thread_that_has_ended),
		cmocka_unit_test(test_one_that_is_traced_already),
		cmocka_unit_test(test_another_takes_note_of_ends_meanwhile),
		cmocka_unit_test(test_a_thread_that_takes_no_signals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
