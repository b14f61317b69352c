/* calls.c - the layout of CALLS blocks, specified in format.h.
 *
 * Grouping by probe is a counting sort of row positions on both sides, so the permutation
 * itself is not stored. */
#include "recording/calls.h"

#include <errno.h>
#include <stdbool.h>

#include "recording/column.h"
#include "recording/format.h"

static const char *const arg_columns[MODEL_MAX_ARGS] = {"arg0", "arg1", "arg2", "arg3",
							"arg4", "arg5", "arg6", "arg7"};
_Static_assert(MODEL_MAX_ARGS == 8, "a name for each argument's column");

#define FETCH_AHEAD 16 /* rows */

/* ---- encoding ---- */

static void encoder_reserve(struct calls_encoder *enc, size_t n, size_t nkeys)
{
	if (n > enc->cap) {
		enc->order = xrealloc(enc->order, n, sizeof(*enc->order));
		enc->by_probe = xrealloc(enc->by_probe, n, sizeof(*enc->by_probe));
		enc->end_ns = xrealloc(enc->end_ns, n, sizeof(*enc->end_ns));
		enc->dur_ns = xrealloc(enc->dur_ns, n, sizeof(*enc->dur_ns));
		enc->probe = xrealloc(enc->probe, n, sizeof(*enc->probe));
		enc->grouped = xrealloc(enc->grouped, n, sizeof(*enc->grouped));
		enc->cap = n;
	}
	if (nkeys + 1 > enc->starts_cap) {
		enc->starts_cap = (nkeys + 1) * 2;
		enc->starts = xrealloc(enc->starts, enc->starts_cap, sizeof(*enc->starts));
	}
}

void calls_encoder_free(struct calls_encoder *enc)
{
	free(enc->order);
	free(enc->by_probe);
	free(enc->end_ns);
	free(enc->dur_ns);
	free(enc->probe);
	free(enc->grouped);
	free(enc->starts);
	*enc = (struct calls_encoder){0};
}

/* Turns counts[k] of each key k into where its first position goes. */
static void counts_to_starts(uint32_t *counts, size_t nkeys)
{
	uint32_t at = 0;
	for (size_t k = 0; k < nkeys; k++) {
		uint32_t count = counts[k];
		counts[k] = at;
		at += count;
	}
}

static int compare_end(const void *a, const void *b, void *arg)
{
	const struct m_call *rows = arg;
	uint32_t i = *(const uint32_t *)a;
	uint32_t k = *(const uint32_t *)b;
	uint64_t end_i = rows[i].start_ns + rows[i].dur_ns;
	uint64_t end_k = rows[k].start_ns + rows[k].dur_ns;
	if (end_i != end_k)
		return end_i < end_k ? -1 : 1;
	return i < k ? -1 : i > k;
}

/* Fills order: by thread, then by end time. Rows of a thread mostly come in that order
 * already, so each thread's are sorted only where they do not. */
static void order_by_thread(struct calls_encoder *enc, const struct m_call *rows, size_t n,
			    size_t nthreads)
{
	uint32_t *starts = enc->starts;
	memset(starts, 0, nthreads * sizeof(*starts));
	for (size_t i = 0; i < n; i++)
		starts[rows[i].thread]++;
	counts_to_starts(starts, nthreads);
	for (size_t i = 0; i < n; i++)
		enc->order[starts[rows[i].thread]++] = (uint32_t)i;

	for (size_t from = 0, to; from < n; from = to) {
		uint32_t thread = rows[enc->order[from]].thread;
		to = starts[thread];
		bool sorted = true;
		uint64_t last = 0;
		for (size_t i = from; i < to && sorted; i++) {
			const struct m_call *c = &rows[enc->order[i]];
			sorted = c->start_ns + c->dur_ns >= last;
			last = c->start_ns + c->dur_ns;
		}
		if (!sorted)
			qsort_r(enc->order + from, to - from, sizeof(*enc->order), compare_end,
				(void *)rows);
	}
}

static void put_threads(struct calls_encoder *enc, struct buf *payload, const struct m_call *rows,
			size_t n)
{
	struct segments s;
	segments_begin(&s, payload, "thread", FIELD_U32);
	for (size_t from = 0, to; from < n; from = to) {
		uint32_t thread = rows[enc->order[from]].thread;
		to = enc->starts[thread]; /* its end, after order_by_thread */
		segments_put_same(&s, thread, to - from);
	}
	segments_end(&s);
}

static void order_by_probe(struct calls_encoder *enc, size_t n, size_t nprobes)
{
	uint32_t *starts = enc->starts;
	memset(starts, 0, nprobes * sizeof(*starts));
	for (size_t i = 0; i < n; i++)
		starts[enc->probe[i]]++;
	counts_to_starts(starts, nprobes);
	for (size_t i = 0; i < n; i++)
		enc->by_probe[starts[enc->probe[i]]++] = (uint32_t)i;
	/* From positions to rows: all that is looked up by probe is in the rows. */
	for (size_t i = 0; i < n; i++)
		enc->by_probe[i] = enc->order[enc->by_probe[i]];
}

