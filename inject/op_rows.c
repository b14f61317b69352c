/* op_rows.c - empties the blocks of all threads into the ring, in ours: ticks become nanoseconds,
 * names are told before rows, blocks of threads that have ended are freed. It calls nothing of
 * PyTorch. */
#include <stdlib.h>

#include "op_impl.h"

#define PAIR_EVERY_NS 1000000000ULL

/* The rate between the pair before the time and the next, or now, which may be the last pair. */
static uint64_t to_ns(uint64_t ticks)
{
	size_t i = ops.pairs_len;
	if (!ticks_are_counted)
		return ticks;
	if (i > 1 && ops.pairs[i - 1].ticks == ops.now.ticks)
		i--;
	while (i > 1 && ops.pairs[i - 1].ticks > ticks)
		i--;
	const struct ticks_pair *next = i < ops.pairs_len ? &ops.pairs[i] : &ops.now;
	return ticks_to_ns(&ops.pairs[i - 1], next, ticks);
}

void op_rows_take_pair(void)
{
	ops.now = ticks_pair_now();
	if (ops.pairs_len && ops.now.ns - ops.pairs[ops.pairs_len - 1].ns < PAIR_EVERY_NS)
		return;
	if (ops.pairs_len == PAIRS)
		memmove(ops.pairs, ops.pairs + 1, --ops.pairs_len * sizeof(ops.pairs[0]));
	ops.pairs[ops.pairs_len++] = ops.now;
}

static bool tell_name(struct name *n)
{
	size_t skipped = n->kind == GPU_RING_NODE ? sizeof(NODE_PREFIX) - 1 : 0;
	n->told = n->told || ring_put_operator_name(ops.ring, n->number, n->kind, n->text + skipped,
						    n->len - skipped);
	return n->told;
}

static void put_row(const struct thread *t, const struct row *row)
{
	struct name *n = ops.names[row->name];
	struct gpu_ring_op op = {.start_ns = to_ns(row->start),
				 .end_ns = to_ns(row->end),
				 .sequence = row->sequence,
				 .tid = t->tid,
				 .name = row->name,
				 .depth = row->depth};
	if (op.end_ns < op.start_ns)
		op.end_ns = op.start_ns;
	if (tell_name(n))
		ring_put_op(ops.ring, &op);
	else
		ring_lost_ops(ops.ring, 1);
}

static void put_launch(const struct thread *t, const struct launch *l)
{
	struct gpu_ring_launch out = {.start_ns = to_ns(l->start),
				      .end_ns = to_ns(l->end),
				      .kernel = l->kernel,
				      .stream = l->stream,
				      .shared_bytes = l->shared_bytes,
				      .tid = t->tid,
				      .correlation = l->correlation,
				      .function = l->function,
				      .depth = l->depth,
				      .result = l->result};
	memcpy(out.grid, l->grid, sizeof(out.grid));
	memcpy(out.block, l->block, sizeof(out.block));
	if (out.end_ns < out.start_ns)
		out.end_ns = out.start_ns;
	ring_put_launch(ops.ring, &out);
}

static void empty_launches(struct thread *t)
{
	uint64_t head = __atomic_load_n(&t->launches_head, __ATOMIC_ACQUIRE);
	for (; t->launches_tail < head;
	     __atomic_store_n(&t->launches_tail, t->launches_tail + 1, __ATOMIC_RELEASE))
		put_launch(t, &t->launches[t->launches_tail % LAUNCHES]);
}

/* The rows that were there when it began. */
static void empty_thread(struct thread *t)
{
	empty_launches(t);
	uint64_t head = __atomic_load_n(&t->head, __ATOMIC_ACQUIRE);
	uint64_t lost = __atomic_load_n(&t->lost, __ATOMIC_RELAXED);
	for (; t->tail < head; __atomic_store_n(&t->tail, t->tail + 1, __ATOMIC_RELEASE))
		put_row(t, &t->rows[t->tail % ROWS]);
	if (lost != t->lost_told)
		ring_lost_ops(ops.ring, lost - t->lost_told);
	t->lost_told = lost;
}

static struct thread *first_thread(void)
{
	pthread_mutex_lock(&ops.lock);
	struct thread *t = ops.threads;
	pthread_mutex_unlock(&ops.lock);
	return t;
}

/* Takes a block out of the list; only new ones come before it meanwhile. */
static void free_thread(struct thread *t)
{
	pthread_mutex_lock(&ops.lock);
	struct thread **at = &ops.threads;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	pthread_mutex_unlock(&ops.lock);
	free(t);
}

/* What ends before read_upto_ns was written before the last look: a thread may be stopped
 * between its look at the clock and its row. */
void op_rows_empty(void)
{
	uint64_t upto_ns = ops.read_upto_ns;
	op_rows_take_pair();
	pthread_mutex_lock(ops.ring_lock);
	for (struct thread *t = first_thread(), *next; t; t = next) {
		bool gone = __atomic_load_n(&t->gone, __ATOMIC_ACQUIRE);
		next = t->next;
		empty_thread(t);
		if (gone)
			free_thread(t);
	}
	if (upto_ns)
		ring_put_ops_upto(ops.ring, upto_ns);
	pthread_mutex_unlock(ops.ring_lock);
	ops.read_upto_ns = ops.now.ns;
	op_names_read_unwanted();
}
