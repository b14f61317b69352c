/* merge_rows.c - the bulk rows of a source, block by block. */
#include <errno.h>

#include "merge/merge_impl.h"

uint64_t merge_argument(const struct merge_input *in, uint8_t type, uint64_t value)
{
	if (type == ARG_TYPE_STRING)
		return value <= UINT32_MAX ? merge_string(in, (uint32_t)value) : 0;
	if (type == ARG_TYPE_CODE) /* the writer has a row for what is none */
		return value < in->t->codes.len ? in->numbers[ROW_CODE][value] : UINT64_MAX;
	return value;
}

/* Start and end are both taken over, so that what is inside another call stays so. */
static void merge_call(const struct merge *m, const struct merge_input *in, struct m_call *c)
{
	const struct m_probe *p = &in->t->probes.data[c->probe];
	uint64_t end_ns = merge_time(m, in, c->start_ns + c->dur_ns);
	c->start_ns = merge_time(m, in, c->start_ns);
	c->dur_ns = end_ns > c->start_ns ? end_ns - c->start_ns : 0;
	for (unsigned k = 0; k < c->nargs; k++)
		c->args[k] = merge_argument(in, k < p->nargs ? p->arg_types[k] : ARG_TYPE_U64,
					    c->args[k]);
	c->stack = c->stack < in->t->stacks.len ? in->numbers[ROW_STACK][c->stack] : 0;
	c->probe = in->numbers[ROW_PROBE][c->probe];
	c->thread = in->numbers[ROW_THREAD][c->thread];
}

static void put_calls(struct merge *m, const struct merge_input *in, const struct row_block *rows)
{
	struct m_call *calls = rows->rows;
	for (size_t i = 0; i < rows->len; i++)
		merge_call(m, in, &calls[i]);
	rec_put_calls(m->w, calls, rows->len);
}

static void put_series(struct merge *m, const struct merge_input *in, enum row_kind kind,
		       const struct row_block *rows)
{
	const struct row_kind_info *k = row_kind_info(kind);
	union merge_any_row row;
	for (size_t i = 0; i < rows->len; i++) {
		merge_row(m, in, k, (const uint8_t *)rows->rows + i * k->row_bytes, &row);
		rec_put(m->w, kind, &row);
	}
}

/* After a block: what cannot be read is left out, what cannot be written ends the merge. */
static int end_block(struct merge *m, struct merge_input *in, int rc, const struct err *unread,
		     struct err *e)
{
	if (rc && !in->blocks_unread++)
		in->unread = *unread;
	m->blocks_done++;
	if (!merge_go_on(m))
		return err_set(e, ECANCELED, "interrupted: nothing was written");
	return rec_flush(m->w, e);
}

static int put_blocks(struct merge *m, struct merge_input *in, enum row_kind kind, struct err *e)
{
	struct row_block rows = {0};
	int rc = 0;
	for (size_t b = 0; b < rec_blocks(in->reader, kind) && !rc; b++) {
		struct err unread = {0};
		int unreadable = rec_read(in->reader, kind, b, &rows, &unread);
		if (!unreadable && kind == ROW_CALL)
			put_calls(m, in, &rows);
		else if (!unreadable)
			put_series(m, in, kind, &rows);
		rc = end_block(m, in, unreadable, &unread, e);
	}
	row_block_free(&rows);
	return rc;
}

int merge_put_rows(struct merge *m, uint32_t source, struct err *e)
{
	struct merge_input *in = &m->inputs.data[source];
	int rc = 0;
#define X(number, NAME, stem, members)                                                             \
	if (!rc)                                                                                   \
		rc = put_blocks(m, in, ROW_##NAME, e);
	ROW_BULKS(X)
#undef X
	return rc;
}
