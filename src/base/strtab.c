/* strtab.c - string interning over a flat index. */
#include "strtab.h"

#include <string.h>

#include "map64.h"

/* Mixed with an address that nobody outside knows: strings of a file could be chosen for one slot.
 */
static size_t slot_of(const struct strtab *t, const char *s, size_t len)
{
	size_t i = hash_u64(hash_bytes(s, len) ^ (uintptr_t)t->index) & (t->index_cap - 1);
	while (t->index[i]) {
		size_t id = t->index[i] - 1;
		if (t->strings.data[id].len == len && !memcmp(t->strings.data[id].s, s, len))
			break;
		i = (i + 1) & (t->index_cap - 1);
	}
	return i;
}

static void grow_index(struct strtab *t)
{
	free(t->index);
	t->index_cap = t->index_cap ? t->index_cap * 2 : 256;
	t->index = xcalloc(t->index_cap, sizeof(*t->index));
	for (size_t id = 0; id < t->strings.len; id++)
		t->index[slot_of(t, t->strings.data[id].s, t->strings.data[id].len)] =
			(uint32_t)id + 1;
}

static uint32_t append(struct strtab *t, const char *s, size_t len)
{
	if ((t->strings.len + 1) * 10 > t->index_cap * 7)
		grow_index(t);
	char *copy = xrealloc(NULL, len + 1, 1);
	memcpy(copy, s, len);
	copy[len] = 0;
	size_t slot = slot_of(t, s, len);
	typeof(t->strings.data) entry = vec_push(&t->strings);
	entry->s = copy;
	entry->len = (uint32_t)len;
	t->index[slot] = (uint32_t)t->strings.len;
	return (uint32_t)t->strings.len - 1;
}

uint32_t strtab_add(struct strtab *t, const char *s, size_t len)
{
	if (!t->strings.len)
		append(t, "", 0);
	size_t slot = slot_of(t, s, len);
	return t->index[slot] ? t->index[slot] - 1 : append(t, s, len);
}

uint32_t strtab_add_z(struct strtab *t, const char *s)
{
	return strtab_add(t, s ? s : "", s ? strlen(s) : 0);
}

bool strtab_find(const struct strtab *t, const char *s, size_t len, uint32_t *ret)
{
	if (!len)
		*ret = 0;
	if (!len || !t->index_cap)
		return !len;
	uint32_t at = t->index[slot_of(t, s, len)];
	if (at)
		*ret = at - 1;
	return at > 0;
}

const char *strtab_get(const struct strtab *t, uint32_t id, size_t *ret_len)
{
	if (id >= t->strings.len) {
		if (ret_len)
			*ret_len = 0;
		return "";
	}
	if (ret_len)
		*ret_len = t->strings.data[id].len;
	return t->strings.data[id].s;
}

size_t strtab_len(const struct strtab *t)
{
	return t->strings.len ? t->strings.len : 1;
}

void strtab_free(struct strtab *t)
{
	for (size_t i = 0; i < t->strings.len; i++)
		free(t->strings.data[i].s);
	vec_free(&t->strings);
	free(t->index);
	*t = (struct strtab){0};
}
