/* incident_row.h - incidents with their causes as rows of recordings, and such a row in words. */
#pragma once

#include "incident/diagnosis.h"

/* The texts of a row, whose string fields are numbers of them, from 1 on. */
#define INCIDENT_TEXTS_MOST (14 + MODEL_INCIDENT_TEXTS + MODEL_INCIDENT_OWNERS)
struct incident_texts {
	char *of[INCIDENT_TEXTS_MOST]; /* malloc'ed */
	size_t len;
};

/* t: of the source that was diagnosed. caused_ns: when it was known. Of what is not blamed
 * the cause is "unknown". */
void incident_to_row(struct m_incident *ret, struct incident_texts *ret_texts,
		     const struct diagnosed *in, const struct rec_tables *t, uint64_t caused_ns,
		     bool ended);
void incident_texts_free(struct incident_texts *texts);

/* A row with what its string fields say: numbers of a recording's strings, or of texts. */
struct incident_said {
	const struct m_incident *row;
	const struct strtab *strings; /* or NULL: */
	const struct incident_texts *texts;
};
/* "" for 0. */
const char *incident_text(const struct incident_said *s, uint32_t number);
/* Its sentences of evidence, with that between them, and a 0. */
void incident_evidence(struct buf *b, const struct incident_said *s, const char *between);
/* "CPU contention by stress (4242), 2.10 s lost", and of one that has not ended " so far". */
void incident_line(struct buf *b, const struct incident_said *s);
/* What made a straggler late; CAUSE_UNKNOWN where that is not known, or it is none. */
enum cause incident_why(const struct incident_said *s);
/* What to do; of a straggler against what made it late, where that is known. */
const char *incident_advice(const struct incident_said *s);
