/* account_through.c - when main threads waited for the GPU without a call that says so: by the
 * stacks of their waits, and through threads of their own process that waited for it, as those of
 * XLA do. What calls say is in account_samples.c. */
#include "analyze/account_impl.h"
#include "analyze/blame.h"

#define WAITS_TELL  10	       /* one part in so many of its time in such waits is worth the walk */
#define LEAST_NS    50000      /* what is shorter counts for what is beside it */
#define PIECES_MOST (1u << 20) /* of a thread's time */

struct finding {
	const struct rec_tables *t;
	struct map64 on_gpu; /* processes with threads that waited in the GPU's driver */
};

static void add_samples(void *ctx, const struct visited_rows *rows)
{
	struct finding *f = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		if (samples[i].kind == SAMPLE_OFFCPU && samples[i].reason == WAIT_GPU)
			map64_set(&f->on_gpu, f->t->threads.data[samples[i].thread].pid, 1);
}

static bool waits_much(const struct account_thread *th)
{
	return (th->ns[ACCOUNT_LOCK] + th->ns[ACCOUNT_POLL]) * WAITS_TELL >= th->wall_ns;
}

static bool is_for_gpu(const struct blame_owner *o)
{
	return o->kind == BLAME_GPU || o->kind == BLAME_GPU_WORKS || o->kind == BLAME_GPU_IDLE ||
	       o->kind == BLAME_RANKS;
}

static void add_thread(struct stretches *to, const struct blame_world *w,
		       const struct account_thread *th)
{
	struct blame_path path = {.least_ns = LEAST_NS, .most = PIECES_MOST};
	blame_path_add(&path, w, th->thread, th->since_ns, th->since_ns + th->wall_ns);
	for (size_t i = 0; i < path.pieces.len; i++) {
		const struct blame_piece *p = &path.pieces.data[i];
		if (is_for_gpu(&p->owner) && !p->owner.peer)
			*vec_push(&to->all) =
				(struct keyed_stretch){th->thread, p->from_ns, p->to_ns};
	}
	blame_path_free(&path);
}

bool account_find_through(struct account *a, const struct row_source *s, const struct timeline *t)
{
	struct finding f = {.t = s->tables};
	struct blame_world *w = NULL;
	bool any = false;
	for (size_t i = 0; i < a->threads.len; i++)
		any |= waits_much(&a->threads.data[i]);
	if (any)
		rows_read(s, ROW_SAMPLE, add_samples, &f);
	for (size_t i = 0; i < a->threads.len; i++) {
		const struct account_thread *th = &a->threads.data[i];
		uint64_t unused;
		if (!waits_much(th) || !map64_get(&f.on_gpu, th->pid, &unused))
			continue;
		w = w ? w : blame_world_new(s, t);
		add_thread(&a->through, w, th);
	}
	if (w)
		blame_world_free(w);
	map64_free(&f.on_gpu);
	stretches_end(&a->through);
	return a->through.all.len;
}
