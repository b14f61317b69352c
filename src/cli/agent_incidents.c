/* agent_incidents.c - which row a row takes the place of, and what it adds to what was counted. */
#include "cli/agent_incidents.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report_anomalies.h"

void agent_incidents_open(struct agent_incidents *in)
{
	in->list = json_array();
}

void agent_incidents_close(struct agent_incidents *in)
{
	json_decref(in->list);
	in->list = NULL;
}

static void count_cause(struct agent_causes *c, const char *cause, unsigned n, double cost_ns)
{
	size_t i = 0;
	while (i < c->len && strcmp(c->rows[i].cause, cause))
		i++;
	if (i == AGENT_CAUSES)
		return;
	if (i == c->len) {
		snprintf(c->rows[i].cause, sizeof(c->rows[i].cause), "%s", cause);
		c->len++;
	}
	c->rows[i].n += n;
	c->rows[i].cost_s += isfinite(cost_ns) ? cost_ns * 1e-9 : 0;
}

/* The place of a row that is there, or of a new one at the end, for which the oldest goes. */
static size_t place_of(struct agent_incidents *in, const struct m_incident *row)
{
	size_t n = json_array_size(in->list);
	for (size_t i = 0; i < n; i++) {
		const struct agent_counted *c = &in->counted[i];
		if (c->id == row->id && c->pid == row->pid && c->told_ns == row->told_ns)
			return i;
	}
	if (n == AGENT_INCIDENTS) {
		json_array_remove(in->list, 0);
		memmove(in->counted, in->counted + 1, --n * sizeof(in->counted[0]));
	}
	json_array_append_new(in->list, json_null());
	in->counted[n] =
		(struct agent_counted){.id = row->id, .pid = row->pid, .told_ns = row->told_ns};
	return n;
}

static void count(struct agent_incidents *in, struct agent_counted *c,
		  const struct incident_said *told)
{
	const struct m_incident *row = told->row;
	const char *cause = incident_text(told, row->cause);
	double cost_ns = row->beside || !(row->cost_ns > 0) ? 0 : row->cost_ns;
	cause = cause[0] ? cause : "unknown";
	bool again = !strcmp(c->cause, cause);
	snprintf(c->cause, sizeof(c->cause), "%s", cause);
	count_cause(&in->causes, cause, !again, fmax(0, cost_ns - c->cost_ns));
	c->cost_ns = fmax(cost_ns, c->cost_ns);
}

json_t *agent_incidents_take(struct agent_incidents *in, const struct incident_said *told)
{
	size_t at = place_of(in, told->row);
	json_array_set_new(in->list, at, incident_json(told));
	if (told->row->ended)
		count(in, &in->counted[at], told);
	return json_array_get(in->list, at);
}
