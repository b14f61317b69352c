/* agent_series.h - what an agent knows as families of metrics. */
#pragma once

#include "serve/series_sink.h"
#include "session/job_rules.h"
#include "session/live_notices.h"
#include "session/live_series.h"
#include "session/live_state.h"

#define AGENT_CAUSES	  64
#define AGENT_CAUSE_BYTES 32
#define AGENT_PEERS	  64

/* Incidents that have ended their first telling, by cause. */
struct agent_causes {
	struct {
		char cause[AGENT_CAUSE_BYTES];
		uint64_t n;
		double cost_s;
	} rows[AGENT_CAUSES];
	size_t len;
};

/* Of what is pushed to one receiver. */
struct agent_pushed {
	const char *to;			 /* "otlp", "pprof" */
	bool tells_events;		 /* logs and spans */
	uint64_t sent, bytes, raw_bytes; /* bodies that were taken; compressed, before */
	uint64_t failures, refused, dropped, waiting;	     /* see http_client.h */
	uint64_t rejected_rows;				     /* that a receiver left out */
	uint64_t logs, spans, logs_left_out, spans_left_out; /* see otlp_events.h */
	uint64_t made_ns;				     /* what making the last took */
};

/* What became of a note that another agent froze something. */
enum peer_answer {
	PEER_FREEZES,  /* a file comes of it */
	PEER_JOINS,    /* it belongs to a file of something else, which is not written yet */
	PEER_LATE,     /* likewise, which is: no other file comes of it */
	PEER_HELD_OFF, /* another file is too near, and has it not */
	PEER_KNOWN,    /* the same note came before, or it is of this agent itself */
	PEER_STRANGER, /* no process here has one of its communicators */
	PEER_BAD,      /* it is no note */
	PEER_ANSWERS,
};

/* Another agent, that is told of what freezes here. */
struct agent_peer {
	const char *url;
	uint64_t told, froze; /* notes that it took; of these: those that it freezes for */
	uint64_t failures, refused, dropped, waiting; /* see http_client.h */
	uint64_t taken_realtime_ns;		      /* when it took the last, 0: none so far */
	double answer_s; /* from that freeze to its answer; NaN likewise */
};

struct agent_peers_view {
	struct agent_peer list[AGENT_PEERS];
	size_t len;
	uint64_t notes[PEER_ANSWERS]; /* that came */
};

/* As in labels and keys: "frozen". */
const char *agent_peer_answer_name(enum peer_answer answer);

struct agent_view {
	const struct live_series *series;
	const struct live_state *state;
	const struct live_jobs *jobs;
	const struct agent_causes *causes;
	const struct live_notices *notices;
	struct job_rules *rules; /* NULL: there are none */
	const char *host;	 /* the host's name */
	const char *version;
	bool freezes; /* the last seconds are kept, and written when something happens: */
	uint64_t frozen, unfrozen;	      /* files; those that could not be written */
	uint64_t held_off;		      /* what is in none, since others were too near */
	const struct agent_peers_view *peers; /* where it freezes */
	const struct agent_pushed *pushed;    /* so many receivers: */
	size_t pushed_len;
	bool dcgm; /* also the names of NVIDIA's dcgm-exporter */
};

/* Whether a budget left out no call of what marks a step. */
bool agent_series_sees(const struct live_series *s, const char *marker);
/* "gpu": what names of metrics begin with, of an enum entity_kind. */
const char *agent_kind_name(uint8_t kind);

/* Of a process, or NULL: none were counted so far, or not each of them. */
const struct live_steps_view *agent_series_steps(const struct agent_view *v, uint32_t pid);

void agent_series_write(const struct series_sink *x, const struct agent_view *v);
