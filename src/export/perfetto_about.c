/* perfetto_about.c - what is to be known of a recording in Perfetto's trace format: one instant on
 * a track of its own with the meta values and the losses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "export/call_view.h"
#include "export/perfetto_impl.h"

typedef VEC(Eacgm__DebugAnnotation) annotations_t;

static char *clean(const char *s)
{
	struct buf text = {0};
	utf8_append_clean(&text, s, strlen(s), '?');
	return (char *)text.data;
}

static void annotate(annotations_t *list, const char *name, const char *value)
{
	Eacgm__DebugAnnotation *a = vec_push(list);
	*a = (Eacgm__DebugAnnotation)EACGM__DEBUG_ANNOTATION__INIT;
	a->name = clean(name);
	a->string_value = clean(value);
}

static void annotate_all(annotations_t *list, const struct rec_tables *t)
{
	loss_totals_t losses = {0};
	loss_totals(t, &losses);
	for (size_t i = 0; i < t->metas.len; i++)
		annotate(list, strtab_get(&t->strings, t->metas.data[i].key, NULL),
			 strtab_get(&t->strings, t->metas.data[i].value, NULL));
	for (size_t i = 0; i < losses.len; i++) {
		char count[32], name[64];
		snprintf(name, sizeof(name), "lost_%s", losses.data[i].cause);
		snprintf(count, sizeof(count), "%llu", (unsigned long long)losses.data[i].count);
		annotate(list, name, count);
	}
	if (t->damaged_at)
		annotate(list, "damage", t->damage);
	vec_free(&losses);
}

static void put_track(const struct track_writer *w, uint64_t uuid)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_uuid = 1;
	d.uuid = uuid;
	d.name = (char *)"eACGM recording";
	p.track_descriptor = &d;
	w->put(w->ctx, &p);
}

static uint64_t start_ns(const struct rec_tables *t)
{
	uint64_t time_ns = meta_number(t, "start_monotonic_ns");
	for (size_t i = 0; !time_ns && i < t->processes.len; i++)
		time_ns = t->processes.data[i].start_ns;
	return time_ns;
}

void perfetto_about(const struct track_writer *w, uint64_t track)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	annotations_t rows = {0};
	put_track(w, track);
	annotate_all(&rows, w->t);
	Eacgm__DebugAnnotation **list = xcalloc(rows.len + 1, sizeof(*list));
	for (size_t i = 0; i < rows.len; i++)
		list[i] = &rows.data[i];
	event.has_type = event.has_track_uuid = 1;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_INSTANT;
	event.name = (char *)"recording";
	event.track_uuid = track;
	event.debug_annotations = list;
	event.n_debug_annotations = rows.len;
	p.has_timestamp = 1;
	p.timestamp = start_ns(w->t);
	p.track_event = &event;
	w->put(w->ctx, &p);
	for (size_t i = 0; i < rows.len; i++) {
		free(rows.data[i].name);
		free(rows.data[i].string_value);
	}
	vec_free(&rows);
	free(list);
}
