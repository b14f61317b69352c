/* track_order.c - sorts processes and threads for timelines. */
#include "export/track_order.h"

#include <limits.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/map64.h"

struct place {
	uint32_t row;
	uint32_t pid, tid;
	int32_t rank; /* of processes; INT32_MAX: none */
	bool is_main; /* of threads */
	uint64_t activity;
};

static int by_activity(const struct place *x, const struct place *y)
{
	if (x->activity != y->activity)
		return x->activity > y->activity ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static int compare_processes(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return by_activity(x, y);
}

static int compare_threads(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->is_main != y->is_main)
		return x->is_main ? -1 : 1;
	return by_activity(x, y);
}

static uint32_t *rows_of(struct place *places, size_t n,
			 int (*compare)(const void *a, const void *b))
{
	uint32_t *rows = xcalloc(n + 1, sizeof(*rows));
	if (n)
		qsort(places, n, sizeof(*places), compare);
	for (size_t i = 0; i < n; i++)
		rows[i] = places[i].row;
	return rows;
}

static void order_processes(struct track_order *ret, const struct rec_tables *t,
			    const uint64_t *activity)
{
	struct map64 last = {0}, of_pid = {0}; /* a process that ran another program has several */
	struct place *places = xcalloc(t->processes.len + 1, sizeof(*places));
	uint64_t at;
	for (size_t i = 0; i < t->processes.len; i++)
		map64_set(&last, t->processes.data[i].pid, i);
	for (size_t i = 0; i < t->threads.len; i++) {
		uint64_t sum = 0;
		(void)map64_get(&of_pid, t->threads.data[i].pid, &sum);
		map64_set(&of_pid, t->threads.data[i].pid, sum + activity[i]);
	}
	for (size_t i = 0; i < t->processes.len; i++) {
		const struct m_process *p = &t->processes.data[i];
		if (!map64_get(&last, p->pid, &at) || at != i)
			continue;
		struct place *place = &places[ret->nprocesses++];
		*place = (struct place){.row = (uint32_t)i,
					.tid = p->pid,
					.rank = p->rank >= 0 ? p->rank : INT32_MAX};
		(void)map64_get(&of_pid, p->pid, &place->activity);
	}
	ret->processes = rows_of(places, ret->nprocesses, compare_processes);
	free(places);
	map64_free(&last);
	map64_free(&of_pid);
}

void track_order_make(struct track_order *ret, const struct rec_tables *t, const uint64_t *activity)
{
	struct place *places = xcalloc(t->threads.len + 1, sizeof(*places));
	*ret = (struct track_order){.nthreads = t->threads.len};
	for (size_t i = 0; i < t->threads.len; i++) {
		const struct m_thread *thread = &t->threads.data[i];
		places[i] = (struct place){.row = (uint32_t)i,
					   .pid = thread->pid,
					   .tid = thread->tid,
					   .is_main = thread->pid == thread->tid,
					   .activity = activity[i]};
	}
	ret->threads = rows_of(places, ret->nthreads, compare_threads);
	free(places);
	order_processes(ret, t, activity);
}

void track_order_free(struct track_order *o)
{
	free(o->processes);
	free(o->threads);
}
