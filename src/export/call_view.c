/* call_view.c - names and arguments of calls for the formats. */
#include "export/call_view.h"

#include <errno.h>
#include <stdlib.h>

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

void loss_totals(const struct rec_tables *t, loss_totals_t *ret)
{
	for (size_t i = 0; i < t->losses.len; i++) {
		const struct m_loss *row = &t->losses.data[i];
		const char *cause = strtab_get(&t->strings, row->cause, NULL);
		bool replaced = false;
		for (size_t k = i + 1; k < t->losses.len && !replaced; k++)
			replaced = t->losses.data[k].cause == row->cause &&
				   t->losses.data[k].cpu == row->cpu;
		if (replaced)
			continue;
		size_t k = 0;
		while (k < ret->len && ret->data[k].cause != cause)
			k++;
		if (k == ret->len)
			((struct loss_total *)vec_push(ret))->cause = cause;
		ret->data[k].count += row->count;
	}
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
