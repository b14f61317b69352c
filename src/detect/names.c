/* names.c - the names of a file's rows. */
#include "detect/names.h"

static const char *string(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return strtab_get(&t->strings, number, NULL);
}

static const struct m_probe *probe(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return number < t->probes.len ? &t->probes.data[number] : NULL;
}

static const struct m_thread *thread(void *ctx, uint32_t index)
{
	const struct rec_tables *t = ctx;
	return index < t->threads.len ? &t->threads.data[index] : NULL;
}

static const struct m_code *code(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return number < t->codes.len ? &t->codes.data[number] : NULL;
}

static const struct m_metric *metric(void *ctx, uint32_t number)
{
	const struct rec_tables *t = ctx;
	return number < t->metrics.len ? &t->metrics.data[number] : NULL;
}

static const struct m_comm *comm(void *ctx, uint32_t pid, uint64_t handle, uint64_t time_ns)
{
	const struct rec_tables *t = ctx;
	for (size_t i = 0; i < t->comms.len; i++) {
		const struct m_comm *c = &t->comms.data[i];
		if (c->pid == pid && c->handle == handle && c->start_ns <= time_ns &&
		    (!c->end_ns || time_ns <= c->end_ns))
			return c;
	}
	return NULL;
}

void detect_names_of_source(struct detect_names *ret, const struct row_source *r)
{
	*ret = (struct detect_names){.ctx = (void *)(uintptr_t)r->tables,
				     .string = string,
				     .probe = probe,
				     .thread = thread,
				     .code = code,
				     .comm = comm,
				     .metric = metric};
}
