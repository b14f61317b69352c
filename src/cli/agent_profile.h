/* agent_profile.h - stacks of the jobs at the CPU clock, as a profile of each process each few
 * seconds, brought to stores of profiles: as Pyroscope and as Parca take them, and by OTLP. */
#pragma once

#include "cli/push_client.h"
#include "serve/otlp_about.h"

struct session_view;

/* Servers that take pprof. */
enum profile_server { PROFILE_PYROSCOPE, PROFILE_PARCA, PROFILE_SERVERS };

struct profile_wanted {
	struct push_wanted servers[PROFILE_SERVERS]; /* url NULL: not there; no times */
	uint64_t interval_ns;			     /* of a profile */
};

struct agent_profile_told {
	void *ctx;
	void (*say)(void *ctx, const char *sentence); /* from any thread */
	const char *host;
	uint32_t sample_hz;
	struct push_client *otlp;	/* somebody else's, brings messages of OTLP; NULL: none */
	const struct otlp_about *about; /* of them */
};

struct agent_profile;
/* Before privileges are given up: files are read. Strings live as long as it. */
int agent_profile_open(struct agent_profile **ret, const struct profile_wanted *w,
		       const struct agent_profile_told *told, struct err *e);
int agent_profile_start(struct agent_profile *p, struct err *e);
/* Brings the last there is. NULL: nothing. */
void agent_profile_close(struct agent_profile *p);

/* The thread that looks at rows; s: whose processes are. */
void agent_profile_batch(struct agent_profile *p, const struct session_view *v,
			 const struct live_series *s, uint64_t now_ns);
/* Nothing more comes: what there is becomes profiles. */
void agent_profile_end(struct agent_profile *p, const struct live_series *s, uint64_t now_ns);

/* From any thread. Of the servers that are wanted; returns how many. */
size_t agent_profile_stats(struct agent_profile *p,
			   struct agent_pushed ret[static PROFILE_SERVERS]);
