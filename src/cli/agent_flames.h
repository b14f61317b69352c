/* agent_flames.h - where the jobs' processor time went in the last ten minutes: a call tree of each
 * process each ten seconds, of which any stretch is put together when it is asked for. A store gets
 * a smaller one of each.
 *
 * Memory is bounded: a tree loses its smallest frames, and beyond FLAMES_BYTES the oldest pieces
 * go. */
#pragma once

#include <jansson.h>

#include "serve/http_server.h"
#include "session/session_live.h"
#include "store/store.h"

#define FLAMES_PIECES 60	 /* of ten seconds */
#define FLAMES_BYTES  (8u << 20) /* of trees */
#define FLAMES_NAMES  (1u << 16) /* when there are more, all begins anew */
#define FLAMES_FRAMES 1500	 /* of a tree */
#define FLAMES_STORED 200	 /* of a store's */

struct agent_flames;
struct agent_flames *agent_flames_new(void);
void agent_flames_free(struct agent_flames *f);

/* The thread that looks at rows. store NULL: there is none. */
void agent_flames_batch(struct agent_flames *f, struct store *store, const struct session_view *v,
			uint64_t now_ns);

/* From any thread: what docs/api.yaml calls Stacks, of the pieces that reach into that time. f
 * NULL: no stacks are taken. */
json_t *agent_flames_json(struct agent_flames *f, uint32_t pid, uint64_t from_ns, uint64_t to_ns);
