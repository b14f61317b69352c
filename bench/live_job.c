/* live_job.c - calls functions at a steady rate, slower now and then: what live detection is
 * measured with. Knows nothing of eACGM.
 *
 *   usage: live_job SECONDS CALLS_PER_S [QUIET_S EVERY_S FOR_S [CHURN]]
 *
 * After QUIET_S seconds, every EVERY_S seconds for FOR_S seconds, calls take three times as long.
 * CHURN: so many threads and processes a second begin and end, each with a few calls; a process
 * lives for half a second.
 * Prints "slow BEGIN END" (CLOCK_MONOTONIC, ns) for each such time, then "calls N". */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NS	  1000000000ULL
#define SLICE_NS  1000000ULL /* calls come in bursts of a millisecond */
#define FUNCTIONS 16
#define LIVES_NS  500000000L /* a process of the churn: its counters are read */

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS + (uint64_t)ts.tv_nsec;
}

static inline void spin(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/* Each has a duration of its own. */
#define WORK(k)                                                                                    \
	void work_##k(unsigned times);                                                             \
	__attribute__((noinline)) void work_##k(unsigned times)                                    \
	{                                                                                          \
		spin(times *(100 + 50 * (k)));                                                     \
	}
WORK(0)
WORK(1)
WORK(2)
WORK(3)
WORK(4)
WORK(5)
WORK(6)
WORK(7)
WORK(8)
WORK(9)
WORK(10)
WORK(11)
WORK(12)
WORK(13)
WORK(14)
WORK(15)

static void (*const works[FUNCTIONS])(unsigned) = {
	work_0, work_1, work_2,	 work_3,  work_4,  work_5,  work_6,  work_7,
	work_8, work_9, work_10, work_11, work_12, work_13, work_14, work_15,
};

static void *few_calls(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < FUNCTIONS; i++)
		works[i](1);
	return NULL;
}

static void churn(void)
{
	pthread_t thread;
	if (!pthread_create(&thread, NULL, few_calls, NULL))
		pthread_join(thread, NULL);
	pid_t child = fork();
	if (!child) {
		few_calls(NULL);
		nanosleep(&(struct timespec){.tv_nsec = LIVES_NS}, NULL);
		few_calls(NULL);
		_exit(0);
	}
}

struct plan {
	double seconds, calls_per_s, quiet_s, every_s, for_s, churn_per_s;
};

static int is_slow(const struct plan *p, double s)
{
	if (p->every_s <= 0 || s < p->quiet_s)
		return 0;
	double at = s - p->quiet_s;
	return at - (double)(uint64_t)(at / p->every_s) * p->every_s < p->for_s;
}

static uint64_t run(const struct plan *p)
{
	uint64_t begin = now_ns(), calls = 0, slow_ns = 0, churned = 0;
	for (;;) {
		uint64_t now = now_ns();
		double s = (double)(now - begin) / 1e9;
		int slow = is_slow(p, s);
		if (s >= p->seconds)
			break;
		if (slow && !slow_ns)
			slow_ns = now;
		if (!slow && slow_ns) {
			printf("slow %llu %llu\n", (unsigned long long)slow_ns,
			       (unsigned long long)now);
			slow_ns = 0;
		}
		uint64_t due = (uint64_t)(s * p->calls_per_s);
		for (unsigned n = 0; calls < due && n < 100000; calls++, n++)
			works[calls % FUNCTIONS](slow ? 3 : 1);
		for (; (double)churned < s * p->churn_per_s; churned++)
			churn();
		if (calls >= due)
			nanosleep(&(struct timespec){.tv_nsec = SLICE_NS}, NULL);
	}
	if (slow_ns)
		printf("slow %llu %llu\n", (unsigned long long)slow_ns,
		       (unsigned long long)now_ns());
	return calls;
}

int main(int argc, char **argv)
{
	signal(SIGCHLD, SIG_IGN); /* nobody waits for children */
	double numbers[6] = {0};
	for (int i = 1; i < argc && i <= 6; i++)
		numbers[i - 1] = strtod(argv[i], NULL);
	struct plan p = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
	if (argc < 3 || p.seconds <= 0 || p.calls_per_s <= 0) {
		fprintf(stderr, "usage: live_job SECONDS CALLS_PER_S [QUIET_S EVERY_S FOR_S "
				"[CHURN]]\n");
		return 2;
	}
	uint64_t calls = run(&p);
	printf("calls %llu\n", (unsigned long long)calls);
	return 0;
}
