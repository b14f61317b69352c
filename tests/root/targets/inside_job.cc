/* inside_job.cc - calls the functions of libinside_torture.so by every way there is; CASE, then
 * what it takes (see `cases` at the end). Prints "sum S", made of all results, and may print "NAME
 * COUNT" lines of what it called; ends with 0 where all that it can tell itself is right. */
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "inside_torture.h"

extern char **environ;

namespace
{
u64 sum = 1;
const char *self;

void step(u64 v)
{
	sum = (sum ^ v) * 1000003 + (v >> 32);
}

void stepd(double v)
{
	u64 bits;
	memcpy(&bits, &v, sizeof(bits));
	step(bits);
}

int die(const char *what)
{
	printf("wrong: %s\n", what);
	fflush(stdout);
	_exit(9);
}

u64 now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

/* Ends with 0, unless it does not end in that time. */
int wait_child(pid_t pid, double seconds)
{
	u64 end = now_ns() + (u64)(seconds * 1e9);
	int status;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now_ns() > end) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return 1000;
		}
		usleep(500);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 500 + WTERMSIG(status);
}

void expect_child(pid_t pid, int status, const char *what)
{
	int got = wait_child(pid, 20);
	if (got == status)
		return;
	printf("child %s: %d instead of %d (1000: hangs, 500 + signal)\n", what, got, status);
	fflush(stdout);
	_exit(9);
}

/* ---- arguments ---- */

s16 make16(u64 a)
{
	return {{a, ~a}};
}

s24 make24(u64 a)
{
	return {{a, a * 3, a * 7}};
}

s64 make64(u64 a)
{
	s64 s;
	for (u64 i = 0; i < 8; i++)
		s.v[i] = a * (i + 1) + i;
	return s;
}

