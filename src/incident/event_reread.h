/* event_reread.h - a file whose anomalies are known, read twice more: the first time for edges,
 * then event_reread_edges, the second time each event is handed out. */
#pragma once

#include "detect/names.h"
#include "incident/told_events.h"

struct event_reread;
struct event_reread *event_reread_new(struct told_events *events);
void event_reread_free(struct event_reread *m);
void event_reread_call(struct event_reread *m, const struct detect_names *n,
		       const struct m_call *c);
void event_reread_gpu_span(struct event_reread *m, const struct detect_names *n,
			   const struct m_gpu_span *s);
void event_reread_edges(struct event_reread *m);
