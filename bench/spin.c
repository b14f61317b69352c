/* spin.c - calls one function as often and as fast as it can, and says how fast that was.
 *
 * What the benchmarks trace where they need many events: spin_push does nothing and begins
 * with `push`, as most compiled functions do. Prints calls made, calls a second, time per
 * call and its own CPU time, as `name value` pairs. Knows nothing of eACGM.
 *
 *   usage: spin CALLS [THREADS]     the calls are shared among the threads */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_THREADS 64

__asm__(".text\n"
	".globl spin_push\n.type spin_push,@function\nspin_push:\n"
	"push %rbx\npop %rbx\nret\n.size spin_push,.-spin_push\n");
void spin_push(void);

struct work {
	pthread_t thread;
	pthread_barrier_t *start;
	unsigned long calls;
	double seconds;
};

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu_s(void)
{
	struct rusage ru;
	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static void *spin(void *arg)
{
	struct work *w = arg;
	pthread_barrier_wait(w->start);
	double start = now_s();
	for (unsigned long i = 0; i < w->calls; i++)
		spin_push();
	w->seconds = now_s() - start;
	return NULL;
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end ? n : 0;
}

int main(int argc, char **argv)
{
	struct work work[MAX_THREADS] = {0};
	pthread_barrier_t start;
	unsigned long calls = argc > 1 ? number(argv[1]) : 0;
	unsigned long threads = argc > 2 ? number(argv[2]) : 1;
	if (argc < 2 || argc > 3 || !calls || !threads || threads > MAX_THREADS) {
		fprintf(stderr, "usage: spin CALLS [THREADS]\n");
		return 2;
	}
	pthread_barrier_init(&start, NULL, (unsigned)threads);
	for (unsigned long t = 0; t < threads; t++) {
		work[t].start = &start;
		work[t].calls = calls / threads + (t < calls % threads);
		if (pthread_create(&work[t].thread, NULL, spin, &work[t])) {
			perror("spin: pthread_create");
			return 1;
		}
	}
	double longest = 0;
	for (unsigned long t = 0; t < threads; t++) {
		pthread_join(work[t].thread, NULL);
		longest = work[t].seconds > longest ? work[t].seconds : longest;
	}
	double rate = (double)calls / longest;
	printf("calls %lu threads %lu seconds %.6f calls_per_s %.0f ns_per_call %.3f cpu_s %.6f\n",
	       calls, threads, longest, rate, longest * 1e9 * (double)threads / (double)calls,
	       cpu_s());
	return 0;
}