void numbers(u64 i)
{
	double d = (double)i / 8;
	step(t_p_none());
	step(t_p_one(i));
	step(t_v2_plain(i, i + 1));
	step(t_v2_leaf(i, i + 1));
	step(t_v2_around_leaf(i, 3));
	step(t_v2_i6(i, 2, 3, 4, 5, 6));
	step(t_v2_i7(i, 2, 3, 4, 5, 6, 7));
	step(t_v2_i12(i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
	step(t_v2_i20(i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, ~i));
	step(t_v2_modify(i, 2, 3, 4, 5, 6, 7, 8, 9, i));
	stepd(t_p_doubles(d, 1, 2, 3, 4, 5, 6, 7, 8, 9, d));
	stepd((double)t_p_floats((float)d, 1, 2, 3, 4, 5, 6, 7, 8, (float)d));
	step(t_v2_mixed(i, 1.5, 3, 2.5f, -4, -5, 3.5, 7, 8, 9, 4.5, 5.5, 6.5, 7.5, 8.5, d, 'x'));
}

void structs(u64 i)
{
	step(t_p_structs(make16(i), make24(i), make64(i), 4, make16(5), make16(6), make16(7)));
	step(t_p_float_struct({{1.5, 2.5}}, i, {{3, 4}}, {{5, 6}}, {{7, 8}}, {{9, 10}}));
	s16 a = t_p_make16(i);
	step(a.v[0] ^ (a.v[1] << 1));
	sd16 b = t_p_make_doubles((double)i);
	stepd(b.v[0] + 100 * b.v[1]);
	s24 c = t_p_make24(i);
	step(c.v[0] + 3 * c.v[1] + 5 * c.v[2]);
	s64 d = t_p_make64(i, make64(i + 1));
	for (u64 v : d.v)
		step(v);
	__int128 w = t_p_wide((__int128)i << 70, 3, i, (__int128)7 << 65, 9);
	step((u64)w);
	step((u64)(w >> 64));
	stepd((double)t_p_long_double((long double)i / 3, 4, 5.5L));
	_Complex long double z = t_p_complex((long double)i, 2.5L);
	stepd((double)__real__ z);
	stepd((double)__imag__ z);
}

void others(u64 i)
{
	torture::object object = {i};
	step(t_p_varargs(0));
	step(t_p_varargs(3, i, i + 1, i + 2));
	step(t_p_varargs(14, i, 2ul, 3ul, 4ul, 5ul, 6ul, 7ul, 8ul, 9ul, 10ul, 11ul, 12ul, 13ul,
			 ~i));
	stepd(t_p_vardoubles(10, 1.5, 1, 2.5, 2, 3.5, 3, 4.5, 4, 5.5, 5, 6.5, 6, 7.5, 7, 8.5, 8,
			     9.5, 9, 10.5, (int)i));
	step(t_v2_deep(40, i));
	step(t_v2_even(21, i));
	step(t_v2_tail1(i, 5));
	step(t_v2_tail2(i, 5));
	step(torture::words(i, 2, -3, 4.5, 5, 6, 7, 8, true, 'c'));
	step(torture::structs(make16(i), make24(2), 3, make24(i)));
	step(torture::doubles(1, 2, 3, 4, 5, 6, 7, 8, 9.5, (double)i));
	step(object.add(3, make64(i)));
	step(object.state);
	step(t_v2_catch(i, 1 + i % 5));
}

void round_of_all(u64 i)
{
	numbers(i);
	structs(i);
	others(i);
}

int run_arguments(long n, char **)
{
	for (long i = 0; i < n; i++)
		round_of_all((u64)i);
	return 0;
}

/* Over so much of the stack that a guess at it is wrong. */
int run_big(long n, char **what)
{
	s320 s;
	for (u64 i = 0; i < 40; i++)
		s.v[i] = i * 77 + 5;
	for (u64 i = 0; i < (u64)n; i++) {
		if (!strcmp(*what, "c"))
			step(t_p_s320(s, i));
		if (!strcmp(*what, "struct"))
			step(torture::big(make64(i)));
		if (!strcmp(*what, "structs"))
			step(torture::two_big(i, make64(i), make64(i + 1)));
		if (!strcmp(*what, "varargs"))
			step(torture::varargs(19, i, 2ul, 3ul, 4ul, 5ul, 6ul, 7ul, 8ul, 9ul, 10ul,
					      11ul, 12ul, 13ul, 14ul, 15ul, 16ul, 17ul, 18ul,
					      19ul));
	}
	return 0;
}

int run_local(long n, char **)
{
	for (long i = 0; i < n; i++)
		step(t_v2_local((u64)i, 3));
	return 0;
}

void *vectors(void *)
{
	u64 v[32];
	for (u64 i = 0; i < 32; i++)
		v[i] = i * 0x0102030405060708;
	step(vectors_of(v));
	return nullptr;
}

void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	if (pthread_create(&t, nullptr, fn, arg) || pthread_join(t, nullptr))
		die("pthread_create");
}

int run_vectors(long n, char **)
{
	if (!__builtin_cpu_supports("avx2"))
		return 0;
	for (long i = 0; i < n; i++)
		in_thread(vectors, nullptr);
	return 0;
}

int run_flags(long n, char **)
{
	for (long i = 0; i < n; i++)
		step(t_v2_flag((u64)i, 3) + t_v2_count(5, (u64)i));
	return 0;
}

int run_doors(long n, char **)
{
	for (long i = 0; i < n; i++)
		step(t_p_two_doors((u64)i) + second_door((u64)i));
	return 0;
}

int run_deep(long n, char **)
{
	step(t_v2_deep((u64)n, 3));
	step(t_v2_plain(sum, 5));
	return 0;
}

/* ---- ways out ---- */

void throws(u64 n)
{
	step(t_v2_catch(n, 1 + n % 5));
	try {
		step(t_v2_pass(n, 1 + n % 5));
	} catch (u64 v) {
		step(v);
	}
	try {
		step(t_v2_clean(n, 1 + n % 3));
	} catch (...) {
		step(t_v2_plain(n, 9));
	}
	step(t_v2_leaf(n, 2));
}

int run_throw(long n, char **)
{
	for (long i = 0; i < n; i++)
		throws((u64)i);
	return 0;
}

struct part {
	u64 first, n, sum;
};

thread_local u64 thread_sum;

void *throw_some(void *arg)
{
	part *p = static_cast<part *>(arg);
	for (u64 i = p->first; i < p->first + p->n; i++) {
		thread_sum = thread_sum * 31 + t_v2_catch(i, 1 + i % 5);
		try {
			t_v2_clean(i, 2);
		} catch (u64 v) {
			thread_sum += t_v2_plain(v, 1);
		}
	}
	p->sum = thread_sum;
	return nullptr;
}

int run_throw_threads(long n, char **)
{
	pthread_t t[4];
	part p[4];
	for (u64 i = 0; i < 4; i++) {
		p[i] = {i * 1000, (u64)n, 0};
		if (pthread_create(&t[i], nullptr, throw_some, &p[i]))
			return die("pthread_create");
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], nullptr);
		step(p[i].sum);
	}
	return 0;
}

