/* functions.h - which function a call belongs to: its probe, or what its name argument
 * says (a Python function, an autograd node).
 *
 * Every possible function of a recording gets a number up front, so that counting needs
 * no look-up but an array. Numbers are sparse: most possible functions are never called. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "events/tables.h"

struct fn_probe {
	uint32_t own;  /* the number where the call names nothing else */
	uint32_t base; /* of the numbers by string or code */
	int8_t name_arg;
	bool by_code;
};

/* A run of numbers whose function is given by a string or a code table entry. */
struct fn_range {
	uint32_t base;
	uint32_t len;
	uint32_t layer; /* string */
	bool by_code;
};

struct fn_ids {
	const struct rec_tables *tables;
	struct fn_probe *probes;
	uint32_t *code_first; /* code -> the first code of the same name, file and line */
	VEC(struct fn_range) ranges;
	uint32_t strings;
	uint32_t codes;
	uint32_t len; /* how many numbers there are */
};

void fn_ids_make(struct fn_ids *ids, const struct rec_tables *t);
void fn_ids_free(struct fn_ids *ids);

/* The function of a call of the probe whose name argument has this value. */
static inline uint32_t fn_id_named(const struct fn_ids *ids, uint32_t probe, uint64_t value)
{
	const struct fn_probe *p = &ids->probes[probe];
	if (p->name_arg < 0)
		return p->own;
	if (p->by_code)
		return value < ids->codes ? p->base + ids->code_first[value] : p->own;
	return value && value < ids->strings ? p->base + (uint32_t)value : p->own;
}

static inline uint32_t fn_id(const struct fn_ids *ids, const struct m_call *c)
{
	int8_t name_arg = ids->probes[c->probe].name_arg;
	return fn_id_named(ids, c->probe, name_arg < 0 ? 0 : c->args[name_arg]);
}

/* How the function is shown; name is malloc'ed. file is "" where it is not known. */
struct fn_label {
	const char *layer;
	char *name;
	const char *file;
	uint32_t line;
};
void fn_label_make(const struct fn_ids *ids, uint32_t id, struct fn_label *ret);
