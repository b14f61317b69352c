/* calls.c - calls the functions of libtarget.so a known number of times.
 *
 *   calls threads N T     every target_* variant N times from each of T threads
 *   calls nested N M      target_outer(M) N times
 *   calls args N          target_args, _string, _out, _pointer with known values
 *   calls unread N FILE   target_string of N names in pages of a file, and one in a page of no
 *                         file, that are not in memory when it is called; lives until FILE exists
 *   calls tail N          target_tail N times
 *   calls recurse N D     target_recurse(D) N times
 *   calls sleep MS        one target_sleep, so that a call is open for long
 *   calls until FILE T [MS]  every variant from T threads until FILE exists; 1,000 rounds, and MS
 *                         of sleep after them
 *   calls asked           target_push as often as each line of standard input says, to its end;
 *                         says "done" after each
 *   calls slow N MS       target_sleep(0) N times and target_sleep(MS) twice
 *
 * Prints "FUNCTION CALLS" lines: the calls that it made. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target.h"

/* A function of the program itself, to be traced in an executable. */
__attribute__((visibility("default"))) uint64_t own_function(uint64_t a);

__attribute__((noinline)) uint64_t own_function(uint64_t a)
{
	__asm__ volatile("" : "+r"(a));
	return a + 1;
}

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "calls: wrong result: %s\n", what);
	exit(99);
}

