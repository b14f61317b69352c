/* live_anomalies.h - anomalies as they are told, in the state of a running session. */
#pragma once

#include "incident/anomaly.h"
#include "session/live_state.h"

/* Found, or ended: counts it, and keeps it among the latest. */
void live_anomaly_keep(struct live_state *s, const struct anomaly *a);
