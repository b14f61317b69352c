/* hostile_stacks.c - stacks that cannot be walked, or that change while they are.
 *
 *   hostile_stacks maps MS LIB   maps code, calls it, unmaps it; loads LIB and unloads it
 *   hostile_stacks storm N       N children one after another and ten at a time, each runs a moment
 *   hostile_stacks threads N     N threads at once, each runs a moment
 *   hostile_stacks waits N TIMES N threads at once, each sleeps so many times for 1 ms, at depths
 * of its own hostile_stacks deep N MS     recursion N deep, with work at the bottom hostile_stacks
 * code MS       made code, with and without a frame pointer, calls back hostile_stacks wild MS
 * children whose stack pointer is garbage
 *
 * Ends with "done" and status 0. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static volatile uint64_t sink;

static double now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

NOINLINE static void spin(long n)
{
	for (long i = 0; i < n; i++)
		sink = sink * 3 + (uint64_t)i;
}

NOINLINE static void spin_ms(double ms)
{
	for (double end = now_ms() + ms; now_ms() < end;)
		spin(1000);
}

/* ---- made code ---- */

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const uint8_t with_frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
/* push %rbx; call *%rdi; pop %rbx; ret */
static const uint8_t without_frame[] = {0x53, 0xff, 0xd7, 0x5b, 0xc3};

typedef void (*caller)(void (*callee)(void));

static caller make_code(const uint8_t *bytes, size_t len)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	memcpy(at, bytes, len);
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC))
		fail("mprotect");
	return (caller)(uintptr_t)at;
}

NOINLINE static void callee_with(void)
{
	spin(20000);
}

NOINLINE static void callee_without(void)
{
	spin(20000);
}

/* Of its own running: on a busy machine it gets as many samples. */
static double run_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void code(double ms)
{
	caller a = make_code(with_frame, sizeof(with_frame));
	caller b = make_code(without_frame, sizeof(without_frame));
	for (double end = run_ms() + ms; run_ms() < end;) {
		a(callee_with);
		b(callee_without);
	}
}

/* ---- mappings that come and go ---- */

static void *map_and_unmap(void *arg)
{
	double end = now_ms() + *(double *)arg;
	while (now_ms() < end) {
		caller c = make_code(with_frame, sizeof(with_frame));
		c(callee_with);
		munmap((void *)(uintptr_t)c, 4096);
	}
	return NULL;
}

static void maps(double ms, const char *lib)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, map_and_unmap, &ms))
			fail("pthread_create");
	for (double end = now_ms() + ms; now_ms() < end;) {
		void *h = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
		uint64_t (*push)(uint64_t) =
			h ? (uint64_t(*)(uint64_t))dlsym(h, "target_push") : NULL;
		if (!push)
			fail(lib);
		for (int i = 0; i < 1000; i++)
			sink += push(sink);
		dlclose(h);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

/* ---- many ---- */

static void storm(int n)
{
	for (int made = 0; made < n; made += 10) {
		for (int i = 0; i < 10; i++) {
			pid_t pid = fork();
			if (pid < 0)
				fail("fork");
			if (!pid) {
				spin(200000 + 10000 * i);
				_exit(0);
			}
		}
		for (int i = 0; i < 10; i++)
			if (wait(NULL) < 0)
				fail("wait");
	}
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *in_thread(void *arg)
{
	(void)arg;
	spin(20000);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	spin(20000);
	return NULL;
}

static int times;
static _Atomic uint64_t waited_ns; /* of all */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

NOINLINE static void sleep_below(int depth)
{
	if (depth > 0)
		sleep_below(depth - 1);
	else
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	sink++; /* not a tail call */
}

static void *in_waiter(void *arg)
{
	int depth = (int)(intptr_t)arg % 40;
	uint64_t began_ns = clock_ns(CLOCK_MONOTONIC) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < times; i++)
		sleep_below((depth + i) % 40);
	waited_ns += clock_ns(CLOCK_MONOTONIC) - clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	return NULL;
}

static void threads(int n, void *(*run)(void *))
{
	pthread_t *t = calloc((size_t)n, sizeof(*t));
	pthread_attr_t attr;
	int made = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_mutex_lock(&gate);
	while (t && made < n && !pthread_create(&t[made], &attr, run, (void *)(intptr_t)made))
		made++;
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < made; i++)
		pthread_join(t[i], NULL);
	free(t);
	printf("threads %d\n", made);
	if (waited_ns)
		printf("waited_ms %llu\n", (unsigned long long)waited_ns / 1000000);
}

/* ---- deep ---- */

NOINLINE static uint64_t recurse(int depth, double ms)
{
	if (!depth) {
		spin_ms(ms);
		return sink;
	}
	return recurse(depth - 1, ms) * 3 + 1;
}

static void *recurse_there(void *arg)
{
	const double *depth_and_ms = arg;
	sink += recurse((int)depth_and_ms[0], depth_and_ms[1]);
	return NULL;
}

static void deep(int depth, double ms)
{
	double arg[] = {depth, ms};
	pthread_attr_t attr;
	pthread_t t;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)depth * 128 + (1 << 20));
	if (pthread_create(&t, &attr, recurse_there, arg))
		fail("pthread_create");
	pthread_join(t, NULL);
}

/* ---- wild ---- */

/* Spins with that stack pointer, then ends the process: exit_group(0). */
static void spin_on(uint64_t rsp, uint64_t turns)
{
	__asm__ volatile("mov %0, %%rsp\n"
			 "mov %0, %%rbp\n"
			 "1: dec %1\n"
			 "jnz 1b\n"
			 "mov $231, %%eax\n"
			 "xor %%edi, %%edi\n"
			 "syscall\n"
			 :
			 : "r"(rsp), "r"(turns)
			 : "rax", "rdi", "memory");
	__builtin_unreachable();
}

static void wild(double ms)
{
	static char heap[4096];
	const uint64_t pointers[] = {0,
				     8,
				     0x1234567,
				     0x7fffffffe000,
				     0x8000000000000000,
				     0xffffffffffffffff,
				     0xffffffff81000000,
				     (uint64_t)(uintptr_t)(void *)wild,
				     (uint64_t)(uintptr_t)heap};
	for (double end = now_ms() + ms; now_ms() < end;) {
		for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
			int status;
			pid_t pid = fork();
			if (!pid)
				spin_on(pointers[i], 20000000);
			if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
				fail("waitpid");
		}
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	double n = argc > 2 ? atof(argv[2]) : 0;
	if (!strcmp(what, "maps") && argc > 3)
		maps(n, argv[3]);
	else if (!strcmp(what, "storm"))
		storm((int)n);
	else if (!strcmp(what, "threads"))
		threads((int)n, in_thread);
	else if (!strcmp(what, "waits") && argc > 3 && (times = atoi(argv[3])) > 0)
		threads((int)n, in_waiter);
	else if (!strcmp(what, "deep") && argc > 3)
		deep((int)n, atof(argv[3]));
	else if (!strcmp(what, "code"))
		code(n);
	else if (!strcmp(what, "wild"))
		wild(n);
	else
		return 2;
	puts("done");
	return 0;
}
