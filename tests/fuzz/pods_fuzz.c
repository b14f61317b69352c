/* pods_fuzz.c - what a hostile kubelet or container runtime may answer. The first byte chooses: 'k'
 * the kubelet, else the runtime. Whatever comes, what is kept is bounded, and names are names.
 *
 * links: pods base */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pods/pod_answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_name(const char *text, size_t room)
{
	const char *end = memchr(text, 0, room);
	if (!end || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") != (size_t)(end - text))
		abort();
}

static void are_names(const struct pod_names *n)
{
	is_name(n->pod, sizeof(n->pod));
	is_name(n->pod_namespace, sizeof(n->pod_namespace));
	is_name(n->container, sizeof(n->container));
	if (!n->pod[0])
		abort();
}

static void kubelet(const uint8_t *answer, size_t n)
{
	struct pod_devices d;
	if (!pod_devices_read(&d, answer, n))
		return;
	if (d.list.len > POD_DEVICES)
		abort();
	for (size_t i = 0; i < d.list.len; i++) {
		are_names(&d.list.data[i].of);
		if (!pod_devices_find(&d, d.list.data[i].id))
			abort();
	}
	pod_devices_free(&d);
}

static void runtime(const uint8_t *answer, size_t n)
{
	struct pod_containers c;
	struct pod_names room;
	if (!pod_containers_read(&c, answer, n))
		return;
	if (c.list.len > POD_CONTAINERS)
		abort();
	for (size_t i = 0; i < c.list.len; i++) {
		are_names(&c.list.data[i].of);
		is_name(c.list.data[i].uid, sizeof(c.list.data[i].uid));
		if (!pod_containers_find(&c, c.list.data[i].id, "", &room))
			abort();
	}
	pod_containers_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1); /* what reads past its end is seen */
	if (!size || !copy) {
		free(copy);
		return 0;
	}
	memcpy(copy, data + 1, size - 1);
	if (data[0] == 'k')
		kubelet(copy, size - 1);
	else
		runtime(copy, size - 1);
	free(copy);
	return 0;
}
