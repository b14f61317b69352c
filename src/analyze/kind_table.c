/* kind_table.c - finds kinds by hash, a few places from where they belong. */
#include "analyze/kind_table.h"

#include "base/map64.h"

enum { PROBES = 8 };

static uint64_t hash_kind(const uint8_t *kind, size_t bytes)
{
	uint64_t word, hash = 0;
	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, kind + i, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	}
	return hash_u64(hash);
}

static bool is_kind(const struct row_vec *kinds, uint32_t number, const void *kind, size_t bytes)
{
	return !memcmp(kinds->data + number * bytes, kind, bytes);
}

uint32_t kind_number(struct kind_table *table, struct row_vec *kinds, const void *kind,
		     size_t bytes)
{
	if (kinds->len && is_kind(kinds, table->last, kind, bytes))
		return table->last;
	uint64_t home = hash_kind(kind, bytes);
	uint32_t *slot = NULL;
	for (uint64_t i = 0; i < PROBES; i++) {
		slot = &table->slots[(home + i) % KIND_SLOTS];
		if (!*slot)
			break;
		if (is_kind(kinds, *slot - 1, kind, bytes))
			return table->last = *slot - 1;
	}
	if (*slot) /* all are taken: each in turn goes */
		slot = &table->slots[(home + kinds->len % PROBES) % KIND_SLOTS];
	table->last = (uint32_t)kinds->len;
	*slot = table->last + 1;
	memcpy(row_vec_add(kinds, bytes, 1), kind, bytes);
	return table->last;
}
