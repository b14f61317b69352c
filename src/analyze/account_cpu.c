/* account_cpu.c - CPU time by program, and by thread of one process. */
#include "analyze/account_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/process_index.h"
#include "base/map64.h"

#define BUSY_PART 10

struct thread_time {
	uint64_t off_ns, wall_ns;
};

static uint64_t run_ns(const struct thread_time *of)
{
	return of->wall_ns > of->off_ns ? of->wall_ns - of->off_ns : 0;
}

struct counting {
	const struct rec_tables *t;
	struct process_index index;
	struct map64 program_of, thread_of; /* hash of a name -> index */
	struct map64 seen;		    /* pid */
	struct account_users *ret;
	uint32_t pid;
};

static size_t place_of(struct map64 *places, const char *name, size_t next)
{
	uint64_t at, key = hash_bytes(name, strlen(name));
	if (map64_get(places, key, &at))
		return at;
	map64_set(places, key, next);
	return next;
}

static void add_program(struct counting *u, uint32_t pid, uint64_t ns)
{
	const char *name = account_program(u->t, process_index_row(&u->index, pid));
	size_t at = place_of(&u->program_of, name, u->ret->programs.len);
	uint64_t seen;
	if (at == u->ret->programs.len)
		*vec_push(&u->ret->programs) = (struct account_user){.name = name, .id = pid};
	struct account_user *to = &u->ret->programs.data[at];
	to->count += !map64_get(&u->seen, pid, &seen);
	to->run_ns += ns;
	map64_set(&u->seen, pid, 1);
	u->ret->run_ns += ns;
}

static void add_thread(struct counting *u, const struct m_thread *row, uint64_t ns)
{
	const char *name = strtab_get(&u->t->strings, row->comm, NULL);
	if (row->pid != u->pid || row->tid == row->pid)
		return;
	size_t at = place_of(&u->thread_of, name, u->ret->threads.len);
	if (at == u->ret->threads.len)
		*vec_push(&u->ret->threads) = (struct account_user){.name = name, .id = row->tid};
	struct account_user *to = &u->ret->threads.data[at];
	to->count++;
	to->run_ns += ns;
	if (ns > to->most_ns) {
		to->most_ns = ns;
		to->id = row->tid;
	}
}

/* The others of a name only wait. */
static void count_busy(struct counting *u, const struct m_thread *row, uint64_t ns)
{
	const char *name = strtab_get(&u->t->strings, row->comm, NULL);
	if (row->pid != u->pid || row->tid == row->pid)
		return;
	struct account_user *of =
		&u->ret->threads.data[place_of(&u->thread_of, name, u->ret->threads.len)];
	of->busy += ns * BUSY_PART >= of->most_ns;
}

static struct thread_time *read_totals(const struct rec_tables *t)
{
	struct thread_time *ret = xcalloc(t->threads.len + 1, sizeof(*ret));
	for (size_t i = 0; i < t->wait_totals.len; i++) {
		const struct m_wait_total *w = &t->wait_totals.data[i];
		uint64_t wall_ns = w->until_ns > w->since_ns ? w->until_ns - w->since_ns : 0;
		struct thread_time *of = &ret[w->thread];
		of->off_ns += w->waited_ns + w->runnable_ns;
		of->wall_ns = wall_ns > of->wall_ns ? wall_ns : of->wall_ns;
	}
	return ret;
}

static int compare_users(const void *a, const void *b)
{
	const struct account_user *x = a, *y = b;
	if (x->run_ns != y->run_ns)
		return x->run_ns > y->run_ns ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

#define SORT(v)                                                                                    \
	do {                                                                                       \
		if ((v)->len)                                                                      \
			qsort((v)->data, (v)->len, sizeof(*(v)->data), compare_users);             \
	} while (0)

void account_users_make(struct account_users *ret, const struct rec_tables *t, uint32_t pid)
{
	struct counting u = {.t = t, .ret = ret, .pid = pid};
	struct thread_time *of = read_totals(t);
	size_t n = t->threads.len;
	*ret = (struct account_users){0};
	process_index_make(&u.index, t);
	for (size_t i = 0; i < n; i++)
		if (of[i].wall_ns) {
			add_program(&u, t->threads.data[i].pid, run_ns(&of[i]));
			add_thread(&u, &t->threads.data[i], run_ns(&of[i]));
		}
	for (size_t i = 0; i < n; i++)
		if (of[i].wall_ns)
			count_busy(&u, &t->threads.data[i], run_ns(&of[i]));
	SORT(&ret->programs);
	SORT(&ret->threads);
	process_index_free(&u.index);
	map64_free(&u.program_of);
	map64_free(&u.thread_of);
	map64_free(&u.seen);
	free(of);
}

void account_users_free(struct account_users *u)
{
	vec_free(&u->programs);
	vec_free(&u->threads);
}
