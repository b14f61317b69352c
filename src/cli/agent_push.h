/* agent_push.h - what an agent knows, brought to others each few seconds: by OTLP to a collector or
 * a store of OpenTelemetry. Decides what is sent and where to; how is serve/http_client.h's. */
#pragma once

#include "base/error.h"
#include "cli/options.h"
#include "serve/agent_series.h"

/* Where to, as told: strings are those of the command line, of the file or of the environment. */
struct push_wanted {
	const char *url;     /* NULL: nothing is pushed */
	const char *ca_file; /* NULL: the host's */
	uint64_t interval_ns, timeout_ns;
	const struct args *headers;	/* its options --otlp-header, "NAME=VALUE" */
	const char *more_headers;	/* "name=value,name=value", percent-encoded; or NULL */
	const char *resource, *service; /* likewise; a name of the service; or NULL */
};

/* What the variables of OpenTelemetry's specification say, where nothing else does. */
int push_wanted_environment(struct push_wanted *w, struct err *e);

struct agent;
struct agent_push;
/* Before privileges are given up: files are read. w's strings live as long as it. */
int agent_push_open(struct agent_push **ret, const struct push_wanted *w, struct agent *a,
		    struct err *e);
int agent_push_start(struct agent_push *p, struct err *e);
/* Brings the last there is. NULL: nothing. */
void agent_push_close(struct agent_push *p);
/* From any thread. */
void agent_push_stats(struct agent_push *p, struct agent_pushed *ret);
