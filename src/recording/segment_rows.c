/* segment_rows.c - keeps what later rows may refer to, by the list of kinds. */
#include "recording/segment_rows.h"

#include <stdio.h>

/* What happened at its time is in the segment of its time. */
static bool is_kept(enum row_kind kind)
{
	return row_kind_info(kind)->keeping != ROWS_BULK && kind != ROW_NOTE &&
	       kind != ROW_WINDOW && kind != ROW_EVENT && kind != ROW_ANOMALY &&
	       kind != ROW_INCIDENT;
}

static bool is_total(enum row_kind kind)
{
	return kind == ROW_LOSS || kind == ROW_HIST;
}

/* The number of no stack, 0, is not written. */
static uint32_t first_number(enum row_kind kind)
{
	return kind == ROW_STACK;
}

void segment_rows_string(struct rec_writer *w, uint32_t number, const char *text)
{
	if (rec_string_count(w) > number) /* "" */
		return;
	if (rec_string_z(w, text) == number)
		return;
	/* it ended at a NUL, and what is before that was there */
	char *other = xasprintf("%s (%u)", text, number);
	rec_string_z(w, other);
	free(other);
}

/* ---- rows with numbers ---- */

static void put_number(struct segment_rows *s, struct rec_writer *w, enum row_kind kind,
		       uint32_t number, const void *row)
{
	static const uint64_t none[64];
	_Static_assert(sizeof(none) >= sizeof(struct m_probe), "any row with a number");
	if (!s->next[kind])
		s->next[kind] = first_number(kind);
	if (number < s->next[kind]) {
		rec_update(w, kind, number, row);
		return;
	}
	while (s->next[kind] < number) /* rows that nobody was told of */
		s->next[kind] = rec_add(w, kind, none) + 1;
	s->next[kind] = rec_add(w, kind, row) + 1;
}

static void keep_number(struct segment_rows *s, enum row_kind kind, uint32_t number,
			const void *row)
{
	uint32_t row_bytes = row_kind_info(kind)->row_bytes;
	struct row_vec *kept = &s->kept[kind];
	if (number >= kept->len)
		row_vec_add(kept, row_bytes, number + 1 - kept->len);
	memcpy(kept->data + (size_t)number * row_bytes, row, row_bytes);
}

/* ---- rows with keys ---- */

/* A meta replaces that of its name, by its place behind it. */
static bool has_key(enum row_kind kind)
{
	return row_kind_info(kind)->keeping == ROWS_KEYED || kind == ROW_META;
}

static uint64_t hash_of_key(enum row_kind kind, const void *row)
{
	const struct row_kind_info *k = row_kind_info(kind);
	uint64_t key[16];
	size_t n = 0;
	if (kind == ROW_META)
		return ((const struct m_meta *)row)->key;
	for (size_t f = 0; f < k->nfields && n < 16; f++)
		if (k->fields[f].is_key)
			key[n++] = row_value(&k->fields[f], row, 0);
	return hash_bytes(key, n * sizeof(*key));
}

/* Its place. Of 64 bits no two keys of a session are the same. */
static size_t keep_key(struct segment_rows *s, enum row_kind kind, const void *row)
{
	const struct row_kind_info *k = row_kind_info(kind);
	struct row_vec *kept = &s->kept[kind];
	uint64_t at, hash = hash_of_key(kind, row);
	if (!map64_get(&s->of_key[kind], hash, &at)) {
		at = kept->len;
		row_vec_add(kept, k->row_bytes, 1);
		map64_set(&s->of_key[kind], hash, at);
	}
	memcpy(kept->data + at * k->row_bytes, row, k->row_bytes);
	return at;
}

/* What came since the segment began. */
static void put_loss(struct rec_writer *w, const struct m_loss *row, const struct m_loss *past)
{
	struct m_loss since = *row;
	since.count -= past ? past->count : 0;
	if (since.count)
		rec_put_loss(w, &since);
}

