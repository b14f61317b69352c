/* otlp_message.c - attributes, the resource, and the frames around rows.
 *
 * A message is the same on the wire when it comes in parts: rows are packed one by one, each as the
 * message that holds it, and only its length has to be known before it is put into the next. */
#include "serve/otlp_message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SCOPE "eacgm"

/* ---- attributes ---- */

static otlp_value_t *add(struct otlp_arena *a, struct otlp_attributes *to, const char *key)
{
	if (!to->list)
		to->list = otlp_arena_get(a, OTLP_ATTRIBUTES * sizeof(*to->list));
	if (to->n == OTLP_ATTRIBUTES)
		return NULL;
	otlp_key_t *k = otlp_arena_get(a, sizeof(*k));
	otlp_value_t *v = otlp_arena_get(a, sizeof(*v));
	opentelemetry__proto__common__v1__key_value__init(k);
	opentelemetry__proto__common__v1__any_value__init(v);
	k->key = (char *)(uintptr_t)key; /* packed, never changed */
	k->value = v;
	to->list[to->n++] = k;
	return v;
}

static void set_text(struct otlp_arena *a, otlp_value_t *v, const char *text)
{
	v->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
	v->string_value = otlp_arena_text(a, text);
}

void otlp_put_text(struct otlp_arena *a, struct otlp_attributes *to, const char *key,
		   const char *text)
{
	otlp_value_t *v = text ? add(a, to, key) : NULL;
	if (v)
		set_text(a, v, text);
}

void otlp_put_int(struct otlp_arena *a, struct otlp_attributes *to, const char *key, int64_t n)
{
	otlp_value_t *v = add(a, to, key);
	if (!v)
		return;
	v->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE;
	v->int_value = n;
}

void otlp_put_bool(struct otlp_arena *a, struct otlp_attributes *to, const char *key, bool b)
{
	otlp_value_t *v = add(a, to, key);
	if (!v)
		return;
	v->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_BOOL_VALUE;
	v->bool_value = b;
}

void otlp_put_double(struct otlp_arena *a, struct otlp_attributes *to, const char *key, double d)
{
	otlp_value_t *v = add(a, to, key);
	if (!v)
		return;
	v->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_DOUBLE_VALUE;
	v->double_value = d;
}

otlp_value_t *otlp_text_value(struct otlp_arena *a, const char *text)
{
	otlp_value_t *v = otlp_arena_get(a, sizeof(*v));
	opentelemetry__proto__common__v1__any_value__init(v);
	set_text(a, v, text);
	return v;
}

/* ---- frames ---- */

void otlp_pack(struct buf *ret, const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	buf_reserve(ret, n);
	ret->len += protobuf_c_message_pack(message, ret->data + ret->len);
}

/* A field of the wire type "length-delimited" (protobuf's encoding). */
static void put_field(struct buf *ret, unsigned number, const struct buf *bytes)
{
	buf_byte(ret, (uint8_t)(number << 3 | 2));
	size_t n = bytes->len;
	for (; n > 127; n >>= 7)
		buf_byte(ret, (uint8_t)(n | 128));
	buf_byte(ret, (uint8_t)n);
	buf_add(ret, bytes->data, bytes->len);
}

static bool is_told(const struct otlp_about *about, const char *key)
{
	for (size_t i = 0; i < about->n; i++)
		if (!strcmp(about->keys[i], key))
			return true;
	return false;
}

static void put_own(struct otlp_arena *a, struct otlp_attributes *to,
		    const struct otlp_about *about)
{
	char instance[300];
	snprintf(instance, sizeof(instance), "%s:%d", about->host, (int)getpid());
	const struct {
		const char *key, *value;
	} own[] = {
		{"service.name", "eacgm"},
		{"service.version", about->version},
		{"service.instance.id", instance},
		{"host.name", about->host},
		{"host.arch", "amd64"},
		{"os.type", "linux"},
	};
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!is_told(about, own[i].key))
			otlp_put_text(a, to, own[i].key, own[i].value);
	if (!is_told(about, "process.pid"))
		otlp_put_int(a, to, "process.pid", getpid());
}

static void pack_resource(struct buf *ret, const struct otlp_about *about)
{
	struct otlp_arena a = {0};
	struct otlp_attributes list = {0};
	Opentelemetry__Proto__Resource__V1__Resource r =
		OPENTELEMETRY__PROTO__RESOURCE__V1__RESOURCE__INIT;
	put_own(&a, &list, about);
	for (size_t i = 0; i < about->n; i++)
		otlp_put_text(&a, &list, about->keys[i], about->values[i]);
	r.attributes = list.list;
	r.n_attributes = list.n;
	otlp_pack(ret, &r.base);
	otlp_arena_free(&a);
}

static void pack_scope(struct buf *ret, const struct otlp_about *about)
{
	otlp_scope_t scope = OPENTELEMETRY__PROTO__COMMON__V1__INSTRUMENTATION_SCOPE__INIT;
	scope.name = SCOPE;
	scope.version = (char *)(uintptr_t)about->version; /* packed, never changed */
	otlp_pack(ret, &scope.base);
}

void otlp_put_question(struct buf *ret, const struct otlp_about *about, const struct buf *rows)
{
	struct buf resource = {0}, scope = {0}, of_scope = {0}, of_resource = {0};
	pack_resource(&resource, about);
	pack_scope(&scope, about);
	put_field(&of_scope, 1, &scope);
	buf_add(&of_scope, rows->data, rows->len);
	put_field(&of_resource, 1, &resource);
	put_field(&of_resource, 2, &of_scope);
	put_field(ret, 1, &of_resource);
	buf_free(&resource);
	buf_free(&scope);
	buf_free(&of_scope);
	buf_free(&of_resource);
}
