/* live_arrivals.c - each rank has a ring of what it entered last. A rank that has left its
 * communicator stays until all have: others may come to what it entered. */
#include "session/live_arrivals.h"

#include <stdlib.h>

struct entered {
	uint64_t number; /* sequence + 1; 0: nothing, or it was told */
	uint64_t start_ns, what;
};

struct live_rank {
	uint32_t pid;
	int32_t size; /* of its communicator, 0 unknown */
	bool gone;
	uint64_t hash, handle, start_ns;
	struct entered *ring; /* NULL: it entered nothing so far */
};

static uint64_t key_of(uint32_t pid, uint64_t handle)
{
	return hash_u64(hash_u64(pid) ^ handle);
}

static struct live_rank *rank_of(struct live_arrivals *a, uint32_t pid, uint64_t handle)
{
	uint64_t at;
	return map64_get(&a->rank_of, key_of(pid, handle), &at) ? &a->ranks.data[at] : NULL;
}

void live_arrivals_comm(struct live_arrivals *a, const struct m_comm *row)
{
	struct live_rank *r = rank_of(a, row->pid, row->handle);
	bool same = r && r->start_ns == row->start_ns;
	if (row->end_ns && !same) /* of one that another has taken the place of */
		return;
	if (r) /* else another lies where it was */
		r->gone |= row->end_ns || !same;
	if (same || !row->hash || a->ended)
		return;
	if (a->ranks.len >= ARRIVALS_RANKS) { /* without all ranks nobody knows who was last */
		map64_set(&a->left_out, row->hash, 1);
		a->ended = a->left_out.len > ARRIVALS_LEFT_OUT;
		return;
	}
	map64_set(&a->rank_of, key_of(row->pid, row->handle), a->ranks.len);
	*vec_push(&a->ranks) = (struct live_rank){.pid = row->pid,
						  .size = row->size,
						  .hash = row->hash,
						  .handle = row->handle,
						  .start_ns = row->start_ns};
}

void live_arrivals_process_ended(struct live_arrivals *a, uint32_t pid)
{
	for (size_t i = 0; i < a->ranks.len; i++)
		a->ranks.data[i].gone |= a->ranks.data[i].pid == pid;
}

static bool is_there(const struct live_arrivals *a, uint64_t hash)
{
	for (size_t i = 0; i < a->ranks.len; i++)
		if (a->ranks.data[i].hash == hash && !a->ranks.data[i].gone)
			return true;
	return false;
}

void live_arrivals_forget(struct live_arrivals *a)
{
	struct live_arrivals next = {.ended = a->ended, .left_out = a->left_out};
	size_t gone = 0;
	for (size_t i = 0; i < a->ranks.len; i++)
		gone += a->ranks.data[i].gone;
	if (!gone)
		return;
	for (size_t i = 0; i < a->ranks.len; i++) {
		const struct live_rank *r = &a->ranks.data[i];
		if (!is_there(a, r->hash)) {
			free(r->ring);
			continue;
		}
		map64_set(&next.rank_of, key_of(r->pid, r->handle), next.ranks.len);
		*vec_push(&next.ranks) = *r;
	}
	vec_free(&a->ranks);
	map64_free(&a->rank_of);
	*a = next;
}

static struct entered *entered_of(const struct live_rank *r, uint64_t sequence)
{
	return &r->ring[sequence % ARRIVALS_WINDOW];
}

/* Whether all ranks of it that can be here, two at least, have entered that one, and when the last
 * did. */
static bool all_entered(const struct live_arrivals *a, uint64_t hash, uint64_t sequence,
			uint64_t *ret_last_ns)
{
	size_t n = 0, size = 0;
	uint64_t made_ns = 0;
	*ret_last_ns = 0;
	for (size_t i = 0; i < a->ranks.len; i++) {
		const struct live_rank *r = &a->ranks.data[i];
		if (r->hash != hash)
			continue;
		if (!r->ring || entered_of(r, sequence)->number != sequence + 1)
			return false;
		uint64_t start_ns = entered_of(r, sequence)->start_ns;
		*ret_last_ns = start_ns > *ret_last_ns ? start_ns : *ret_last_ns;
		made_ns = r->start_ns > made_ns ? r->start_ns : made_ns;
		size = r->size > 0 ? (size_t)r->size : size;
		n++;
	}
	bool complete = size && n >= size;
	return n > 1 && (complete || *ret_last_ns > made_ns + ARRIVALS_TOLD_NS);
}

static bool is_left_out(const struct live_arrivals *a, uint64_t hash)
{
	uint64_t any;
	return map64_get(&a->left_out, hash, &any);
}

void live_arrivals_enter(struct live_arrivals *a, const struct live_arrival *in,
			 void (*told)(void *ctx, uint64_t what, uint64_t ahead_ns), void *ctx)
{
	struct live_rank *of = rank_of(a, in->pid, in->handle);
	uint64_t last_ns;
	if (a->ended || !of || in->end_ns < of->start_ns || is_left_out(a, of->hash))
		return;
	if (!of->ring)
		of->ring = xcalloc(ARRIVALS_WINDOW, sizeof(*of->ring));
	*entered_of(of, in->sequence) = (struct entered){in->sequence + 1, in->start_ns, in->what};
	if (!all_entered(a, of->hash, in->sequence, &last_ns))
		return;
	for (size_t i = 0; i < a->ranks.len; i++) {
		if (a->ranks.data[i].hash != of->hash)
			continue;
		struct entered *e = entered_of(&a->ranks.data[i], in->sequence);
		told(ctx, e->what, last_ns - e->start_ns);
		e->number = 0;
	}
}

void live_arrivals_free(struct live_arrivals *a)
{
	for (size_t i = 0; i < a->ranks.len; i++)
		free(a->ranks.data[i].ring);
	vec_free(&a->ranks);
	map64_free(&a->rank_of);
	map64_free(&a->left_out);
}
