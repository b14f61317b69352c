/* call_view.c - names and arguments of calls for the formats. */
#include "export/call_view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map64.h"
#include "events/metric.h"
#include "wire/event.h"

const struct call_flag call_flag_names[CALL_FLAGS] = {
	{CALL_NESTED, "nested"},   {CALL_INSTANT, "instant"}, {CALL_OPEN, "open"},
	{CALL_UNWOUND, "unwound"}, {CALL_ERROR, "error"},     {CALL_ARG_FAULT, "arg_fault"},
	{CALL_ARG_CUT, "arg_cut"},
};

/* The probe's name argument when the call has it, -1 otherwise. */
static int name_arg(const struct m_probe *p, const struct m_call *c)
{
	return p->name_arg >= 0 && p->name_arg < c->nargs && p->name_arg < MODEL_MAX_ARGS
		       ? p->name_arg
		       : -1;
}

uint32_t call_name(const struct rec_tables *t, const struct m_call *c,
		   const struct m_code **ret_code)
{
	const struct m_probe *p = &t->probes.data[c->probe];
	int arg = name_arg(p, c);
	*ret_code = NULL;
	if (arg < 0)
		return p->name;
	uint64_t value = c->args[arg];
	if (p->arg_types[arg] == ARG_TYPE_CODE && value < t->codes.len) {
		*ret_code = &t->codes.data[value];
		return (*ret_code)->name;
	}
	if (p->arg_types[arg] == ARG_TYPE_STRING && value && value < strtab_len(&t->strings))
		return (uint32_t)value;
	return p->name;
}

bool call_shows_arg(const struct rec_tables *t, const struct m_call *c, unsigned arg)
{
	return (int)arg != name_arg(&t->probes.data[c->probe], c);
}

const char *call_enum_name(const struct rec_tables *t, const struct m_probe *p, unsigned arg,
			   uint64_t value)
{
	return p->arg_enums[arg] ? rec_enum_name(t, p->arg_enums[arg], (int64_t)value) : NULL;
}

void call_shape_text(uint64_t shape, char ret[SHAPE_TEXT_BYTES])
{
	int dims = shape_dims(shape), len = 1;
	snprintf(ret, SHAPE_TEXT_BYTES, dims < 0 ? "unknown" : "[");
	for (int i = 0; i < dims; i++)
		len += snprintf(ret + len, SHAPE_TEXT_BYTES - (size_t)len, "%s%" PRIu64,
				i ? ", " : "", (uint64_t)shape_size(shape, i));
	if (dims >= 0)
		snprintf(ret + len, SHAPE_TEXT_BYTES - (size_t)len, "]");
}

static const struct m_gpu *find_gpu(const struct rec_tables *t, unsigned index)
{
	for (size_t i = 0; i < t->gpus.len; i++)
		if (t->gpus.data[i].parent < 0 && t->gpus.data[i].index == index)
			return &t->gpus.data[i];
	return NULL;
}

/* The n-th instance of a GPU, by index. */
static const struct m_gpu *find_instance(const struct rec_tables *t, unsigned gpu, unsigned n)
{
	for (size_t i = 0; i < t->gpus.len; i++) {
		const struct m_gpu *row = &t->gpus.data[i];
		unsigned before = 0;
		if (row->parent < 0 || (unsigned)row->parent != gpu)
			continue;
		for (size_t k = 0; k < t->gpus.len; k++)
			before += t->gpus.data[k].parent == row->parent &&
				  t->gpus.data[k].index < row->index;
		if (before == n)
			return row;
	}
	return NULL;
}

const struct m_gpu *gpu_of_entity(const struct rec_tables *t, const struct entity *e)
{
	if (e->kind != ENTITY_GPU || e->host_len)
		return NULL;
	return e->instance < 0 ? find_gpu(t, e->gpu)
			       : find_instance(t, e->gpu, (unsigned)e->instance);
}

const char *counter_entity(struct buf *ret, const struct rec_tables *t, const struct m_counter *c)
{
	struct entity e = metric_entity(&t->metrics.data[c->metric], &t->strings);
	ret->len = 0;
	entity_print(ret, &e);
	buf_byte(ret, 0);
	return (const char *)ret->data;
}

uint32_t counter_name(const struct rec_tables *t, const struct m_counter *c)
{
	return t->metrics.data[c->metric].name;
}

/* The reader has one row for each cause and CPU. */
void loss_totals(const struct rec_tables *t, loss_totals_t *ret)
{
	struct map64 place_of = {0};
	for (size_t i = 0; i < t->losses.len; i++) {
		const struct m_loss *row = &t->losses.data[i];
		uint64_t k;
		if (!map64_get(&place_of, row->cause, &k)) {
			map64_set(&place_of, row->cause, k = ret->len);
			((struct loss_total *)vec_push(ret))->cause =
				strtab_get(&t->strings, row->cause, NULL);
		}
		ret->data[k].count += row->count;
	}
	map64_free(&place_of);
}

uint64_t meta_number(const struct rec_tables *t, const char *key)
{
	const char *text = rec_meta(t, key);
	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	char *end;
	errno = 0;
	uint64_t v = strtoull(text, &end, 10);
	return *end || errno ? 0 : v;
}
