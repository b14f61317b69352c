/* session_command.c - the command of a session: forked before anything else, let go when it can be
 * traced, waited for. */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "session/session_impl.h"

int command_prepare(struct session *s, struct err *e)
{
	const struct session_options *o = s->opts;
	char *environment[INSIDE_VARIABLES + SPANS_VARIABLES + 1] = {0};
	size_t n = 0;
	inside_prepare(s, environment);
	while (environment[n])
		n++;
	spans_prepare(s, environment + n);
	int rc = o->command
			 ? launch_prepare(&s->command.launch, o->command, o->user, environment, e)
			 : 0;
	for (size_t i = 0; environment[i]; i++)
		free(environment[i]);
	return rc;
}

int command_start(struct session *s, struct err *e)
{
	struct launch *l = &s->command.launch;
	int rc = tracer_start_sampling(s->tracer, e);
	if (!rc)
		rc = tracer_prepare_exec(s->tracer, l->path, l->pid, e);
	if (!rc)
		rc = tracer_add_pid(s->tracer, l->pid, e);
	if (rc)
		return rc;
	session_watch_pid(s, l->pid, false);
	pipeline_process(s->pipeline, l->pid);
	rc = launch_go(l, s->opts->command[0], s->opts->user, e);
	atomic_store(&s->mover.begun, !rc);
	return rc;
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000ULL + (uint64_t)t->tv_usec * 1000ULL;
}

void command_reap(struct session *s)
{
	struct session_command *c = &s->command;
	struct rusage used;
	int status;
	if (!c->launch.pid || c->ended ||
	    wait4(c->launch.pid, &status, WNOHANG, &used) != c->launch.pid)
		return;
	c->ended = true;
	c->status = status;
	c->cpu_ns = timeval_ns(&used.ru_utime) + timeval_ns(&used.ru_stime);
}

void command_close(struct session *s)
{
	if (s->started)
		launch_close(&s->command.launch);
	else
		launch_cancel(&s->command.launch);
}
