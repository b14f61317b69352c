/* live_names.h - what the numbers in a session's rows read as. */
#pragma once

#include "session/session_live.h"

static inline const char *live_string(const struct session_view *v, uint32_t number)
{
	return v->names->string(v->names->ctx, number);
}

/* The value that names a call beside its probe; 0: none does. */
uint64_t live_name_value(const struct m_probe *probe, const struct m_call *c);

/* Which argument says of how many bytes a call is, -1: none. */
int live_bytes_arg(const struct session_view *v, const struct m_probe *probe);

/* A function's name, by such a value: of a Python function its own, of a node of the backward pass
 * the node's. Cut where it does not fit. */
void live_function_name(const struct session_view *v, const struct m_probe *probe, uint64_t value,
			char *ret, size_t size);
