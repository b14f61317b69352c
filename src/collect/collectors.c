/* collectors.c - collectors and, of slow ones, their threads.
 *
 * Opening NVML can take a second and single questions tens of milliseconds: neither may hold up
 * the loop that follows processes. A driver that hangs keeps its thread in a question after the
 * end: what it then learns goes nowhere, and what it holds on to is freed when it comes back. */
#include "collect/collectors.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "collect/governor.h"
#include "collect/gpu_places.h"

#define EARLY_NS 25000000 /* before its time one may be read: the caller's beat is not exact */

struct running {
	struct collectors *of;
	const struct collector *what;
	const struct collect_env *env;
	const struct collect_sink *sink; /* the caller's */
	void *state; /* of a slow one under lock until it is open; NULL: is not */
	uint64_t period_ns;
	struct pace pace;

	/* of slow ones */
	struct collect_sink guarded; /* goes to sink under lock, unless abandoned */
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	VEC(pid_t) pids; /* under lock: to be watched once it is open */
	bool stop;	 /* under lock */
	bool abandoned;	 /* under lock */
};

struct collectors {
	struct collectors_options o;
	VEC(struct running *) all;
	char *nvml_library, *output; /* its own: who is abandoned may open it still */
	bool stopped;
	atomic_uint users; /* the caller, and threads: the last one frees it */
};

static void release(struct collectors *c)
{
	if (atomic_fetch_sub(&c->users, 1) > 1)
		return;
	for (size_t i = 0; i < c->all.len; i++) {
		vec_free(&c->all.data[i]->pids);
		free(c->all.data[i]);
	}
	vec_free(&c->all);
	gpu_places_free(c->o.env.gpu_places);
	free(c->nvml_library);
	free(c->output);
	free(c);
}

/* ---- what a slow one tells ---- */

static bool may_tell(struct running *r)
{
	pthread_mutex_lock(&r->lock);
	if (!r->abandoned)
		return true;
	pthread_mutex_unlock(&r->lock);
	return false;
}

/* Tells the caller's sink, under the lock. */
#define TELL(r, function, ...)                                                                     \
	do {                                                                                       \
		if (!(r)->sink->function || !may_tell(r))                                          \
			break;                                                                     \
		(r)->sink->function((r)->sink->ctx, __VA_ARGS__);                                  \
		pthread_mutex_unlock(&(r)->lock);                                                  \
	} while (0)

static void tell_counter(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
			 double value)
{
	struct running *r = ctx;
	TELL(r, counter, time_ns, of, name, value);
}

static void tell_event(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		       const char *text)
{
	struct running *r = ctx;
	TELL(r, event, time_ns, of, name, text);
}

static void tell_note(void *ctx, const char *subject, const char *reason)
{
	struct running *r = ctx;
	TELL(r, note, subject, reason);
}

static void tell_gpu(void *ctx, uint64_t time_ns, const struct gpu_info *info, bool present)
{
	struct running *r = ctx;
	TELL(r, gpu, time_ns, info, present);
}

static void tell_connection(void *ctx, const struct connection *connection)
{
	struct running *r = ctx;
	TELL(r, connection, connection);
}

/* ---- the thread of a slow one ---- */

static void *open_state(struct running *r, const struct collect_sink *sink)
{
	struct err e = {0};
	void *state = NULL;
	int rc = r->what->open(&state, r->env, sink, &e);
	if (!rc)
		return state;
	if (rc != -EOPNOTSUPP && (r->env->asked || !r->what->layers))
		sink_note(sink, r->what->name, e.msg);
	return NULL;
}

static bool open_slow(struct running *r)
{
	void *state = open_state(r, &r->guarded);
	if (!state)
		return false;
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; r->what->add_pid && i < r->pids.len; i++)
		r->what->add_pid(state, r->pids.data[i], false);
	r->state = state;
	pthread_mutex_unlock(&r->lock);
	return true;
}

/* Until the time, or until the end: true. */
static bool wait_until(struct running *r, const struct timespec *when)
{
	pthread_mutex_lock(&r->lock);
	while (!r->stop && !pthread_cond_clockwait(&r->wake, &r->lock, CLOCK_MONOTONIC, when))
		;
	bool stop = r->stop;
	pthread_mutex_unlock(&r->lock);
	return stop;
}

static void add_ns(struct timespec *t, uint64_t ns)
{
	uint64_t sum = timespec_ns(t) + ns;
	t->tv_sec = (time_t)(sum / 1000000000);
	t->tv_nsec = (long)(sum % 1000000000);
}

static void read_slow(struct running *r)
{
	struct timespec next;
	void *state = r->state;
	clock_gettime(CLOCK_MONOTONIC, &next);
	do {
		r->what->read(state, monotonic_ns());
		add_ns(&next, r->period_ns);
	} while (!wait_until(r, &next));
	r->what->read(state, monotonic_ns());
	pthread_mutex_lock(&r->lock);
	r->state = NULL;
	pthread_mutex_unlock(&r->lock);
	r->what->close(state);
}

static void *run_slow(void *arg)
{
	struct running *r = arg;
	if (open_slow(r))
		read_slow(r);
	release(r->of);
	return NULL;
}

