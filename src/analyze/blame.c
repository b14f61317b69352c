/* blame.c - what each owner has of a slow time, less what it has of a usual one. */
#include "analyze/blame.h"

#include <math.h>
#include <stdlib.h>

#include "analyze/blame_split.h"

/* Of what a rank was waited for longer: less that itself has more than usual says nothing of it. */
#define PEER_LEAST 0.2

/* One owner's time; of threads that ran, what they ran is told by split. */
struct owned {
	struct blame_owner owner;
	double ns;
};

struct tally {
	const struct blame_world *w;
	struct map64 place_of; /* hash of an owner -> index + 1 */
	VEC(struct owned) list;
	VEC(struct blame_run) runs;
	double length_ns; /* of its stretches */
};

/* Who stops a job again and again may be another process of the same name each time (kill). */
static uint64_t owner_hash(const struct blame_owner *o)
{
	uint32_t who = o->kind == BLAME_STOPPED ? o->name : o->pid;
	uint64_t h = hash_u64((uint64_t)o->kind << 40 | (uint64_t)o->via << 32 | o->thread);
	h ^= hash_u64((uint64_t)who << 32 | o->frame);
	return hash_u64(o->peer ? h ^ hash_u64(o->peer) : h);
}

static void add_owner(struct tally *t, const struct blame_owner *o, double ns)
{
	uint64_t at, hash = owner_hash(o);
	if (!map64_get(&t->place_of, hash, &at)) {
		map64_set(&t->place_of, hash, t->list.len);
		*vec_push(&t->list) = (struct owned){.owner = *o, .ns = ns};
		return;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what was met has an entry */
	struct owned *met = &t->list.data[at];
	met->ns += ns;
	if (!met->owner.cgroup)
		met->owner.cgroup = o->cgroup;
	if (!met->owner.leader) {
		met->owner.leader = o->leader;
		met->owner.leader_pid = o->leader_pid;
	}
}

static double owner_ns(const struct tally *t, const struct blame_owner *o)
{
	uint64_t at;
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
	return map64_get(&t->place_of, owner_hash(o), &at) ? t->list.data[at].ns : 0;
}

/* Threads of a pool that released what was waited for are one owner. */
static void join_pool(const struct tally *t, struct blame_owner *o)
{
	o->pool |= o->via == VIA_LOCK && blame_is_of_pool(t->w, o->thread, &o->thread);
}

static void on_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	struct blame_owner joined = *o;
	join_pool(ctx, &joined);
	add_owner(ctx, &joined, (double)ns);
}

static void on_run(void *ctx, uint32_t thread, struct blame_way way, uint64_t from_ns,
		   uint64_t to_ns)
{
	struct tally *t = ctx;
	struct blame_owner o = {.kind = BLAME_RUNS,
				.via = way.via,
				.peer = way.peer,
				.thread = thread,
				.frame = BLAME_NO_FRAME};
	join_pool(t, &o);
	add_owner(t, &o, (double)(to_ns - from_ns));
	*vec_push(&t->runs) = (struct blame_run){thread, o.thread, way, from_ns, to_ns};
}

static void tally_make(struct tally *t, const struct blame_world *w, const struct blame_span *spans,
		       size_t n)
{
	const struct blame_found found = {.ctx = t, .owns = on_owner, .runs = on_run};
	t->w = w;
	for (size_t i = 0; i < n; i++) {
		blame_walk(w, spans[i].thread, spans[i].from_ns, spans[i].to_ns, &found);
		t->length_ns += (double)(spans[i].to_ns - spans[i].from_ns);
	}
}

static void tally_free(struct tally *t)
{
	map64_free(&t->place_of);
	vec_free(&t->list);
	vec_free(&t->runs);
}

/* ---- the excess ---- */

/* A thread that ran longer, and its parts, which add up to the whole of that. */
struct split_run {
	struct blame_owner owner;
	struct blame_split split;
};

/* What a thread usually runs: read when it is asked for first. */
struct usual_lines {
	struct blame_owner owner;
	struct blame_lines lines;
};

/* What another rank usually does meanwhile: likewise. */
struct usual_peer {
	uint32_t peer;
	struct blame_usual *is;
};

struct blame_usual {
	struct tally tally;
	VEC(struct blame_span) spans;
	VEC(struct usual_lines *) lines;
	VEC(struct usual_peer) peers;
};

/* Another rank that was waited for longer, by what itself has more than usual. */
struct split_peer {
	uint32_t peer;
	struct blame own; /* parts and what is unexplained, of which one is whole_ns */
};

