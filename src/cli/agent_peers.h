/* agent_peers.h - agents of other hosts: what freezes here they are told, and what they tell is
 * frozen here too, where a process has one of the communicators that it is of. So the ranks of a
 * job have the same seconds, on whatever hosts they are.
 *
 * What a peer told is not told on, and each freeze is taken once: there are no loops. Each peer has
 * a thread of its own, so that one that is slow or dead delays nobody; what it was not told within
 * ten seconds it is not told at all. */
#pragma once

#include "cli/push_client.h"
#include "serve/agent_series.h"
#include "serve/http_server.h"
#include "session/flight.h"

/* Strings are those of the command line or of the file. */
struct peers_wanted {
	const char *urls[AGENT_PEERS];
	size_t len;
	const char *ca_file, *token_file; /* for all of them, or NULL */
};

struct agent;
struct agent_peers;
/* Where a freezes. Before privileges are given up: files are read. w's strings live as long as
 * it. Without peers it takes what others tell. */
int agent_peers_open(struct agent_peers **ret, const struct peers_wanted *w, struct agent *a,
		     struct err *e);
int agent_peers_start(struct agent_peers *p, struct err *e);
/* NULL: nothing. */
void agent_peers_close(struct agent_peers *p);

/* Something that happened here. */
struct agent_freeze {
	uint64_t time_ns; /* as of a struct flight_cause */
	const char *why;
	/* Of the process that it happened to, whose communicators it is of; 0: of all. */
	uint32_t pid;
	const char *of; /* without a process: as of a struct flight_cause; with one it is its job */
	bool is_again;	/* as of a struct flight_cause: nothing is said of it */
	bool is_answered; /* who asks is told what becomes of it: nobody else is */
};

/* From any thread, and waits for nobody. It is frozen, and where a file comes of it the peers are
 * told; where none does that is said. The agent's lock is not held. */
struct flight_verdict agent_peers_freeze(struct agent_peers *p, const struct agent_freeze *z);

/* A peer's note, the question's body; on the server's thread. */
void agent_peers_note(struct agent_peers *p, const struct http_question *q,
		      struct http_answer *ret);

/* From any thread. */
void agent_peers_stats(struct agent_peers *p, struct agent_peers_view *ret);