static void start_slow(struct running *r)
{
	r->guarded = (struct collect_sink){r,	      tell_counter, tell_event,
					   tell_note, tell_gpu,	    tell_connection};
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wake, NULL);
	atomic_fetch_add(&r->of->users, 1);
	char name[32];
	snprintf(name, sizeof(name), "eacgm-%s", r->what->name);
	r->runs = !thread_start(&r->thread, run_slow, r, name);
	if (!r->runs)
		release(r->of);
}

static void watch_slow(struct running *r, pid_t pid, bool watched)
{
	pthread_mutex_lock(&r->lock);
	if (r->state && watched)
		r->what->add_pid(r->state, pid, false);
	else if (r->state)
		r->what->del_pid(r->state, pid);
	else if (watched)
		*vec_push(&r->pids) = pid;
	for (size_t i = r->pids.len; !r->state && !watched && i-- > 0;)
		if (r->pids.data[i] == pid)
			r->pids.data[i] = r->pids.data[--r->pids.len];
	pthread_mutex_unlock(&r->lock);
}

static void stop_slow(struct running *r, uint64_t patience_ns)
{
	struct timespec until;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	clock_gettime(CLOCK_MONOTONIC, &until);
	add_ns(&until, patience_ns);
	r->runs = false;
	if (!pthread_clockjoin_np(r->thread, NULL, CLOCK_MONOTONIC, &until))
		return;
	pthread_detach(r->thread);
	pthread_mutex_lock(&r->lock);
	r->abandoned = true;
	pthread_mutex_unlock(&r->lock);
	char text[128];
	snprintf(text, sizeof(text), "%s did not answer at the end: telemetry is cut short",
		 r->what->slow);
	sink_note(r->sink, r->what->name, text);
}

/* ---- all of them ---- */

static void open_one(struct collectors *c, const struct collector *what)
{
	struct running *r = xcalloc(1, sizeof(*r));
	*vec_push(&c->all) = r;
	r->of = c;
	r->what = what;
	r->env = &c->o.env;
	r->sink = &c->o.sink;
	r->period_ns = what->period_ns;
	if (what->period_ns && what->period_ns < c->o.env.period_least_ns)
		r->period_ns = c->o.env.period_least_ns;
	r->pace = (struct pace){.wanted_ns = r->period_ns, .period_ns = r->period_ns};
	if (what->slow)
		start_slow(r);
	else
		r->state = open_state(r, r->sink);
}

struct collectors *collectors_open(const struct collectors_options *o)
{
	struct collectors *c = xcalloc(1, sizeof(*c));
	c->o = *o;
	atomic_init(&c->users, 1);
	c->nvml_library = o->env.nvml_library ? xstrdup(o->env.nvml_library) : NULL;
	c->o.env.nvml_library = c->nvml_library;
	c->output = o->env.output ? xstrdup(o->env.output) : NULL;
	c->o.env.output = c->output;
	c->o.env.gpu_places = gpu_places_new();
	for (size_t i = 0; i < o->len; i++)
		if (!o->list[i]->layers || layers_with(o->list[i]->layers) & o->layers)
			open_one(c, o->list[i]);
	return c;
}

/* Of those that are asked here; NULL: it is not open, or has its thread. */
static void *state_of(const struct running *r)
{
	return r->what->slow ? NULL : r->state;
}

void collectors_add_pid(struct collectors *c, pid_t pid, bool is_new)
{
	for (size_t i = 0; i < c->all.len; i++) {
		struct running *r = c->all.data[i];
		if (r->what->add_pid && r->runs)
			watch_slow(r, pid, true);
		else if (r->what->add_pid && state_of(r))
			r->what->add_pid(r->state, pid, is_new);
	}
}

void collectors_del_pid(struct collectors *c, pid_t pid)
{
	for (size_t i = 0; i < c->all.len; i++) {
		struct running *r = c->all.data[i];
		if (r->what->del_pid && r->runs)
			watch_slow(r, pid, false);
		else if (r->what->del_pid && state_of(r))
			r->what->del_pid(r->state, pid);
	}
}

void collectors_take_record(struct collectors *c, const void *record)
{
	for (size_t i = 0; i < c->all.len; i++) {
		struct running *r = c->all.data[i];
		if (r->what->record == *(const uint8_t *)record && state_of(r))
			r->what->take_record(r->state, record);
	}
}

void collectors_tick(struct collectors *c, uint64_t now_ns)
{
	for (size_t i = 0; i < c->all.len; i++) {
		struct running *r = c->all.data[i];
		if (r->what->read && state_of(r) && pace_due(&r->pace, now_ns, EARLY_NS))
			r->what->read(r->state, now_ns);
	}
}

uint64_t collectors_cpu_ns(const struct collectors *c)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < c->all.len; i++) {
		const struct running *r = c->all.data[i];
		if (r->what->cpu_ns && state_of(r))
			ns += r->what->cpu_ns(r->state);
	}
	return ns;
}

void collectors_stop(struct collectors *c)
{
	if (c->stopped)
		return;
	c->stopped = true;
	for (size_t i = 0; i < c->all.len; i++) {
		struct running *r = c->all.data[i];
		if (r->what->read && state_of(r))
			r->what->read(r->state, monotonic_ns());
		else if (r->runs)
			stop_slow(r, c->o.patience_ns);
	}
}

void collectors_close(struct collectors *c)
{
	if (!c)
		return;
	collectors_stop(c);
	for (size_t i = 0; i < c->all.len; i++)
		if (state_of(c->all.data[i]))
			c->all.data[i]->what->close(c->all.data[i]->state);
	release(c);
}
