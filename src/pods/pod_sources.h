/* pod_sources.h - asks the kubelet and the container runtime of this host, on a thread of its own,
 * and keeps what they said last. Who looks at it waits for neither of them.
 *
 * Each is asked each ten seconds, or two seconds after the last time where a container is not
 * known; less often where that takes more than a thousandth of a core (a two hundredth while
 * containers are not known), up to 40 s, and while it does not answer, up to a minute. It has five
 * seconds and 8 MB for an answer. What goes
 * wrong is said in one line, and that it works again in another, both at most once an hour. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "pods/pod_answers.h"

#define POD_OLD_NS 60000000000ULL /* a device may have gone to another since */

struct pod_sources_options {
	const char *kubelet, *runtime;	   /* sockets; NULL: not asked */
	bool kubelet_usual, runtime_usual; /* nobody named it: it may be absent, which is not said;
					      the runtime is then any of those that are usual */
	void *ctx;
	void (*say)(void *ctx, const char *sentence); /* of its thread */
};

/* Where the kubelet's is. */
#define POD_KUBELET_SOCKET "/var/lib/kubelet/pod-resources/kubelet.sock"
/* containerd's; usual ones are those of CRI-O, k3s and cri-dockerd as well. */
#define POD_RUNTIME_SOCKET "/run/containerd/containerd.sock"

/* What they said last. */
struct pod_table {
	struct pod_devices devices;
	struct pod_containers containers;
	uint64_t devices_ns;	   /* when it was said, CLOCK_MONOTONIC; 0: never */
	uint64_t containers_times; /* how often it was said */
};

struct pod_sources;

/* The options' strings live as long as it. */
struct pod_sources *pod_sources_new(const struct pod_sources_options *o);
int pod_sources_start(struct pod_sources *p, struct err *e);
/* Ends its thread, also in the middle of a question. NULL: nothing. */
void pod_sources_free(struct pod_sources *p);

/* From any thread: between the two nothing changes in it. Nobody asks meanwhile who holds it. */
const struct pod_table *pod_sources_hold(struct pod_sources *p);
void pod_sources_release(struct pod_sources *p);

/* From any thread: there is a container that is not in it. */
void pod_sources_ask_soon(struct pod_sources *p);
