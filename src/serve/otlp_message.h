/* otlp_message.h - what OTLP's messages have in common: attributes, who tells, and how one is put
 * into another whose parts are packed one by one. Short names of what protobuf-c generates. */
#pragma once

#include <stdbool.h>

#include "otlp_common.pb-c.h"
#include "otlp_resource.pb-c.h"

#include "serve/otlp_about.h"
#include "serve/otlp_arena.h"
#include "serve/process_labels.h"

typedef Opentelemetry__Proto__Common__V1__AnyValue otlp_value_t;
typedef Opentelemetry__Proto__Common__V1__KeyValue otlp_key_t;
typedef Opentelemetry__Proto__Common__V1__InstrumentationScope otlp_scope_t;

#define OTLP_ATTRIBUTES 56 /* of one message at most; others are left out */

/* A list that grows in an arena. */
struct otlp_attributes {
	otlp_key_t **list;
	size_t n;
};

/* text NULL: nothing. Keys are borrowed. */
void otlp_put_text(struct otlp_arena *a, struct otlp_attributes *to, const char *key,
		   const char *text);
void otlp_put_int(struct otlp_arena *a, struct otlp_attributes *to, const char *key, int64_t n);
void otlp_put_bool(struct otlp_arena *a, struct otlp_attributes *to, const char *key, bool b);
void otlp_put_double(struct otlp_arena *a, struct otlp_attributes *to, const char *key, double d);
otlp_value_t *otlp_text_value(struct otlp_arena *a, const char *text);

/* By the name that the semantic conventions have for it, or ours. */
void otlp_put_label(struct otlp_arena *a, struct otlp_attributes *to, const struct label *l);

/* A message of one resource and one scope around packed parts: rows are fields of a "scope rows"
 * message, as ScopeMetrics, concatenated. All of OTLP's questions have the same numbers: resource
 * rows 1, in it the resource 1 and scope rows 2, in these the scope 1. */
void otlp_put_question(struct buf *ret, const struct otlp_about *about, const struct buf *rows);
/* Likewise, but the resource is a process that is looked at, and not the agent. Several of them
 * after another are one message. */
void otlp_put_question_of(struct buf *ret, const struct otlp_about *about,
			  const struct live_process *of, const struct buf *rows);

/* Appends a packed message, and a field that holds one (protobuf's wire type "length-delimited").
 */
void otlp_pack(struct buf *ret, const ProtobufCMessage *message);
void otlp_put_field(struct buf *ret, unsigned number, const struct buf *bytes);
