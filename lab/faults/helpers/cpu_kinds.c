/* cpu_kinds.c - how fast the CPU of a process is, by kinds of work: where a job is slow for seconds
 * and no counter says why, which of them goes with it. usage: cpu_kinds PID SECONDS
 *
 * Forty times a second it goes to the CPU that the process's main thread was on last, does a little
 * of each (0.3 ms in all) and prints how long that took, in ns. It knows nothing of the job. */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 25000000
#define TRIES	 3 /* the quickest counts: the hypervisor may come between */
#define LINE	 64
#define ALIGN	 (1UL << 21)

static volatile uint64_t sink; /* what is done has to be done */

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- additions: busy units of the core ---- */

/* The work of bpf/fixed_work.h, to be compared with what that tells. */
static void add(void *ctx)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
	(void)ctx;
	for (uint64_t i = 0; i < 225; i++) {
		a += b ^ i;
		b = b * 3 + 1;
		c += d ^ i;
		d = d * 5 + 1;
		e += f ^ i;
		f = (f << 1) + c;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	sink = a + b + c + d + e + f;
}

/* ---- walks through memory: its caches ---- */

struct walk {
	uint32_t *next;
	uint32_t at, steps;
};

/* Each line once, in an order that nothing foresees. */
static struct walk walk_of(size_t bytes, uint32_t steps)
{
	size_t lines = bytes / LINE, words = LINE / sizeof(uint32_t);
	uint32_t *next = aligned_alloc(ALIGN, bytes < ALIGN ? ALIGN : bytes);
	uint32_t *order = malloc(lines * sizeof(*order));
	if (!next || !order) {
		fputs("cpu_kinds: no memory\n", stderr);
		exit(1);
	}
	for (size_t i = 0; i < lines; i++)
		order[i] = (uint32_t)i;
	for (size_t i = lines - 1; i; i--) {
		size_t other = (((uint64_t)random() << 31) ^ (uint64_t)random()) % i;
		uint32_t was = order[i];
		order[i] = order[other];
		order[other] = was;
	}
	for (size_t i = 0; i < lines; i++)
		next[order[i] * words] = (uint32_t)(order[(i + 1) % lines] * words);
	free(order);
	return (struct walk){.next = next, .steps = steps};
}

static void walk(void *ctx)
{
	struct walk *w = ctx;
	uint32_t at = w->at;
	for (uint32_t i = 0; i < w->steps; i++)
		at = w->next[at];
	sink = w->at = at;
}

/* ---- code of 128 KB: what fetches it, and guesses where it goes ---- */

#define F(n)                                                                                       \
	__attribute__((noinline, aligned(256))) static uint64_t f##n(uint64_t x)                   \
	{                                                                                          \
		__asm__ volatile("" : "+r"(x));                                                    \
		return x * 3 + 0##n;                                                               \
	}
#define F8(n)  F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)
#define F64(n) F8(n##0) F8(n##1) F8(n##2) F8(n##3) F8(n##4) F8(n##5) F8(n##6) F8(n##7)
#define N8(n)  f##n##0, f##n##1, f##n##2, f##n##3, f##n##4, f##n##5, f##n##6, f##n##7
#define N64(n) N8(n##0), N8(n##1), N8(n##2), N8(n##3), N8(n##4), N8(n##5), N8(n##6), N8(n##7)
/* clang-format off */
F64(0) F64(1) F64(2) F64(3) F64(4) F64(5) F64(6) F64(7)
static uint64_t (*const functions[])(uint64_t) = {N64(0), N64(1), N64(2), N64(3),
						  N64(4), N64(5), N64(6), N64(7)};
/* clang-format on */
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static void call(void *ctx)
{
	uint64_t x = 1, at = 1;
	(void)ctx;
	for (size_t i = 0; i < FUNCTIONS; i++) {
		at = (at * 205 + 77) % FUNCTIONS;
		x = functions[at](x);
	}
	sink = x;
}

/* ---- the kernel's entry ---- */

static void enter(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < 20; i++)
		sink = (uint64_t)syscall(SYS_getppid);
}

/* ---- */

static uint64_t quickest(void (*work)(void *ctx), void *ctx)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < TRIES; i++) {
		uint64_t began = now_ns();
		work(ctx);
		uint64_t took = now_ns() - began;
		least = took < least ? took : least;
	}
	return least;
}

/* The 39th field of /proc/PID/stat (proc(5)); -1: the process is gone. */
static int cpu_of(const char *pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	FILE *f = fopen(path, "r");
	if (!f)
		return -1;
	size_t len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = 0;
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 39; field++)
		at = strchr(at + 1, ' ');
	return at ? atoi(at + 1) : -1;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fputs("usage: cpu_kinds PID SECONDS\n", stderr);
		return 2;
	}
	struct walk small = walk_of(512 << 10, 512), large = walk_of(16 << 20, 150),
		    huge = walk_of(512UL << 20, 80);
	uint64_t end = now_ns() + (uint64_t)(atof(argv[2]) * 1e9);
	setvbuf(stdout, NULL, _IOLBF, 0);
	(void)setpriority(PRIO_PROCESS, 0, -20); /* it is short, and must not wait */
	puts("time_ns cpu additions walk_512K walk_16M walk_512M functions system_calls");
	for (int cpu; now_ns() < end && (cpu = cpu_of(argv[1])) >= 0;) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET((size_t)cpu, &set);
		(void)sched_setaffinity(0, sizeof(set), &set);
		uint64_t at = now_ns(), adds = quickest(add, NULL), smalls = quickest(walk, &small);
		uint64_t larges = quickest(walk, &large), huges = quickest(walk, &huge);
		uint64_t calls = quickest(call, NULL), enters = quickest(enter, NULL);
		printf("%lu %d %lu %lu %lu %lu %lu %lu\n", at, cpu, adds, smalls, larges, huges,
		       calls, enters);
		nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
	}
	return 0;
}
