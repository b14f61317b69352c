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

/* What was counted of a row; of one that is new, nothing. */
static struct agent_counted *counted_of(struct agent_incidents *in, const struct m_incident *row,
					bool *ret_is_new)
{
	size_t n = in->counted_n < AGENT_INCIDENTS ? in->counted_n : AGENT_INCIDENTS;
	for (size_t i = 0; i < n; i++) {
		struct agent_counted *c = &in->counted[i];
		if (c->id == row->id && c->pid == row->pid && c->told_ns == row->told_ns)
			return c;
	}
	struct agent_counted *c = &in->counted[in->counted_n++ % AGENT_INCIDENTS];
	*c = (struct agent_counted){.id = row->id, .pid = row->pid, .told_ns = row->told_ns};
	*ret_is_new = true;
	return c;
}

static void count(struct agent_incidents *in, const struct incident_said *told)
{
	const struct m_incident *row = told->row;
	const char *cause = incident_text(told, row->cause);
	double cost_ns = row->beside || !(row->cost_ns > 0) ? 0 : row->cost_ns;
	bool is_new = false;
	struct agent_counted *c = counted_of(in, row, &is_new);
	cause = cause[0] ? cause : "unknown";
	bool again = !is_new && !strcmp(c->cause, cause);
	if (!again)
		snprintf(c->cause, sizeof(c->cause), "%s", cause);
	count_cause(&in->causes, cause, !again, fmax(0, cost_ns - c->cost_ns));
	c->cost_ns = fmax(cost_ns, c->cost_ns);
}

static bool is_same_row(const json_t *a, const json_t *b)
{
	static const char *const key[] = {"id", "pid", "told_ns"};
	for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++)
		if (!json_equal(json_object_get(a, key[i]), json_object_get(b, key[i])))
			return false;
	return true;
}

void agent_incidents_take(struct agent_incidents *in, const struct incident_said *told)
{
	json_t *kept = incident_json(told);
	size_t i = 0;
	if (told->row->ended)
		count(in, told);
	while (i < json_array_size(in->list) && !is_same_row(json_array_get(in->list, i), kept))
		i++;
	if (i < json_array_size(in->list)) {
		json_array_set_new(in->list, i, kept);
		return;
	}
	json_array_append_new(in->list, kept);
	if (json_array_size(in->list) > AGENT_INCIDENTS)
		json_array_remove(in->list, 0);
}
