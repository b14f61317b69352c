/* gpu_tally.c - counts by a key of three numbers. */
#include "analyze/gpu_tally.h"

struct gpu_tally_row *gpu_tally_at(struct gpu_tally *t, struct gpu_key key)
{
	uint64_t at, hash = hash_bytes(&key, sizeof(key));
	for (; map64_get(&t->index, hash, &at); hash++)
		if (!memcmp(&t->rows.data[at].key, &key, sizeof(key)))
			return &t->rows.data[at];
	map64_set(&t->index, hash, t->rows.len);
	struct gpu_tally_row *row = vec_push(&t->rows);
	row->key = key;
	return row;
}

void gpu_tally_add(struct gpu_tally *t, const struct gpu_tally *from, uint64_t times)
{
	/* By index: t may be from, whose rows may move. */
	for (size_t i = 0, n = from->rows.len; i < n; i++) {
		struct gpu_tally_row add = from->rows.data[i];
		struct gpu_tally_row *row = gpu_tally_at(t, add.key);
		row->calls += add.calls * times;
		row->bytes += add.bytes * times;
		row->total_ns += add.total_ns * times;
	}
}

void gpu_tally_free(struct gpu_tally *t)
{
	vec_free(&t->rows);
	map64_free(&t->index);
}
