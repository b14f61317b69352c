/* busy_threads.c - CPU time of threads and of their processes. */
#include "incident/busy_threads.h"

#define LEAST  0.1	 /* of the process's CPU time */
#define HALVED (1 << 14) /* samples: some minutes of a busy CPU */

void busy_threads_free(struct busy_threads *b)
{
	map64_free(&b->of_thread);
	map64_free(&b->of_process);
}

static void add(struct map64 *to, uint64_t key, uint64_t ns)
{
	uint64_t before = 0;
	map64_get(to, key, &before);
	map64_set(to, key, before + ns);
}

static void halve(struct map64 *m)
{
	uint64_t key, ns;
	for (size_t at = 0; map64_next(m, &at, &key, &ns);)
		map64_set(m, key, ns / 2);
}

void busy_threads_add(struct busy_threads *b, const struct m_thread *t, const struct m_sample *s)
{
	if (s->kind != SAMPLE_CPU)
		return;
	add(&b->of_thread, s->thread, s->weight_ns);
	add(&b->of_process, t->pid, s->weight_ns);
	if (++b->samples < HALVED)
		return;
	halve(&b->of_thread);
	halve(&b->of_process);
	b->samples = 0;
}

bool busy_threads_has(const struct busy_threads *b, const struct m_thread *t, uint32_t thread)
{
	uint64_t own = 0, all = 0;
	if (t->tid == t->pid)
		return true;
	map64_get(&b->of_thread, thread, &own);
	map64_get(&b->of_process, t->pid, &all);
	return own > 0 && (double)own >= LEAST * (double)all;
}