enum small_field { SMALL_FLAGS, SMALL_DEPTH, SMALL_NARGS };

static uint8_t small_value(const struct m_call *c, enum small_field field)
{
	return field == SMALL_FLAGS ? c->flags : field == SMALL_DEPTH ? c->depth : c->nargs;
}

/* A byte a row, a run for each probe. */
static void put_small(struct calls_encoder *enc, struct buf *payload, const char *name,
		      const struct m_call *rows, size_t n, enum small_field field)
{
	struct segments s;
	segments_begin(&s, payload, name, FIELD_U8);
	size_t from = 0;
	while (from < n) {
		const uint32_t probe = rows[enc->by_probe[from]].probe;
		size_t to = from;
		while (to < n && rows[enc->by_probe[to]].probe == probe) {
			enc->grouped[to] = small_value(&rows[enc->by_probe[to]], field);
			to++;
		}
		segments_put(&s, enc->grouped + from, to - from);
		from = to;
	}
	segments_end(&s);
}

/* False when no row has that argument. */
static bool put_arg(struct calls_encoder *enc, struct buf *payload, const struct m_call *rows,
		    size_t n, unsigned arg)
{
	struct segments s;
	size_t len = 0;
	segments_begin(&s, payload, arg_columns[arg], FIELD_U64);
	for (size_t i = 0; i < n; i++) {
		const struct m_call *c = &rows[enc->by_probe[i]];
		if (c->nargs > arg)
			enc->grouped[len++] = c->args[arg];
		if (i + 1 == n || rows[enc->by_probe[i + 1]].probe != c->probe) {
			segments_put(&s, enc->grouped, len);
			len = 0;
		}
	}
	bool used = s.values > 0;
	segments_end(&s);
	return used;
}

void calls_encode(struct calls_encoder *enc, struct buf *payload, const struct m_call *rows,
		  size_t n, size_t nthreads, size_t nprobes, uint64_t *ret_first_ns,
		  uint64_t *ret_last_ns)
{
	encoder_reserve(enc, n, nthreads > nprobes ? nthreads : nprobes);
	order_by_thread(enc, rows, n, nthreads);
	put_threads(enc, payload, rows, n);

	uint64_t first_ns = UINT64_MAX;
	uint32_t stacks = 0;
	uint64_t last_ns = 0;
	for (size_t i = 0; i < n; i++) {
		const struct m_call *c = &rows[enc->order[i]];
		uint64_t end_ns = c->start_ns + c->dur_ns;
		enc->end_ns[i] = end_ns;
		enc->dur_ns[i] = c->dur_ns;
		enc->probe[i] = c->probe;
		enc->grouped[i] = c->stack;
		stacks |= c->stack;
		first_ns = c->start_ns < first_ns ? c->start_ns : first_ns;
		last_ns = end_ns > last_ns ? end_ns : last_ns;
	}
	column_put(payload, "probe", FIELD_U32, ENC_VARINT, enc->probe, n);
	column_put(payload, "end", FIELD_U64, ENC_DELTA, enc->end_ns, n);
	column_put(payload, "dur", FIELD_U64, ENC_VARINT, enc->dur_ns, n);
	if (stacks)
		column_put(payload, "stack", FIELD_U32, ENC_VARINT, enc->grouped, n);

	order_by_probe(enc, n, nprobes);
	put_small(enc, payload, "flags", rows, n, SMALL_FLAGS);
	put_small(enc, payload, "depth", rows, n, SMALL_DEPTH);
	put_small(enc, payload, "nargs", rows, n, SMALL_NARGS);
	for (unsigned arg = 0; arg < MODEL_MAX_ARGS; arg++)
		if (!put_arg(enc, payload, rows, n, arg))
			break;
	*ret_first_ns = first_ns;
	*ret_last_ns = last_ns;
}

/* ---- decoding ---- */

static int decode_rows(const struct columns *cols, const char *name, size_t n, void *to,
		       unsigned width)
{
	const struct column *c = columns_find(cols, name);
	if (!c)
		return 0;
	if (c->values != n)
		return -EBADMSG;
	return column_decode(c, to, sizeof(struct m_call), width);
}

/* Positions of the rows in order of probe. Fails on a probe number past all bounds. */
static int rows_by_probe(const struct m_call *rows, size_t n, uint32_t *ret_order)
{
	uint32_t max = 0;
	for (size_t i = 0; i < n; i++)
		max = rows[i].probe > max ? rows[i].probe : max;
	if (max >= REC_MAX_PROBES)
		return -EBADMSG;
	uint32_t *starts = xcalloc((size_t)max + 1, sizeof(*starts));
	for (size_t i = 0; i < n; i++)
		starts[rows[i].probe]++;
	counts_to_starts(starts, (size_t)max + 1);
	for (size_t i = 0; i < n; i++)
		ret_order[starts[rows[i].probe]++] = (uint32_t)i;
	free(starts);
	return 0;
}

