/* json_call.h - what the two JSON formats share. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "events/visitor.h"

/* A JSON string of a recording's string; what is no UTF-8 becomes U+FFFD. */
json_t *json_text(const struct rec_tables *t, uint32_t string);
json_t *json_text_z(const char *s);

/* A number up to 2^63 - 1, beyond that a string of its digits. */
json_t *json_u64(uint64_t v);

/* The call's arguments by name: {"size": 4096, "ptr": "0x7f00", ...}. */
json_t *json_args(const struct rec_tables *t, const struct m_call *c);

/* All that is known about the recording itself: meta values and losses by cause. */
json_t *json_about(const struct rec_tables *t);

/* Writes v on one line, without the line's end, and releases it. */
void json_write(FILE *out, json_t *v);