jmp_buf back;

u64 jump(void *)
{
	longjmp(back, 1);
}

u64 deeper(void *arg)
{
	u64 n = (u64)(uintptr_t)arg;
	return n ? t_p_call((void *)deeper, (void *)(uintptr_t)(n - 1))
		 : t_p_call((void *)jump, nullptr);
}

int run_jump(long n, char **)
{
	for (volatile long i = 0; i < n; i++) {
		if (!setjmp(back))
			t_p_call((void *)deeper, (void *)(uintptr_t)(i % 5));
		step(t_v2_plain((u64)i, 1));
		step(t_v2_around_leaf((u64)i, 1));
	}
	return 0;
}

/* ---- signals ---- */

volatile sig_atomic_t handled, interrupted;
volatile u64 made_main, made_handler, wrong;
sigjmp_buf signal_back;
bool jumps;
volatile sig_atomic_t may_jump;

void on_timer(int)
{
	int was = errno;
	handled = handled + 1;
	made_handler = made_handler + 5; /* there are two in t_v2_around_leaf */
	if (t_v2_around_leaf(5, 6) != t_v2_leaf(5, 6) + t_v2_plain(6, 5))
		wrong = wrong + 1;
	errno = was;
	if (jumps && may_jump) {
		may_jump = 0;
		siglongjmp(signal_back, 1);
	}
}

void start_timer(int which, int usec)
{
	itimerval v = {{0, usec}, {0, usec}};
	setitimer(which, &v, nullptr);
}

void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa;
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = fn;
	sa.sa_flags = SA_RESTART | flags;
	sigfillset(&sa.sa_mask);
	sigaction(sig, &sa, nullptr);
}

int signals_while(long n)
{
	const u64 wanted = t_v2_deep(5, 1), plain = t_v2_plain(2, 3);
	volatile u64 done = 7;
	start_timer(ITIMER_REAL, 1000);
	start_timer(ITIMER_PROF, 1000);
	if (jumps)
		(void)sigsetjmp(signal_back, 1);
	while (handled < n) {
		may_jump = 1;
		if (t_v2_deep(5, 1) != wanted)
			wrong = wrong + 1;
		done = done + 6;
		if (t_v2_plain(2, 3) != plain)
			wrong = wrong + 1;
		done = done + 1;
		may_jump = 0;
		if (done % 4096 < 7)
			usleep(1000);
	}
	start_timer(ITIMER_REAL, 0);
	start_timer(ITIMER_PROF, 0);
	made_main = done;
	printf("main %llu\nhandler %llu\n", (unsigned long long)made_main,
	       (unsigned long long)made_handler);
	return wrong ? die("a result") : 0;
}

/* ordinary, alternate, inside (the alternate one is an array of a frame), jump */
int run_signals(long n, char **how)
{
	static char elsewhere[128 << 10];
	char inside[128 << 10];
	stack_t st;
	memset(&st, 0, sizeof(st));
	st.ss_sp = strcmp(*how, "inside") ? elsewhere : inside;
	st.ss_size = sizeof(inside);
	int flags = strcmp(*how, "alternate") && strcmp(*how, "inside") ? 0 : SA_ONSTACK;
	jumps = !strcmp(*how, "jump");
	if (flags && sigaltstack(&st, nullptr))
		return die("sigaltstack");
	handle(SIGALRM, on_timer, flags);
	handle(SIGPROF, on_timer, flags);
	return signals_while(n);
}

/* The first call of a process at all is of a handler that has interrupted malloc(3). */
void on_first(int)
{
	u64 v = t_p_one(5);
	interrupted = v == t_p_one(5);
}

void *sleep_always(void *)
{
	for (;;)
		pause();
}

int allocate_until_interrupted()
{
	pthread_t t; /* so that malloc takes locks */
	sigset_t alarms;
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, nullptr);
	if (pthread_create(&t, nullptr, sleep_always, nullptr))
		return 8;
	pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
	handle(SIGALRM, on_first, 0);
	start_timer(ITIMER_REAL, 500);
	for (size_t n = 0; !interrupted; n++) {
		void *volatile p = malloc(1500 + n % 4096);
		void *volatile q = malloc(3000);
		free(p);
		free(q);
	}
	return 0;
}

int run_first(long n, char **)
{
	long hung = 0, crashed = 0;
	for (long i = 0; i < n && !hung; i++) {
		pid_t pid = fork();
		if (!pid)
			_exit(allocate_until_interrupted());
		int status = wait_child(pid, 5);
		hung += status == 1000;
		crashed += status != 1000 && status != 0;
	}
	printf("hung %ld crashed %ld\n", hung, crashed);
	return hung || crashed ? 9 : 0;
}

