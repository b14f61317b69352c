/* agent.h - what `eacgm agent` knows, from what comes from its session. Three threads: the
 * first runs the session, the session's that looks at rows brings the state up to date, and the
 * server's answers (agent_answers.h); they share the state under its lock. */
#pragma once

#include <pthread.h>

#include "base/outlet.h"
#include "cli/agent_flames.h"
#include "cli/agent_incidents.h"
#include "cli/agent_owners.h"
#include "cli/agent_peers.h"
#include "cli/freeze_page.h"
#include "cli/notify.h"
#include "cli/watch_steps.h"
#include "incident/judged.h"
#include "serve/agent_api.h"
#include "serve/otlp_events.h"
#include "session/flight.h"
#include "session/job_rules.h"
#include "session/live_comms.h"
#include "session/live_notices.h"
#include "session/live_rates.h"
#include "session/live_trends.h"
#include "session/session_detect.h"
#include "store/store.h"

#define AGENT_HOST_BYTES 256

#define AGENT_TOLD 64

/* A row of an incident, which may be told several times. */
struct agent_told {
	uint64_t id, told_ns;
	uint32_t pid;
};

struct agent {
	struct outlet err;
	pthread_mutex_t lock; /* of the next seven */
	struct live_state state;
	struct live_jobs jobs;
	struct live_series series;
	struct live_trends trends;
	struct agent_incidents incidents;
	struct live_notices notices; /* agent_notes.h */
	uint64_t last_batch_ns;
	struct live_rates *rates; /* those of the thread that looks at rows */
	struct watch_steps *steps;
	struct session_detect *detect; /* NULL: nothing is judged */
	struct judged *judged;	       /* NULL likewise; of any thread */
	struct flight *flight;	       /* NULL: nothing is frozen; of any thread */
	/* the last that were to be frozen: the detector's thread's */
	struct agent_told told[AGENT_TOLD];
	size_t ntold;
	struct agent_peers *peers;     /* NULL likewise; set by who opens them, before a session */
	struct live_comms *comms;      /* NULL likewise; of any thread */
	struct freeze_pages *pages;    /* of what is; the server's thread's */
	struct agent_flames *flames;   /* NULL: no stacks are taken; of any thread */
	struct otlp_events *events;    /* NULL: nothing is pushed; of any thread */
	pthread_mutex_t push_lock;     /* of the next one */
	struct agent_push *push;       /* NULL likewise; agent_exchange_push */
	struct agent_profile *profile; /* NULL: no profiles are; set likewise */
	struct store *store;	       /* NULL: nothing is kept; of any thread */
	const char *store_path;	       /* NULL likewise; of any thread */
	struct agent_owners *owners;   /* NULL: nobody is asked whose things are */
	struct job_rules *rules;       /* NULL: there are none; of any thread */
	struct notify notify; /* signs of life are those of the thread that looks at rows */
	uint64_t steps_taken_ns, mixtures_ns;
	bool learning;	  /* what is usual; nothing is told then */
	json_t *settings; /* of the lock; as agent_settings.h has them: agent_set_settings */
	char host[AGENT_HOST_BYTES];
	struct buf policy; /* the page's, for the server's thread */
	struct buf alone;  /* likewise, of a page that asks nobody */
	bool dcgm;	   /* of the lock */
};

/* NULL where that is not done; what they call is set by agent_open. */
struct agent_wanted {
	struct session_detect_options *judged;
	struct flight_options *frozen;
	struct store_options *stored;
	const struct owners_wanted *owners;
	const struct chosen_labels *labels; /* outlive the agent */
	struct job_rules *rules;	    /* likewise */
	bool pushes;
	bool stacks; /* are taken */
};

/* Fails where the store cannot be used; agent_close is due in any case. */
int agent_open(struct agent *a, const struct agent_wanted *wanted, struct err *e);
void agent_close(struct agent *a);

/* For the session: who looks at its rows, at most SESSION_DETECT_LOOKERS; returns how many. */
size_t agent_lookers(struct agent *a, struct session_live ret[static SESSION_DETECT_LOOKERS]);
void agent_say(void *agent, const char *sentence);

/* After agent_open, at any time; takes them. */
void agent_set_settings(struct agent *a, json_t *settings);
/* From any thread. What is pushed to another receiver from now on; returns the one before, which is
 * the caller's to close. */
struct agent_push *agent_exchange_push(struct agent *a, struct agent_push *p);
/* From any thread. Whether GPUs have dcgm-exporter's names too. */
void agent_name_as_dcgm(struct agent *a, bool does);

/* SIGUSR1 freezes: to be called in the program's first thread. */
void agent_catch_signal(void);
