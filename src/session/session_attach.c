/* session_attach.c - the thread that brings the CUPTI shim into processes that run already, one
 * process after another (session_visit.c). All ptrace(2) is this thread's. Whoever does not call
 * the driver for some seconds is told of and waited for. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/thread.h"
#include "session/attach_check.h"
#include "session/session_attach.h"

#define SUBJECT "gpu timeline"

bool attacher_stops(struct attacher *a)
{
	pthread_mutex_lock(&a->lock);
	bool stop = a->stop;
	pthread_mutex_unlock(&a->lock);
	return stop;
}

static void tell(struct attacher *a, pid_t pid, const char *text)
{
	char *reason = xasprintf("process %d: %s", pid, text);
	pipeline_note(a->session->pipeline, SUBJECT, reason);
	session_say(a->session, "GPU timeline: %s", reason);
	free(reason);
}

/* A process that has ended leaves its ring, 8 MiB, and its hooks. */
static void forget_ended(struct attacher *a)
{
	for (size_t i = a->list.len; i-- > 0;) {
		struct attached *given = &a->list.data[i];
		if (!kill(given->pid, 0) || errno != ESRCH)
			continue;
		attached_close(a, given);
		*given = a->list.data[--a->list.len];
	}
}

/* ---- the thread ---- */

/* Whose turn comes first: a visit to one that does not call the driver takes seconds. */
static int order_of(const struct candidate *c)
{
	return c->told ? 2 : c->child;
}

/* Of those whose turn is the same the first. There is one. */
static size_t pick(const struct attacher *a)
{
	size_t best = 0;
	for (size_t i = 1; i < a->waiting.len; i++)
		if (order_of(&a->waiting.data[i]) < order_of(&a->waiting.data[best]))
			best = i;
	return best;
}

/* False when there is to be an end. */
static bool next_candidate(struct attacher *a, struct candidate *ret)
{
	pthread_mutex_lock(&a->lock);
	while (!a->stop && !a->waiting.len)
		pthread_cond_wait(&a->wake, &a->lock);
	bool more = !a->stop;
	if (more) {
		size_t i = pick(a);
		*ret = a->waiting.data[i];
		a->at_work = !ret->told;
		memmove(&a->waiting.data[i], &a->waiting.data[i + 1],
			(--a->waiting.len - i) * sizeof(*a->waiting.data));
	}
	pthread_mutex_unlock(&a->lock);
	return more;
}

static bool was_seen(const struct attacher *a, pid_t pid)
{
	for (size_t i = 0; i < a->seen.len; i++)
		if (a->seen.data[i] == pid)
			return true;
	return false;
}

/* Unless it has ended meanwhile. */
static void try_later(struct attacher *a, struct candidate *c)
{
	if (!c->told)
		tell(a, c->pid,
		     "not recorded so far: no thread of it called the driver to launch or wait in "
		     "3 s; its timeline begins when one does");
	c->told = true;
	pthread_mutex_lock(&a->lock);
	if (was_seen(a, c->pid))
		*vec_push(&a->waiting) = *c;
	pthread_mutex_unlock(&a->lock);
}

static void tell_too_short(struct attacher *a, const struct candidate *c)
{
	if (!c->told)
		tell(a, c->pid, "not recorded: the recording ended before the shim was in");
}

static void *attach(void *arg)
{
	struct attacher *a = arg;
	struct candidate c;
	setpriority(PRIO_PROCESS, 0, -10); /* somebody's thread may wait for this one */
	while (!a->stuck && next_candidate(a, &c)) {
		struct err e = {0};
		forget_ended(a);
		int rc = attach_visit(a, &c, &e);
		if (attacher_stops(a) && (rc == -EAGAIN || rc == -ETIMEDOUT))
			tell_too_short(a, &c);
		else if (rc == -EAGAIN)
			try_later(a, &c);
		else if (rc && rc != -ESRCH && err_wrap(&e, rc, "not recorded"))
			tell(a, c.pid, e.msg);
		pthread_mutex_lock(&a->lock);
		a->at_work = false;
		pthread_mutex_unlock(&a->lock);
	}
	return NULL;
}

/* ---- the session's ---- */

void attacher_open(struct session *s, const char *shim)
{
	struct attacher *a = xcalloc(1, sizeof(*a));
	a->session = s;
	snprintf(a->shim, sizeof(a->shim), "%s", shim);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	guest_clean_up();
	a->graphs = graphs_open(s);
	s->timeline.attacher = a;
}

bool attacher_at_work(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (!a || !a->runs || a->stuck)
		return false;
	pthread_mutex_lock(&a->lock);
	bool at_work = a->at_work;
	for (size_t i = 0; i < a->waiting.len; i++)
		at_work |= !a->waiting.data[i].told;
	pthread_mutex_unlock(&a->lock);
	return at_work;
}

void attacher_start(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (a)
		a->runs = !thread_start(&a->thread, attach, a, "eacgm-attach");
}

static bool uses_driver(const proc_maps_t *maps)
{
	for (size_t i = 0; i < maps->len; i++) {
		const char *slash = strrchr(maps->data[i].path, '/');
		if (slash && !strncmp(slash + 1, ATTACH_DRIVER, strlen(ATTACH_DRIVER)))
			return true;
	}
	return false;
}

void attacher_saw(struct session *s, pid_t pid, const proc_maps_t *maps)
{
	struct attacher *a = s->timeline.attacher;
	if (!a || !uses_driver(maps))
		return;
	pthread_mutex_lock(&a->lock);
	if (!was_seen(a, pid)) {
		*vec_push(&a->seen) = pid;
		a->saw_any = true;
		*vec_push(&a->waiting) =
			(struct candidate){.pid = pid, .child = was_seen(a, process_parent(pid))};
		pthread_cond_signal(&a->wake);
	}
	pthread_mutex_unlock(&a->lock);
}

void attacher_gone(struct session *s, pid_t pid)
{
	struct attacher *a = s->timeline.attacher;
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	for (size_t i = a->seen.len; i-- > 0;)
		if (a->seen.data[i] == pid)
			a->seen.data[i] = a->seen.data[--a->seen.len];
	for (size_t i = a->waiting.len; i-- > 0;)
		if (a->waiting.data[i].pid == pid)
			memmove(&a->waiting.data[i], &a->waiting.data[i + 1],
				(--a->waiting.len - i) * sizeof(*a->waiting.data));
	pthread_mutex_unlock(&a->lock);
}

void attacher_look(struct session *s)
{
	if (s->timeline.attacher)
		graphs_look(s->timeline.attacher->graphs);
}

void attacher_stop(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (!a || !a->runs)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	a->runs = false;
	for (size_t i = 0; i < a->waiting.len; i++)
		tell_too_short(a, &a->waiting.data[i]);
	pipeline_meta(s->pipeline, "gpu_attached", "%zu", a->attached);
	if (a->attached)
		pipeline_meta(s->pipeline, "gpu_attach_stop_ms", "%.2f",
			      (double)a->longest_stop_ns / 1e6);
	if (!a->saw_any)
		pipeline_note(s->pipeline, SUBJECT,
			      "not recorded: no traced process has loaded " ATTACH_DRIVER);
}

void attacher_close(struct session *s)
{
	struct attacher *a = s->timeline.attacher;
	if (!a)
		return;
	graphs_let_go(a->graphs);
	for (size_t i = 0; i < a->list.len; i++)
		attached_close(a, &a->list.data[i]);
	vec_free(&a->list);
	graphs_close(a->graphs);
	vec_free(&a->waiting);
	vec_free(&a->seen);
	free(a);
	s->timeline.attacher = NULL;
}
