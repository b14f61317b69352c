/* agent_push.h - what an agent knows, brought to others each few seconds: by OTLP to a collector or
 * a store of OpenTelemetry. Decides what is sent and where to; how is push_client.h's. */
#pragma once

#include "cli/push_client.h"
#include "serve/otlp_about.h"

/* Where to, as told: strings are those of the command line, of the file or of the environment. */
struct otlp_wanted {
	struct push_wanted to;
	const char *resource, *service; /* attributes as more_headers; a name; or NULL */
	bool profiles;			/* they are pushed as well */
};

/* What the variables of OpenTelemetry's specification say, where nothing else does. */
int otlp_wanted_environment(struct otlp_wanted *w, struct err *e);

struct agent;
struct agent_push;
/* Before privileges are given up: files are read. w's strings live as long as it. */
int agent_push_open(struct agent_push **ret, const struct otlp_wanted *w, struct agent *a,
		    struct err *e);
int agent_push_start(struct agent_push *p, struct err *e);
/* Brings the last there is. NULL: nothing. */
void agent_push_close(struct agent_push *p);
/* For what others have pushed to the same receiver: its client, and who tells. */
struct push_client *agent_push_client(struct agent_push *p);
const struct otlp_about *agent_push_about(const struct agent_push *p);
/* From any thread. */
void agent_push_stats(struct agent_push *p, struct agent_pushed *ret);
