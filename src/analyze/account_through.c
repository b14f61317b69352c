/* account_through.c - when main threads waited for the GPU without a call that says so: by the
 * stacks of their waits, and through threads of their own process that waited for it, as those of
 * XLA do. What calls say is in account_samples.c. */
#include <string.h>

#include "analyze/account_impl.h"
#include "analyze/blame.h"
#include "analyze/blame_impl.h"

#define WAITS_TELL 10 /* one part in so many of its time in such waits is worth the walk */

/* The walk of one thread, which tells whose the time is piece by piece. */
struct following {
	const struct rec_tables *t;
	const struct account_thread *th;
	struct stretches *to;
	uint64_t at_ns;
	struct keyed_stretch waited; /* the last one */
};

static bool waits_much(const struct account_thread *th)
{
	uint64_t waited_ns = th->ns[ACCOUNT_LOCK] + th->ns[ACCOUNT_POLL];
	return waited_ns && waited_ns * WAITS_TELL >= th->wall_ns;
}

/* What a child or PyTorch's thread for data waits for is data to who waits for them. */
static bool is_for_gpu(const struct following *f, const struct blame_owner *o)
{
	bool kind = o->kind == BLAME_GPU || o->kind == BLAME_GPU_WORKS ||
		    o->kind == BLAME_GPU_IDLE || o->kind == BLAME_RANKS;
	if (!kind || o->peer || o->thread >= f->t->threads.len)
		return false;
	const struct m_thread *thread = &f->t->threads.data[o->thread];
	return thread->pid == f->th->pid &&
	       strncmp(strtab_get(&f->t->strings, thread->comm, NULL), "pt_data_pin", 11) != 0;
}

static void end_stretch(struct following *f)
{
	if (f->waited.end_ns > f->waited.start_ns)
		*vec_push(&f->to->all) = f->waited;
}

static void on_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	struct following *f = ctx;
	uint64_t from_ns = f->at_ns;
	f->at_ns += ns;
	if (!is_for_gpu(f, o))
		return;
	if (f->waited.end_ns != from_ns) {
		end_stretch(f);
		f->waited.start_ns = from_ns;
	}
	f->waited.end_ns = f->at_ns;
}

static void on_run(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
		   uint64_t to_ns)
{
	struct following *f = ctx;
	(void)thread;
	(void)way;
	(void)from_ns;
	f->at_ns = to_ns;
}

static void add_thread(struct stretches *to, const struct rec_tables *t,
		       const struct blame_world *w, const struct account_thread *th)
{
	struct following f = {t, th, to, th->since_ns, {.key = th->thread}};
	blame_walk(w, th->thread, th->since_ns, th->since_ns + th->wall_ns,
		   &(struct blame_found){
			   .ctx = &f, .in_order = true, .owns = on_owner, .runs = on_run});
	end_stretch(&f);
}

bool account_find_through(struct account *a, const struct row_source *s, const struct timeline *t,
			  const struct map64 *on_gpu)
{
	struct blame_world *w = NULL;
	for (size_t i = 0; i < a->threads.len; i++) {
		const struct account_thread *th = &a->threads.data[i];
		uint64_t unused;
		if (!waits_much(th) || !map64_get(on_gpu, th->pid, &unused))
			continue;
		w = w ? w : blame_world_new(s, t);
		add_thread(&a->through, s->tables, w, th);
	}
	if (w)
		blame_world_free(w);
	stretches_end(&a->through);
	return a->through.all.len;
}
