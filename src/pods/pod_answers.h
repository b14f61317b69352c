/* pod_answers.h - what the kubelet and the container runtime answer, as plain tables: which device
 * belongs to which container, and whose a container is. Messages of protobuf in, nothing asked.
 *
 * Answers are not trusted: memory for a message's tree and the tables are bounded, and a name that
 * is none by Kubernetes's rules (RFC 1123: lower-case letters, digits, '-' and '.') is left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"

#define POD_CONTAINERS 4096
#define POD_DEVICES    1024
#define POD_TREE_BYTES (32u << 20) /* of a message that is looked at */

/* "" where it is not known. */
struct pod_names {
	char pod[254];
	char pod_namespace[64];
	char container[64]; /* its name, no number */
};

struct pod_container {
	char id[65];  /* 64 hexadecimal digits */
	char uid[64]; /* of its pod */
	struct pod_names of;
};

struct pod_containers {
	VEC(struct pod_container) list;
	struct map64 by_id, by_uid; /* of a hash: the place */
};

/* A device of NVIDIA's device plugin: "GPU-UUID", "MIG-UUID", "nvidia0", "nvidia0/gi1". */
struct pod_device {
	char id[96]; /* without what tells shares of it apart: "::3", "/vgpu3" */
	struct pod_names of;
};

struct pod_devices {
	VEC(struct pod_device) list; /* in the order of the answer */
};

/* The question's messages, packed. */
void pod_devices_question(struct buf *ret);
void pod_containers_question(struct buf *ret); /* those that run */

/* v1.ListPodResourcesResponse, runtime.v1.ListContainersResponse. False: it is no such message, or
 * larger than it may be; ret is then empty. What finds no room in a table is left out. */
bool pod_devices_read(struct pod_devices *ret, const uint8_t *answer, size_t n);
bool pod_containers_read(struct pod_containers *ret, const uint8_t *answer, size_t n);
void pod_devices_free(struct pod_devices *d);
void pod_containers_free(struct pod_containers *c);

/* The last that was listed, as dcgm-exporter takes it, or NULL. */
const struct pod_names *pod_devices_find(const struct pod_devices *d, const char *id);

/* That container, or its name "" and those of its pod, or NULL. id, uid: "" where it is not known.
 * ret_pod has room for what is not in the table as it is. */
const struct pod_names *pod_containers_find(const struct pod_containers *c, const char *id,
					    const char *uid, struct pod_names *ret_pod);
