/* agent_freezes.h - answers of an agent about the traces that it froze: which there are, the files,
 * and a page of each. */
#pragma once

#include "serve/http_server.h"

/* ctx: the struct agent; on the server's thread. */
void agent_get_freezes(void *ctx, const struct http_question *q, struct http_answer *ret);
/* Below /freezes/: NAME.eacgm is the file, NAME.html its page, NAME.perfetto-trace.gz its trace. */
void agent_get_freeze(void *ctx, const struct http_question *q, struct http_answer *ret);
