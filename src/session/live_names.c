/* live_names.c - names of functions. */
#include "session/live_names.h"

#include <stdio.h>
#include <string.h>

static bool is_named(const struct m_probe *probe)
{
	return probe->name_arg >= 0 && probe->name_arg < MODEL_MAX_ARGS;
}

uint64_t live_name_value(const struct m_probe *probe, const struct m_call *c)
{
	return is_named(probe) ? c->args[probe->name_arg] : 0;
}

static bool may_be_bytes(uint8_t type)
{
	return type == ARG_TYPE_BYTES || type == ARG_TYPE_U64 || type == ARG_TYPE_I64;
}

int live_bytes_arg(const struct session_view *v, const struct m_probe *probe)
{
	for (int i = 0; i < MODEL_MAX_ARGS; i++)
		if (may_be_bytes(probe->arg_types[i]) &&
		    !strcmp(live_string(v, probe->arg_names[i]), "bytes"))
			return i;
	return -1;
}

void live_function_name(const struct session_view *v, const struct m_probe *probe, uint64_t value,
			char *ret, size_t size)
{
	const char *name = live_string(v, probe->name);
	uint8_t type = is_named(probe) ? probe->arg_types[probe->name_arg] : 0;
	if (is_named(probe) && type == ARG_TYPE_STRING && value)
		name = live_string(v, (uint32_t)value);
	if (is_named(probe) && type == ARG_TYPE_CODE) {
		const struct m_code *code = v->names->code(v->names->ctx, (uint32_t)value);
		name = code ? live_string(v, code->name) : name;
	}
	snprintf(ret, size, "%s", name);
}
