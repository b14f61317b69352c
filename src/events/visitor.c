/* visitor.c - one thread for each CPU reads blocks and hands them to the visitors. */
#include "events/visitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 64

struct visit {
	const struct row_source *source;
	struct row_visitor *const *visitors;
	size_t nvisitors;
	const struct visit_options *o;
	uint64_t kinds;
	size_t total;
	uint8_t **states; /* by visitor */
	_Atomic size_t next;
};

struct visiting_thread {
	struct visit *visit;
	size_t number;
	pthread_t id;
	struct row_block blocks[ROW_KINDS]; /* room that is used again */
};

/* The n-th block of all kinds that are wanted. */
static size_t block_at(const struct visit *v, size_t n, enum row_kind *ret_kind)
{
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		if (!(v->kinds & 1ULL << kind))
			continue;
		size_t blocks = v->source->blocks(v->source->ctx, kind);
		*ret_kind = kind;
		if (n < blocks)
			break;
		n -= blocks;
	}
	return n;
}

static void visit_block(struct visiting_thread *t, size_t n)
{
	const struct visit *v = t->visit;
	struct err e = {0};
	struct visited_rows rows = {.kind = ROW_CALL};
	rows.block = block_at(v, n, &rows.kind);
	struct row_block *b = &t->blocks[rows.kind];
	int rc = v->source->read(v->source->ctx, rows.kind, rows.block, b, &e);
	rows.rows = b->rows;
	rows.len = b->len;
	for (size_t i = 0; i < v->nvisitors; i++) {
		struct row_visitor *visitor = v->visitors[i];
		if (!(visitor->kinds & 1ULL << rows.kind))
			continue;
		void *state = visitor_state(visitor, v->states[i], t->number);
		if (!rc)
			visitor->rows(visitor, state, &rows);
		else if (visitor->unread)
			visitor->unread(visitor, state, rows.kind, &e);
	}
}

static void *visit_blocks(void *arg)
{
	struct visiting_thread *t = arg;
	struct visit *v = t->visit;
	size_t n;
	while ((n = atomic_fetch_add(&v->next, 1)) < v->total) {
		visit_block(t, n);
		if (!t->number && v->o->progress)
			v->o->progress(v->o->progress_ctx, n, v->total);
	}
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		row_block_free(&t->blocks[kind]);
	return NULL;
}

static size_t threads_wanted(const struct visit *v)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = v->o->threads;
	if (!n)
		n = cpus > 0 ? (size_t)cpus : 1;
	if (n > MAX_THREADS)
		n = MAX_THREADS;
	return n > v->total ? (v->total ? v->total : 1) : n;
}

static void run_threads(struct visit *v, size_t n)
{
	struct visiting_thread *threads = xcalloc(n, sizeof(*threads));
	for (size_t i = 0; i < n; i++)
		threads[i] = (struct visiting_thread){.visit = v, .number = i};
	size_t started = 1;
	for (; started < n; started++)
		if (pthread_create(&threads[started].id, NULL, visit_blocks, &threads[started]))
			break; /* the others take its blocks */
	visit_blocks(&threads[0]);
	for (size_t i = 1; i < started; i++)
		pthread_join(threads[i].id, NULL);
	free(threads);
}

_Static_assert(ROW_KINDS <= 64, "a visitor has a bit for each kind");

void rows_visit(const struct row_source *s, struct row_visitor *const *visitors, size_t n,
		const struct visit_options *options)
{
	static const struct visit_options none;
	struct visit v = {.source = s,
			  .visitors = visitors,
			  .nvisitors = n,
			  .o = options ? options : &none,
			  .states = xcalloc(n + 1, sizeof(*v.states))};
	for (size_t i = 0; i < n; i++)
		v.kinds |= visitors[i]->kinds;
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		if (v.kinds & 1ULL << kind)
			v.total += s->blocks(s->ctx, kind);
	size_t threads = threads_wanted(&v);
	for (size_t i = 0; i < n; i++)
		v.states[i] = xcalloc(threads, visitors[i]->state_bytes + 1);
	run_threads(&v, threads);
	for (size_t i = 0; i < n; i++) {
		visitors[i]->end(visitors[i], v.states[i], threads);
		free(v.states[i]);
	}
	free(v.states);
}

void rows_read(const struct row_source *s, enum row_kind kind,
	       void (*rows)(void *ctx, const struct visited_rows *rows), void *ctx)
{
	struct row_block b = {0};
	for (size_t i = 0; i < s->blocks(s->ctx, kind); i++)
		if (!s->read(s->ctx, kind, i, &b, NULL))
			rows(ctx, &(struct visited_rows){kind, i, b.rows, b.len});
	row_block_free(&b);
}