/* ---- processes ---- */

u64 calls_of(u64 from, u64 n)
{
	u64 x = 1;
	for (u64 i = from; i < from + n; i++)
		x = x * 31 + t_v2_around_leaf(i, n);
	return x;
}

/* A child gives its calls' sum by its status. */
[[noreturn]] void child_calls(u64 n)
{
	_exit((int)(calls_of(5, n) & 0x7f));
}

int status_of(u64 n)
{
	return (int)(calls_of(5, n) & 0x7f);
}

u64 fork_inside(void *arg)
{
	pid_t pid = fork();
	if (!pid && arg)
		child_calls(50);
	if (!pid)
		return calls_of(5, 50); /* and returns from what its parent entered */
	expect_child(pid, status_of(50), "of fork");
	return 1;
}

void forks()
{
	pid_t before = getpid();
	step(t_p_call((void *)fork_inside, &before));
	u64 v = t_p_call((void *)fork_inside, nullptr);
	if (getpid() != before)
		_exit((int)((v - 1 + 0 * t_v2_plain(1, 1)) & 0x7f));
	step(v);
}

void vforks()
{
	char word[] = "child", count[] = "50";
	char *const args[] = {(char *)self, word, count, nullptr};
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): it is what is tried */
	pid_t pid = vfork();
	if (!pid) {
		execve(self, args, environ);
		_exit(99);
	}
	expect_child(pid, status_of(50), "of vfork and exec");
	if (posix_spawn(&pid, self, nullptr, nullptr, args, environ))
		die("posix_spawn");
	expect_child(pid, status_of(50), "of posix_spawn");
}

[[noreturn]] void daemon_child()
{
	setsid();
	if (fork())
		_exit(0);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	if (chdir("/"))
		_exit(98);
	child_calls(50);
}

void daemons()
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	calls_of(5, 3);
	pid_t pid = fork();
	if (!pid)
		daemon_child();
	expect_child(pid, 0, "that makes a daemon");
	expect_child(-1, status_of(50), "daemon");
}

int run_processes(long n, char **)
{
	for (long i = 0; i < n; i++) {
		forks();
		vforks();
		daemons();
		step(calls_of(5, 10));
	}
	return 0;
}

int run_child(long n, char **)
{
	child_calls((u64)n);
}

/* fork(2) without fork(3): nobody is told. Both call at once. */
int run_raw_fork(long n, char **)
{
	step(calls_of(5, 10));
	for (int i = 0; i < 4; i++) {
		pid_t pid = (pid_t)syscall(SYS_fork);
		if (!pid)
			child_calls((u64)n);
		step(calls_of(5, (u64)n));
		expect_child(pid, status_of((u64)n), "of the system call fork");
	}
	return 0;
}

u64 exec_inside(void *arg)
{
	char word[] = "exec", rest[24], so_far[24];
	snprintf(rest, sizeof(rest), "%ld", *static_cast<long *>(arg) - 1);
	snprintf(so_far, sizeof(so_far), "%llu", (unsigned long long)sum);
	char *const args[] = {(char *)self, word, rest, so_far, nullptr};
	execve(self, args, environ);
	return 0;
}

int run_exec(long n, char **so_far)
{
	if (*so_far)
		sum = strtoull(*so_far, nullptr, 10);
	step(calls_of(5, 20));
	if (n > 0)
		t_p_call((void *)exec_inside, &n);
	return n > 0;
}

int run_nobody(long n, char **)
{
	step(calls_of(5, 10));
	pid_t pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(98);
		child_calls((u64)n);
	}
	expect_child(pid, status_of((u64)n), "of another user");
	return 0;
}

/* ---- threads ---- */

void *call_some(void *arg)
{
	u64 *n = static_cast<u64 *>(arg);
	*n = calls_of(3, *n);
	return nullptr;
}

int run_turns(long n, char **threads)
{
	for (long i = 0; i < atol(*threads); i++) {
		u64 v = (u64)n;
		in_thread(call_some, &v);
		step(v);
	}
	return 0;
}

u64 end_thread(void *arg)
{
	t_v2_plain(1, 2);
	pthread_exit(arg);
}

u64 wait_always(void *arg)
{
	t_v2_plain(1, 2);
	static_cast<std::atomic<int> *>(arg)->store(1);
	for (;;)
		pause();
}

