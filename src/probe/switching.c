/* switching.c - places that go on and off while a session runs.
 *
 * Whether calls are recorded is a flag in the programs' memory (calls_closed): it holds at once.
 * Links take far longer: the kernel works some 4 us on each place that goes on, or off, where a
 * process has it mapped, and waits for grace periods of RCU. So they come and go behind, in
 * threads: before the flag lets calls be recorded, and after it does not any more. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/tracer_impl.h"

#define DETACHERS 16 /* each link that goes waits for the kernel, some for 100 ms */

/* A group's links. Its sites do not change meanwhile: shedding.c, which moves them, is for budgets,
 * and goes with no bursts. */
struct part {
	struct probed_file *file; /* used */
	size_t group;
	const struct site *sites;
	size_t n;
	struct attach_links links;
	int rc;
	struct err e;
};

struct change {
	bool on;
	enum attach_method method;
	const struct attach_programs *programs;
	VEC(struct part) parts;
	size_t next, done; /* atomic: of parts */
	pthread_t threads[DETACHERS];
	size_t nthreads;
	uint64_t began_ns, took_ns; /* atomic: of the part that was done last */
	uint64_t *cpu_ns;	    /* atomic: the tracer's */
};

/* ---- in threads ---- */

static void change_part(const struct change *c, struct part *p)
{
	char path[32];
	if (c->on) {
		tracer_file_path(p->file, path);
		p->rc = attach_sites(&p->links, c->method, c->programs, path, p->sites, p->n,
				     &p->e);
	} else {
		attach_detach(&p->links);
	}
}

