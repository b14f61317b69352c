/* anomaly_json.h - an anomaly as JSON and as a line of text: the same for detect, record and
 * watch. Prints nothing. */
#pragma once

#include <jansson.h>

#include "incident/detector.h"

/* The caller's. Keys are documented in docs/detect.md; numbers that are not known are null. */
json_t *anomaly_json(const struct anomaly *a);

#define ANOMALY_LINE_BYTES 400
/* "torch, pid 4242: aten::addmm took 1.8 x as long ... (p 1e-6)", without a line break. */
const char *anomaly_line(char ret[static ANOMALY_LINE_BYTES], const struct anomaly *a);

/* "cuda" */
const char *detect_layer_name(enum detect_layer layer);
/* "pid 4242", "gpu 0", "host" */
#define ANOMALY_ENTITY_BYTES 32
const char *anomaly_entity(char ret[static ANOMALY_ENTITY_BYTES], const struct anomaly *a);
