/* agent_history.h - what an agent's store tells of a stretch of days, as JSON: docs/api.yaml. */
#pragma once

#include "serve/http_server.h"

/* Answers of /api/v1/history and what is below it, for a route that is aside: each takes two
 * seconds at most. ctx is the agent. */
void agent_get_history(void *ctx, const struct http_question *q, struct http_answer *ret);
