/* anomaly_row.h - anomalies as rows of recordings, and back. */
#pragma once

#include "events/tables.h"
#include "incident/anomaly.h"

/* The texts of a row, whose string fields are numbers of them, from 1 on. */
#define ANOMALY_TEXTS (3 + 2 * MODEL_ANOMALY_FEATURES + MODEL_ANOMALY_CALLS)
struct anomaly_texts {
	const char *of[ANOMALY_TEXTS]; /* the anomaly's */
	size_t len;
};

void anomaly_to_row(struct m_anomaly *ret, struct anomaly_texts *ret_texts,
		    const struct anomaly *a);
/* layers gets what the row names. Strings are those of the tables. false: its layer is none that is
 * known here. */
bool anomaly_of_row(struct anomaly *ret, const struct m_anomaly *row, const struct rec_tables *t,
		    struct detect_layers *layers);
