/* otlp_message.c - attributes, the resource, and the frames around rows.
 *
 * A message is the same on the wire when it comes in parts: rows are packed one by one, each as the
 * message that holds it, and only its length has to be known before it is put into the next. */
#include "serve/otlp_message.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

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

/* ---- labels ---- */

/* By the semantic conventions where they have a name. */
static const struct attribute_name {
	const char *label, *key;
	bool is_int;
} attribute_names[] = {
	{"pid", "process.pid", true},
	{"parent", "process.parent_pid", true},
	{"comm", "process.executable.name", false},
	{"function", "code.function.name", false},
	{"uuid", "hw.id", false},
	{"gpu", "eacgm.gpu", true},
	{"instance_id", "eacgm.gpu.instance", true},
	{"pod", "k8s.pod.name", false},
	{"namespace", "k8s.namespace.name", false},
	{"pod_uid", "k8s.pod.uid", false},
	{"container", "container.id", false},
	{"container_name", "k8s.container.name", false},
	{"interface", "network.interface.name", false},
	{"device", "system.device", false},
	{"mountpoint", "system.filesystem.mountpoint", false},
	{"cgroup", "eacgm.cgroup", false},
	{"layer", "eacgm.layer", false},
	{"script", "eacgm.script", false},
	{"job", "eacgm.job", false},
	{"launcher", "eacgm.launcher", false},
	{"rank", "eacgm.rank", true},
	{"local_rank", "eacgm.local_rank", true},
	{"world_size", "eacgm.world_size", true},
	{"communicator", "eacgm.communicator", false},
	{"communicator_rank", "eacgm.communicator.rank", true},
	{"communicator_ranks", "eacgm.communicator.ranks", true},
	{"operation", "eacgm.collective.operation", false},
	{"cause", "eacgm.cause", false},
	{"kind", "eacgm.step.kind", false},
	{"signal", "eacgm.push.signal", false},
	{"to", "eacgm.push.to", false},
	{"version", "service.version", false},
	{"of", "eacgm.of", false},
};

static const struct attribute_name *name_of(const char *label)
{
	for (size_t i = 0; i < LEN(attribute_names); i++)
		if (!strcmp(attribute_names[i].label, label))
			return &attribute_names[i];
	return NULL;
}

void otlp_put_label(struct otlp_arena *a, struct otlp_attributes *to, const struct label *l)
{
	const struct attribute_name *name = name_of(l->name);
	if (name && name->is_int && l->value)
		otlp_put_int(a, to, name->key, strtoll(l->value, NULL, 10));
	else
		otlp_put_text(a, to, name ? name->key : l->name, l->value);
}

/* ---- frames ---- */

void otlp_pack(struct buf *ret, const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	buf_reserve(ret, n);
	ret->len += protobuf_c_message_pack(message, ret->data + ret->len);
}

void otlp_put_field(struct buf *ret, unsigned number, const struct buf *bytes)
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
		    const struct otlp_about *about, const char *service, const char *version,
		    uint32_t pid)
{
	char instance[300];
	snprintf(instance, sizeof(instance), "%s:%u", about->host, pid);
	const struct {
		const char *key, *value;
	} own[] = {
		{"service.name", service},
		{"service.version", version},
		{"service.instance.id", instance},
		{"host.name", about->host},
		{"host.arch", "amd64"},
		{"os.type", "linux"},
	};
	for (size_t i = 0; i < LEN(own); i++)
		if (!is_told(about, own[i].key))
			otlp_put_text(a, to, own[i].key, own[i].value);
	if (!is_told(about, "process.pid"))
		otlp_put_int(a, to, "process.pid", pid);
}

static void put_process(struct otlp_arena *a, struct otlp_attributes *to,
			const struct otlp_about *about, const struct live_process *of)
{
	struct process_labels labels;
	put_own(a, to, about, of->script[0] ? of->script : of->comm, NULL, of->pid);
	process_labels_of(&labels, of);
	for (size_t i = 0; i < labels.len; i++) {
		const struct label *l = &labels.list[i];
		const struct attribute_name *name = name_of(l->name);
		if (strcmp(l->name, "pid") != 0 && !is_told(about, name ? name->key : l->name))
			otlp_put_label(a, to, l);
	}
}

/* of NULL: the agent's own. */
static void pack_resource(struct buf *ret, const struct otlp_about *about,
			  const struct live_process *of)
{
	struct otlp_arena a = {0};
	struct otlp_attributes list = {0};
	Opentelemetry__Proto__Resource__V1__Resource r =
		OPENTELEMETRY__PROTO__RESOURCE__V1__RESOURCE__INIT;
	if (of)
		put_process(&a, &list, about, of);
	else
		put_own(&a, &list, about, "eacgm", about->version, (uint32_t)getpid());
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

void otlp_put_question_of(struct buf *ret, const struct otlp_about *about,
			  const struct live_process *of, const struct buf *rows)
{
	struct buf resource = {0}, scope = {0}, of_scope = {0}, of_resource = {0};
	pack_resource(&resource, about, of);
	pack_scope(&scope, about);
	otlp_put_field(&of_scope, 1, &scope);
	buf_add(&of_scope, rows->data, rows->len);
	otlp_put_field(&of_resource, 1, &resource);
	otlp_put_field(&of_resource, 2, &of_scope);
	otlp_put_field(ret, 1, &of_resource);
	buf_free(&resource);
	buf_free(&scope);
	buf_free(&of_scope);
	buf_free(&of_resource);
}

void otlp_put_question(struct buf *ret, const struct otlp_about *about, const struct buf *rows)
{
	otlp_put_question_of(ret, about, NULL, rows);
}
