/* functions.c - numbers and labels of the functions of a recording. */
#include "analyze/functions.h"

#include "base/map64.h"

/* Processes that run the same script each bring their own code rows. */
static void find_equal_codes(struct fn_ids *ids)
{
	const struct rec_tables *t = ids->tables;
	struct map64 seen = {0};
	for (uint32_t i = 0; i < ids->codes; i++) {
		const struct m_code *c = &t->codes.data[i];
		uint64_t first = i, key = hash_bytes(c, sizeof(*c));
		/* Another triple with the same hash: the key moves on to the next free one. */
		while (map64_get(&seen, key, &first) &&
		       memcmp(&t->codes.data[first], c, sizeof(*c))) {
			key++;
			first = i;
		}
		if (first == i)
			map64_set(&seen, key, i);
		ids->code_first[i] = (uint32_t)first;
	}
	map64_free(&seen);
}
_Static_assert(sizeof(struct m_code) == 12, "m_code has padding that memcmp would compare");

/* Each range is as long as the dictionary: layers beyond these have no calls by name. Each thread
 * that counts has a place for each number, so that behind the first few ranges numbers are bounded
 * as well. */
#define RANGES_MOST  64
#define RANGES_FREE  8
#define NUMBERS_MOST (1u << 22)

/* False: there are too many. */
static bool range_base(struct fn_ids *ids, uint32_t layer, bool by_code, uint32_t *ret)
{
	for (size_t i = 0; i < ids->ranges.len; i++)
		if (ids->ranges.data[i].layer == layer && ids->ranges.data[i].by_code == by_code) {
			*ret = ids->ranges.data[i].base;
			return true;
		}
	uint32_t len = by_code ? ids->codes : ids->strings;
	if (ids->ranges.len == RANGES_MOST ||
	    (ids->ranges.len >= RANGES_FREE && ids->len + (uint64_t)len > NUMBERS_MOST))
		return false;
	struct fn_range *r = vec_push(&ids->ranges);
	r->base = ids->len;
	r->len = len;
	r->layer = layer;
	r->by_code = by_code;
	ids->len += r->len;
	*ret = r->base;
	return true;
}

void fn_ids_make(struct fn_ids *ids, const struct rec_tables *t)
{
	*ids = (struct fn_ids){.tables = t};
	ids->strings = (uint32_t)strtab_len(&t->strings);
	ids->codes = (uint32_t)t->codes.len;
	ids->code_first = xcalloc(ids->codes + 1, sizeof(*ids->code_first));
	ids->probes = xcalloc(t->probes.len + 1, sizeof(*ids->probes));
	ids->len = (uint32_t)t->probes.len;
	find_equal_codes(ids);
	for (uint32_t i = 0; i < t->probes.len; i++) {
		const struct m_probe *p = &t->probes.data[i];
		struct fn_probe *fp = &ids->probes[i];
		fp->own = i;
		fp->name_arg = -1;
		if (p->name_arg < 0 || p->name_arg >= MODEL_MAX_ARGS || p->name_arg >= p->nargs)
			continue;
		uint8_t type = p->arg_types[p->name_arg];
		if (type != ARG_TYPE_CODE && type != ARG_TYPE_STRING)
			continue;
		fp->by_code = type == ARG_TYPE_CODE;
		if (range_base(ids, p->layer, fp->by_code, &fp->base))
			fp->name_arg = p->name_arg;
	}
}

void fn_ids_free(struct fn_ids *ids)
{
	free(ids->probes);
	free(ids->code_first);
	vec_free(&ids->ranges);
}

void fn_label_make(const struct fn_ids *ids, uint32_t id, struct fn_label *ret)
{
	const struct rec_tables *t = ids->tables;
	*ret = (struct fn_label){.file = ""};
	if (id < t->probes.len) {
		ret->layer = strtab_get(&t->strings, t->probes.data[id].layer, NULL);
		ret->name = xstrdup(strtab_get(&t->strings, t->probes.data[id].name, NULL));
		return;
	}
	const struct fn_range *r = ids->ranges.data;
	while (id - r->base >= r->len)
		r++;
	ret->layer = strtab_get(&t->strings, r->layer, NULL);
	if (!r->by_code) {
		ret->name = xstrdup(strtab_get(&t->strings, id - r->base, NULL));
		return;
	}
	const struct m_code *c = &t->codes.data[id - r->base];
	const char *name = strtab_get(&t->strings, c->name, NULL);
	ret->file = strtab_get(&t->strings, c->file, NULL);
	ret->line = c->line;
	ret->name = *ret->file ? xasprintf("%s (%s:%u)", name, ret->file, c->line) : xstrdup(name);
}
