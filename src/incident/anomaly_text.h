/* anomaly_text.h - an anomaly in a line of text, and its parts: the same for all who show one. */
#pragma once

#include "incident/anomaly.h"

#define ANOMALY_LINE_BYTES 544
/* "torch, pid 4242: aten::addmm took 1.8 x as long ... (p 1e-6)", without a line break. */
const char *anomaly_line(char ret[static ANOMALY_LINE_BYTES], const struct anomaly *a);

/* Whether it is worth a line: an incident has one when it begins and one when it has ended. */
bool anomaly_is_news(const struct anomaly *a);

/* "pid 4242", "gpu 0", "host" */
#define ANOMALY_ENTITY_BYTES 32
const char *anomaly_entity(char ret[static ANOMALY_ENTITY_BYTES], const struct anomaly *a);

#define FEATURE_BYTES 40
/* "0.59", "5.6 GB", "35"; logarithms of ratios as factors: "1.8 x"; "-" unknown. */
const char *feature_value(char ret[static FEATURE_BYTES], double v, const char *unit);
/* What has to be said of the unit beside such a value, "" where the value says it. */
const char *feature_unit(const char *unit);
