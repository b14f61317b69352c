/* agent_options.h - what an agent is asked for, from options of the command line and of its file
 * alike: what they mean, their bounds, and what is when nobody tells. */
#pragma once

#include "cli/agent_owners.h"
#include "cli/agent_peers.h"
#include "cli/agent_profile.h"
#include "cli/agent_push.h"
#include "cli/options.h"
#include "session/flight.h"
#include "session/session_detect.h"
#include "store/store.h"
#include "symbolize/proc_labels.h"

/* Where an agent serves: "127.0.0.1:9477", "[::1]:9477". */
struct agent_address {
	char address[64];
	uint16_t port;
	const char *cert_file, *key_file, *token_file; /* NULL: not told */
};

struct agent_options {
	struct agent_address where;
	bool detects, dcgm;
	double budget;	   /* share of the jobs' processor time, 0: none */
	double own_budget; /* cores that the agent itself may take, likewise */
	uint64_t duration_ns;
	struct session_detect_options judged;
	struct flight_options frozen;	/* folder NULL: nothing is */
	struct peers_wanted peers;	/* that are told of what is */
	struct otlp_wanted pushed;	/* url NULL: nothing is */
	struct profile_wanted profiled; /* likewise */
	struct store_options stored;	/* path NULL: nothing is kept */
	struct owners_wanted owners;
	struct chosen_labels labels;
};

/* That of an option, as it is where nobody tells. */
int agent_address_read(struct agent_address *ret, const struct args *a, const char *option,
		       struct err *e);

bool agent_address_is_loopback(const struct agent_address *a);

/* All options; strings are those of a. -EINVAL with a sentence. */
int agent_options_read(struct agent_options *ret, const struct args *a, struct err *e);

/* Whether it may listen there: TLS wants both of its files, and an address that is no loopback's
 * wants TLS and a token. */
int agent_options_check_listen(const struct agent_options *o, struct err *e);

/* Whether something is frozen that peers are told of, each once, and whether they may be told the
 * token: by TLS, or on loopback. */
int agent_options_check_peers(const struct agent_options *o, struct err *e);

/* Whether each label has a name of its own. */
int agent_options_check_labels(const struct agent_options *o, struct err *e);

/* Whether there is somebody that profiles of OTLP go to; after what the environment says. */
int agent_options_check_profiles(const struct agent_options *o, struct err *e);
/* Whether profiles are to be made. */
bool agent_options_profiles(const struct agent_options *o);

/* Whether one option has a value that it takes, whatever the others are. */
int agent_options_check(const struct args *a, const char *name, struct err *e);
