/* listeners.c - rows on their way out of the pipeline: to the writer first, which numbers them,
 * then to who listens. */
#include "pipeline/listeners.h"

#include "pipeline/pipeline_impl.h"

void pipeline_listen(struct pipeline *p, const struct event_listener *listener)
{
	*vec_push(&p->listeners) = (struct listening){.who = *listener};
}

void pipeline_unlisten(struct pipeline *p, const void *ctx)
{
	for (size_t i = p->listeners.len; i-- > 0;)
		if (p->listeners.data[i].who.ctx == ctx)
			p->listeners.data[i] = p->listeners.data[--p->listeners.len];
}

static void tell_strings(struct pipeline *p, struct listening *l)
{
	uint32_t now = rec_string_count(p->writer);
	for (; l->strings < now; l->strings++)
		if (l->who.string)
			l->who.string(l->who.ctx, l->strings,
				      rec_string_get(p->writer, l->strings));
}

static void tell(struct pipeline *p, enum row_kind kind, uint32_t number, const void *rows,
		 size_t n)
{
	for (size_t i = 0; i < p->listeners.len; i++) {
		struct listening *l = &p->listeners.data[i];
		tell_strings(p, l);
		if (l->who.rows && n)
			l->who.rows(l->who.ctx, kind, number, rows, n);
	}
}

void emit_row(struct pipeline *p, enum row_kind kind, const void *row)
{
	rec_put(p->writer, kind, row);
	tell(p, kind, 0, row, 1);
}

uint32_t emit_new_row(struct pipeline *p, enum row_kind kind, const void *row)
{
	uint32_t number = rec_add(p->writer, kind, row);
	tell(p, kind, number, row, 1);
	return number;
}

void emit_changed_row(struct pipeline *p, enum row_kind kind, uint32_t number, const void *row)
{
	rec_update(p->writer, kind, number, row);
	tell(p, kind, number, row, 1);
}

void emit_meta(struct pipeline *p, const char *key, const char *value)
{
	struct m_meta row = {.key = rec_string_z(p->writer, key),
			     .value = rec_string_z(p->writer, value)};
	emit_row(p, ROW_META, &row);
}

void emit_calls(struct pipeline *p, const struct m_call *rows, size_t n)
{
	rec_put_calls(p->writer, rows, n);
	tell(p, ROW_CALL, 0, rows, n);
}

void emit_row_gone(struct pipeline *p, enum row_kind kind, uint32_t number)
{
	for (size_t i = 0; i < p->listeners.len; i++) {
		const struct event_listener *who = &p->listeners.data[i].who;
		if (who->row_gone)
			who->row_gone(who->ctx, kind, number);
	}
}
