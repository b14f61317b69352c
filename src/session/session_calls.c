/* session_calls.c - calls told inside of processes that ran before the session: each is given
 * libeacgm_calls.so by a thread of ours, one after another (bring.c), and then its probes by the
 * control thread (tracer_inside_attach). Until then, and where that cannot be, the kernel tells. At
 * the end all is taken off again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "collect/guest.h"
#include "session/attach_check.h"
#include "session/bring.h"
#include "session/session_impl.h"
#include "symbolize/proc_maps.h"

#define SUBJECT	   "probes inside"
#define LOOK_TICKS 5 /* of the control thread */
#define ENDED	   "the recording ended before the library was in"
#define TRIES	   40 /* of 3 s, for a process that calls nothing */

struct caller {
	pid_t pid;
	struct tracer_door door;
	int tries;
	int lock_fd; /* of who has its probes inside; -1: not taken yet */
	struct guest *guest;
};

struct callers {
	struct session *session;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;		      /* under lock, as what follows */
	VEC(struct caller *) waiting; /* for the library */
	VEC(struct caller *) ready;   /* for their probes */
	VEC(struct caller *) again;   /* for another place to be held at */
	VEC(uint8_t) called;	      /* by probe: in some process */
	pids_t seen;		      /* the control thread's: also those that were refused */
	VEC(struct caller *) told; /* likewise: to the end, for children live on in their folders */
	size_t attached, holds;
	uint64_t longest_ns;
};

static bool stops(void *ctx)
{
	struct callers *c = ctx;
	pthread_mutex_lock(&c->lock);
	bool stop = c->stop;
	pthread_mutex_unlock(&c->lock);
	return stop;
}

static void tell(struct callers *c, pid_t pid, const char *why)
{
	char *text = xasprintf("process %d: the kernel's probes go on: %s", pid, why);
	pipeline_note(c->session->pipeline, SUBJECT, text);
	session_say(c->session, "%s", text);
	free(text);
}

static void free_caller(struct callers *c, struct caller *who)
{
	if (who->guest) {
		pthread_mutex_lock(&c->session->inside.lock);
		call_rings_drop(c->session->inside.rings, who->pid);
		pthread_mutex_unlock(&c->session->inside.lock);
		guest_close(who->guest);
	}
	if (who->door.fd >= 0)
		close(who->door.fd);
	if (who->lock_fd >= 0)
		close(who->lock_fd);
	free(who);
}

/* ---- the library comes in: our thread ---- */

/* The library of a session before, which stayed: its path there. */
static bool has_copy(const char *library, pid_t pid, char *ret, size_t size)
{
	proc_maps_t maps = {0};
	struct err e;
	bool found = false;
	if (proc_code_read("/proc", pid, &maps, &e))
		return false;
	for (size_t i = 0; i < maps.len && !found; i++) {
		const struct proc_map *m = &maps.data[i];
		const char *slash = strrchr(m->path, '/');
		found = m->inode && slash && !strcmp(slash + 1, CALL_SHIM) &&
			tracer_is_copy(library, pid, m);
		if (found)
			snprintf(ret, size, "%s", proc_inner_path("/proc", pid, m->path));
	}
	proc_maps_free(&maps);
	return found;
}

/* Its own number in the namespace that it is in: the last of the line. */
static pid_t inner_pid(pid_t pid)
{
	char path[64], line[512];
	pid_t ret = pid;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		const char *last = strrchr(line, '\t');
		if (!strncmp(line, "NSpid:", 6) && last)
			ret = (pid_t)strtol(last + 1, NULL, 10);
	}
	if (f)
		fclose(f);
	return ret;
}

static int make_guest(struct callers *c, struct caller *who, struct err *e)
{
	struct session *s = c->session;
	int rc = guest_open(&who->guest, who->pid, s->inside.library, GUEST_ALONE, e);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->inside.lock);
	rc = call_rings_add(s->inside.rings, guest_folder_fd(who->guest), guest_uid(who->guest),
			    who->pid, inner_pid(who->pid), e);
	pthread_mutex_unlock(&s->inside.lock);
	return rc;
}

struct coming {
	struct callers *callers;
	struct bring bring;
};

static bool coming_stops(void *ctx)
{
	const struct coming *k = ctx;
	return stops(k->callers);
}

static int redirect(void *ctx, struct remote_stop *stop, struct err *e)
{
	struct coming *k = ctx;
	return remote_redirect(k->bring.remote, stop, e);
}

