/* map64.c - linear probing with backward-shift deletion, at most 70 % full. */
#include "map64.h"

#include "buffer.h"

struct map64_slot {
	uint64_t key;
	uint64_t value;
	bool used;
};

/* The address is of this run alone: keys that come from a file cannot be made to meet. */
static size_t home_of(const struct map64 *m, uint64_t key)
{
	return hash_u64(key ^ (uintptr_t)m->slots) & (m->cap - 1);
}

static size_t find(const struct map64 *m, uint64_t key)
{
	size_t i = home_of(m, key);
	while (m->slots[i].used && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

bool map64_get(const struct map64 *m, uint64_t key, uint64_t *ret)
{
	if (!m->cap)
		return false;
	size_t i = find(m, key);
	if (!m->slots[i].used)
		return false;
	*ret = m->slots[i].value;
	return true;
}

static void grow(struct map64 *m)
{
	struct map64 bigger = {.cap = m->cap ? m->cap * 2 : 64};
	bigger.slots = xcalloc(bigger.cap, sizeof(*bigger.slots));
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].used)
			bigger.slots[find(&bigger, m->slots[i].key)] = m->slots[i];
	}
	bigger.len = m->len;
	free(m->slots);
	*m = bigger;
}

void map64_set(struct map64 *m, uint64_t key, uint64_t value)
{
	if ((m->len + 1) * 10 > m->cap * 7)
		grow(m);
	size_t i = find(m, key);
	if (!m->slots[i].used)
		m->len++;
	m->slots[i] = (struct map64_slot){.key = key, .value = value, .used = true};
}

void map64_del(struct map64 *m, uint64_t key)
{
	if (!m->cap)
		return;
	size_t i = find(m, key);
	if (!m->slots[i].used)
		return;
	m->len--;
	for (size_t j = (i + 1) & (m->cap - 1); m->slots[j].used; j = (j + 1) & (m->cap - 1)) {
		size_t home = home_of(m, m->slots[j].key);
		/* slot j may move to the hole at i when its home is not in (i, j] */
		bool stays = i <= j ? (i < home && home <= j) : (i < home || home <= j);
		if (stays)
			continue;
		m->slots[i] = m->slots[j];
		i = j;
	}
	m->slots[i].used = false;
}

void map64_free(struct map64 *m)
{
	free(m->slots);
	*m = (struct map64){0};
}

bool map64_next(const struct map64 *m, size_t *at, uint64_t *ret_key, uint64_t *ret_value)
{
	while (*at < m->cap) {
		const struct map64_slot *slot = &m->slots[(*at)++];
		if (!slot->used)
			continue;
		*ret_key = slot->key;
		*ret_value = slot->value;
		return true;
	}
	return false;
}

uint64_t hash_bytes(const void *p, size_t n)
{
	const uint8_t *s = p;
	uint64_t h = 0xcbf29ce484222325ULL;
	for (size_t i = 0; i < n; i++)
		h = (h ^ s[i]) * 0x100000001b3ULL;
	return hash_u64(h);
}
