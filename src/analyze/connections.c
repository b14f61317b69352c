/* connections.c - the two ends of a connection are found by their addresses. */
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

static bool has_comm(const struct rec_tables *t, uint32_t pid)
{
	for (size_t i = 0; i < t->comms.len; i++)
		if (t->comms.data[i].pid == pid)
			return true;
	return false;
}

static bool opened_by_nccl(const struct rec_tables *t, const struct m_connection *c)
{
	return !strncmp(text(t, c->opener), "NCCL", 4);
}

static uint8_t use_of(const struct rec_tables *t, const struct m_connection *c,
		      const struct m_connection *other)
{
	if (opened_by_nccl(t, c) || (other && opened_by_nccl(t, other)))
		return CONNECTION_NCCL;
	bool known = *text(t, c->opener) || (other && *text(t, other->opener));
	if (known || !other || other->pid == c->pid || !has_comm(t, c->pid) ||
	    !has_comm(t, other->pid))
		return CONNECTION_OTHER;
	return CONNECTION_MAYBE_NCCL;
}

uint8_t *connections_uses(const struct rec_tables *t)
{
	uint8_t *uses = xcalloc(t->connections.len + 1, sizeof(*uses));
	struct map64 rows = {0};
	for (size_t i = 0; i < t->connections.len; i++) {
		const struct m_connection *c = &t->connections.data[i];
		map64_set(&rows, key_of(c->source, c->destination), i);
	}
	for (size_t i = 0; i < t->connections.len; i++) {
		const struct m_connection *c = &t->connections.data[i];
		uint64_t other;
		bool both = map64_get(&rows, key_of(c->destination, c->source), &other);
		uses[i] = use_of(t, c, both ? &t->connections.data[other] : NULL);
	}
	map64_free(&rows);
	return uses;
}
