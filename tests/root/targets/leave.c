/* leave.c - leaves traced frames by every way but a return.
 *
 *   leave longjmp N     setjmp, three traced frames down, longjmp
 *   leave exit N        N threads end by pthread_exit inside a traced call
 *   leave cancel N      N threads are cancelled inside a traced call
 *   leave signal N      a signal handler calls a traced function during a traced call
 *   leave siglongjmp N  and leaves both by siglongjmp
 *   leave context N     two stacks of ucontext take turns inside traced calls
 *   leave process N     _exit inside a traced call
 *   leave killed N      SIGKILL to itself inside a traced call
 *
 * Prints "FUNCTION CALLS" lines: the calls that it began. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "target.h"

static long calls, pushes;
static jmp_buf back;
static sigjmp_buf signal_back;

static void enter(void (*fn)(void *), void *arg)
{
	calls++;
	target_call(fn, arg);
}

static void push(void)
{
	pushes++;
	if (target_push(7) != 8)
		exit(99);
}

static void jump(void *arg)
{
	(void)arg;
	push();
	longjmp(back, 1);
}

static void deeper(void *arg)
{
	enter(arg ? deeper : jump, NULL);
}

static void run_longjmp(long n)
{
	for (volatile long i = 0; i < n; i++) {
		if (!setjmp(back))
			enter(deeper, &back);
		push();
	}
}

static void end_thread(void *arg)
{
	push();
	pthread_exit(arg);
}

static void wait_cancel(void *arg)
{
	(void)arg;
	push();
	for (;;)
		pause();
}

static void *thread_end(void *arg)
{
	enter(end_thread, arg);
	return NULL;
}

static void *thread_wait(void *arg)
{
	enter(wait_cancel, arg);
	return NULL;
}

static void run_threads(long n, int cancel)
{
	for (long i = 0; i < n; i++) {
		pthread_t t;
		void *result = NULL;
		if (pthread_create(&t, NULL, cancel ? thread_wait : thread_end, &calls))
			exit(99);
		if (cancel) {
			usleep(2000); /* mostly inside the call by then; either way is valid */
			pthread_cancel(t);
		}
		pthread_join(t, &result);
		if (result != (cancel ? PTHREAD_CANCELED : (void *)&calls))
			exit(99);
	}
	push();
}

static void on_signal(int sig)
{
	(void)sig;
	push();
}

static void on_signal_jump(int sig)
{
	(void)sig;
	push();
	siglongjmp(signal_back, 1);
}

static void raise_one(void *arg)
{
	(void)arg;
	raise(SIGUSR1);
	push();
}

static void run_signal(long n, int jumps)
{
	struct sigaction sa;
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = jumps ? on_signal_jump : on_signal;
	sigaction(SIGUSR1, &sa, NULL);
	for (volatile long i = 0; i < n; i++) {
		if (!jumps || !sigsetjmp(signal_back, 1))
			enter(raise_one, NULL);
		push();
	}
}

static ucontext_t main_context, other_context;
static char *other_stack;

static void switch_back(void *arg)
{
	(void)arg;
	for (;;) {
		push();
		swapcontext(&other_context, &main_context);
	}
}

static void other_main(void)
{
	enter(switch_back, NULL);
}

static void switch_there(void *arg)
{
	(void)arg;
	swapcontext(&main_context, &other_context);
	push();
}

static void run_context(long n)
{
	size_t size = 64 << 10;
	other_stack = malloc(size);
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = other_stack;
	other_context.uc_stack.ss_size = size;
	makecontext(&other_context, other_main, 0);
	for (long i = 0; i < n; i++)
		enter(switch_there, NULL);
	free(other_stack);
}

static void print_calls(void)
{
	printf("target_call %ld\ntarget_push %ld\n", calls, pushes);
	fflush(stdout);
}

static void end_process(void *arg)
{
	push();
	print_calls();
	if (arg)
		raise(SIGKILL);
	_exit(7);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0;
	if (!strcmp(mode, "longjmp"))
		run_longjmp(n);
	else if (!strcmp(mode, "exit"))
		run_threads(n, 0);
	else if (!strcmp(mode, "cancel"))
		run_threads(n, 1);
	else if (!strcmp(mode, "signal"))
		run_signal(n, 0);
	else if (!strcmp(mode, "siglongjmp"))
		run_signal(n, 1);
	else if (!strcmp(mode, "context"))
		run_context(n);
	else if (!strcmp(mode, "process"))
		enter(end_process, NULL);
	else if (!strcmp(mode, "killed"))
		enter(end_process, &calls);
	else
		return 2;
	print_calls();
	return 0;
}