/* Two sessions' probes would not leave each other in peace. The lock goes with us. */
static int lock_calls(struct caller *who, struct err *e)
{
	char path[64];
	if (who->lock_fd >= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task", who->pid);
	who->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (who->lock_fd < 0)
		return err_set(e, ESRCH, "the process has ended");
	if (flock(who->lock_fd, LOCK_EX | LOCK_NB))
		return err_set(e, EBUSY, "another eacgm has its probes inside of it");
	return 0;
}

static int prepare(struct coming *k, struct caller *who, struct err *e)
{
	struct session *s = k->callers->session;
	char path[4096], door[32];
	pid_t tracer = process_tracer(who->pid);
	if (tracer)
		return err_set(e, EBUSY, "process %d traces it", tracer);
	int rc = lock_calls(who, e);
	if (!rc)
		rc = bring_lock(&k->bring, e);
	if (!rc && !who->guest)
		rc = make_guest(k->callers, who, e);
	if (rc)
		return rc;
	bool has = has_copy(s->inside.library, who->pid, path, sizeof(path));
	struct remote_request request = {.pid = who->pid,
					 .library = has ? path : guest_shim(who->guest),
					 .entry = CALL_ATTACHED,
					 .argument = guest_folder(who->guest)};
	rc = remote_prepare(&k->bring.remote, &request, e);
	if (!rc && !guest_fits(who->guest, who->pid, e))
		rc = -EPERM;
	snprintf(door, sizeof(door), "/proc/self/fd/%d", who->door.fd);
	return rc ? rc : bring_catch(&k->bring, s->tracer, door, e);
}

static int bring_library(struct callers *c, struct caller *who, struct err *e)
{
	struct remote_place places[DOOR_PLACES];
	for (size_t i = 0; i < who->door.nplaces; i++)
		places[i] = (struct remote_place){.address = who->door.address[i],
						  .file_offset = who->door.offset[i]};
	struct coming k = {.callers = c};
	k.bring = (struct bring){.pid = who->pid,
				 .lock_fd = -1,
				 .slow = who->tries > 0,
				 .places = places,
				 .nplaces = who->door.nplaces,
				 .stops = coming_stops,
				 .redirect = redirect,
				 .ctx = &k};
	pthread_mutex_lock(&c->session->bringing);
	int rc = prepare(&k, who, e);
	if (!rc)
		rc = bring_redirect_next(&k.bring, e);
	if (!rc)
		rc = bring_finish(&k.bring, e);
	bring_close(&k.bring);
	pthread_mutex_unlock(&c->session->bringing);
	return rc;
}

static struct caller *next_waiting(struct callers *c)
{
	struct caller *who = NULL;
	pthread_mutex_lock(&c->lock);
	while (!c->stop && !c->waiting.len)
		pthread_cond_wait(&c->wake, &c->lock);
	if (!c->stop) {
		who = c->waiting.data[0];
		memmove(c->waiting.data, c->waiting.data + 1,
			--c->waiting.len * sizeof(struct caller *));
	}
	pthread_mutex_unlock(&c->lock);
	return who;
}

static void hand_over(struct callers *c, struct caller *who, bool ready)
{
	pthread_mutex_lock(&c->lock);
	if (ready)
		*vec_push(&c->ready) = who;
	else
		*vec_push(&c->again) = who;
	pthread_mutex_unlock(&c->lock);
}

static void *bring_all(void *arg)
{
	struct callers *c = arg;
	struct caller *who;
	setpriority(PRIO_PROCESS, 0, -10); /* somebody's thread may wait for this one */
	while ((who = next_waiting(c))) {
		struct err e = {0};
		int rc = bring_library(c, who, &e);
		if (!rc) {
			hand_over(c, who, true);
		} else if (rc == -EAGAIN && ++who->tries < TRIES && !stops(c)) {
			hand_over(c, who, false);
		} else {
			if (rc != -ESRCH)
				tell(c, who->pid, stops(c) ? ENDED : e.msg);
			free_caller(c, who);
		}
	}
	return NULL;
}

/* ---- they get their probes: the control thread ---- */

static void let_wait(struct callers *c, struct caller *who)
{
	pthread_mutex_lock(&c->lock);
	*vec_push(&c->waiting) = who;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
}

/* Looks into /proc without the lock: the mover takes that, and may not wait. */
static bool choose_door(struct callers *c, pid_t pid, int turn, struct tracer_door *ret)
{
	struct buf called = {0};
	pthread_mutex_lock(&c->lock);
	buf_add(&called, c->called.data, c->called.len);
	pthread_mutex_unlock(&c->lock);
	bool has = tracer_inside_door(c->session->tracer, pid, (size_t)turn,
				      &(struct tracer_called){called.data, called.len}, ret);
	buf_free(&called);
	return has;
}

static void ask(void *ctx, pid_t pid)
{
	struct callers *c = ctx;
	struct tracer_door door;
	for (size_t i = 0; i < c->seen.len; i++)
		if (c->seen.data[i] == pid)
			return;
	*vec_push(&c->seen) = pid;
	if (!choose_door(c, pid, 0, &door)) {
		tell(c, pid, "it has no function at whose beginning it could be given the library");
		return;
	}
	struct caller *who = xcalloc(1, sizeof(*who));
	who->pid = pid;
	who->door = door;
	who->lock_fd = -1;
	let_wait(c, who);
}

static struct caller *next_of(struct callers *c, bool ready)
{
	struct caller *who = NULL;
	pthread_mutex_lock(&c->lock);
	if (ready && c->ready.len)
		who = c->ready.data[--c->ready.len];
	else if (!ready && c->again.len)
		who = c->again.data[--c->again.len];
	pthread_mutex_unlock(&c->lock);
	return who;
}

/* It did not come by where it was waited for: elsewhere it may. */
static void choose_again(struct callers *c, struct caller *who)
{
	struct tracer_door door;
	if (choose_door(c, who->pid, who->tries, &door)) {
		close(who->door.fd);
		who->door = door;
	}
	let_wait(c, who);
}

static void put_probes(struct callers *c, struct caller *who)
{
	struct tracer_inside_stop stop;
	struct err e = {0};
	int rc = tracer_inside_attach(c->session->tracer, who->pid, &stop, &e);
	if (rc) {
		if (rc != -ESRCH)
			tell(c, who->pid, e.msg);
		free_caller(c, who);
		return;
	}
	session_say(
		c->session,
		"process %d tells %lu functions inside; its threads stood %lu times, %.2f ms at "
		"most",
		who->pid, (unsigned long)stop.places, (unsigned long)stop.holds,
		(double)stop.longest_ns / 1e6);
	*vec_push(&c->told) = who;
	c->attached++;
	c->holds += stop.holds;
	if (stop.longest_ns > c->longest_ns)
		c->longest_ns = stop.longest_ns;
}

void calls_look(struct session *s, unsigned tick)
{
	struct callers *c = s->inside.callers;
	if (tick % LOOK_TICKS)
		return;
	if (c) {
		tracer_inside_waiting(s->tracer, ask, c);
		for (struct caller *who; (who = next_of(c, false));)
			choose_again(c, who);
		for (struct caller *who; (who = next_of(c, true));)
			put_probes(c, who);
	}
	tracer_inside_settle(s->tracer);
}

void calls_note(struct session *s)
{
	struct callers *c = s->inside.callers;
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->called.len = 0;
	for (uint32_t id = 0; id < pipeline_probes(s->pipeline); id++)
		*vec_push(&c->called) = pipeline_was_called(s->pipeline, id);
	pthread_mutex_unlock(&c->lock);
}

void calls_forked(struct session *s, pid_t parent, pid_t child)
{
	struct callers *c = s->inside.callers;
	if (!c)
		return;
	pthread_mutex_lock(&s->inside.lock);
	call_rings_forked(s->inside.rings, parent, child);
	pthread_mutex_unlock(&s->inside.lock);
}

void calls_gone(struct session *s, pid_t pid)
{
	struct callers *c = s->inside.callers;
	for (size_t i = c ? c->seen.len : 0; i-- > 0;)
		if (c->seen.data[i] == pid)
			c->seen.data[i] = c->seen.data[--c->seen.len];
}

/* ---- beginning and end ---- */

/* Processes that go on, of a command too, are as they were. */
void calls_leave(struct session *s)
{
	struct tracer_inside_stop stop;
	if (!s->inside.rings)
		return;
	tracer_inside_leave(s->tracer, &stop);
	if (!stop.holds)
		return;
	pipeline_meta(s->pipeline, "inside_left", "%lu", (unsigned long)stop.places);
	pipeline_meta(s->pipeline, "inside_left_ms", "%.2f", (double)stop.longest_ns / 1e6);
}

void calls_open(struct session *s)
{
	struct callers *c = xcalloc(1, sizeof(*c));
	c->session = s;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	s->inside.callers = c;
}

void calls_start(struct session *s)
{
	struct callers *c = s->inside.callers;
	if (c)
		c->runs = !thread_start(&c->thread, bring_all, c, "eacgm-calls");
}

void calls_stop(struct session *s)
{
	struct callers *c = s->inside.callers;
	if (!c || !c->runs)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->runs = false;
	for (size_t i = 0; i < c->waiting.len; i++)
		tell(c, c->waiting.data[i]->pid, ENDED);
	for (size_t i = 0; i < c->again.len; i++)
		tell(c, c->again.data[i]->pid, ENDED);
	for (size_t i = 0; i < c->ready.len; i++)
		tell(c, c->ready.data[i]->pid, ENDED);
	pipeline_meta(s->pipeline, "inside_attached", "%zu", c->attached);
	if (c->attached) {
		pipeline_meta(s->pipeline, "inside_stops", "%zu", c->holds);
		pipeline_meta(s->pipeline, "inside_stop_ms", "%.2f", (double)c->longest_ns / 1e6);
	}
}

void calls_close(struct session *s)
{
	struct callers *c = s->inside.callers;
	if (!c)
		return;
	for (size_t i = 0; i < c->waiting.len; i++)
		free_caller(c, c->waiting.data[i]);
	for (size_t i = 0; i < c->ready.len; i++)
		free_caller(c, c->ready.data[i]);
	for (size_t i = 0; i < c->again.len; i++)
		free_caller(c, c->again.data[i]);
	for (size_t i = 0; i < c->told.len; i++)
		free_caller(c, c->told.data[i]);
	vec_free(&c->waiting);
	vec_free(&c->ready);
	vec_free(&c->again);
	vec_free(&c->told);
	vec_free(&c->seen);
	vec_free(&c->called);
	free(c);
	s->inside.callers = NULL;
}
