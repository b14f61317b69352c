/* agent_notes.c - from rows and callbacks to sentences, and to all who want them. */
#include "cli/agent_notes.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/entity.h"
#include "cli/agent.h"
#include "session/live_names.h"

#define ENTITY_BYTES 128

void agent_note(struct agent *a, const struct agent_note *n)
{
	pthread_mutex_lock(&a->lock);
	live_notices_add(&a->notices, n->time_ns, n->entity, n->name, n->text);
	pthread_mutex_unlock(&a->lock);
	if (a->store)
		store_event(a->store, n->time_ns, n->entity, n->name, n->text);
	if (a->events && n->weight != NOTE_INFO)
		otlp_events_notice(a->events,
				   &(struct otlp_notice){.time_ns = n->time_ns,
							 .is_error = n->weight == NOTE_ERROR,
							 .name = n->name,
							 .of = n->entity,
							 .text = n->text});
}

void agent_note_warning(struct agent *a, const struct outlook_warning *w)
{
	char line[OUTLOOK_LINE_BYTES], what[OUTLOOK_WHAT_BYTES], who[ENTITY_BYTES];
	agent_say(a, outlook_line(line, w));
	entity_text(who, sizeof(who), &w->of);
	if (w->ended)
		snprintf(what, sizeof(what), "is over: %s", outlook_kind_name(w->kind));
	else
		outlook_what(what, w);
	agent_note(a, &(struct agent_note){.time_ns = w->now_ns,
					   .weight = w->ended ? NOTE_INFO : NOTE_WARNING,
					   .entity = who,
					   .name = "early_warning",
					   .text = what});
}

void agent_note_change(struct agent *a, const struct change *c)
{
	char line[CHANGE_LINE_BYTES], who[ENTITY_BYTES];
	agent_say(a, change_line(line, c));
	snprintf(who, sizeof(who), "pid %u", c->pid);
	agent_note(a, &(struct agent_note){.time_ns = c->start_ns,
					   .entity = who,
					   .name = "other_work",
					   .text = c->what});
}

void agent_note_misfit(struct agent *a, const struct model_misfit *m)
{
	char who[ENTITY_BYTES];
	agent_say(a, m->why);
	snprintf(who, sizeof(who), "pid %u", m->pid);
	agent_note(a, &(struct agent_note){.time_ns = m->told_ns,
					   .weight = NOTE_WARNING,
					   .entity = who,
					   .name = "model_does_not_fit",
					   .text = m->why});
}

void agent_note_events(struct agent *a, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->events.len; i++) {
		const struct m_event *e = &v->batch->events.data[i];
		const char *name = live_string(v, e->name);
		agent_note(a, &(struct agent_note){.time_ns = e->time_ns,
						   .weight = agent_is_error(name) ? NOTE_ERROR
										  : NOTE_INFO,
						   .entity = live_string(v, e->entity),
						   .name = name,
						   .text = live_string(v, e->text)});
	}
}
