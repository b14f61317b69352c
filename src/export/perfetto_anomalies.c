/* perfetto_anomalies.c - what was not normal in Perfetto's trace format: a track "anomalies", below
 * it one for each layer, a slice for each anomaly with why as its first argument; and a track
 * "incidents".
 *
 * Slices of a track may not overlap: those of a layer that do are on tracks of the same name, which
 * Perfetto shows as one. */
#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "export/perfetto_impl.h"

struct lane {
	const char *layer;
	uint64_t uuid;
	uint64_t end_ns; /* of the last slice on it */
};

struct anomaly_writer {
	perfetto_put_fn *put;
	void *ctx;
	uint64_t parent; /* of the layers' tracks; 0: none */
	uint64_t next_track;
	VEC(struct lane) lanes;
};

static void describe_track(const struct anomaly_writer *w, const char *name, uint64_t uuid,
			   uint64_t parent)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_uuid = 1;
	d.uuid = uuid;
	d.has_parent_uuid = parent != 0;
	d.parent_uuid = parent;
	d.name = (char *)(uintptr_t)name;
	p.track_descriptor = &d;
	w->put(w->ctx, &p);
}

/* The first of the layer's tracks that is free by then, or a new one. */
static uint64_t track_of(struct anomaly_writer *w, const struct anomaly_slice *row)
{
	for (size_t i = 0; i < w->lanes.len; i++) {
		struct lane *l = &w->lanes.data[i];
		if (!strcmp(l->layer, row->layer) && l->end_ns <= row->start_ns) {
			l->end_ns = row->end_ns;
			return l->uuid;
		}
	}
	uint64_t uuid = w->next_track++;
	*vec_push(&w->lanes) = (struct lane){row->layer, uuid, row->end_ns};
	describe_track(w, row->layer, uuid, w->parent);
	return uuid;
}

/* As protobuf wants it; the caller's. */
static char *clean(const char *s)
{
	struct buf b = {0};
	utf8_append_clean(&b, s, strlen(s), '?');
	return (char *)b.data;
}

static bool annotate(Eacgm__DebugAnnotation *a, const struct anomaly_slice_arg *arg)
{
	*a = (Eacgm__DebugAnnotation)EACGM__DEBUG_ANNOTATION__INIT;
	if (!arg->text && !isfinite(arg->value))
		return false;
	a->name = clean(arg->name);
	a->string_value = arg->text ? clean(arg->text) : NULL;
	a->has_double_value = !arg->text;
	a->double_value = arg->text ? 0 : arg->value;
	return true;
}

static void put_slice(const struct anomaly_writer *w, const struct anomaly_slice *row,
		      uint64_t uuid)
{
	Eacgm__DebugAnnotation annotations[ANOMALY_SLICE_ARGS];
	Eacgm__DebugAnnotation *list[ANOMALY_SLICE_ARGS];
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	size_t n = 0;
	for (size_t i = 0; i < row->args_len; i++) {
		list[n] = &annotations[n];
		n += annotate(list[n], &row->args[i]);
	}
	event.track_uuid = uuid;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	event.name = clean(row->name);
	event.debug_annotations = list;
	event.n_debug_annotations = n;
	perfetto_put_edge(w->put, w->ctx, &event, row->start_ns);
	free(event.name);
	for (size_t i = 0; i < n; i++) {
		free(annotations[i].name);
		free(annotations[i].string_value);
	}
	event = (Eacgm__TrackEvent)EACGM__TRACK_EVENT__INIT;
	event.track_uuid = uuid;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	perfetto_put_edge(w->put, w->ctx, &event, row->end_ns);
}

void perfetto_anomalies(const struct anomaly_slices *slices, const char *group,
			perfetto_put_fn *put, void *ctx, uint64_t first_track)
{
	struct anomaly_writer w = {.put = put, .ctx = ctx, .next_track = first_track};
	if (group && slices->rows.len) {
		w.parent = w.next_track++;
		describe_track(&w, group, w.parent, 0);
	}
	for (size_t i = 0; i < slices->rows.len; i++) {
		const struct anomaly_slice *row = &slices->rows.data[i];
		put_slice(&w, row, track_of(&w, row));
	}
	vec_free(&w.lanes);
}
