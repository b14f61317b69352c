/* agent_notes.c - which events of a session go where, by their names. */
#include "cli/agent_notes.h"

#include <string.h>

#include "base/other_process.h"
#include "cli/agent.h"
#include "session/live_names.h"

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Incidents and anomalies have lists of their own. */
static bool has_its_list(const char *name)
{
	static const char *const names[] = {"anomaly", "anomaly_ended", "cause"};
	return is_one_of(name, names, sizeof(names) / sizeof(*names));
}

bool agent_note_is_error(const char *name)
{
	static const char *const names[] = {"xid", "collective_hang", "collective_mismatch"};
	return is_one_of(name, names, sizeof(names) / sizeof(*names));
}

static bool is_warning(const char *name)
{
	static const char *const names[] = {"early_warning", "model_misfit"};
	return is_one_of(name, names, sizeof(names) / sizeof(*names));
}

static void push(struct agent *a, const struct agent_note *n)
{
	bool is_error = agent_note_is_error(n->name);
	if (a->events && (is_error || is_warning(n->name)))
		otlp_events_notice(a->events, &(struct otlp_notice){.time_ns = n->time_ns,
								    .is_error = is_error,
								    .name = n->name,
								    .of = n->entity,
								    .text = n->text});
}

void agent_note(struct agent *a, const struct agent_note *n)
{
	if (a->store)
		store_event(a->store, n->time_ns, n->entity, n->name, n->text);
	if (has_its_list(n->name))
		return;
	pthread_mutex_lock(&a->lock);
	live_notices_add(&a->notices, n->time_ns, n->entity, n->name, n->text);
	pthread_mutex_unlock(&a->lock);
	push(a, n);
}

void agent_note_events(struct agent *a, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->events.len; i++) {
		const struct m_event *e = &v->batch->events.data[i];
		if (is_other_process_event(live_string(v, e->name)))
			continue;
		agent_note(a, &(struct agent_note){.time_ns = e->time_ns,
						   .entity = live_string(v, e->entity),
						   .name = live_string(v, e->name),
						   .text = live_string(v, e->text)});
	}
}
