/* advice_compile.c - what single steps in the midst of a loop compile, as for sizes that they meet
 * for the first time: they take many times as long as the others. What the loop's start compiles is
 * no matter of advice: each job does. */
#include "analyze/advice_impl.h"

#define LATE_TIMES 10 /* as long as the usual step */
#define START_PART 5  /* one part in so many of the loop is its start */

struct compiling {
	const struct blame_world *w;
	double ns;
};

static void on_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	struct compiling *c = ctx;
	if (o->kind == BLAME_COMPILES && !o->peer)
		c->ns += (double)ns;
}

/* Samples stand for all of the time that ran. */
static void on_run(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
		   uint64_t to_ns)
{
	struct compiling *c = ctx;
	double all = 0, compiled = 0;
	size_t n;
	const struct blame_sample *s = blame_samples_of(c->w, thread, &n);
	for (size_t i = s ? blame_sample_from(s, n, from_ns) : n; i < n && s[i].time_ns < to_ns;
	     i++) {
		all += (double)s[i].weight_ns;
		compiled += s[i].kind == BLAME_COMPILES ? (double)s[i].weight_ns : 0;
	}
	if (all > 0 && !way.peer)
		c->ns += (double)(to_ns - from_ns) * compiled / all;
}

double advice_find_compiled(const struct blame_world *w, const struct advice_loop *l)
{
	struct compiling c = {.w = w};
	const struct blame_found found = {.ctx = &c, .owns = on_owner, .runs = on_run};
	if (!l->count)
		return 0;
	uint64_t wall_ns = l->steps[l->count - 1].end_ns - l->steps[0].start_ns;
	uint64_t from_ns = l->steps[0].start_ns + wall_ns / START_PART;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct steps_step *s = &l->steps[i];
		if (s->start_ns >= from_ns && s->end_ns - s->start_ns >= LATE_TIMES * l->usual_ns)
			blame_walk(w, l->main->thread, s->start_ns, s->end_ns, &found);
	}
	return c.ns;
}