struct comparing {
	const struct blame_world *w;
	const struct blame_span *spans; /* that are slow: */
	size_t n;
	struct tally slow;
	struct blame_usual *from;
	const struct tally *usual; /* of from */
	double scale;		   /* of usual time to that of as much work */
	VEC(struct split_run) splits;
	VEC(struct split_peer *) peers;
	bool alone; /* the time of other ranks is in no part */
};

static void comparing_end(struct comparing *c)
{
	for (size_t i = 0; i < c->splits.len; i++)
		blame_split_free(&c->splits.data[i].split);
	for (size_t i = 0; i < c->peers.len; i++) {
		blame_free(&c->peers.data[i]->own);
		free(c->peers.data[i]);
	}
	vec_free(&c->splits);
	vec_free(&c->peers);
	tally_free(&c->slow);
}

static bool is_run(const struct blame_owner *o)
{
	return o->kind == BLAME_RUNS;
}

/* Of one thread, come to alike. */
static bool is_alike(const struct blame_owner *a, const struct blame_owner *b)
{
	return a->thread == b->thread && a->via == b->via && a->peer == b->peer;
}

static const struct blame_lines *usual_lines_of(struct comparing *c, const struct blame_owner *o)
{
	struct blame_usual *u = c->from;
	for (size_t i = 0; i < u->lines.len; i++)
		if (is_alike(&u->lines.data[i]->owner, o))
			return &u->lines.data[i]->lines;
	struct usual_lines *l = xcalloc(1, sizeof(*l));
	l->owner = *o;
	blame_lines_read(&l->lines, c->w, o, u->tally.runs.data, u->tally.runs.len);
	*vec_push(&u->lines) = l;
	return &l->lines;
}

static const struct blame_split *split_of(struct comparing *c, const struct blame_owner *o)
{
	for (size_t i = 0; i < c->splits.len; i++)
		if (is_alike(&c->splits.data[i].owner, o))
			return &c->splits.data[i].split;
	struct blame_lines slow = {0};
	blame_lines_read(&slow, c->w, o, c->slow.runs.data, c->slow.runs.len);
	struct split_run *s = vec_push(&c->splits);
	*s = (struct split_run){.owner = *o};
	blame_split_make(&s->split, o, &slow, owner_ns(&c->slow, o), usual_lines_of(c, o),
			 c->scale * owner_ns(c->usual, o));
	blame_lines_free(&slow);
	return &s->split;
}

/* Checkpoints are known by calls and, where these are not traced, by samples. */
static struct blame_part *part_of(struct blame *b, const struct blame_owner *o)
{
	for (size_t i = 0; i < b->parts.len; i++)
		if (owner_hash(&b->parts.data[i].owner) == owner_hash(o))
			return &b->parts.data[i];
	struct blame_part *p = vec_push(&b->parts);
	p->owner = *o;
	return p;
}

static void add_part(struct blame *b, const struct blame_owner *owner, double ns, double whole_ns,
		     double usual_ns)
{
	struct blame_owner o = *owner;
	if (o.kind == BLAME_SAVES)
		o.frame = BLAME_NO_FRAME;
	struct blame_part *p = part_of(b, &o);
	p->ns += ns;
	p->whole_ns += whole_ns;
	p->usual_ns += usual_ns;
}

/* One owner has more than usual, by so much. */
static void add_more(struct comparing *c, struct blame *b, const struct owned *o, double usual_ns,
		     double more)
{
	if (!is_run(&o->owner)) {
		add_part(b, &o->owner, more, o->ns, usual_ns);
		return;
	}
	const struct blame_split *s = split_of(c, &o->owner);
	double left = more, slow = owner_ns(&c->slow, &o->owner);
	double part = slow > 0 ? o->ns / slow : 0; /* of all stretches together */
	for (size_t i = 0; i < s->parts.len; i++) {
		const struct blame_split_part *p = &s->parts.data[i];
		double ns = more * p->ratio;
		add_part(b, &p->owner, ns, part * p->whole_ns, part * p->usual_ns);
		left -= ns;
	}
	b->unexplained_ns += left > 0 ? left : 0;
}

