/* told_rows.h - rows one by one, with what they came to. Of a file they are held until all its
 * anomalies are known: which rows an anomaly covers is known when it has ended. */
#pragma once

#include "base/buffer.h"
#include "incident/detector.h"
#include "incident/pieces.h"

/* A row that waits for the anomalies of later ones. */
struct told_row {
	struct feature_row row;
	double score, p;
	bool alarmed;
};

/* When an anomaly was, for rows that it is told of later. */
struct stretch {
	enum detect_layer layer;
	uint32_t pid;
	int32_t gpu;
	uint64_t start_ns, end_ns;
};

struct told_rows {
	const struct detector_options *o;
	VEC(struct told_row) held;
	VEC(struct stretch) stretches; /* of anomalies that have ended; where rows are held */
	uint64_t rows, alarmed;
};

void told_rows_free(struct told_rows *t);
void told_rows_push(struct told_rows *t, const struct told_row *row);
/* An anomaly has ended: these parts of its time are of it. */
void told_rows_cover(struct told_rows *t, const struct anomaly *a, const pieces *parts);
/* Hands out those that were held. */
void told_rows_end(struct told_rows *t);
