/* perfetto_entities.c - GPUs and other entities in Perfetto's trace format: a track for each, its
 * counters below it, what happened to it as instants on it. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "base/utf8.h"
#include "events/metric.h"
#include "export/call_view.h"
#include "export/perfetto_impl.h"

struct perfetto_entities {
	const struct rec_tables *t;
	perfetto_put_fn *put;
	perfetto_parent_fn *parent;
	void *ctx;
	uint64_t first_entity, first_counter;
	struct map64 entities; /* what it is of -> track; see entity_track */
	struct map64 counters; /* metric -> track */
};

struct perfetto_entities *perfetto_entities_new(const struct rec_tables *t, perfetto_put_fn *put,
						perfetto_parent_fn *parent, void *ctx,
						uint64_t first_entity, uint64_t first_counter)
{
	struct perfetto_entities *e = xcalloc(1, sizeof(*e));
	e->t = t;
	e->put = put;
	e->parent = parent;
	e->ctx = ctx;
	e->first_entity = first_entity;
	e->first_counter = first_counter;
	return e;
}

void perfetto_entities_free(struct perfetto_entities *e)
{
	map64_free(&e->entities);
	map64_free(&e->counters);
	free(e);
}

/* A text as protobuf wants it; the caller frees it. */
static char *clean_text(const char *text)
{
	struct buf clean = {0};
	utf8_append_clean(&clean, text, strlen(text), '?');
	return (char *)clean.data;
}

static void put_event(const struct perfetto_entities *e, Eacgm__TrackEvent *event, uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	e->put(e->ctx, &p);
}

/* Describes a track by a label that this takes. */
static void put_track(const struct perfetto_entities *e, Eacgm__TrackDescriptor *d, uint64_t uuid,
		      char *label)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	d->has_uuid = 1;
	d->uuid = uuid;
	d->name = clean_text(label);
	p.track_descriptor = d;
	e->put(e->ctx, &p);
	free(d->name);
	free(label);
}

/* A track for all that is told of one entity: a GPU's counters and events. */
static uint64_t entity_track(struct perfetto_entities *e, const struct entity *of,
			     const char *entity)
{
	/* All entities of one GPU, its processes' shares too, are on its track. */
	const struct m_gpu *gpu = gpu_of_entity(e->t, of);
	uint64_t key = gpu ? hash_u64((uint64_t)(gpu - e->t->gpus.data) + 1)
			   : hash_bytes(entity, strlen(entity)),
		 uuid;
	if (map64_get(&e->entities, key, &uuid))
		return uuid;
	uuid = e->first_entity + e->entities.len;
	map64_set(&e->entities, key, uuid);
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	put_track(e, &d, uuid,
		  gpu ? xasprintf("%s %u %s", gpu->parent < 0 ? "GPU" : "GPU instance", gpu->index,
				  strtab_get(&e->t->strings, gpu->name, NULL))
		      : xstrdup(entity));
	return uuid;
}

static void set_unit(Eacgm__CounterDescriptor *counter, uint8_t unit)
{
	if (unit == UNIT_BYTES || unit == UNIT_NS) {
		counter->has_unit = 1;
		counter->unit = unit == UNIT_NS ? EACGM__COUNTER_DESCRIPTOR__UNIT__UNIT_TIME_NS
						: EACGM__COUNTER_DESCRIPTOR__UNIT__UNIT_SIZE_BYTES;
	} else {
		counter->unit_name = (char *)metric_unit_text(unit);
	}
}

/* The track of a counter, described when it is first met. */
static uint64_t counter_track(struct perfetto_entities *e, const struct m_counter *row)
{
	uint64_t uuid;
	if (map64_get(&e->counters, row->metric, &uuid))
		return uuid;
	uuid = e->first_counter + e->counters.len;
	map64_set(&e->counters, row->metric, uuid);
	const struct m_metric *m = &e->t->metrics.data[row->metric];
	const struct entity of = metric_entity(m, &e->t->strings);
	const char *name = strtab_get(&e->t->strings, m->name, NULL);
	struct buf entity = {0};
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	Eacgm__CounterDescriptor counter = EACGM__COUNTER_DESCRIPTOR__INIT;
	char *label = NULL;
	counter_entity(&entity, e->t, row);
	set_unit(&counter, m->unit);
	if (of.kind == ENTITY_GPU && !of.host_len) {
		d.has_parent_uuid = 1;
		d.parent_uuid = entity_track(e, &of, (const char *)entity.data);
		label = of.pid ? xasprintf("pid %u %s", of.pid, name) : xstrdup(name);
	} else if (of.kind == ENTITY_PROCESS) {
		d.parent_uuid = e->parent(e->ctx, of.pid);
		d.has_parent_uuid = d.parent_uuid != 0;
		label = d.has_parent_uuid ? xstrdup(name) : NULL;
	}
	label = label ? label : xasprintf("%s %s", (const char *)entity.data, name);
	buf_free(&entity);
	d.counter = &counter;
	put_track(e, &d, uuid, label);
	return uuid;
}

void perfetto_counters(struct perfetto_entities *e, const struct m_counter *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
		event.type = EACGM__TRACK_EVENT__TYPE__TYPE_COUNTER;
		event.track_uuid = counter_track(e, &rows[i]);
		event.has_double_counter_value = 1;
		event.double_counter_value = rows[i].value;
		put_event(e, &event, rows[i].time_ns);
	}
}

static void event_instant(struct perfetto_entities *e, const struct m_event *row)
{
	const struct strtab *strings = &e->t->strings;
	const char *entity = strtab_get(strings, row->entity, NULL);
	struct entity of;
	Eacgm__DebugAnnotation note = EACGM__DEBUG_ANNOTATION__INIT, *list = &note;
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	entity_parse(&of, entity);
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_INSTANT;
	event.track_uuid = entity_track(e, &of, entity);
	event.name = clean_text(strtab_get(strings, row->name, NULL));
	note.name = (char *)"text";
	note.string_value = clean_text(strtab_get(strings, row->text, NULL));
	event.debug_annotations = &list;
	event.n_debug_annotations = 1;
	put_event(e, &event, row->time_ns);
	free(event.name);
	free(note.string_value);
}

static int compare_events(const void *a, const void *b)
{
	const struct m_event *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

void perfetto_events(struct perfetto_entities *e)
{
	VEC(struct m_event) events = {0};
	for (size_t i = 0; i < e->t->events.len; i++)
		*vec_push(&events) = e->t->events.data[i];
	if (events.len)
		qsort(events.data, events.len, sizeof(*events.data), compare_events);
	for (size_t i = 0; i < events.len; i++)
		event_instant(e, &events.data[i]);
	vec_free(&events);
}
