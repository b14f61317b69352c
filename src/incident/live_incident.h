/* live_incident.h - the rows of one incident while it goes on. It is diagnosed again and again;
 * each piece that a diagnosis cuts it into, and what comes beside its cause, has a row of its own,
 * which later ones of the piece take the place of. While its job stands still a row says that,
 * which the cause takes the place of once a diagnosis finds it. When that is done, and of what, is
 * the caller's (session/session_diagnose.h). */
#pragma once

#include "incident/incident_row.h"
#include "incident/standing.h"

/* What came to a cause that stands, and is told beside it. */
struct live_beside {
	uint64_t caused_ns, found_ns; /* when it was found first, and last */
	double ended_cost_ns; /* when it was told last that it is over; below 0: it was not */
	struct m_incident row;
	struct incident_texts texts;
};

struct live_incident {
	uint64_t id;
	uint64_t told_ns; /* of what the row is of */
	uint64_t key_ns;  /* with its number and process a row's key: it stays */
	uint64_t last_key_ns;
	uint64_t caused_ns; /* when the cause that it has now was known; 0: none is */
	uint64_t from_ns;   /* pieces that began before have rows of their own */
	/* What was found last, with what it refers to; of what could be diagnosed. */
	bool known;
	bool standing; /* the row says that the job stands still: no diagnosis has found it, */
	bool stands;   /* and it does, or did when that was looked at last */
	double ended_cost_ns; /* when it was told last that it is over; below 0: it was not */
	struct m_incident row;
	struct incident_texts texts;
	VEC(struct live_beside) besides; /* with keys of their own */
};

/* What was found, and what is made of it. */
struct live_findings {
	const struct diagnosis *found; /* with other incidents */
	const struct rec_tables *t;    /* of what was diagnosed */
	uint64_t begin_ns;	       /* of what was diagnosed */
	uint64_t now_ns;
	const struct standings *standings; /* what their threads do was seen; NULL: it was not */
	const struct anomaly *anomalies;   /* of other incidents too */
	size_t anomalies_len;
	/* A row that takes the place of others with its key; told: it says what was not said. */
	void (*put)(void *ctx, const struct incident_said *said, bool told);
	void *ctx;
};

/* told_ns: of its first anomaly. */
void live_incident_begin(struct live_incident *ret, uint64_t id, uint64_t told_ns);
void live_incident_free(struct live_incident *w);
void live_incident_find(struct live_incident *w, const struct live_findings *f);
/* Whether its latest row has a cause. */
bool live_incident_has_cause(const struct live_incident *w);
/* Whether one of its anomalies has not ended, or its job stands still. */
bool live_incident_lasts(const struct live_incident *w, const struct anomaly *anomalies, size_t n);
