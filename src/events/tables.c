/* tables.c - the rows that are held. */
#include "events/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *make_room(struct row_vec *v, size_t row_bytes, size_t n)
{
	if (v->len + n > v->cap) {
		size_t cap = v->cap ? v->cap * 2 : 16;
		while (cap < v->len + n)
			cap *= 2;
		v->data = xrealloc(v->data, cap, row_bytes);
		v->cap = cap;
	}
	uint8_t *added = v->data + v->len * row_bytes;
	v->len += n;
	return added;
}

uint8_t *row_vec_add(struct row_vec *v, size_t row_bytes, size_t n)
{
	return memset(make_room(v, row_bytes, n), 0, n * row_bytes);
}

void row_vec_append(struct row_vec *v, size_t row_bytes, const void *rows, size_t n)
{
	if (n)
		memcpy(make_room(v, row_bytes, n), rows, n * row_bytes);
}

void rec_tables_free(struct rec_tables *t)
{
	strtab_free(&t->strings);
#define X(number, NAME, stem, members) vec_free(&t->members);
	ROW_TABLES(X)
#undef X
}

const char *rec_enum_name(const struct rec_tables *t, uint32_t type, int64_t value)
{
	for (size_t i = 0; type && i < t->enums.len; i++)
		if (t->enums.data[i].type == type && t->enums.data[i].value == value)
			return strtab_get(&t->strings, t->enums.data[i].name, NULL);
	return NULL;
}

const char *rec_meta(const struct rec_tables *t, const char *key)
{
	for (size_t i = t->metas.len; i > 0; i--)
		if (!strcmp(strtab_get(&t->strings, t->metas.data[i - 1].key, NULL), key))
			return strtab_get(&t->strings, t->metas.data[i - 1].value, NULL);
	return NULL;
}

/* 0 = none. */
static uint64_t number_of(const char *text)
{
	return text && *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : 0;
}

uint64_t rec_end_ns(const struct rec_tables *t)
{
	uint64_t end = number_of(rec_meta(t, "end_monotonic_ns"));
	return end ? end : t->last_ns;
}

uint64_t *rec_source_ends(const struct rec_tables *t)
{
	size_t n = t->sources.len ? t->sources.len : 1;
	uint64_t *ends = xcalloc(n, sizeof(*ends));
	for (size_t i = 0; i < t->metas.len; i++) {
		const char *key = strtab_get(&t->strings, t->metas.data[i].key, NULL);
		unsigned source;
		int len = 0;
		if (sscanf(key, "source_%u_end_monotonic_ns%n", &source, &len) == 1 && len &&
		    !key[len] && source < t->sources.len)
			ends[source] =
				number_of(strtab_get(&t->strings, t->metas.data[i].value, NULL));
	}
	for (size_t i = 0; i < n; i++)
		if (!ends[i])
			ends[i] = rec_end_ns(t);
	return ends;
}
