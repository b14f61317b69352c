/* agent_api.h - what an agent knows as JSON: the answers below /api/v1/. docs/api.yaml says what
 * each key is. Numbers that are not known are null. */
#pragma once

#include <jansson.h>

#include "serve/agent_series.h"
#include "session/live_trends.h"

struct agent_api_view {
	struct agent_view agent;
	const struct live_trends *trends;
	const json_t *incidents; /* of report_anomalies.h, the newest last */
	uint64_t now_ns;	 /* of CLOCK_MONOTONIC */
};

/* The caller's, all of them: nothing in them is shared. */
json_t *agent_api_jobs(const struct agent_api_view *v);
json_t *agent_api_job(const struct agent_api_view *v, uint32_t pid); /* NULL: there is none */
json_t *agent_api_incidents(const struct agent_api_view *v);
json_t *agent_api_gpus(const struct agent_api_view *v);
/* kind: "gpu" and the like, or NULL: of all. NULL where there is no such kind. */
json_t *agent_api_series(const struct agent_api_view *v, const char *kind);
json_t *agent_api_self(const struct agent_api_view *v);
/* What changes from second to second, for who waits for changes. */
json_t *agent_api_state(const struct agent_api_view *v);
