/* interrupt.c - the process's one flag, which signal handlers may set. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "cli/terminal.h"

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

void interrupt_catch(void)
{
	struct sigaction sa = {.sa_handler = stop};
	const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

bool interrupt_go_on(void *progress, uint64_t done, uint64_t total)
{
	progress_step(progress, done, total);
	return !stopped;
}
