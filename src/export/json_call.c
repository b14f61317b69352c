/* json_call.c - calls and strings as JSON values. */
#include "export/json_call.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_out.h"
#include "base/utf8.h"
#include "export/call_view.h"

static json_t *text_of(const char *s, size_t len)
{
	json_t *plain = json_stringn(s, len);
	if (plain)
		return plain;
	struct buf clean = {0};
	utf8_append(&clean, s, len);
	json_t *ret = json_stringn((const char *)clean.data, clean.len);
	buf_free(&clean);
	return ret;
}

json_t *json_text(const struct rec_tables *t, uint32_t string)
{
	size_t len;
	const char *s = strtab_get(&t->strings, string, &len);
	return text_of(s, len);
}

json_t *json_text_z(const char *s)
{
	return text_of(s, strlen(s));
}

json_t *json_u64(uint64_t v)
{
	char digits[24];
	if (v <= INT64_MAX)
		return json_integer((json_int_t)v);
	snprintf(digits, sizeof(digits), "%" PRIu64, v);
	return json_string(digits);
}

static json_t *shape_value(uint64_t shape)
{
	int dims = shape_dims(shape);
	json_t *sizes = dims < 0 ? json_null() : json_array();
	for (int i = 0; i < dims; i++)
		json_array_append_new(sizes, json_u64(shape_size(shape, i)));
	return sizes;
}

static json_t *arg_value(const struct rec_tables *t, const struct m_probe *p, unsigned arg,
			 uint64_t v)
{
	char hex[24];
	const char *name = call_enum_name(t, p, arg, v);
	if (name)
		return json_text_z(name);
	switch (p->arg_types[arg]) {
	case ARG_TYPE_I64:
		return json_integer((json_int_t)v);
	case ARG_TYPE_PTR:
		snprintf(hex, sizeof(hex), "0x%" PRIx64, v);
		return json_string(hex);
	case ARG_TYPE_BOOL:
		return json_boolean(v != 0);
	case ARG_TYPE_STRING:
		return json_text(t, (uint32_t)v);
	case ARG_TYPE_CODE:
		return v < t->codes.len ? json_text(t, t->codes.data[v].name) : json_null();
	case ARG_TYPE_DIM3:
		return json_pack("[i,i,i]", (int)dim3_x(v), (int)dim3_y(v), (int)dim3_z(v));
	case ARG_TYPE_SHAPE:
		return shape_value(v);
	default:
		return json_u64(v);
	}
}

json_t *json_args(const struct rec_tables *t, const struct m_call *c)
{
	const struct m_probe *p = &t->probes.data[c->probe];
	json_t *o = json_object();
	for (unsigned i = 0; i < c->nargs && i < MODEL_MAX_ARGS; i++) {
		if (!call_shows_arg(t, c, i))
			continue;
		const char *name = strtab_get(&t->strings, p->arg_names[i], NULL);
		char number[8];
		snprintf(number, sizeof(number), "arg%u", i);
		json_t *value = arg_value(t, p, i, c->args[i]);
		/* A catalog's names are ASCII; a foreign recording's may be anything. */
		if (!utf8_valid(name, strlen(name)) || !*name)
			name = number;
		json_object_set_new(o, name, value);
	}
	return o;
}

json_t *json_about(const struct rec_tables *t)
{
	json_t *o = json_object();
	for (size_t i = 0; i < t->metas.len; i++) {
		const char *key = strtab_get(&t->strings, t->metas.data[i].key, NULL);
		if (utf8_valid(key, strlen(key)))
			json_object_set_new(o, key, json_text(t, t->metas.data[i].value));
	}
	loss_totals_t losses = {0};
	loss_totals(t, &losses);
	json_t *by_cause = json_object();
	for (size_t i = 0; i < losses.len; i++)
		if (utf8_valid(losses.data[i].cause, strlen(losses.data[i].cause)))
			json_object_set_new(by_cause, losses.data[i].cause,
					    json_u64(losses.data[i].count));
	json_object_set_new(o, "lost_by_cause", by_cause);
	vec_free(&losses);
	if (t->damaged_at)
		json_object_set_new(o, "damage", json_text_z(t->damage));
	return o;
}

void json_write(FILE *out, json_t *v)
{
	json_out_file(v, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(v);
}
