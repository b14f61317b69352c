/* counters.h - metrics and counters by the text of what they are of: "gpu 0 pid 12". */
#pragma once

#include "events/metric.h"
#include "recording/recording.h"

/* A new metric; to be added once. */
static inline uint32_t add_metric_of(struct rec_writer *w, const char *entity, const char *name)
{
	struct entity of;
	entity_parse(&of, entity);
	struct m_metric row = metric_of(&of, name);
	row.label = rec_string_z(w, of.label);
	row.host = rec_string(w, of.host, of.host_len);
	row.name = rec_string_z(w, name);
	return rec_add_metric(w, &row);
}

/* A counter, the only one of its metric. */
static inline void put_counter_of(struct rec_writer *w, uint64_t time_ns, const char *entity,
				  const char *name, double value)
{
	rec_put_counter(w, &(struct m_counter){time_ns, add_metric_of(w, entity, name), value});
}
