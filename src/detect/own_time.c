/* own_time.c - of each thread the calls that have ended and that none was around yet.
 *
 * They lie one after the other, so that those within a call are the last of them. Of more than
 * ENDED_MOST each two neighbours of the older half are put together, as if both had begun with the
 * first: a call around one of them alone is off by what that one lost. */
#include "detect/own_time.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"

#define ENDED_MOST 1024

struct ended {
	uint64_t start_ns, end_ns;
	double more_ns; /* beyond what is usual; less than 0: it was quicker */
	bool known;	/* what is usual for it */
};

struct own_thread {
	uint32_t pid;
	VEC(struct ended) ended;
};

struct own_times {
	struct map64 at; /* pid << 32 | tid to place */
	VEC(struct own_thread) threads;
};

struct own_times *own_times_new(void)
{
	return xcalloc(1, sizeof(struct own_times));
}

void own_times_free(struct own_times *o)
{
	for (size_t i = 0; i < o->threads.len; i++)
		vec_free(&o->threads.data[i].ended);
	vec_free(&o->threads);
	map64_free(&o->at);
	free(o);
}

static struct own_thread *thread_of(struct own_times *o, uint32_t pid, uint32_t tid)
{
	uint64_t key = (uint64_t)pid << 32 | tid, at;
	if (map64_get(&o->at, key, &at))
		return &o->threads.data[at];
	map64_set(&o->at, key, o->threads.len);
	struct own_thread *ret = vec_push(&o->threads);
	ret->pid = pid;
	return ret;
}

static void put_together(struct own_thread *t)
{
	struct ended *e = t->ended.data;
	size_t half = t->ended.len / 2, kept = 0;
	for (size_t i = 0; i + 1 < half; i += 2)
		e[kept++] = (struct ended){.start_ns = e[i].start_ns,
					   .end_ns = e[i + 1].end_ns,
					   .more_ns = e[i].more_ns + e[i + 1].more_ns,
					   .known = e[i].known && e[i + 1].known};
	for (size_t i = half / 2 * 2; i < t->ended.len; i++)
		e[kept++] = e[i];
	t->ended.len = kept;
}

/* What calls of a thread lost in a time; of those that were put together a part. */
static double lost_within(const struct own_thread *t, uint64_t from_ns, uint64_t to_ns)
{
	double ret = 0;
	for (size_t i = t->ended.len; i && t->ended.data[i - 1].end_ns > from_ns; i--) {
		const struct ended *e = &t->ended.data[i - 1];
		uint64_t from = e->start_ns > from_ns ? e->start_ns : from_ns;
		uint64_t to = e->end_ns < to_ns ? e->end_ns : to_ns;
		if (e->known && from < to)
			ret += e->more_ns * (double)(to - from) / (double)(e->end_ns - e->start_ns);
	}
	return ret;
}

/* By the one thread that lost most. */
static double lost_elsewhere(const struct own_times *o, const struct own_thread *but,
			     const struct own_call *c)
{
	double ret = 0;
	for (size_t i = 0; i < o->threads.len; i++) {
		const struct own_thread *t = &o->threads.data[i];
		if (t != but && t->pid == c->pid)
			ret = fmax(ret, lost_within(t, c->start_ns, c->start_ns + c->dur_ns));
	}
	return ret;
}

double own_time_ns(struct own_times *o, const struct own_call *c)
{
	struct own_thread *t = thread_of(o, c->pid, c->tid);
	double dur = (double)c->dur_ns, within = c->waits ? lost_elsewhere(o, t, c) : 0;
	while (t->ended.len && t->ended.data[t->ended.len - 1].start_ns >= c->start_ns)
		within += t->ended.data[--t->ended.len].more_ns;
	if (t->ended.len >= ENDED_MOST)
		put_together(t);
	bool known = !isnan(c->usual_ns);
	*vec_push(&t->ended) = (struct ended){.start_ns = c->start_ns,
					      .end_ns = c->start_ns + c->dur_ns,
					      .more_ns = known ? dur - c->usual_ns : dur,
					      .known = known};
	return fmin(fmax(dur - within, 0), dur);
}
