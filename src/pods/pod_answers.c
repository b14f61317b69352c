/* pod_answers.c - unpacks by protobuf-c, with an allocator that has an end, and copies what is
 * used. */
#include "pods/pod_answers.h"

#include <stdio.h>
#include <string.h>

#include "cri_runtime.pb-c.h"
#include "pod_resources.pb-c.h"

#define VENDOR "nvidia.com/"

/* ---- memory of a message ---- */

/* protobuf-c frees what it took when it is refused more. */
static void *take(void *ctx, size_t size)
{
	size_t *left = ctx;
	if (size > *left)
		return NULL;
	*left -= size;
	return malloc(size ? size : 1);
}

static void give_back(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static ProtobufCAllocator allocator_of(size_t *left)
{
	return (ProtobufCAllocator){.alloc = take, .free = give_back, .allocator_data = left};
}

/* ---- names ---- */

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

static void copy_name(char *ret, size_t size, const char *name)
{
	size_t n = 0;
	while (n < size && is_name_char(name[n]))
		n++;
	ret[0] = 0;
	if (!name[n] && n < size)
		memcpy(ret, name, n + 1);
}

static bool is_id_char(char c)
{
	return is_name_char(c) || (c >= 'A' && c <= 'Z') || c == '/' || c == '_';
}

/* Up to the mark of a share: NVIDIA's plugin has "::", GKE's "/vgpu". False: it is no identifier.
 */
static bool copy_device(char *ret, size_t size, const char *id)
{
	const char *colons = strstr(id, "::"), *share = strstr(id, "/vgpu");
	size_t n = 0, len = share    ? (size_t)(share - id)
			    : colons ? (size_t)(colons - id)
				     : strlen(id);
	while (n < len && is_id_char(id[n]))
		n++;
	if (!n || n < len || n >= size)
		return false;
	memcpy(ret, id, n);
	ret[n] = 0;
	return true;
}

/* ---- the kubelet ---- */

void pod_devices_question(struct buf *ret)
{
	V1__ListPodResourcesRequest q = V1__LIST_POD_RESOURCES_REQUEST__INIT;
	size_t n = v1__list_pod_resources_request__get_packed_size(&q);
	buf_reserve(ret, n);
	ret->len += v1__list_pod_resources_request__pack(&q, ret->data + ret->len);
}

static void add_devices(struct pod_devices *d, const V1__ContainerDevices *from,
			const struct pod_names *of)
{
	struct pod_device one = {.of = *of};
	if (strncmp(from->resource_name, VENDOR, strlen(VENDOR)) != 0)
		return;
	for (size_t i = 0; i < from->n_device_ids && d->list.len < POD_DEVICES; i++)
		if (copy_device(one.id, sizeof(one.id), from->device_ids[i]))
			*vec_push(&d->list) = one;
}

static void add_pod(struct pod_devices *d, const V1__PodResources *pod)
{
	struct pod_names of = {.pod = ""};
	copy_name(of.pod, sizeof(of.pod), pod->name);
	copy_name(of.pod_namespace, sizeof(of.pod_namespace), pod->namespace_);
	for (size_t i = 0; i < pod->n_containers && of.pod[0]; i++) {
		const V1__ContainerResources *c = pod->containers[i];
		copy_name(of.container, sizeof(of.container), c->name);
		for (size_t k = 0; k < c->n_devices; k++)
			add_devices(d, c->devices[k], &of);
	}
}

bool pod_devices_read(struct pod_devices *ret, const uint8_t *answer, size_t n)
{
	size_t left = POD_TREE_BYTES;
	ProtobufCAllocator a = allocator_of(&left);
	V1__ListPodResourcesResponse *r = v1__list_pod_resources_response__unpack(&a, n, answer);
	*ret = (struct pod_devices){0};
	if (!r)
		return false;
	for (size_t i = 0; i < r->n_pod_resources; i++)
		add_pod(ret, r->pod_resources[i]);
	v1__list_pod_resources_response__free_unpacked(r, &a);
	return true;
}

const struct pod_names *pod_devices_find(const struct pod_devices *d, const char *id)
{
	for (size_t i = d->list.len; i-- > 0;)
		if (!strcmp(d->list.data[i].id, id))
			return &d->list.data[i].of;
	return NULL;
}

void pod_devices_free(struct pod_devices *d)
{
	vec_free(&d->list);
}

/* ---- the container runtime ---- */

void pod_containers_question(struct buf *ret)
{
	Runtime__V1__ContainerStateValue state = RUNTIME__V1__CONTAINER_STATE_VALUE__INIT;
	Runtime__V1__ContainerFilter filter = RUNTIME__V1__CONTAINER_FILTER__INIT;
	Runtime__V1__ListContainersRequest q = RUNTIME__V1__LIST_CONTAINERS_REQUEST__INIT;
	state.state = RUNTIME__V1__CONTAINER_STATE__CONTAINER_RUNNING;
	filter.state = &state;
	q.filter = &filter;
	buf_reserve(ret, runtime__v1__list_containers_request__get_packed_size(&q));
	ret->len += runtime__v1__list_containers_request__pack(&q, ret->data + ret->len);
}

/* What the kubelet has runtimes keep: kubernetes, pkg/kubelet/types/labels.go. */
static void take_label(struct pod_container *c, const char *key, const char *value)
{
	const struct {
		const char *key;
		char *to;
		size_t size;
	} known[] = {
		{"io.kubernetes.pod.name", c->of.pod, sizeof(c->of.pod)},
		{"io.kubernetes.pod.namespace", c->of.pod_namespace, sizeof(c->of.pod_namespace)},
		{"io.kubernetes.pod.uid", c->uid, sizeof(c->uid)},
		{"io.kubernetes.container.name", c->of.container, sizeof(c->of.container)},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(key, known[i].key))
			copy_name(known[i].to, known[i].size, value);
}

static bool is_container(const char *id)
{
	return strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

static uint64_t key_of(const char *text)
{
	return hash_bytes(text, strlen(text));
}

static void add_container(struct pod_containers *to, const Runtime__V1__Container *from)
{
	struct pod_container c = {.id = ""};
	if (!is_container(from->id) || to->list.len >= POD_CONTAINERS)
		return;
	memcpy(c.id, from->id, sizeof(c.id));
	for (size_t i = 0; i < from->n_labels; i++)
		take_label(&c, from->labels[i]->key, from->labels[i]->value);
	if (!c.of.pod[0])
		return;
	map64_set(&to->by_id, key_of(c.id), to->list.len);
	if (c.uid[0])
		map64_set(&to->by_uid, key_of(c.uid), to->list.len);
	*vec_push(&to->list) = c;
}

bool pod_containers_read(struct pod_containers *ret, const uint8_t *answer, size_t n)
{
	size_t left = POD_TREE_BYTES;
	ProtobufCAllocator a = allocator_of(&left);
	Runtime__V1__ListContainersResponse *r =
		runtime__v1__list_containers_response__unpack(&a, n, answer);
	*ret = (struct pod_containers){0};
	if (!r)
		return false;
	for (size_t i = 0; i < r->n_containers; i++)
		add_container(ret, r->containers[i]);
	runtime__v1__list_containers_response__free_unpacked(r, &a);
	return true;
}

const struct pod_names *pod_containers_find(const struct pod_containers *c, const char *id,
					    const char *uid, struct pod_names *ret_pod)
{
	uint64_t at;
	if (map64_get(&c->by_id, key_of(id), &at) && !strcmp(c->list.data[at].id, id))
		return &c->list.data[at].of;
	if (!uid[0] || !map64_get(&c->by_uid, key_of(uid), &at) ||
	    strcmp(c->list.data[at].uid, uid) != 0)
		return NULL;
	*ret_pod = c->list.data[at].of;
	ret_pod->container[0] = 0;
	return ret_pod;
}

void pod_containers_free(struct pod_containers *c)
{
	vec_free(&c->list);
	map64_free(&c->by_id);
	map64_free(&c->by_uid);
}
