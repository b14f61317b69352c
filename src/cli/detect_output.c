/* detect_output.c - takes the temporary files of --rows and --events away when a signal ends the
 * program. The handler only calls what may be called there. */
#include "cli/detect_output.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { FILES = 2 };
static const struct output *volatile unfinished[FILES];
static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static void remove_and_end(int sig)
{
	for (size_t i = 0; i < FILES; i++) {
		const struct output *o = unfinished[i];
		if (o)
			unlinkat(o->file.folder_fd, o->file.temporary, 0);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

static void block_signals(sigset_t *old)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < SIGNALS; i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, old);
}

static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = remove_and_end};
	for (size_t i = 0; i < SIGNALS; i++) {
		struct sigaction old;
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
}

static void replace(const struct output *from, const struct output *to)
{
	for (size_t i = 0; i < FILES; i++)
		if (unfinished[i] == from) {
			unfinished[i] = to;
			return;
		}
}

int detect_output_open(struct output *o, const char *path, struct err *e)
{
	sigset_t old;
	catch_signals();
	block_signals(&old);
	struct output_owner owner = output_owner_from_sudo();
	int rc = output_open(o, path, &owner, e);
	if (!rc && o->file.temporary)
		replace(NULL, o);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int detect_output_close(struct output *o, int rc, struct err *e)
{
	sigset_t old;
	block_signals(&old);
	if (o->file.temporary)
		replace(o, NULL);
	rc = output_close(o, rc, e);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}
