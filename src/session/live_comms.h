/* live_comms.h - communicators of NCCL that the processes of a running session have now, by the
 * identity that all of their ranks share, on whatever host (src/pipeline/comms.c): those whose
 * making was seen. At most LIVE_COMMS; what finds no room is not known.
 *
 * One thread adds, that which looks at rows; any may ask: it has a lock of its own. */
#pragma once

#include <pthread.h>

#include "session/live_series.h"
#include "session/session_live.h"

#define LIVE_COMMS 8192

struct live_comm {
	uint64_t hash, handle, start_ns;
	uint32_t pid;
	int32_t size; /* ranks, 0 unknown */
};

struct live_comms {
	pthread_mutex_t lock; /* of what follows */
	VEC(struct live_comm) list;
};

struct live_comms *live_comms_new(void);
void live_comms_free(struct live_comms *c);

/* s: whose processes are, with this batch. */
void live_comms_batch(struct live_comms *c, const struct session_view *v,
		      const struct live_series *s);

/* Whether a process has one of these. */
bool live_comms_have(struct live_comms *c, const uint64_t *hashes, size_t n);

/* Those of a process, or of all where pid is 0, each once: of more than most those of most ranks,
 * for they are of most hosts. Returns how many. */
size_t live_comms_of(struct live_comms *c, uint32_t pid, uint64_t *ret, size_t most);
