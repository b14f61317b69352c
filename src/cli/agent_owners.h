/* agent_owners.h - whose things are: puts names of pods and containers, by the kubelet and the
 * container runtime, and jobs of a cluster, by its folder, into what an agent knows. Those are
 * asked on threads of their own (src/pods); here they are only looked at. */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "session/live_series.h"

/* NULL: that one is not asked. */
struct owners_wanted {
	const char *kubelet, *runtime;	   /* sockets */
	bool kubelet_usual, runtime_usual; /* nobody named it: it may be absent */
	const char *hpc_folder;
};

struct agent_owners;

/* NULL where nothing is to be asked. Strings live as long as it; say is called on its threads. */
struct agent_owners *agent_owners_new(const struct owners_wanted *wanted,
				      void (*say)(void *ctx, const char *sentence), void *ctx);
/* Starts the threads. */
int agent_owners_start(struct agent_owners *o, struct err *e);
void agent_owners_free(struct agent_owners *o);

/* Brings names up to date, with the lock of the series held; waits for nobody. What a pod is called
 * by the runtime wins over what a process's environment says. */
void agent_owners_tick(struct agent_owners *o, struct live_series *s);

/* Adds "pod", "namespace" and "container_name" to a culprit that has a container or a pod's number,
 * where the runtime named them. Waits for nobody. */
void agent_owners_name(struct agent_owners *o, json_t *culprit);