static int by_ns(const void *a, const void *b)
{
	const struct blame_part *x = a, *y = b;
	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void sort_parts(struct blame *b)
{
	if (b->parts.len)
		qsort(b->parts.data, b->parts.len, sizeof(*b->parts.data), by_ns);
}

/* ---- other ranks ---- */

static void compare(struct comparing *c, struct blame *b, const struct tally *slow, double usual_ns,
		    double scale);

static struct blame_usual *usual_peer_of(struct comparing *c, uint32_t peer)
{
	struct blame_usual *u = c->from;
	for (size_t i = 0; i < u->peers.len; i++)
		if (u->peers.data[i].peer == peer)
			return u->peers.data[i].is;
	struct blame_span *spans = xcalloc(u->spans.len + 1, sizeof(*spans));
	for (size_t i = 0; i < u->spans.len; i++) {
		spans[i] = u->spans.data[i];
		spans[i].thread = peer - 1;
	}
	struct blame_usual *is = blame_usual_new(c->w, spans, u->spans.len);
	free(spans);
	*vec_push(&u->peers) = (struct usual_peer){peer, is};
	return is;
}

/* What the rank has more than usual in the same time, but for what it waits for others itself. */
static void blame_peer(struct comparing *c, struct blame *ret, uint32_t peer)
{
	struct blame_usual *usual = usual_peer_of(c, peer);
	struct comparing own = {
		.w = c->w, .from = usual, .usual = &usual->tally, .scale = c->scale, .alone = true};
	struct blame_span *spans = xcalloc(c->n + 1, sizeof(*spans));
	double usual_ns = 0;
	for (size_t i = 0; i < c->n; i++) {
		spans[i] = c->spans[i];
		spans[i].thread = peer - 1;
		usual_ns += spans[i].usual_ns;
	}
	tally_make(&own.slow, c->w, spans, c->n);
	compare(&own, ret, &own.slow, usual_ns, c->scale);
	ret->whole_ns = ret->unexplained_ns;
	for (size_t i = 0; i < ret->parts.len; i++) {
		ret->parts.data[i].owner.peer = peer;
		ret->whole_ns += ret->parts.data[i].ns;
	}
	comparing_end(&own);
	free(spans);
}

static const struct blame *peer_blame_of(struct comparing *c, uint32_t peer)
{
	for (size_t i = 0; i < c->peers.len; i++)
		if (c->peers.data[i]->peer == peer)
			return &c->peers.data[i]->own;
	struct split_peer *s = xcalloc(1, sizeof(*s));
	s->peer = peer;
	blame_peer(c, &s->own, peer);
	*vec_push(&c->peers) = s;
	return &s->own;
}

static double peer_ns(const struct tally *t, uint32_t peer)
{
	double ns = 0;
	for (size_t i = 0; i < t->list.len; i++)
		ns += t->list.data[i].owner.peer == peer ? t->list.data[i].ns : 0;
	return ns;
}

/* Nothing of its own took it longer: what it did while it was waited for has it, as far as that is
 * more than usual. */
static void add_meanwhile(struct comparing *c, struct blame *b, const struct tally *slow,
			  uint32_t peer, double more, double scale)
{
	double sum = 0;
	for (size_t i = 0; i < slow->list.len; i++) {
		const struct owned *o = &slow->list.data[i];
		if (o->owner.peer == peer)
			sum += fmax(0, o->ns - scale * owner_ns(c->usual, &o->owner));
	}
	for (size_t i = 0; i < slow->list.len; i++) {
		const struct owned *o = &slow->list.data[i];
		double was = scale * owner_ns(c->usual, &o->owner);
		if (o->owner.peer == peer && o->ns > was)
			add_more(c, b, o, was, more * (o->ns - was) / sum);
	}
}

/* Another rank was waited for so much longer. */
static void add_peer(struct comparing *c, struct blame *b, const struct tally *slow, uint32_t peer,
		     double scale)
{
	double ns = peer_ns(slow, peer), usual_ns = scale * peer_ns(c->usual, peer);
	const struct blame *own = peer_blame_of(c, peer);
	double all = peer_ns(&c->slow, peer) - c->scale * peer_ns(c->usual, peer);
	if (!(own->whole_ns > 0) || all <= 0 || own->whole_ns < PEER_LEAST * all) {
		add_meanwhile(c, b, slow, peer, ns - usual_ns, scale);
		return;
	}
	for (size_t i = 0; i < own->parts.len; i++) {
		const struct blame_part *p = &own->parts.data[i];
		double ratio = p->ns / own->whole_ns;
		add_part(b, &p->owner, (ns - usual_ns) * ratio, ns * ratio, usual_ns * ratio);
	}
	b->unexplained_ns += (ns - usual_ns) * own->unexplained_ns / own->whole_ns;
}

/* Whether it is the first of that rank: those of one are looked at together. */
static bool is_first(const struct tally *t, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (t->list.data[i].owner.peer == t->list.data[at].owner.peer)
			return false;
	return true;
}

/* ---- all of it ---- */

struct growth {
	double more, less;
};

static void grow(struct growth *g, double ns, double was)
{
	g->more += fmax(0, ns - was);
	g->less += fmax(0, was - ns);
}

static void compare_peers(struct comparing *c, struct blame *b, const struct tally *slow,
			  double scale, struct growth *g)
{
	for (size_t i = 0; i < slow->list.len; i++) {
		uint32_t peer = slow->list.data[i].owner.peer;
		if (!peer || !is_first(slow, i))
			continue;
		double ns = peer_ns(slow, peer), was = scale * peer_ns(c->usual, peer);
		grow(g, ns, was);
		if (ns > was && !c->alone)
			add_peer(c, b, slow, peer, scale);
	}
	for (size_t i = 0; i < c->usual->list.len; i++) {
		uint32_t peer = c->usual->list.data[i].owner.peer;
		if (peer && peer_ns(slow, peer) == 0)
			g->less += scale * c->usual->list.data[i].ns;
	}
}

static void compare(struct comparing *c, struct blame *b, const struct tally *slow, double usual_ns,
		    double scale)
{
	struct growth g = {0};
	*b = (struct blame){.whole_ns = slow->length_ns, .usual_ns = usual_ns};
	for (size_t i = 0; i < slow->list.len; i++) {
		const struct owned *o = &slow->list.data[i];
		double was = scale * owner_ns(c->usual, &o->owner);
		if (o->owner.peer)
			continue;
		grow(&g, o->ns, was);
		if (o->ns > was)
			add_more(c, b, o, was, o->ns - was);
	}
	for (size_t i = 0; i < c->usual->list.len; i++) {
		const struct owned *o = &c->usual->list.data[i];
		if (!o->owner.peer && owner_ns(slow, &o->owner) == 0)
			g.less += scale * o->ns;
	}
	compare_peers(c, b, slow, scale, &g);
	double shrink = g.more > 0 ? fmax(0, slow->length_ns - usual_ns) / g.more : 0;
	shrink = fmin(shrink, 1);
	for (size_t i = 0; i < b->parts.len; i++)
		b->parts.data[i].ns *= shrink;
	b->unexplained_ns *= shrink;
	b->absorbed_ns = g.less;
	sort_parts(b);
}

struct blame_usual *blame_usual_new(const struct blame_world *w, const struct blame_span *spans,
				    size_t n)
{
	struct blame_usual *u = xcalloc(1, sizeof(*u));
	for (size_t i = 0; i < n; i++)
		*vec_push(&u->spans) = spans[i];
	tally_make(&u->tally, w, spans, n);
	return u;
}

void blame_usual_free(struct blame_usual *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->lines.len; i++) {
		blame_lines_free(&u->lines.data[i]->lines);
		free(u->lines.data[i]);
	}
	for (size_t i = 0; i < u->peers.len; i++)
		blame_usual_free(u->peers.data[i].is);
	vec_free(&u->lines);
	vec_free(&u->peers);
	vec_free(&u->spans);
	tally_free(&u->tally);
	free(u);
}

void blame_make(struct blame *ret, struct blame *each, const struct blame_world *w,
		const struct blame_span *slow, size_t n, struct blame_usual *usual)
{
	struct comparing c = {.w = w, .spans = slow, .n = n, .from = usual, .usual = &usual->tally};
	double usual_ns = 0;
	for (size_t i = 0; i < n; i++)
		usual_ns += slow[i].usual_ns;
	tally_make(&c.slow, w, slow, n);
	c.scale = c.usual->length_ns > 0 ? usual_ns / c.usual->length_ns : 0;
	compare(&c, ret, &c.slow, usual_ns, c.scale);
	for (size_t i = 0; each && i < n; i++) {
		struct tally one = {0};
		tally_make(&one, w, &slow[i], 1);
		compare(&c, &each[i], &one, slow[i].usual_ns,
			usual_ns > 0 ? c.scale * slow[i].usual_ns / usual_ns : 0);
		tally_free(&one);
	}
	comparing_end(&c);
}

void blame_free(struct blame *b)
{
	vec_free(&b->parts);
	*b = (struct blame){0};
}
