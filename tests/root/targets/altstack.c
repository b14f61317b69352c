/* altstack.c - calls traced functions from a signal handler on an alternate stack that lies
 * above the ordinary one, N times while a traced call is under way. Prints "done N". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/mman.h>

#define STACK_BYTES (256 << 10)
#define TRACED	    __attribute__((noinline, visibility("default")))

static volatile long handled;

TRACED int trace_in_handler(int n);
TRACED int trace_under_way(int n);

TRACED int trace_in_handler(int n)
{
	__asm__ volatile("");
	return n + 1;
}

static void on_signal(int signal)
{
	(void)signal;
	handled += trace_in_handler(0);
}

TRACED int trace_under_way(int n)
{
	raise(SIGUSR1);
	return n + 1;
}

static void *run(void *upper)
{
	stack_t alternate = {.ss_sp = upper, .ss_size = STACK_BYTES};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	long rounds = 0;
	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 100; i++)
		rounds += trace_under_way(0);
	printf("done %ld %ld\n", rounds, handled);
	return NULL;
}

int main(void)
{
	/* one mapping: the thread's stack below, the alternate one above */
	char *both = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, both, STACK_BYTES);
	if (pthread_create(&thread, &attr, run, both + STACK_BYTES))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
