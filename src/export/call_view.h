/* call_view.h - what a call is called, and its arguments, as every format shows them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/entity.h"
#include "events/visitor.h"

/* The string that names the call: its probe's, or what its name argument says. For Python
 * code *ret_code is the code's row, else NULL. */
uint32_t call_name(const struct rec_tables *t, const struct m_call *c,
		   const struct m_code **ret_code);

/* True for arguments that are shown: not the one that names the call. */
bool call_shows_arg(const struct rec_tables *t, const struct m_call *c, unsigned arg);

/* The name of an argument's value, where it is of an enumeration that has it; else NULL. */
const char *call_enum_name(const struct rec_tables *t, const struct m_probe *p, unsigned arg,
			   uint64_t value);

/* A tensor's shape: "[2, 128, 768]", "[]" of a single value, "unknown". */
#define SHAPE_TEXT_BYTES 128
void call_shape_text(uint64_t shape, char ret[SHAPE_TEXT_BYTES]);

/* The row of a GPU or an instance of one; NULL: the entity is something else, of a named host, or
 * not in the table. */
const struct m_gpu *gpu_of_entity(const struct rec_tables *t, const struct entity *e);

/* What a counter is of, as text, which replaces what *ret held; and what it is called. */
const char *counter_entity(struct buf *ret, const struct rec_tables *t, const struct m_counter *c);
uint32_t counter_name(const struct rec_tables *t, const struct m_counter *c);

/* Names of the flags of a call that tell of trouble or kind; "nested" is the first, then
 * "instant", "open", "unwound", "error", "arg_fault", "arg_cut". */
struct call_flag {
	uint8_t flag;
	const char *name;
};
#define CALL_FLAGS 7
extern const struct call_flag call_flag_names[CALL_FLAGS];

/* Totals of a loss cause over CPUs; later rows replace earlier ones. */
struct loss_total {
	const char *cause;
	uint64_t count;
};
typedef VEC(struct loss_total) loss_totals_t;
void loss_totals(const struct rec_tables *t, loss_totals_t *ret);

/* A meta value as a number; 0 when it is absent or none. */
uint64_t meta_number(const struct rec_tables *t, const char *key);