static void *change_parts(void *arg)
{
	struct change *c = arg;
	size_t i;
	while ((i = __atomic_fetch_add(&c->next, 1, __ATOMIC_SEQ_CST)) < c->parts.len) {
		change_part(c, &c->parts.data[i]);
		__atomic_store_n(&c->took_ns, monotonic_ns() - c->began_ns, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&c->done, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void *change_thread(void *arg)
{
	struct change *c = arg;
	change_parts(c);
	__atomic_fetch_add(c->cpu_ns, thread_cpu_ns(), __ATOMIC_SEQ_CST);
	return NULL;
}

/* ---- a change ---- */

static bool is_done(const struct change *c)
{
	return __atomic_load_n(&c->done, __ATOMIC_SEQ_CST) == c->parts.len;
}

static void change_begin(struct change *c)
{
	/* one puts places on, without much of the job's CPUs; of those that take them off, each
	 * waits for the kernel, and the places of one that waits for another would go on being paid
	 * for */
	size_t most = c->on ? 1 : DETACHERS;
	c->began_ns = monotonic_ns();
	while (c->nthreads < most && c->nthreads < c->parts.len &&
	       !thread_start(&c->threads[c->nthreads], change_thread, c, "eacgm-switch"))
		c->nthreads++;
	if (!c->nthreads)
		change_parts(c);
}

static void take_part(struct tracer *t, const struct change *c, struct part *p)
{
	struct site_group *g;
	if (!p->file)
		return;
	g = &p->file->groups.data[p->group];
	if (c->on) {
		g->links = p->links;
		g->attached = !p->rc;
		if (p->rc)
			tracer_note(t, p->file->path, p->e.msg);
	}
	files_unpin(&t->files, p->file);
}

static void change_end(struct tracer *t)
{
	struct change *c = t->switching.change;
	t->switching.change = NULL;
	while (c->nthreads > 0)
		pthread_join(c->threads[--c->nthreads], NULL);
	if (c->on)
		t->switching.on_ns = c->took_ns;
	for (size_t i = 0; i < c->parts.len; i++)
		take_part(t, c, &c->parts.data[i]);
	vec_free(&c->parts);
	free(c);
}

bool tracer_places_settled(struct tracer *t)
{
	if (t->switching.change && is_done(t->switching.change))
		change_end(t);
	return !t->switching.change;
}

/* Detaching waits until no sleepable program runs, so for every task that is held; this
 * thread has to answer them meanwhile. */
void switching_wait(struct tracer *t)
{
	while (!tracer_places_settled(t)) {
		tracer_control(t);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static struct change *change_new(struct tracer *t, bool on)
{
	struct change *c = xcalloc(1, sizeof(*c));
	c->on = on;
	c->method = t->method;
	c->programs = &t->programs;
	c->cpu_ns = &t->switching.cpu_ns;
	return c;
}

static void take_group(struct tracer *t, struct change *c, struct probed_file *f, size_t group)
{
	struct site_group *g = &f->groups.data[group];
	struct part *p = vec_push(&c->parts);
	*p = (struct part){.file = f,
			   .group = group,
			   .sites = g->sites.data,
			   .n = g->sites.len,
			   .links = g->links};
	g->links = (struct attach_links){0};
	g->attached = c->on; /* nobody else sees to it */
	files_use(&t->files, f);
}

/* What is to go on or off and is not so, of the groups that are wanted. */
static void change_groups(struct tracer *t, bool on,
			  bool (*wants)(const struct tracer *t, const struct site_group *g))
{
	struct change *c = change_new(t, on);
	for (size_t i = 0; i < t->files.list.len; i++) {
		struct probed_file *f = t->files.list.data[i];
		for (size_t g = 0; g < f->groups.len; g++)
			if (f->groups.data[g].attached != on && wants(t, &f->groups.data[g]))
				take_group(t, c, f, g);
	}
	t->switching.change = c;
	change_begin(c);
}

/* ---- bursts ---- */

static void set_flag(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

void tracer_calls_off(struct tracer *t, void (*visit)(void *ctx, const struct rec_call *c),
		      void *ctx, struct err *e)
{
	set_flag(&t->bpf->bss->calls_closed, true);
	if (visit)
		tracer_open_calls(t, visit, ctx, e);
	t->bpf->bss->epoch++; /* their returns are not looked at: open calls are void */
}

void tracer_calls_on(struct tracer *t)
{
	set_flag(&t->bpf->bss->calls_closed, false);
}

static bool is_any(const struct tracer *t, const struct site_group *g)
{
	(void)t;
	return !g->inside || g->outside;
}

static bool may_be_on(const struct tracer *t, const struct site_group *g)
{
	return g->sites.len && !tracer_group_is_off(t, g);
}

bool tracer_places_off(struct tracer *t)
{
	if (!tracer_places_settled(t))
		return false;
	t->switching.off = true;
	change_groups(t, false, is_any);
	return true;
}

bool tracer_places_on(struct tracer *t)
{
	if (!tracer_places_settled(t))
		return false;
	t->switching.off = false;
	change_groups(t, true, may_be_on);
	return true;
}

uint64_t tracer_places_on_ns(const struct tracer *t)
{
	return t->switching.on_ns ? t->switching.on_ns : t->attach_ns;
}

/* ---- for good, and for a budget ---- */

void tracer_all_off(struct tracer *t)
{
	struct err e;
	switching_wait(t);
	t->switching.off_for_good = true;
	tracer_calls_off(t, NULL, NULL, &e);
	tracer_places_off(t);
	switching_wait(t);
}

static bool is_told(const struct tracer *t, const struct site_group *g)
{
	return t->off_callbacks & 1u << g->by_callback;
}

void tracer_switch_callbacks(struct tracer *t, bool launches)
{
	switching_wait(t);
	t->off_callbacks = 1u << CALLBACK_TORCH | (launches ? 1u << CALLBACK_CUPTI : 0u);
	change_groups(t, false, is_told);
	switching_wait(t);
}

int tracer_group_on(struct tracer *t, const struct probed_file *f, struct site_group *g,
		    struct err *e)
{
	char path[32];
	tracer_file_path(f, path);
	int rc = attach_sites(&g->links, t->method, &t->programs, path, g->sites.data, g->sites.len,
			      e);
	g->attached = !rc;
	return rc ? err_wrap(e, rc, "%s", f->path) : 0;
}

void tracer_links_off(struct tracer *t, struct attach_links *links, size_t n)
{
	struct change *c = change_new(t, false);
	switching_wait(t);
	for (size_t i = 0; i < n; i++) {
		vec_push(&c->parts)->links = links[i];
		links[i] = (struct attach_links){0};
	}
	t->switching.change = c;
	change_begin(c);
	switching_wait(t);
}
