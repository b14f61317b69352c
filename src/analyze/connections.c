/* connections.c - the two ends of a connection are found by their addresses. In different network
 * namespaces they may be ends of one too, but not with addresses that each namespace has for
 * itself. */
#include "analyze/connections.h"

#include <string.h>

#include "base/map64.h"

static const char *text(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

static uint64_t key_of(uint32_t source, uint32_t destination)
{
	return (uint64_t)source << 32 | destination;
}

static bool opened_by_nccl(const struct rec_tables *t, const struct m_connection *c)
{
	return c->by_nccl || !strncmp(text(t, c->opener), "NCCL", 4);
}

/* What finds the other end of a connection. */
struct ends {
	const struct rec_tables *t;
	struct map64 last;	/* source and destination -> 1 + index of the last such row */
	uint64_t *before;	/* by row: the one before with both the same, 0 none */
	struct map64 host;	/* pid -> the recording that it is from, of a merged one */
	struct map64 with_comm; /* pids that have a communicator */
};
#define ENDS_LOOKED_AT 64 /* of one pair of addresses, in network namespaces of their own */

static void ends_make(struct ends *e, const struct rec_tables *t)
{
	*e = (struct ends){.t = t};
	e->before = xcalloc(t->connections.len + 1, sizeof(*e->before));
	for (size_t i = 0; i < t->connections.len; i++) {
		const struct m_connection *c = &t->connections.data[i];
		uint64_t key = key_of(c->source, c->destination);
		map64_get(&e->last, key, &e->before[i]);
		map64_set(&e->last, key, i + 1);
	}
	for (size_t i = 0; i < t->processes.len; i++)
		map64_set(&e->host, t->processes.data[i].pid, t->processes.data[i].source);
	for (size_t i = 0; i < t->comms.len; i++)
		map64_set(&e->with_comm, t->comms.data[i].pid, 1);
}

static void ends_free(struct ends *e)
{
	map64_free(&e->last);
	map64_free(&e->host);
	map64_free(&e->with_comm);
	free(e->before);
}

static bool same_namespace(const struct ends *e, const struct m_connection *a,
			   const struct m_connection *b)
{
	uint64_t here = 0, there = 0;
	map64_get(&e->host, a->pid, &here);
	map64_get(&e->host, b->pid, &there);
	return a->netns == b->netns && here == there;
}

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strncmp(address, "[::1]", 5);
}

/* NULL: was not traced. */
static const struct m_connection *other_end(const struct ends *e, const struct m_connection *c)
{
	uint64_t i = 0;
	const struct m_connection *elsewhere = NULL;
	map64_get(&e->last, key_of(c->destination, c->source), &i);
	for (int n = 0; i && n < ENDS_LOOKED_AT; i = e->before[i - 1], n++) {
		const struct m_connection *other = &e->t->connections.data[i - 1];
		if (same_namespace(e, c, other))
			return other;
		if (!elsewhere)
			elsewhere = other;
	}
	return is_loopback(text(e->t, c->source)) ? NULL : elsewhere;
}

static bool has_comm(const struct ends *e, uint32_t pid)
{
	uint64_t unused;
	return map64_get(&e->with_comm, pid, &unused);
}

static uint8_t use_of(const struct ends *e, const struct m_connection *c)
{
	const struct rec_tables *t = e->t;
	const struct m_connection *other = other_end(e, c);
	if (opened_by_nccl(t, c) || (other && opened_by_nccl(t, other)))
		return CONNECTION_NCCL;
	bool known = *text(t, c->opener) || (other && *text(t, other->opener));
	if (known || !other || other->pid == c->pid || !has_comm(e, c->pid) ||
	    !has_comm(e, other->pid))
		return CONNECTION_OTHER;
	return CONNECTION_MAYBE_NCCL;
}

uint8_t *connections_uses(const struct rec_tables *t)
{
	uint8_t *uses = xcalloc(t->connections.len + 1, sizeof(*uses));
	struct ends ends;
	ends_make(&ends, t);
	for (size_t i = 0; i < t->connections.len; i++)
		uses[i] = use_of(&ends, &t->connections.data[i]);
	ends_free(&ends);
	return uses;
}

struct connections_sum connections_nccl(const struct rec_tables *t, const uint8_t *uses,
					uint32_t pid)
{
	struct connections_sum sum = {0};
	for (size_t i = 0; i < t->connections.len; i++) {
		const struct m_connection *c = &t->connections.data[i];
		if (uses[i] != CONNECTION_NCCL || (pid && c->pid != pid))
			continue;
		sum.count++;
		sum.bytes_sent += c->bytes_sent - c->sent_before;
		sum.bytes_received += c->bytes_received - c->received_before;
		sum.retransmits += c->retransmits;
	}
	return sum;
}
