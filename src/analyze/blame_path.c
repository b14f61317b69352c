/* blame_path.c - the pieces of a walk in the order of time, each with its owner.
 *
 * Pieces that are too short to be seen are put together until they are long enough, then they are
 * one of the owner that has the longest of them; fewer than that go to the piece before, and where
 * that is none to the one behind. */
#include "analyze/blame_impl.h"

/* A sample stands for the running before it, which waits may have interrupted: so many of its
 * weights it is behind at most. */
#define SAMPLE_REACHES 2

struct pathing {
	struct blame_path *p;
	const struct blame_world *w;
	uint64_t at_ns;		  /* what comes before is told */
	size_t first;		  /* piece of the stretch */
	struct blame_piece small; /* short ones together; empty: from_ns is to_ns */
	uint64_t longest_ns;	  /* of them, which is its owner's */
};

static bool is_same(const struct blame_owner *a, const struct blame_owner *b)
{
	return a->kind == b->kind && a->via == b->via && a->peer == b->peer &&
	       a->thread == b->thread && a->pid == b->pid && a->name == b->name &&
	       a->frame == b->frame;
}

/* The stretch's last piece, if it ends at a time. */
static struct blame_piece *last_until(const struct pathing *k, uint64_t ns)
{
	size_t n = k->p->pieces.len;
	struct blame_piece *last = n > k->first ? &k->p->pieces.data[n - 1] : NULL;
	return last && last->to_ns == ns ? last : NULL;
}

static void put(struct pathing *k, const struct blame_piece *piece)
{
	struct blame_piece *last = last_until(k, piece->from_ns);
	if (last && is_same(&last->owner, &piece->owner)) {
		last->to_ns = piece->to_ns;
	} else if (k->p->pieces.len < k->p->most) {
		*vec_push(&k->p->pieces) = *piece;
	} else {
		k->p->left_out++;
		k->p->left_out_ns += piece->to_ns - piece->from_ns;
	}
}

/* What is not long enough for a piece goes to the one before. */
static void put_small(struct pathing *k)
{
	struct blame_piece *last = last_until(k, k->small.from_ns);
	if (last)
		last->to_ns = k->small.to_ns;
	else if (k->small.to_ns > k->small.from_ns)
		put(k, &k->small);
	k->small = (struct blame_piece){0};
}

static void add_small(struct pathing *k, const struct blame_piece *piece)
{
	uint64_t ns = piece->to_ns - piece->from_ns;
	if (k->small.to_ns == k->small.from_ns) {
		k->small = *piece;
		k->longest_ns = ns;
	} else if (ns > k->longest_ns) {
		k->small.owner = piece->owner;
		k->longest_ns = ns;
	}
	k->small.to_ns = piece->to_ns;
	if (k->small.to_ns - k->small.from_ns >= k->p->least_ns) {
		put(k, &k->small);
		k->small = (struct blame_piece){0};
	}
}

static void add(struct pathing *k, const struct blame_owner *o, uint64_t to_ns)
{
	struct blame_piece piece = {k->at_ns, to_ns, *o};
	k->at_ns = to_ns;
	if (to_ns - piece.from_ns < k->p->least_ns) {
		add_small(k, &piece);
		return;
	}
	if (k->small.to_ns > k->small.from_ns && !last_until(k, k->small.from_ns)) {
		piece.from_ns = k->small.from_ns;
		k->small = (struct blame_piece){0};
	}
	put_small(k);
	put(k, &piece);
}

static void on_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	struct pathing *k = ctx;
	add(k, o, k->at_ns + ns);
}

static struct blame_owner who_ran(uint32_t thread, struct blame_way way,
				  const struct blame_sample *s)
{
	return (struct blame_owner){.kind = s ? s->kind : BLAME_RUNS,
				    .via = way.via,
				    .peer = way.peer,
				    .thread = thread,
				    .frame = s && s->kind != BLAME_SAVES ? s->frame
									 : BLAME_NO_FRAME};
}

static void on_run(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
		   uint64_t to_ns)
{
	struct pathing *k = ctx;
	struct blame_owner o;
	size_t n;
	const struct blame_sample *s = blame_samples_of(k->w, thread, &n);
	size_t i = blame_sample_from(s, n, from_ns);
	for (; i < n && s[i].time_ns < to_ns; i++) {
		o = who_ran(thread, way, &s[i]);
		if (s[i].time_ns > k->at_ns)
			add(k, &o, s[i].time_ns);
	}
	bool told = i < n && s[i].time_ns - to_ns < SAMPLE_REACHES * s[i].weight_ns;
	o = who_ran(thread, way, told ? &s[i] : NULL);
	if (to_ns > k->at_ns)
		add(k, &o, to_ns);
}

void blame_path_add(struct blame_path *p, const struct blame_world *w, uint32_t thread,
		    uint64_t from_ns, uint64_t to_ns)
{
	struct pathing k = {.p = p, .w = w, .at_ns = from_ns, .first = p->pieces.len};
	blame_walk(w, thread, from_ns, to_ns,
		   &(struct blame_found){
			   .ctx = &k, .in_order = true, .owns = on_owner, .runs = on_run});
	put_small(&k);
}

void blame_path_free(struct blame_path *p)
{
	vec_free(&p->pieces);
}