static uint64_t (*const variants[])(uint64_t) = {
	target_push, target_nop, target_endbr, target_sub,
	target_lea,  target_mov, target_ret,   own_function,
};
static const char *const variant_names[] = {
	"target_push", "target_nop", "target_endbr", "target_sub",
	"target_lea",  "target_mov", "target_ret",   "own_function",
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static void *call_variants(void *arg)
{
	uint64_t n = *(uint64_t *)arg;
	for (uint64_t i = 0; i < n; i++)
		for (size_t v = 0; v < VARIANTS; v++)
			check(variants[v](i) == i + 1, variant_names[v]);
	return NULL;
}

struct until {
	const char *path;
	uint64_t rounds, sleep_ms;
};

static void *call_until(void *arg)
{
	struct until *u = arg;
	uint64_t thousand = 1000;
	while (access(u->path, F_OK)) {
		call_variants(&thousand);
		u->rounds += thousand;
		if (u->sleep_ms)
			usleep((useconds_t)u->sleep_ms * 1000);
	}
	return NULL;
}

static void run_until(const char *path, uint64_t threads, uint64_t sleep_ms)
{
	pthread_t id[64];
	struct until u[64];
	uint64_t rounds = 0;
	check(threads <= 64, "at most 64 threads");
	for (uint64_t t = 0; t < threads; t++) {
		u[t] = (struct until){path, 0, sleep_ms};
		check(!pthread_create(&id[t], NULL, call_until, &u[t]), "pthread_create");
	}
	for (uint64_t t = 0; t < threads; t++) {
		pthread_join(id[t], NULL);
		rounds += u[t].rounds;
	}
	for (size_t v = 0; v < VARIANTS; v++)
		printf("%s %" PRIu64 "\n", variant_names[v], rounds);
}

static void run_threads(uint64_t n, uint64_t threads)
{
	pthread_t id[64];
	check(threads <= 64, "at most 64 threads");
	for (uint64_t t = 0; t < threads; t++)
		check(!pthread_create(&id[t], NULL, call_variants, &n), "pthread_create");
	for (uint64_t t = 0; t < threads; t++)
		pthread_join(id[t], NULL);
	for (size_t v = 0; v < VARIANTS; v++)
		printf("%s %" PRIu64 "\n", variant_names[v], n * threads);
}

static void run_nested(uint64_t n, uint64_t times)
{
	for (uint64_t i = 0; i < n; i++)
		check(target_outer(times) == times * (times + 1) / 2, "target_outer");
	printf("target_outer %" PRIu64 "\ntarget_push %" PRIu64 "\n", n, n * times);
}

static void run_args(uint64_t n)
{
	static char longest[300];
	memset(longest, 'x', sizeof(longest) - 1);
	for (uint64_t i = 0; i < n; i++) {
		const void *e = (const void *)(uintptr_t)0x1000;
		int64_t sum = target_args(-5, 65535, -70000, 1 << 20, e, 4096, -1, 4000000000u);
		check(sum == -5 + 65535 - 70000 + (1 << 20) + 0x1000 + 4096 - 1 + 4000000000ll,
		      "target_args");
		check(target_string(i % 2 ? "odd" : "even") == (i % 2 ? 3 : 4), "target_string");
		int64_t got = 0;
		check(target_out(i % 3 ? (int64_t)i : -1, &got) == (i % 3 ? 0 : -1), "target_out");
		check((target_pointer(i % 4) != NULL) == (i % 4 != 0), "target_pointer");
	}
	check(target_string(longest) == 299, "long string");
	check(target_string(NULL) == 0, "no string");
	printf("target_args %" PRIu64 "\ntarget_string %" PRIu64 "\ntarget_out %" PRIu64
	       "\ntarget_pointer %" PRIu64 "\n",
	       n, n + 2, n, n);
}

/* Each name in a mapping of its own: a page that is read brings its neighbours with it. */
static void run_unread(uint64_t n, const char *end)
{
	FILE *f = tmpfile();
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	check(f != NULL, "tmpfile");
	for (uint64_t i = 0; i < n; i++)
		check(!fseek(f, (long)(i * page), SEEK_SET) && fprintf(f, "name %" PRIu64, i) > 0,
		      "name");
	check(!fflush(f) && !ftruncate(fileno(f), (off_t)(n * page)), "fflush");
	for (uint64_t i = 0; i < n; i++) {
		const char *s =
			mmap(NULL, page, PROT_READ, MAP_PRIVATE, fileno(f), (off_t)(i * page));
		check(s != MAP_FAILED, "mmap");
		check(target_string(s) > strlen("name "), "a name in a file");
	}
	const char *s = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(s != MAP_FAILED && target_string(s) == 0, "a page of no file");
	printf("target_string %" PRIu64 "\n", n + 1);
	while (access(end, F_OK))
		usleep(10000);
}

static void run_tail(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		check(target_tail(i) == i + 1, "target_tail");
	printf("target_tail %" PRIu64 "\ntarget_push %" PRIu64 "\n", n, n);
}

static void run_recurse(uint64_t n, uint64_t depth)
{
	for (uint64_t i = 0; i < n; i++)
		check(target_recurse(depth) == depth, "target_recurse");
	printf("target_recurse %" PRIu64 "\n", n * depth);
}

static void run_asked(void)
{
	uint64_t n = 0, sum = 0;
	while (scanf("%" SCNu64, &n) == 1) {
		for (uint64_t i = 0; i < n; i++)
			check(target_push(i) == i + 1, "target_push");
		sum += n;
		check(puts("done") > 0 && !fflush(stdout), "puts");
	}
	printf("target_push %" PRIu64 "\n", sum);
}

static void run_slow(uint64_t n, uint32_t ms)
{
	for (uint64_t i = 0; i < n; i++)
		target_sleep(0);
	target_sleep(ms);
	target_sleep(ms);
	printf("target_sleep %" PRIu64 "\n", n + 2);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t m = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	if (!strcmp(mode, "threads"))
		run_threads(n, m);
	else if (!strcmp(mode, "until"))
		run_until(argv[2], m, argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
	else if (!strcmp(mode, "asked"))
		run_asked();
	else if (!strcmp(mode, "nested"))
		run_nested(n, m);
	else if (!strcmp(mode, "args"))
		run_args(n);
	else if (!strcmp(mode, "unread") && argc > 3)
		run_unread(n, argv[3]);
	else if (!strcmp(mode, "tail"))
		run_tail(n);
	else if (!strcmp(mode, "recurse"))
		run_recurse(n, m);
	else if (!strcmp(mode, "sleep"))
		target_sleep((uint32_t)n);
	else if (!strcmp(mode, "slow"))
		run_slow(n, (uint32_t)m);
	else
		return 2;
	return 0;
}
