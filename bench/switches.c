/* switches.c - two threads on one CPU that hand a turn to one another, by a futex or by pipes: does
 * nothing but switch. Prints the CPU time of a switch.
 *
 *   switches futex|pipe TURNS */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint32_t turn;
static int pipes[2][2];
static long turns;
static int by_pipe;

static uint64_t clock_now_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void await_turn(uint32_t mine)
{
	char c;
	if (by_pipe) {
		if (read(pipes[mine][0], &c, 1) != 1)
			exit(1);
		return;
	}
	for (uint32_t now; (now = atomic_load(&turn)) != mine;)
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void give_turn(uint32_t other)
{
	if (by_pipe) {
		if (write(pipes[other][1], "x", 1) != 1)
			exit(1);
		return;
	}
	atomic_store(&turn, other);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *play(void *arg)
{
	uint32_t mine = (uint32_t)(uintptr_t)arg;
	for (long i = 0; i < turns; i++) {
		await_turn(mine);
		give_turn(1 - mine);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	cpu_set_t one;
	pthread_t other;
	if (argc < 3 || pipe(pipes[0]) || pipe(pipes[1]))
		return 2;
	by_pipe = !strcmp(argv[1], "pipe");
	turns = atol(argv[2]);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	uint64_t cpu_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID),
		 ns = clock_now_ns(CLOCK_MONOTONIC);
	if (pthread_create(&other, NULL, play, (void *)1))
		return 1;
	if (by_pipe)
		give_turn(0);
	play(NULL);
	pthread_join(other, NULL);
	cpu_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	ns = clock_now_ns(CLOCK_MONOTONIC) - ns;
	printf("{\"switch_cpu_ns\": %.1f, \"switches_per_s\": %.0f}\n",
	       (double)cpu_ns / (2.0 * (double)turns), 2e9 * (double)turns / (double)ns);
	return 0;
}
