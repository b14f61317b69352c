/* rank_times.c - sums calls in which ranks wait for each other, by function and process.
 *
 * Which functions do is known by their names. Counts of the kernel's histograms stand for the calls
 * that they have counted. */
#include "analyze/rank_times.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/functions.h"
#include "analyze/process_index.h"
#include "base/map64.h"
#include "wire/event.h"

#define SLOW_WAITS_RATIO 0.8  /* of what the rank waits that waits least but one */
#define WORTH_RATIO	 0.01 /* of the recording's time: less between ranks is no news */

struct job {
	struct row_visitor visitor;
	struct rank_times *ret;
	const struct rec_tables *t;
	uint32_t pid;
	struct fn_ids ids;
	struct map64 in_histogram; /* probe << 32 | pid */
	struct process_index processes;
};

struct pair {
	uint32_t fn, pid;
	uint64_t calls, total_ns;
};

enum { UNKNOWN, WAITS, OTHER };

struct worker {
	uint8_t *kind_of; /* by function number */
	struct map64 pair_of;
	VEC(struct pair) pairs;
	uint64_t first_ns, last_ns;
};

/* ---- which functions ---- */

static bool begins(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool ranks_wait_in(const char *name)
{
	return begins(name, "MPI_") || begins(name, "PMPI_") || begins(name, "mpi_") ||
	       begins(name, "nccl") || begins(name, "c10d::") ||
	       strstr(name, "distributed_c10d.py");
}

static bool is_wanted(const struct job *job, struct worker *w, uint32_t fn)
{
	struct fn_label label;
	if (!w->kind_of)
		w->kind_of = xcalloc(job->ids.len + 1, 1);
	if (w->kind_of[fn] == UNKNOWN) {
		fn_label_make(&job->ids, fn, &label);
		w->kind_of[fn] = ranks_wait_in(label.name) ? WAITS : OTHER;
		free(label.name);
	}
	return w->kind_of[fn] == WAITS;
}

/* ---- sums ---- */

static void add(struct worker *w, uint32_t fn, uint32_t pid, uint64_t calls, uint64_t ns)
{
	uint64_t at, key = (uint64_t)fn << 32 | pid;
	if (!map64_get(&w->pair_of, key, &at)) {
		at = w->pairs.len;
		map64_set(&w->pair_of, key, at);
		*vec_push(&w->pairs) = (struct pair){.fn = fn, .pid = pid};
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was found or made */
	w->pairs.data[at].calls += calls;
	w->pairs.data[at].total_ns += ns;
}

static void visit_calls(const struct row_visitor *v, void *state, const struct visited_rows *rows)
{
	const struct job *job = (const struct job *)v;
	struct worker *w = state;
	const struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		const struct m_call *c = &calls[i];
		uint32_t fn = fn_id(&job->ids, c), pid = job->t->threads.data[c->thread].pid;
		uint64_t counted, end_ns = c->start_ns + c->dur_ns;
		if (!w->first_ns || c->start_ns < w->first_ns)
			w->first_ns = c->start_ns;
		if (end_ns > w->last_ns)
			w->last_ns = end_ns;
		if (!is_wanted(job, w, fn) || (job->pid && pid != job->pid))
			continue;
		if (c->flags & CALL_OPEN ||
		    !map64_get(&job->in_histogram, (uint64_t)c->probe << 32 | pid, &counted))
			add(w, fn, pid, 1, c->dur_ns);
	}
}

static void add_histograms(const struct job *job, struct worker *w)
{
	for (size_t i = 0; i < job->t->hists.len; i++) {
		const struct m_hist *h = &job->t->hists.data[i];
		if (h->probe >= job->t->probes.len || (job->pid && h->pid != job->pid))
			continue;
		uint32_t fn = fn_id_named(&job->ids, h->probe, h->name);
		if (is_wanted(job, w, fn))
			add(w, fn, h->pid, h->count, h->total_ns);
	}
}

/* ---- rows ---- */

static int compare_ranks(const void *a, const void *b)
{
	const struct rank_time *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static size_t slow_one(const struct rank_function *f, uint64_t worth_ns)
{
	size_t least = 0;
	uint64_t second = UINT64_MAX;
	for (size_t i = 1; i < f->ranks.len; i++)
		if (f->ranks.data[i].total_ns < f->ranks.data[least].total_ns)
			least = i;
	for (size_t i = 0; i < f->ranks.len; i++)
		if (i != least && f->ranks.data[i].total_ns < second)
			second = f->ranks.data[i].total_ns;
	uint64_t ns = f->ranks.data[least].total_ns;
	bool clear = (double)ns <= SLOW_WAITS_RATIO * (double)second && second - ns > worth_ns;
	return clear ? least : RANK_TIMES_NONE;
}

static uint64_t key_of(const char *layer, const char *name)
{
	return hash_bytes(name, strlen(name)) ^ hash_u64((uintptr_t)layer);
}

static struct rank_function *function_of(const struct job *job, uint32_t fn)
{
	struct rank_times *ret = job->ret;
	struct fn_label label;
	fn_label_make(&job->ids, fn, &label);
	uint64_t at, key = key_of(label.layer, label.name);
	if (map64_get(&ret->place_of, key, &at)) {
		free(label.name);
		return &ret->list.data[at];
	}
	map64_set(&ret->place_of, key, ret->list.len);
	struct rank_function *made = vec_push(&ret->list);
	*made = (struct rank_function){
		.layer = label.layer, .name = label.name, .slow = RANK_TIMES_NONE};
	return made;
}

/* Several probes may have one name. */
static void join_ranks(struct rank_function *f)
{
	size_t left = 0;
	qsort(f->ranks.data, f->ranks.len, sizeof(*f->ranks.data), compare_ranks);
	for (size_t i = 0; i < f->ranks.len; i++) {
		struct rank_time *t = &f->ranks.data[i];
		if (left && f->ranks.data[left - 1].pid == t->pid) {
			f->ranks.data[left - 1].calls += t->calls;
			f->ranks.data[left - 1].total_ns += t->total_ns;
		} else {
			f->ranks.data[left++] = *t;
		}
	}
	f->ranks.len = left;
}

static void make_rows(const struct job *job, const struct worker *sums)
{
	struct rank_times *ret = job->ret;
	for (size_t i = 0; i < sums->pairs.len; i++) {
		const struct pair *p = &sums->pairs.data[i];
		struct rank_time row = {p->pid, process_index_rank(&job->processes, p->pid),
					p->calls, p->total_ns};
		/* NOLINTNEXTLINE(clang-analyzer-core.*): room has data */
		*vec_push(&function_of(job, p->fn)->ranks) = row;
	}
	uint64_t worth_ns = (uint64_t)(WORTH_RATIO * (double)(sums->last_ns - sums->first_ns));
	for (size_t i = 0; i < ret->list.len; i++) {
		struct rank_function *f = &ret->list.data[i];
		join_ranks(f);
		if (f->ranks.len > 1)
			f->slow = slow_one(f, worth_ns);
	}
}

static void merge(struct worker *to, const struct worker *from)
{
	for (size_t i = 0; i < from->pairs.len; i++) {
		const struct pair *p = &from->pairs.data[i];
		add(to, p->fn, p->pid, p->calls, p->total_ns);
	}
	if (from->first_ns && (!to->first_ns || from->first_ns < to->first_ns))
		to->first_ns = from->first_ns;
	if (from->last_ns > to->last_ns)
		to->last_ns = from->last_ns;
}

static void worker_free(struct worker *w)
{
	free(w->kind_of);
	map64_free(&w->pair_of);
	vec_free(&w->pairs);
}

static void end_visit(struct row_visitor *v, void *states, size_t n)
{
	struct job *job = (struct job *)v;
	struct worker sums = {0};
	for (size_t i = 0; i < n; i++) {
		struct worker *w = visitor_state(v, states, i);
		merge(&sums, w);
		worker_free(w);
	}
	add_histograms(job, &sums);
	make_rows(job, &sums);
	worker_free(&sums);
	fn_ids_free(&job->ids);
	map64_free(&job->in_histogram);
	process_index_free(&job->processes);
	free(job);
}

struct row_visitor *rank_times_visitor(struct rank_times *ret, const struct row_source *s,
				       uint32_t pid)
{
	struct job *job = xcalloc(1, sizeof(*job));
	*ret = (struct rank_times){0};
	*job = (struct job){.visitor = {.kinds = 1u << ROW_CALL,
					.state_bytes = sizeof(struct worker),
					.rows = visit_calls,
					.end = end_visit},
			    .ret = ret,
			    .t = s->tables,
			    .pid = pid};
	fn_ids_make(&job->ids, s->tables);
	process_index_make(&job->processes, s->tables);
	for (size_t i = 0; i < s->tables->hists.len; i++) {
		const struct m_hist *h = &s->tables->hists.data[i];
		map64_set(&job->in_histogram, (uint64_t)h->probe << 32 | h->pid, 1);
	}
	return &job->visitor;
}

void rank_times_free(struct rank_times *t)
{
	for (size_t i = 0; i < t->list.len; i++) {
		free(t->list.data[i].name);
		vec_free(&t->list.data[i].ranks);
	}
	vec_free(&t->list);
	map64_free(&t->place_of);
}

const struct rank_function *rank_times_of(const struct rank_times *t, const char *layer,
					  const char *name)
{
	uint64_t at;
	if (!map64_get(&t->place_of, key_of(layer, name), &at) || t->list.data[at].ranks.len < 2)
		return NULL;
	return &t->list.data[at];
}
