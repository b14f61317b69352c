/* session_hosts.c - a program that hosts sessions, several at a time: each line of standard input
 * opens or ends one.
 *
 *   session_hosts SPEC      the probe of all sessions, as record --probe takes it
 *
 *   attach I FILE PID       session I of a process; prints "started I"
 *   run I FILE CMD ARG...   session I of a command; likewise
 *   prepare I FILE CMD ARG...  the same in two steps: the command is forked, and
 *   go I                       let go; they print "prepared I" and "started I"
 *   stop I                  asks for its end
 *
 * FILE is a recording, or segments of one where its name has this word.
 *
 * Prints "ended I WHY CALLS LOST SEEN SEEN" when one has ended, WHY as enum session_end, SEEN the
 * calls that two who look at its rows saw. Ends with its input, when no session is left. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session/command_user.h"
#include "session/session.h"
#include "session/session_live.h"

#define SESSIONS  4
#define WORDS	  16
#define LINE_MOST 4096

#define LOOKERS 2

struct hosted {
	unsigned long long seen[LOOKERS]; /* each of a thread of its own */
	struct session_live live[LOOKERS];
	struct session *session;
	bool started;
	struct target target;
	struct command_user user;
	char line[LINE_MOST]; /* that started it */
	char *words[WORDS + 1];
};

static struct hosted hosts[SESSIONS];
static struct catalog catalog;

/* Of files whose name says so. */
static const struct segments_limits few = {.segment_bytes = 20000, .most_count = 1000};

static int fail(const struct err *e)
{
	fprintf(stderr, "%s\n", e->msg);
	return 1;
}

static void say(void *ctx, const char *sentence)
{
	fprintf(stderr, "%zu: %s\n", (size_t)((struct hosted *)ctx - hosts), sentence);
}

static void count_calls(void *ctx, const struct session_view *v)
{
	*(unsigned long long *)ctx += v->batch->calls.len;
}

static int prepare(struct hosted *h, bool command, struct err *e)
{
	struct session_options o = {.catalog = &catalog,
				    .target = &h->target,
				    .layers = 1u << LAYER_USER,
				    .output = h->words[2],
				    .segments = strstr(h->words[2], "segments") ? &few : NULL,
				    .command = command ? h->words + 3 : NULL,
				    .user = &h->user,
				    .live = h->live,
				    .nlive = LOOKERS,
				    .say = say,
				    .say_ctx = h,
				    .mode_text = "trace",
				    .target_text = "test"};
	h->target.pids.len = 0;
	for (size_t i = 0; i < LOOKERS; i++) {
		h->seen[i] = 0;
		h->live[i] = (struct session_live){.ctx = &h->seen[i], .batch = count_calls};
	}
	if (!command)
		*vec_push(&h->target.pids) = (pid_t)atol(h->words[3]);
	return session_prepare(&h->session, &o, e);
}

static int go(struct hosted *h, struct err *e)
{
	int rc = session_open(h->session, e);
	if (!rc)
		rc = session_start(h->session, e);
	h->started = !rc;
	return rc;
}

static void finish(struct hosted *h, enum session_end why)
{
	struct session_result r;
	struct err e = {0};
	struct session_progress until_now;
	session_progress(h->session, &until_now);
	session_finish(h->session, &r, &e);
	if (until_now.calls > r.calls || until_now.lost > r.lost)
		exit(3); /* it told of more than there was */
	session_close(h->session);
	h->session = NULL;
	h->started = false;
	printf("ended %zu %d %llu %llu %llu %llu\n", (size_t)(h - hosts), (int)why,
	       (unsigned long long)r.calls, (unsigned long long)r.lost, h->seen[0], h->seen[1]);
}

static int obey(char *line, struct err *e)
{
	char copy[LINE_MOST], *words[WORDS + 1] = {0}, *save = NULL;
	size_t n = 0;
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " \n", &save); w && n < WORDS;
	     w = strtok_r(NULL, " \n", &save))
		words[n++] = w;
	unsigned long i = n > 1 ? strtoul(words[1], NULL, 10) : SESSIONS;
	if (i >= SESSIONS)
		return err_set(e, EINVAL, "no session: %s", line);
	struct hosted *h = &hosts[i];
	if (!strcmp(words[0], "stop")) {
		session_stop(h->session);
		return 0;
	}
	int rc = 0;
	bool goes = strcmp(words[0], "prepare") != 0;
	if (strcmp(words[0], "go") != 0) {
		memcpy(h->line, copy, sizeof(copy));
		for (size_t k = 0; k <= WORDS; k++)
			h->words[k] = words[k] ? h->line + (words[k] - copy) : NULL;
		rc = prepare(h, strcmp(words[0], "attach") != 0, e);
	}
	if (!rc && goes)
		rc = go(h, e);
	if (!rc)
		printf("%s %lu\n", goes ? "started" : "prepared", i);
	return rc;
}

/* Their descriptors, and standard input's; the number of those. */
static size_t gather(struct pollfd *fds, bool input)
{
	size_t n = 0;
	fds[n++] = (struct pollfd){.fd = input ? 0 : -1, .events = POLLIN};
	for (size_t i = 0; i < SESSIONS; i++)
		if (hosts[i].started)
			n += session_fds(hosts[i].session, fds + n);
	return n;
}

static void service(void)
{
	for (struct hosted *h = hosts; h < hosts + SESSIONS; h++) {
		if (!h->started)
			continue;
		session_service(h->session);
		enum session_end why = session_ended(h->session);
		if (why)
			finish(h, why);
	}
}

int main(int argc, char **argv)
{
	struct pollfd fds[1 + SESSIONS * SESSION_FDS];
	char line[LINE_MOST];
	struct err e = {0};
	bool input = true;
	size_t n;
	if (argc != 2)
		return 2;
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (catalog_add_spec(&catalog, argv[1], &e))
		return fail(&e);
	while ((n = gather(fds, input)) > 1 || input) {
		poll(fds, n, -1);
		if (input && fds[0].revents)
			input = fgets(line, sizeof(line), stdin) != NULL;
		if (input && fds[0].revents && obey(line, &e))
			return fail(&e);
		service();
	}
	catalog_free(&catalog);
	for (size_t i = 0; i < SESSIONS; i++)
		vec_free(&hosts[i].target.pids);
	return 0;
}
