/* keys_nccl.c - what a kernel of NCCL was started for.
 *
 * A kernel does not say how many bytes it moves; the call does whose thread launched it: either the
 * collective itself, or the end of the group that it was in, which then stands for the bytes of all
 * calls of the group. The last COLLECTIVES_KEPT of each thread are kept, in order of their ends. */
#include <stdlib.h>

#include "detect/keys_impl.h"

#define COLLECTIVES_KEPT (1u << 18) /* a power of two */
#define COLLECTIVES_FEW	 4	    /* many threads call one alone */
#define GROUP_DEEPEST	 64
#define RANKS_KNOWN	 4096 /* handles; beyond, all are looked up again */

struct collective_call {
	uint64_t start_ns, end_ns, bytes;
};

struct nccl_thread {
	struct collective_call *ring;
	uint32_t cap; /* a power of two, 0 at first */
	uint64_t len; /* that were added; the last cap are there */
	uint32_t group_depth;
	uint64_t group_bytes;
};

struct key_nccl_state {
	VEC(struct nccl_thread) threads;
	VEC(uint32_t) free_threads; /* places */
	struct map64 thread_of;	    /* pid << 32 | tid -> index */
	struct map64 ranks_of;	    /* hash of pid and handle -> ranks */
};

struct key_nccl_state *key_nccl_new(void)
{
	return xcalloc(1, sizeof(struct key_nccl_state));
}

void key_nccl_free(struct key_nccl_state *n)
{
	for (size_t i = 0; i < n->threads.len; i++)
		free(n->threads.data[i].ring);
	vec_free(&n->threads);
	vec_free(&n->free_threads);
	map64_free(&n->thread_of);
	map64_free(&n->ranks_of);
	free(n);
}

static struct collective_call *at(const struct nccl_thread *t, uint64_t i)
{
	return &t->ring[i & (t->cap - 1)];
}

static void grow(struct nccl_thread *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : COLLECTIVES_FEW;
	t->ring = xrealloc(t->ring, cap, sizeof(*t->ring));
	t->cap = cap; /* it was full and never wrapped: places stay */
}

static void keep(struct nccl_thread *t, const struct m_call *c, uint64_t bytes)
{
	uint64_t end = c->start_ns + c->dur_ns;
	if (t->len && end < at(t, t->len - 1)->end_ns)
		return; /* not in order: it could not be found */
	if (t->len == t->cap && t->cap < COLLECTIVES_KEPT)
		grow(t);
	*at(t, t->len++) = (struct collective_call){c->start_ns, end, bytes};
}

static struct nccl_thread *have_thread(struct key_nccl_state *n, uint64_t id)
{
	uint64_t i;
	if (map64_get(&n->thread_of, id, &i))
		return &n->threads.data[i];
	if (n->free_threads.len) {
		i = n->free_threads.data[--n->free_threads.len];
	} else {
		i = n->threads.len;
		vec_push(&n->threads);
	}
	map64_set(&n->thread_of, id, i);
	return &n->threads.data[i];
}

void key_nccl_thread_gone(struct key_nccl_state *n, uint32_t pid, uint32_t tid)
{
	uint64_t i, id = (uint64_t)pid << 32 | tid;
	if (!map64_get(&n->thread_of, id, &i))
		return;
	map64_del(&n->thread_of, id);
	free(n->threads.data[i].ring);
	n->threads.data[i] = (struct nccl_thread){0};
	*vec_push(&n->free_threads) = (uint32_t)i;
}

void key_nccl_call(struct key_nccl_state *n, const struct detect_names *names,
		   const struct key_plan *plan, const struct m_call *c)
{
	const struct m_thread *who = names->thread(names->ctx, c->thread);
	if (plan->nccl == NCCL_COMM_CHANGE)
		map64_free(&n->ranks_of);
	if (!who || plan->nccl == NCCL_COMM_CHANGE)
		return;
	struct nccl_thread *t = have_thread(n, (uint64_t)who->pid << 32 | who->tid);
	uint64_t bytes =
		plan->bytes_arg >= 0 && plan->bytes_arg < c->nargs ? c->args[plan->bytes_arg] : 0;
	if (plan->nccl == NCCL_GROUP_START) {
		t->group_bytes = t->group_depth ? t->group_bytes : 0;
		t->group_depth += t->group_depth < GROUP_DEEPEST;
	} else if (plan->nccl == NCCL_COLLECTIVE) {
		t->group_bytes += bytes;
		if (!t->group_depth)
			keep(t, c, bytes);
	} else if (t->group_depth && !--t->group_depth) {
		keep(t, c, t->group_bytes);
	}
}

uint64_t key_nccl_bytes(const struct key_nccl_state *n, uint32_t pid, uint32_t tid,
			uint64_t time_ns)
{
	uint64_t i;
	if (!time_ns || !map64_get(&n->thread_of, (uint64_t)pid << 32 | tid, &i))
		return 0;
	const struct nccl_thread *t = &n->threads.data[i];
	uint64_t low = t->len > t->cap ? t->len - t->cap : 0, high = t->len;
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		if (at(t, mid)->end_ns < time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->len && at(t, low)->start_ns <= time_ns ? at(t, low)->bytes : 0;
}

int32_t key_nccl_ranks(struct key_nccl_state *n, const struct detect_names *names,
		       const struct key_plan *plan, const struct m_call *c)
{
	if (plan->comm_arg < 0 || plan->comm_arg >= c->nargs)
		return 0;
	const struct m_thread *who = names->thread(names->ctx, c->thread);
	uint32_t pid = who ? who->pid : 0;
	uint64_t id = hash_u64(c->args[plan->comm_arg] ^ (uint64_t)pid << 40), ranks;
	if (map64_get(&n->ranks_of, id, &ranks))
		return (int32_t)ranks;
	const struct m_comm *comm =
		names->comm(names->ctx, pid, c->args[plan->comm_arg], c->start_ns);
	if (!comm || comm->size <= 0)
		return 0; /* perhaps it becomes known */
	if (n->ranks_of.len >= RANKS_KNOWN)
		map64_free(&n->ranks_of);
	map64_set(&n->ranks_of, id, (uint64_t)comm->size);
	return comm->size;
}
