/* programs.c - processes by program: sums over those that ran the same. */
#include "analyze/programs.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"
#include "analyze/flame.h"
#include "analyze/process_index.h"
#include "base/entity.h"
#include "base/map64.h"

#define COMM_MOST 15 /* bytes of a name that the kernel keeps */

bool process_is_own(const struct rec_tables *t, const struct m_process *p)
{
	const char *target = rec_meta(t, "target"), *own = rec_meta(t, "own_executable");
	bool of_all = target && own &&
		      (!strcmp(target, TARGET_ALL) ||
		       !strncmp(target, TARGET_CGROUP, strlen(TARGET_CGROUP)));
	return of_all && *own && !strcmp(strtab_get(&t->strings, p->command, NULL), own);
}

bool *threads_of_own_processes(const struct rec_tables *t)
{
	struct process_index processes;
	bool *ret = xcalloc(t->threads.len + 1, sizeof(*ret));
	process_index_make(&processes, t);
	for (size_t i = 0; i < t->threads.len; i++) {
		const struct m_process *p = process_index_row(&processes, t->threads.data[i].pid);
		ret[i] = p && process_is_own(t, p);
	}
	process_index_free(&processes);
	return ret;
}

const char *process_program(const struct rec_tables *t, const struct m_process *p)
{
	if (process_is_own(t, p))
		return FLAME_OWN;
	const char *comm = strtab_get(&t->strings, p->comm, NULL);
	const char *path = strtab_get(&t->strings, p->command, NULL);
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;
	bool cut = strlen(comm) == COMM_MOST && !strncmp(file, comm, COMM_MOST);
	if (*comm && !cut)
		return comm;
	return *file ? file : "unknown";
}

static struct program *program_of(struct programs *p, struct map64 *place_of, const char *name)
{
	uint64_t at, key = hash_bytes(name, strlen(name));
	if (!map64_get(place_of, key, &at)) {
		at = p->list.len;
		map64_set(place_of, key, at);
		*vec_push(&p->list) =
			(struct program){.name = xstrdup(name), .rank_low = -1, .rank_high = -1};
	}
	return &p->list.data[at];
}

/* Means of the counter cpu_ratio, by pid. */
static void make_ratios(struct map64 *ret, const struct row_source *s)
{
	counter_sums_t sums = {0};
	counter_sums_make(&sums, s, 0, UINT64_MAX);
	for (size_t i = 0; i < sums.len; i++) {
		const struct m_metric *m = &s->tables->metrics.data[sums.data[i].metric];
		const char *name = strtab_get(&s->tables->strings, m->name, NULL);
		if (m->kind == ENTITY_PROCESS && !strcmp(name, "cpu_ratio") &&
		    sums.data[i].mean >= 0 && sums.data[i].mean < 1e6)
			map64_set(ret, m->pid, (uint64_t)(sums.data[i].mean * 1e6));
	}
	vec_free(&sums);
}

static uint64_t cpu_of(const struct m_process *p, const struct map64 *ratios, uint64_t life_ns)
{
	uint64_t millionths;
	if (p->cpu_ns)
		return p->cpu_ns;
	if (!map64_get(ratios, p->pid, &millionths))
		return UINT64_MAX;
	return (uint64_t)((double)life_ns * (double)millionths / 1e6);
}

static void add_process(struct program *to, const struct summary_process *from, uint64_t life_ns,
			uint64_t cpu_ns)
{
	int32_t rank = from->row->rank;
	if (!to->processes++)
		to->pid = from->row->pid;
	to->threads += from->threads;
	to->calls += from->calls;
	if (cpu_ns == UINT64_MAX)
		to->cpu_unknown++;
	else
		to->cpu_ns += cpu_ns;
	if (life_ns > to->longest_ns)
		to->longest_ns = life_ns;
	if (rank < 0)
		return;
	if (to->rank_low < 0 || rank < to->rank_low)
		to->rank_low = rank;
	if (rank > to->rank_high)
		to->rank_high = rank;
}

static int compare_programs(const void *a, const void *b)
{
	const struct program *x = a, *y = b;
	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns > y->cpu_ns ? -1 : 1;
	if (x->processes != y->processes)
		return x->processes > y->processes ? -1 : 1;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	return strcmp(x->name, y->name);
}

void programs_make(struct programs *ret, const struct row_source *s, const struct summary *summary,
		   uint64_t end_ns)
{
	struct map64 place_of = {0}, ratios = {0};
	*ret = (struct programs){.own = {.rank_low = -1, .rank_high = -1}};
	ret->process_cpu_ns = xcalloc(summary->processes.len + 1, sizeof(*ret->process_cpu_ns));
	make_ratios(&ratios, s);
	for (size_t i = 0; i < summary->processes.len; i++) {
		const struct summary_process *p = &summary->processes.data[i];
		uint64_t end = p->row->end_ns ? p->row->end_ns : end_ns;
		uint64_t life = end > p->row->start_ns ? end - p->row->start_ns : 0;
		uint64_t cpu = cpu_of(p->row, &ratios, life);
		ret->process_cpu_ns[i] = cpu;
		bool own = process_is_own(s->tables, p->row);
		add_process(own ? &ret->own
				: program_of(ret, &place_of, process_program(s->tables, p->row)),
			    p, life, cpu);
		ret->processes += !own;
		if (cpu == UINT64_MAX || own)
			continue;
		ret->cpu_ns += cpu;
		ret->elsewhere_ns += i ? cpu : 0;
	}
	if (ret->list.len)
		qsort(ret->list.data, ret->list.len, sizeof(*ret->list.data), compare_programs);
	map64_free(&place_of);
	map64_free(&ratios);
}

void programs_free(struct programs *p)
{
	for (size_t i = 0; i < p->list.len; i++)
		free(p->list.data[i].name);
	vec_free(&p->list);
	free(p->process_cpu_ns);
	*p = (struct programs){0};
}
