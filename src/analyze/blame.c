/* blame.c - what each owner has of a slow time, less what it has of a usual one. */
#include "analyze/blame.h"

#include <math.h>
#include <stdlib.h>

#include "analyze/blame_split.h"

/* One owner's time; of threads that ran, what they ran is told by split. */
struct owned {
	struct blame_owner owner;
	double ns;
};

struct tally {
	struct map64 place_of; /* hash of an owner -> index + 1 */
	VEC(struct owned) list;
	VEC(struct blame_run) runs;
	double length_ns; /* of its stretches */
};

static uint64_t owner_hash(const struct blame_owner *o)
{
	uint64_t h = hash_u64((uint64_t)o->kind << 40 | (uint64_t)o->via << 32 | o->thread);
	return hash_u64(h ^ hash_u64((uint64_t)o->pid << 32 | o->frame));
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
	t->list.data[at].ns += ns;
}

static double owner_ns(const struct tally *t, const struct blame_owner *o)
{
	uint64_t at;
	return map64_get(&t->place_of, owner_hash(o), &at) ? t->list.data[at].ns : 0;
}

static void on_owner(void *ctx, const struct blame_owner *o, uint64_t ns)
{
	add_owner(ctx, o, (double)ns);
}

static void on_run(void *ctx, uint32_t thread, enum blame_via via, uint64_t from_ns, uint64_t to_ns)
{
	struct tally *t = ctx;
	const struct blame_owner o = {
		.kind = BLAME_RUNS, .via = (uint8_t)via, .thread = thread, .frame = BLAME_NO_FRAME};
	add_owner(t, &o, (double)(to_ns - from_ns));
	*vec_push(&t->runs) = (struct blame_run){
		.thread = thread, .via = (uint8_t)via, .from_ns = from_ns, .to_ns = to_ns};
}

static void tally_make(struct tally *t, const struct blame_world *w, const struct blame_span *spans,
		       size_t n)
{
	const struct blame_found found = {.ctx = t, .owns = on_owner, .runs = on_run};
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
	uint32_t thread;
	uint8_t via;
	struct blame_lines lines;
};

struct blame_usual {
	struct tally tally;
	VEC(struct usual_lines *) lines;
};

struct comparing {
	const struct blame_world *w;
	struct tally slow;
	struct blame_usual *from;
	const struct tally *usual; /* of from */
	double scale;		   /* of usual time to that of as much work */
	VEC(struct split_run) splits;
};

static bool is_run(const struct blame_owner *o)
{
	return o->kind == BLAME_RUNS;
}

static const struct blame_lines *usual_lines_of(struct comparing *c, const struct blame_owner *o)
{
	struct blame_usual *u = c->from;
	for (size_t i = 0; i < u->lines.len; i++)
		if (u->lines.data[i]->thread == o->thread && u->lines.data[i]->via == o->via)
			return &u->lines.data[i]->lines;
	struct usual_lines *l = xcalloc(1, sizeof(*l));
	l->thread = o->thread;
	l->via = o->via;
	blame_lines_read(&l->lines, c->w, o, u->tally.runs.data, u->tally.runs.len);
	*vec_push(&u->lines) = l;
	return &l->lines;
}

static const struct blame_split *split_of(struct comparing *c, const struct blame_owner *o)
{
	for (size_t i = 0; i < c->splits.len; i++)
		if (c->splits.data[i].owner.thread == o->thread &&
		    c->splits.data[i].owner.via == o->via)
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

/* One owner has so much more than usual. */
static void add_more(struct comparing *c, struct blame *b, const struct owned *o, double usual_ns)
{
	double more = o->ns - usual_ns;
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

static void compare(struct comparing *c, struct blame *b, const struct tally *slow, double usual_ns,
		    double scale)
{
	double more = 0, less = 0;
	*b = (struct blame){.whole_ns = slow->length_ns, .usual_ns = usual_ns};
	for (size_t i = 0; i < slow->list.len; i++) {
		const struct owned *o = &slow->list.data[i];
		double was = scale * owner_ns(c->usual, &o->owner);
		more += fmax(0, o->ns - was);
		less += fmax(0, was - o->ns);
		if (o->ns > was)
			add_more(c, b, o, was);
	}
	for (size_t i = 0; i < c->usual->list.len; i++)
		if (owner_ns(slow, &c->usual->list.data[i].owner) == 0)
			less += scale * c->usual->list.data[i].ns;
	double shrink = more > 0 ? fmax(0, slow->length_ns - usual_ns) / more : 0;
	shrink = fmin(shrink, 1);
	for (size_t i = 0; i < b->parts.len; i++)
		b->parts.data[i].ns *= shrink;
	b->unexplained_ns *= shrink;
	b->absorbed_ns = less;
	if (b->parts.len)
		qsort(b->parts.data, b->parts.len, sizeof(*b->parts.data), by_ns);
}

struct blame_usual *blame_usual_new(const struct blame_world *w, const struct blame_span *spans,
				    size_t n)
{
	struct blame_usual *u = xcalloc(1, sizeof(*u));
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
	vec_free(&u->lines);
	tally_free(&u->tally);
	free(u);
}

void blame_make(struct blame *ret, struct blame *each, const struct blame_world *w,
		const struct blame_span *slow, size_t n, struct blame_usual *usual)
{
	struct comparing c = {.w = w, .from = usual, .usual = &usual->tally};
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
	for (size_t i = 0; i < c.splits.len; i++)
		blame_split_free(&c.splits.data[i].split);
	vec_free(&c.splits);
	tally_free(&c.slow);
}

void blame_free(struct blame *b)
{
	vec_free(&b->parts);
	*b = (struct blame){0};
}
