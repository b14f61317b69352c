/* perfetto_about.c - what is to be known of a recording in Perfetto's trace format: one instant on
 * a track of its own with the meta values and the losses, and the report's verdict as slices that
 * last as long as the recording. */
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

static void put_event(const struct track_writer *w, Eacgm__TrackEvent *event, uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	w->put(w->ctx, &p);
}

static void put_track(const struct track_writer *w, uint64_t uuid, const char *name)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_uuid = 1;
	d.uuid = uuid;
	d.name = (char *)(uintptr_t)name;
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
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	annotations_t rows = {0};
	put_track(w, track, "eACGM recording");
	annotate_all(&rows, w->t);
	Eacgm__DebugAnnotation **list = xcalloc(rows.len + 1, sizeof(*list));
	for (size_t i = 0; i < rows.len; i++)
		list[i] = &rows.data[i];
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_INSTANT;
	event.name = (char *)"recording";
	event.track_uuid = track;
	event.debug_annotations = list;
	event.n_debug_annotations = rows.len;
	put_event(w, &event, start_ns(w->t));
	for (size_t i = 0; i < rows.len; i++) {
		free(rows.data[i].name);
		free(rows.data[i].string_value);
	}
	vec_free(&rows);
	free(list);
}

void perfetto_verdict(const struct track_writer *w, const char *lines, uint64_t track)
{
	uint64_t start = start_ns(w->t), end = meta_number(w->t, "end_monotonic_ns");
	char *text = xstrdup(lines), *line;
	size_t open = 0;
	end = end > start ? end : w->t->last_ns > start ? w->t->last_ns : start;
	put_track(w, track, "eACGM verdict");
	for (char *rest = text; (line = strsep(&rest, "\n"));) {
		Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
		if (!*line)
			continue;
		event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
		event.track_uuid = track;
		event.name = clean(line);
		put_event(w, &event, start);
		free(event.name);
		open++;
	}
	while (open--) {
		Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
		event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
		event.track_uuid = track;
		put_event(w, &event, end);
	}
	free(text);
}
