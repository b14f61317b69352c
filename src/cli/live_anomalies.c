/* live_anomalies.c - the latest anomalies, and how many last. */
#include "cli/live_anomalies.h"

#include "incident/anomaly_text.h"

static struct live_anomaly *latest_with(struct live_state *s, uint64_t id)
{
	uint64_t oldest = s->latest_next > LIVE_ANOMALIES ? s->latest_next - LIVE_ANOMALIES : 0;
	for (uint64_t n = s->latest_next; n > oldest; n--)
		if (s->latest[(n - 1) % LIVE_ANOMALIES].id == id)
			return &s->latest[(n - 1) % LIVE_ANOMALIES];
	return NULL;
}

void live_anomaly_keep(struct live_state *s, const struct anomaly *a)
{
	struct live_anomaly *row = latest_with(s, a->id);
	s->anomalies = a->id > s->anomalies ? a->id : s->anomalies;
	if (a->ended)
		s->lasting -= s->lasting > 0;
	else
		s->lasting++;
	if (!row)
		row = &s->latest[s->latest_next++ % LIVE_ANOMALIES];
	*row = (struct live_anomaly){
		.id = a->id, .start_ns = a->start_ns, .end_ns = a->end_ns, .ended = a->ended};
	snprintf(row->layer, sizeof(row->layer), "%s", a->layer_name);
	anomaly_entity(row->entity, a);
	snprintf(row->why, sizeof(row->why), "%s", a->why);
}
