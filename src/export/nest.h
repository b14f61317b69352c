/* nest.h - makes of calls, which lie in a recording in order of their end, the time line
 * of each thread: begins and ends in order of time, properly nested.
 *
 * See nest.c for how this is done in bounded memory. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "export/sink.h"
#include "events/visitor.h"

struct nest;

typedef void nest_emit_fn(void *ctx, const struct span *span);

struct nest *nest_new(const struct rec_tables *t);
void nest_free(struct nest *n);

/* First: every block, in file order, is looked at once. */
void nest_plan(struct nest *n, size_t block, const struct m_call *rows, size_t len);

/* Then: every block again, in file order; emits what begins in its time. */
void nest_block(struct nest *n, size_t block, const struct m_call *rows, size_t len,
		nest_emit_fn *emit, void *ctx);

/* Last: ends what is still open. */
void nest_finish(struct nest *n, nest_emit_fn *emit, void *ctx);