/* What is stored by probe: bytes of each row, and the arguments of those that have so many. */
struct grouped {
	const struct columns *cols;
	size_t n;
	uint8_t *flags, *depth, *nargs;
	struct {
		uint64_t *values;
		size_t len, used;
	} args[MODEL_MAX_ARGS];
};

static int decode_bytes(const struct grouped *g, const char *name, uint8_t *bytes)
{
	const struct column *c = columns_find(g->cols, name);
	if (!c)
		return 0;
	return c->values == g->n ? column_decode(c, bytes, 1, 1) : -EBADMSG;
}

static int decode_arg(struct grouped *g, unsigned arg)
{
	const struct column *c = columns_find(g->cols, arg_columns[arg]);
	if (!c)
		return 0;
	if (c->values > g->n)
		return -EBADMSG;
	g->args[arg].values = xrealloc(NULL, c->values + (size_t)1, sizeof(uint64_t));
	g->args[arg].len = c->values;
	return column_decode(c, g->args[arg].values, sizeof(uint64_t), 8);
}

static int decode_columns(struct grouped *g)
{
	int rc = decode_bytes(g, "flags", g->flags);
	rc = rc ? rc : decode_bytes(g, "depth", g->depth);
	rc = rc ? rc : decode_bytes(g, "nargs", g->nargs);
	for (unsigned arg = 0; !rc && arg < MODEL_MAX_ARGS; arg++)
		rc = decode_arg(g, arg);
	return rc;
}

/* The i-th of the rows by probe. An argument that has no column is 0. */
static int fill_row(struct grouped *g, size_t i, struct m_call *row)
{
	row->flags = g->flags[i];
	row->depth = g->depth[i];
	row->nargs = g->nargs[i];
	for (unsigned arg = 0; arg < row->nargs && arg < MODEL_MAX_ARGS; arg++) {
		if (!g->args[arg].values)
			continue;
		if (g->args[arg].used == g->args[arg].len)
			return -EBADMSG;
		row->args[arg] = g->args[arg].values[g->args[arg].used++];
	}
	return 0;
}

/* All of a row at once: they are visited out of order, which is what costs here. */
static int fill_rows(struct grouped *g, struct m_call *rows, const uint32_t *order)
{
	for (size_t i = 0; i < g->n; i++) {
		if (i + FETCH_AHEAD < g->n) {
			__builtin_prefetch(&rows[order[i + FETCH_AHEAD]].flags, 1);
			__builtin_prefetch(&rows[order[i + FETCH_AHEAD]].args[4], 1);
		}
		if (fill_row(g, i, &rows[order[i]]))
			return -EBADMSG;
	}
	for (unsigned arg = 0; arg < MODEL_MAX_ARGS; arg++)
		if (g->args[arg].used != g->args[arg].len)
			return -EBADMSG;
	return 0;
}

static int decode_grouped(const struct columns *cols, struct m_call *rows, size_t n)
{
	uint8_t *bytes = xcalloc(n, 3);
	uint32_t *order = xrealloc(NULL, n, sizeof(*order));
	struct grouped g = {.cols = cols, .n = n};
	g.flags = bytes;
	g.depth = bytes + n;
	g.nargs = bytes + 2 * n;
	int rc = rows_by_probe(rows, n, order);
	rc = rc ? rc : decode_columns(&g);
	rc = rc ? rc : fill_rows(&g, rows, order);
	for (unsigned arg = 0; arg < MODEL_MAX_ARGS; arg++)
		free(g.args[arg].values);
	free(order);
	free(bytes);
	return rc;
}

int calls_decode(const uint8_t *payload, size_t len, size_t n, struct m_call *rows)
{
	struct columns cols;
	if (columns_parse(payload, len, &cols) || !n)
		return -EBADMSG;
	memset(rows, 0, n * sizeof(*rows));
	int rc = decode_rows(&cols, "thread", n, &rows->thread, sizeof(rows->thread));
	rc = rc ? rc : decode_rows(&cols, "probe", n, &rows->probe, sizeof(rows->probe));
	rc = rc ? rc : decode_rows(&cols, "end", n, &rows->start_ns, sizeof(rows->start_ns));
	rc = rc ? rc : decode_rows(&cols, "dur", n, &rows->dur_ns, sizeof(rows->dur_ns));
	rc = rc ? rc : decode_rows(&cols, "stack", n, &rows->stack, sizeof(rows->stack));
	if (rc)
		return rc;

	rc = decode_grouped(&cols, rows, n);
	for (size_t i = 0; !rc && i < n; i++) {
		rows[i].start_ns -= rows[i].dur_ns;
		if (rows[i].nargs > MODEL_MAX_ARGS)
			rows[i].nargs = MODEL_MAX_ARGS;
	}
	return rc;
}
