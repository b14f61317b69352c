/* flight_kept.c - the latest rows of kinds of which there are few and that the window does not
 * hold, and what was lost when. Rows count losses since the session began; a file is of some
 * seconds. */
#include "session/flight_impl.h"

#define COVERAGES_MOST 16384 /* then of the older half the last of each probe stays */
#define ROWS_MOST      1024  /* of a kind; then the older half goes */
#define LOSSES_MOST    4096  /* then those of one cause become one, of the latest time */

static void bound_rows(struct row_vec *rows, size_t row_bytes)
{
	if (rows->len <= ROWS_MOST)
		return;
	size_t gone = rows->len - ROWS_MOST / 2;
	memmove(rows->data, rows->data + gone * row_bytes, ROWS_MOST / 2 * row_bytes);
	rows->len = ROWS_MOST / 2;
}

/* What the row replaces goes, and with it what that said of when it was. */
static void drop_replaced(struct row_vec *rows, const struct row_kind_info *k, const void *row)
{
	size_t n = rows->data && k->keeping == ROWS_KEYED ? rows->len : 0;
	for (size_t i = n; i-- > 0;) {
		uint8_t *at = rows->data + i * k->row_bytes;
		if (row_compare_keys(k, at, row))
			continue;
		memmove(at, at + k->row_bytes, (n - i - 1) * k->row_bytes);
		rows->len--;
		return;
	}
}

static void take_row(struct flight_kept *k, enum row_kind kind, const void *row)
{
	const struct row_kind_info *info = row_kind_info(kind);
	drop_replaced(&k->rows[kind], info, row);
	memcpy(row_vec_add(&k->rows[kind], info->row_bytes, 1), row, info->row_bytes);
	bound_rows(&k->rows[kind], info->row_bytes);
}

static void take_rows(struct flight_kept *k, const struct feed_batch *b, enum row_kind kind)
{
	const struct row_vec *rows = feed_rows(b, kind);
	for (size_t i = 0; i < rows->len; i++)
		take_row(k, kind, rows->data + i * row_kind_info(kind)->row_bytes);
}

/* At the time of the latest: more than there was rather than less. */
static void fold_losses(struct flight_kept *k)
{
	struct map64 of_cause = {0};
	size_t left = 0;
	for (size_t i = k->losses.len; i-- > 0;) {
		struct flight_loss *l = &k->losses.data[i];
		uint64_t at;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are losses */
		if (map64_get(&of_cause, l->cause, &at)) {
			k->losses.data[at].count += l->count;
			l->count = 0;
		} else {
			map64_set(&of_cause, l->cause, i);
		}
	}
	for (size_t i = 0; i < k->losses.len; i++)
		if (k->losses.data[i].count)
			k->losses.data[left++] = k->losses.data[i];
	k->losses.len = left;
	map64_free(&of_cause);
}

static void lose(struct flight_kept *k, uint64_t time_ns, uint32_t cause, uint64_t count)
{
	if (!count)
		return;
	struct flight_loss *last = k->losses.len ? &k->losses.data[k->losses.len - 1] : NULL;
	if (last && last->cause == cause && last->time_ns == time_ns) {
		last->count += count;
		return;
	}
	if (k->losses.len >= LOSSES_MOST)
		fold_losses(k);
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room has data */
	*vec_push(&k->losses) = (struct flight_loss){time_ns, cause, count};
}

/* There are as many totals as causes and CPUs. */
static void take_loss(struct flight_kept *k, uint64_t time_ns, const struct m_loss *row)
{
	uint64_t key = (uint64_t)row->cause << 32 | row->cpu, before = 0;
	map64_get(&k->lost, key, &before);
	if (row->count <= before)
		return;
	map64_set(&k->lost, key, row->count);
	lose(k, time_ns, row->cause, row->count - before);
}

/* Pieces of one period are one. */
static void take_windows(struct flight_kept *k, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->windows.len; i++) {
		const struct m_window *w = &b->windows.data[i];
		struct row_vec *to = &k->rows[ROW_WINDOW];
		struct m_window *last = to->len ? (struct m_window *)to->data + to->len - 1 : NULL;
		if (last && last->end_ns == w->start_ns && last->layer == w->layer)
			last->end_ns = w->end_ns;
		else
			take_row(k, ROW_WINDOW, w);
	}
}

/* Of the older half the last of each probe stays. */
static void forget_coverages(struct flight_kept *k)
{
	struct map64 seen = {0};
	uint64_t unused;
	size_t half = k->coverages.len / 2, to = k->coverages.len;
	for (size_t i = k->coverages.len; i-- > 0;) {
		struct flight_coverage c = k->coverages.data[i];
		if (i < half && map64_get(&seen, c.row.probe, &unused))
			continue;
		map64_set(&seen, c.row.probe, 1);
		k->coverages.data[--to] = c;
	}
	k->coverages.len -= to;
	memmove(k->coverages.data, k->coverages.data + to,
		k->coverages.len * sizeof(*k->coverages.data));
	map64_free(&seen);
}

static void take_coverages(struct flight_kept *k, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->coverages.len; i++)
		*vec_push(&k->coverages) =
			(struct flight_coverage){b->upto_ns, b->coverages.data[i]};
	if (k->coverages.len > COVERAGES_MOST)
		forget_coverages(k);
}

void flight_kept_take(struct flight_kept *k, const struct feed_batch *b)
{
	take_rows(k, b, ROW_NOTE);
	take_windows(k, b);
	take_rows(k, b, ROW_ANOMALY);
	take_rows(k, b, ROW_INCIDENT);
	take_coverages(k, b);
	for (size_t i = 0; i < b->losses.len; i++)
		take_loss(k, b->upto_ns, &b->losses.data[i]);
	lose(k, b->upto_ns, FLIGHT_OVERRUN, b->overruns);
}

void flight_kept_free(struct flight_kept *k)
{
	for (size_t kind = 0; kind < ROW_KINDS; kind++)
		free(k->rows[kind].data);
	map64_free(&k->lost);
	vec_free(&k->losses);
	vec_free(&k->coverages);
}