void *end_inside(void *arg)
{
	t_p_call((void *)end_thread, arg);
	return nullptr;
}

void *wait_inside(void *arg)
{
	t_p_call((void *)wait_always, arg);
	return nullptr;
}

int run_ends(long n, char **)
{
	for (long i = 0; i < n; i++) {
		pthread_t t;
		void *result = nullptr;
		std::atomic<int> waits(0);
		if (pthread_create(&t, nullptr, end_inside, &n) || pthread_join(t, &result) ||
		    result != &n)
			return die("pthread_exit");
		if (pthread_create(&t, nullptr, wait_inside, &waits))
			return die("pthread_create");
		while (!waits)
			usleep(100);
		pthread_cancel(t);
		pthread_join(t, &result);
		if (result != PTHREAD_CANCELED)
			return die("pthread_cancel");
		step(t_v2_plain((u64)i, 2));
	}
	return 0;
}

/* To be cancelled at the next cancellation point, of which its calls have none. */
void *cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	*static_cast<u64 *>(arg) = calls_of(3, 5);
	pthread_testcancel();
	return nullptr;
}

/* Of a process that has called before, if there is another word. */
int run_cancelled(long n, char **called)
{
	if (*called)
		step(calls_of(3, 5));
	for (long i = 0; i < n; i++) {
		pthread_t t;
		void *result = nullptr;
		u64 v = 0, w = 5;
		if (pthread_create(&t, nullptr, cancelled, &v) || pthread_join(t, &result))
			return die("pthread_create");
		step(v);
		timespec end;
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += 5;
		if (pthread_create(&t, nullptr, call_some, &w))
			return die("pthread_create");
		if (pthread_timedjoin_np(t, nullptr, &end))
			return die("the next thread hangs");
		step(w);
		if (!v)
			return die("cancelled in a call that has no cancellation point");
	}
	return 0;
}

pthread_barrier_t all_called, all_begun;

void *call_at_once(void *arg)
{
	u64 *n = static_cast<u64 *>(arg);
	pthread_barrier_wait(&all_begun);
	*n = calls_of(3, *n);
	pthread_barrier_wait(&all_called);
	*n += calls_of(3, 10);
	return nullptr;
}

int run_at_once(long n, char **threads)
{
	long all = atol(*threads);
	std::vector<pthread_t> t((size_t)all);
	std::vector<u64> v((size_t)all, (u64)n);
	pthread_barrier_init(&all_called, nullptr, (unsigned)all);
	pthread_barrier_init(&all_begun, nullptr, (unsigned)all);
	for (size_t i = 0; i < t.size(); i++)
		if (pthread_create(&t[i], nullptr, call_at_once, &v[i]))
			return die("pthread_create");
	for (size_t i = 0; i < t.size(); i++) {
		pthread_join(t[i], nullptr);
		step(v[i]);
	}
	return 0;
}

/* A key's destructor calls, and sets the key again, as often as it is asked. */
pthread_key_t key;

void on_key(void *arg)
{
	u64 n = (u64)(uintptr_t)arg;
	t_v2_plain(n, 3);
	pthread_setspecific(key, n > 1 ? (void *)(uintptr_t)(n - 1) : nullptr);
}

void *with_key(void *arg)
{
	pthread_setspecific(key, (void *)(uintptr_t)4);
	return call_some(arg);
}

int run_keys(long n, char **)
{
	step(t_p_one(1)); /* others' keys are before ours */
	pthread_key_create(&key, on_key);
	for (long i = 0; i < n; i++) {
		u64 v = 5;
		in_thread(with_key, &v);
		step(v);
		usleep(1000); /* slots are free again after a while */
	}
	return 0;
}

/* ---- libraries ---- */

typedef u64 (*two)(u64, u64);

int run_loads(long n, char **paths)
{
	size_t count = 0;
	while (paths[count])
		count++;
	for (long i = 0; count && i < n; i++) {
		void *library = dlopen(paths[(size_t)i % count], RTLD_NOW | RTLD_LOCAL);
		two fn = library ? (two)dlsym(library, "_Z16t_v2_around_leafmm") : nullptr;
		two deep = library ? (two)dlsym(library, "_Z9t_v2_deepmm") : nullptr;
		if (!fn || !deep)
			return die(dlerror());
		for (u64 k = 0; k < 5; k++)
			step(fn(k, (u64)i) + deep(3, k));
		if (i % 7 == 3) { /* another one in its place */
			void *other = dlopen(paths[(size_t)(i + 1) % count], RTLD_NOW | RTLD_LOCAL);
			dlclose(library);
			fn = (two)dlsym(other, "_Z16t_v2_around_leafmm");
			step(fn((u64)i, 1));
			dlclose(other);
		} else {
			dlclose(library);
		}
	}
	return 0;
}

