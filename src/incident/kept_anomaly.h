/* kept_anomaly.h - an anomaly that outlives the callback which told it: with copies of those
 * strings alone that say where its time was lost. */
#pragma once

#include "incident/anomaly.h"

/* Features and calls are left out; name and line are copies. */
struct anomaly kept_anomaly(const struct anomaly *a);
void kept_anomaly_free(struct anomaly *a);
