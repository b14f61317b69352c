/* spin_inside.cc - calls one function of a library (spin_two.cc) in bursts, and says how long a
 * call took.
 *
 * Only what bursts take counts, not the pauses between them: these let a recorder keep up. Each
 * thread begins with one burst that is not timed. With a FILE it waits, when all calls are made,
 * until the file is there, and makes them again, in the same threads. Prints a line for each time:
 * calls made, calls a second while they are made, and time per call, as `name value` pairs. Knows
 * nothing of eACGM.
 *
 *   usage: spin_inside CALLS [THREADS [PACE [FILE]]]     the timed calls are shared among the
 *   threads; PACE: calls a second of each thread, 0 (if not given): without a pause */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64
#define BURST	    10000UL
#define LOOK_US	    1000

long spin_two(long a, long b);

struct job {
	pthread_barrier_t start;
	unsigned long pace;
	const char *file;
};

struct work {
	pthread_t thread;
	struct job *job;
	unsigned long calls;
	double seconds[2];
};

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void wait_until(double s)
{
	double left = s - now_s();
	if (left > 0)
		usleep((useconds_t)(left * 1e6));
}

static double burst(unsigned long calls)
{
	double start = now_s();
	for (unsigned long i = 0; i < calls; i++)
		spin_two((long)i, 2);
	return now_s() - start;
}

static double spin_once(const struct work *w)
{
	double seconds = 0;
	burst(BURST);
	pthread_barrier_wait(&w->job->start);
	for (unsigned long made = 0, calls = 0; made < w->calls; made += calls) {
		double start = now_s();
		calls = w->calls - made < BURST ? w->calls - made : BURST;
		seconds += burst(calls);
		if (w->job->pace)
			wait_until(start + (double)calls / (double)w->job->pace);
	}
	return seconds;
}

static void *spin(void *arg)
{
	struct work *w = (struct work *)arg;
	w->seconds[0] = spin_once(w);
	if (!w->job->file)
		return NULL;
	while (access(w->job->file, F_OK))
		usleep(LOOK_US);
	w->seconds[1] = spin_once(w);
	return NULL;
}

static void tell(const struct work *work, unsigned long threads, unsigned long calls, int time)
{
	double longest = 0, sum = 0;
	for (unsigned long t = 0; t < threads; t++) {
		sum += work[t].seconds[time];
		longest = work[t].seconds[time] > longest ? work[t].seconds[time] : longest;
	}
	printf("calls %lu threads %lu seconds %.6f calls_per_s %.0f ns_per_call %.3f\n",
	       calls + threads * BURST, threads, longest, (double)calls / longest,
	       sum * 1e9 / (double)calls);
}

static bool number(const char *text, unsigned long *ret)
{
	char *end;
	*ret = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end;
}

int main(int argc, char **argv)
{
	static struct work work[MAX_THREADS];
	static struct job job;
	unsigned long calls = 0, threads = 1;
	if (argc < 2 || argc > 5 || !number(argv[1], &calls) || !calls ||
	    (argc > 2 && !number(argv[2], &threads)) || !threads || threads > MAX_THREADS ||
	    (argc > 3 && !number(argv[3], &job.pace))) {
		fprintf(stderr, "usage: spin_inside CALLS [THREADS [PACE [FILE]]]\n");
		return 2;
	}
	job.file = argc > 4 ? argv[4] : NULL;
	pthread_barrier_init(&job.start, NULL, (unsigned)threads);
	for (unsigned long t = 0; t < threads; t++) {
		work[t].job = &job;
		work[t].calls = calls / threads + (t < calls % threads);
		if (pthread_create(&work[t].thread, NULL, spin, &work[t])) {
			perror("spin_inside: pthread_create");
			return 1;
		}
	}
	for (unsigned long t = 0; t < threads; t++)
		pthread_join(work[t].thread, NULL);
	tell(work, threads, calls, 0);
	if (job.file)
		tell(work, threads, calls, 1);
	return 0;
}