/* ---- until it is told to end ---- */

/* PATH.end ends it; PATH tells in how much time it has made how many calls. n: calls between looks.
 * With PATH.fork a child goes on in its place. A second word: milliseconds between looks. */
int run_until(long n, char **path)
{
	std::string end = std::string(*path) + ".end", away = std::string(*path) + ".fork";
	FILE *f = fopen(*path, "w");
	const u64 wanted = calls_of(3, 100);
	u64 made = 100, spent_ns = 0;
	if (!f)
		return die("fopen");
	while (access(end.c_str(), F_OK)) {
		u64 start_ns = now_ns();
		for (long i = 0; i < n; i += 100)
			if (calls_of(3, 100) != wanted)
				return die("a result");
		spent_ns += now_ns() - start_ns;
		made += (u64)n;
		fprintf(f, "%llu %llu\n", (unsigned long long)spent_ns, (unsigned long long)made);
		fflush(f);
		usleep(path[1] ? (useconds_t)atoi(path[1]) * 1000 : 2000);
		if (!access(away.c_str(), F_OK) && !unlink(away.c_str()) && fork())
			_exit(0);
	}
	fclose(f);
	return 0;
}

int run_idle(long n, char **)
{
	puts("ready");
	fflush(stdout);
	sleep((unsigned)n);
	return 0;
}

u64 kill_self(void *)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* Children that end at once, each amid a call that a thread of its own makes as well. */
int run_killed(long n, char **)
{
	for (long i = 0; i < n; i++) {
		pid_t pid = fork();
		if (!pid) {
			pthread_t t;
			std::atomic<int> waits(0);
			if (pthread_create(&t, nullptr, wait_inside, &waits))
				die("pthread_create");
			while (!waits)
				usleep(100);
			step(calls_of((u64)i, 20));
			t_p_call((void *)kill_self, nullptr);
		}
		int status = 0;
		if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
			return die("a child that kills itself");
		step(t_v2_plain((u64)i, 2));
	}
	return 0;
}

u64 at_once(void *)
{
	return 1;
}

u64 slowly(void *)
{
	usleep(200000);
	return 2;
}

/* N rounds of a hundred quick calls, some ten milliseconds each; then three slow ones. */
int run_slow(long n, char **)
{
	for (long i = 0; i < n; i++) {
		for (int k = 0; k < 100; k++)
			step(t_p_call((void *)at_once, nullptr) + t_v2_around_leaf((u64)k, 1));
		usleep(10000);
	}
	for (int i = 0; i < 3; i++)
		step(t_p_call((void *)slowly, nullptr));
	return 0;
}

const struct {
	const char *name;
	int (*run)(long n, char **rest);
} cases[] = {
	{"arguments", run_arguments},
	{"big", run_big},
	{"local", run_local},
	{"vectors", run_vectors},
	{"doors", run_doors},
	{"flags", run_flags},
	{"deep", run_deep},
	{"throw", run_throw},
	{"throw-threads", run_throw_threads},
	{"jump", run_jump},
	{"signals", run_signals},
	{"first", run_first},
	{"processes", run_processes},
	{"child", run_child},
	{"raw-fork", run_raw_fork},
	{"exec", run_exec},
	{"nobody", run_nobody},
	{"turns", run_turns},
	{"ends", run_ends},
	{"cancelled", run_cancelled},
	{"at-once", run_at_once},
	{"keys", run_keys},
	{"until", run_until},
	{"idle", run_idle},
	{"killed", run_killed},
	{"slow", run_slow},
};
} // namespace

int main(int argc, char **argv)
{
	static char path[4096];
	if (argc < 3 || readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		return 2;
	self = path;
	for (const auto &c : cases) {
		if (strcmp(c.name, argv[1]) != 0)
			continue;
		int rc = c.run(atol(argv[2]), argv + 3);
		printf("sum %016llx\n", (unsigned long long)sum);
		return rc;
	}
	if (!strcmp(argv[1], "loads")) {
		int rc = run_loads(atol(argv[2]), argv + 3);
		printf("sum %016llx\n", (unsigned long long)sum);
		return rc;
	}
	return 2;
}
