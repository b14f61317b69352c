/* family.c - processes that call libtarget.so: children, programs that replace
 * themselves, and one that waits to be attached to.
 *
 *   family fork K N         K children, forked one from another's parent, N calls each
 *   family deep K N         a chain of K generations, N calls each
 *   family vfork K N        K times vfork and exec of "family calls N"
 *   family exec K N         N calls, then exec of "family exec K-1 N", down to 0
 *   family into CMD ARG...  one call, then exec of CMD
 *   family calls N          N calls
 *   family wait N FIFO      prints "ready", waits for a line of FIFO, then fork 2 and N calls
 *   family spin SEC TELLS   calls without end for SEC seconds, or until there is a file
 *                           TELLS.enough; each tenth of a second appends "TIME_NS CALLS" to
 *                           the file TELLS
 *
 * A call is target_push. Prints "target_push CALLS" for each process, once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

static void call(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (target_push(i) != i + 1)
			_exit(99);
	printf("target_push %" PRIu64 "\n", n);
	fflush(stdout);
}

static int wait_all(void)
{
	int status, bad = 0;
	while (wait(&status) > 0)
		bad |= status;
	return bad ? 98 : 0;
}

static int run_fork(uint64_t children, uint64_t n)
{
	for (uint64_t i = 0; i < children; i++) {
		if (fork() == 0) {
			call(n);
			_exit(0);
		}
	}
	return wait_all();
}

static int run_deep(uint64_t generations, uint64_t n)
{
	call(n);
	if (generations <= 1)
		return 0;
	if (fork() == 0)
		_exit(run_deep(generations - 1, n));
	return wait_all();
}

static int run_vfork(char *self, uint64_t children, char *n)
{
	char *argv[] = {self, (char *)"calls", n, NULL};
	for (volatile uint64_t i = 0; i < children; i++) {
		/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): what is tested */
		if (vfork() == 0) {
			execv(self, argv);
			_exit(97);
		}
	}
	return wait_all();
}

static int run_exec(char *self, uint64_t left, char *n)
{
	call(strtoull(n, NULL, 10));
	if (left == 0)
		return 0;
	char text[24];
	snprintf(text, sizeof(text), "%" PRIu64, left - 1);
	char *argv[] = {self, (char *)"exec", text, n, NULL};
	execv(self, argv);
	return 97;
}

static int run_wait(uint64_t n, const char *fifo)
{
	printf("ready\n");
	fflush(stdout);
	FILE *f = fopen(fifo, "r");
	if (!f || fgetc(f) == EOF)
		return 96;
	fclose(f);
	int rc = run_fork(2, n);
	call(n);
	return rc;
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int run_spin(double seconds, const char *tells)
{
	FILE *f = fopen(tells, "w");
	if (!f)
		return 96;
	char enough[4096];
	snprintf(enough, sizeof(enough), "%s.enough", tells);
	uint64_t calls = 0, start_ns = now_ns(), tell_ns = start_ns;
	while (now_ns() - start_ns < (uint64_t)(seconds * 1e9)) {
		for (int i = 0; i < 200; i++)
			if (target_push(calls + (uint64_t)i) != calls + (uint64_t)i + 1)
				return 99;
		calls += 200;
		if (now_ns() < tell_ns)
			continue;
		fprintf(f, "%" PRIu64 " %" PRIu64 "\n", now_ns(), calls);
		fflush(f);
		tell_ns += 100000000;
		if (!access(enough, F_OK))
			break;
	}
	fclose(f);
	printf("target_push %" PRIu64 "\n", calls);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t k = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t n = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	if (!strcmp(mode, "fork") && argc > 3)
		return run_fork(k, n);
	if (!strcmp(mode, "deep") && argc > 3)
		return run_deep(k, n);
	if (!strcmp(mode, "vfork") && argc > 3)
		return run_vfork(argv[0], k, argv[3]);
	if (!strcmp(mode, "exec") && argc > 3)
		return run_exec(argv[0], k, argv[3]);
	if (!strcmp(mode, "wait") && argc > 3)
		return run_wait(k, argv[3]);
	if (!strcmp(mode, "spin") && argc > 3)
		return run_spin(strtod(argv[2], NULL), argv[3]);
	if (!strcmp(mode, "calls") && argc > 2) {
		call(k);
		return 0;
	}
	if (!strcmp(mode, "into") && argc > 2) {
		call(1);
		execvp(argv[2], argv + 2);
		return 97;
	}
	return 2;
}
