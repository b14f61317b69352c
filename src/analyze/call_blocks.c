/* call_blocks.c - reads all blocks of calls with one thread for each CPU. */
#include "analyze/call_blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/buffer.h"

#define MAX_WORKERS 64

struct shared {
	const struct rec_reader *reader;
	const struct call_blocks_options *o;
	call_blocks_take *take;
	void *ctx;
	size_t blocks;
	_Atomic size_t next_block;
};

struct worker {
	struct shared *shared;
	void *state;
	bool reports;
	pthread_t id;
};

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	struct shared *s = w->shared;
	struct m_calls calls = {0};
	for (;;) {
		size_t block = atomic_fetch_add(&s->next_block, 1);
		if (block >= s->blocks)
			break;
		if (rec_read_calls(s->reader, block, &calls, NULL) < 0)
			continue; /* the report tells of damage */
		for (size_t i = 0; i < calls.len; i++)
			s->take(w->state, s->ctx, &calls.rows[i], (uint64_t)block << 32 | i);
		if (w->reports && s->o->progress)
			s->o->progress(s->o->progress_ctx, block, s->blocks);
	}
	m_calls_free(&calls);
	return NULL;
}

static size_t workers_wanted(const struct shared *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = s->o->workers;
	if (!n)
		n = cpus > 0 ? (size_t)cpus : 1;
	if (n > MAX_WORKERS)
		n = MAX_WORKERS;
	return n > s->blocks && s->blocks ? s->blocks : n;
}

void *call_blocks_read(const struct rec_reader *r, const struct call_blocks_options *o,
		       size_t state_bytes, call_blocks_take *take, void *ctx, size_t *ret_workers)
{
	struct shared s = {.reader = r, .o = o, .take = take, .ctx = ctx};
	s.blocks = rec_call_blocks(r);
	size_t n = workers_wanted(&s);
	uint8_t *states = xcalloc(n, state_bytes);
	struct worker *workers = xcalloc(n, sizeof(*workers));
	for (size_t i = 0; i < n; i++)
		workers[i] = (struct worker){&s, states + i * state_bytes, i == 0, 0};
	size_t started = 1;
	for (; started < n; started++)
		if (pthread_create(&workers[started].id, NULL, worker_run, &workers[started]))
			break; /* the others take its blocks */
	worker_run(&workers[0]);
	for (size_t i = 1; i < started; i++)
		pthread_join(workers[i].id, NULL);
	free(workers);
	*ret_workers = n;
	return states;
}