static void put_hist(struct rec_writer *w, const struct m_hist *row, const struct m_hist *past)
{
	struct m_hist since = *row;
	if (past) {
		since.count -= past->count;
		since.errors -= past->errors;
		since.nested -= past->nested;
		since.total_ns -= past->total_ns;
		for (size_t i = 0; i < sizeof(since.buckets) / sizeof(since.buckets[0]); i++)
			since.buckets[i] -= past->buckets[i];
	}
	if (since.count)
		rec_put_hist(w, &since);
}

static void put_key(struct segment_rows *s, struct rec_writer *w, enum row_kind kind,
		    const void *row)
{
	size_t at = keep_key(s, kind, row);
	const struct row_vec *past = &s->past[kind];
	const void *before =
		at < past->len ? past->data + at * row_kind_info(kind)->row_bytes : NULL;
	if (kind == ROW_LOSS)
		put_loss(w, row, before);
	else if (kind == ROW_HIST)
		put_hist(w, row, before);
	else
		rec_put(w, kind, row);
}

/* ---- all ---- */

static void put_row(struct segment_rows *s, struct rec_writer *w, enum row_kind kind,
		    uint32_t number, const void *row)
{
	const struct row_kind_info *k = row_kind_info(kind);
	if (k->keeping == ROWS_INDEXED) {
		keep_number(s, kind, number, row);
		put_number(s, w, kind, number, row);
	} else if (has_key(kind) && is_kept(kind)) {
		put_key(s, w, kind, row);
	} else {
		rec_put(w, kind, row);
		if (is_kept(kind))
			memcpy(row_vec_add(&s->kept[kind], k->row_bytes, 1), row, k->row_bytes);
	}
}

void segment_rows_put(struct segment_rows *s, struct rec_writer *w, enum row_kind kind,
		      uint32_t number, const void *rows, size_t n)
{
	const uint8_t *p = rows;
	if (kind == ROW_CALL) {
		rec_put_calls(w, rows, n);
		return;
	}
	for (size_t i = 0; i < n; i++, p += row_kind_info(kind)->row_bytes)
		put_row(s, w, kind, number + (uint32_t)i, p);
}

static void repeat_kind(struct segment_rows *s, struct rec_writer *w, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *kept = &s->kept[kind];
	s->next[kind] = first_number(kind);
	for (uint32_t i = s->next[kind]; i < kept->len && k->keeping == ROWS_INDEXED; i++)
		put_number(s, w, kind, i, kept->data + (size_t)i * k->row_bytes);
	for (size_t i = 0; i < kept->len && k->keeping != ROWS_INDEXED && !is_total(kind); i++)
		rec_put(w, kind, kept->data + i * k->row_bytes);
}

/* Totals so far are those of the segments before. */
static void begin_totals(struct segment_rows *s, enum row_kind kind)
{
	const struct row_vec *kept = &s->kept[kind];
	uint32_t row_bytes = row_kind_info(kind)->row_bytes;
	struct row_vec *past = &s->past[kind];
	past->len = 0;
	if (kept->len)
		memcpy(row_vec_add(past, row_bytes, kept->len), kept->data, kept->len * row_bytes);
}

void segment_rows_repeat(struct segment_rows *s, const struct rec_writer *last,
			 struct rec_writer *next)
{
	for (uint32_t i = 0; i < rec_string_count(last); i++)
		segment_rows_string(next, i, rec_string_get(last, i));
#define X(number, NAME, stem, members) repeat_kind(s, next, ROW_##NAME);
	ROW_TABLES(X)
#undef X
	begin_totals(s, ROW_LOSS);
	begin_totals(s, ROW_HIST);
}

void segment_rows_free(struct segment_rows *s)
{
	for (size_t kind = 0; kind < ROW_KINDS; kind++) {
		free(s->kept[kind].data);
		free(s->past[kind].data);
		map64_free(&s->of_key[kind]);
	}
}
