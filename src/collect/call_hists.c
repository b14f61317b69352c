/* call_hists.c - one row a key, found by a hash of it. */
#include "collect/call_hists.h"

#include <string.h>

struct call_hists_row {
	struct hist_key key;
	struct hist_value past; /* of processes that have ended */
	struct hist_value now;	/* of all */
};

static void add(struct hist_value *sum, const struct hist_value *v)
{
	sum->count += v->count;
	sum->errors += v->errors;
	sum->total_ns += v->total_ns;
	sum->nested += v->nested;
	if (v->max_ns > sum->max_ns)
		sum->max_ns = v->max_ns;
	for (int i = 0; i < HIST_BUCKETS; i++)
		sum->buckets[i] += v->buckets[i];
}

/* NULL: there are too many. Keys of one hash have places of their own. */
static struct call_hists_row *row_of(struct call_hists *h, const struct hist_key *key)
{
	uint64_t i, has = 0, hash = hash_bytes(key, sizeof(*key));
	for (; map64_get(&h->places, hash, &i); hash = hash_u64(hash + 1))
		if (!memcmp(&h->rows.data[i].key, key, sizeof(*key)))
			return &h->rows.data[i];
	map64_get(&h->of_process, key->tgid, &has);
	if (h->rows.len >= CALL_HISTS_ROWS || has >= CALL_HISTS_PROCESS)
		return NULL;
	map64_set(&h->of_process, key->tgid, has + 1);
	map64_set(&h->places, hash, h->rows.len);
	struct call_hists_row *row = vec_push(&h->rows);
	row->key = *key;
	return row;
}

void call_hists_renew(struct call_hists *h)
{
	h->full = h->full_past;
	h->counted = 0;
	for (size_t i = 0; i < h->rows.len; i++) {
		h->rows.data[i].now = h->rows.data[i].past;
		h->counted += h->rows.data[i].past.count;
	}
}

void call_hists_add(struct call_hists *h, const struct hist_key *key,
		    const struct hist_value *value, bool ended)
{
	struct call_hists_row *row = row_of(h, key);
	if (!row) {
		*(ended ? &h->full_past : &h->full) += value->count;
		return;
	}
	if (!ended)
		h->counted += value->count;
	add(ended ? &row->past : &row->now, value);
}

void call_hists_visit(const struct call_hists *h,
		      void (*visit)(void *ctx, const struct hist_key *key,
				    const struct hist_value *value),
		      void *ctx)
{
	for (size_t i = 0; i < h->rows.len; i++)
		if (h->rows.data[i].now.count)
			visit(ctx, &h->rows.data[i].key, &h->rows.data[i].now);
}

void call_hists_free(struct call_hists *h)
{
	map64_free(&h->places);
	map64_free(&h->of_process);
	vec_free(&h->rows);
}
