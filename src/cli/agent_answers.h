/* agent_answers.h - what an agent answers by HTTP, and its metrics for OTLP. */
#pragma once

#include "cli/agent.h"
#include "serve/http_server.h"

/* Appends all metrics as a message of OTLP; offset_ns: CLOCK_REALTIME - CLOCK_MONOTONIC,
 * the same each time. */
void agent_metrics_otlp(struct agent *a, struct buf *ret, const struct otlp_about *about,
			uint64_t now_realtime_ns, uint64_t offset_ns);

/* Answers with JSON, which it takes. */
void agent_answer_json(struct http_answer *ret, json_t *answer);

/* What the server answers; its ctx is the agent. */
extern const struct http_route agent_routes[];
extern const size_t agent_routes_len;
