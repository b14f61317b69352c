/* perfetto_paths.c - paths of blame in Perfetto's trace format: below each process that an incident
 * was of a track, a slice for each piece of its slow time, named by whose it was.
 *
 * Slices of a track may not overlap: those of a process that do are on tracks of the same name,
 * which Perfetto shows as one. */
#include "base/buffer.h"
#include "base/utf8.h"
#include "export/perfetto_impl.h"

struct lane {
	uint32_t pid;
	uint64_t uuid;
	uint64_t end_ns; /* of the last slice on it */
};

struct path_writer {
	perfetto_put_fn *put;
	perfetto_parent_fn *parent;
	void *ctx;
	uint64_t next_track;
	VEC(struct lane) lanes;
};

static void describe_track(const struct path_writer *w, uint32_t pid, uint64_t uuid)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_uuid = 1;
	d.uuid = uuid;
	d.parent_uuid = w->parent(w->ctx, pid);
	d.has_parent_uuid = d.parent_uuid != 0;
	d.name = (char *)"path of blame";
	p.track_descriptor = &d;
	w->put(w->ctx, &p);
}

/* The first of the process's tracks that is free by then, or a new one. Rows come by process, so
 * that another's tracks are needed no more. */
static uint64_t track_of(struct path_writer *w, const struct path_slice *row)
{
	if (w->lanes.len && w->lanes.data[0].pid != row->pid)
		w->lanes.len = 0;
	for (size_t i = 0; i < w->lanes.len; i++) {
		if (w->lanes.data[i].end_ns > row->start_ns)
			continue;
		w->lanes.data[i].end_ns = row->end_ns;
		return w->lanes.data[i].uuid;
	}
	uint64_t uuid = w->next_track++;
	*vec_push(&w->lanes) = (struct lane){row->pid, uuid, row->end_ns};
	describe_track(w, row->pid, uuid);
	return uuid;
}

/* As protobuf wants it; the caller's. */
static char *clean(const struct strtab *texts, uint32_t text)
{
	struct buf b = {0};
	size_t len;
	const char *s = strtab_get(texts, text, &len);
	utf8_append_clean(&b, s, len, '?');
	return (char *)b.data;
}

static void put_slice(const struct path_writer *w, const struct strtab *texts,
		      const struct path_slice *row, uint64_t uuid)
{
	Eacgm__DebugAnnotation incident = EACGM__DEBUG_ANNOTATION__INIT, kernel = incident;
	Eacgm__DebugAnnotation *list[] = {&incident, &kernel};
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	incident.name = (char *)"incident";
	incident.has_uint_value = 1;
	incident.uint_value = row->incident;
	kernel.name = (char *)"kernel";
	kernel.string_value = row->kernel ? clean(texts, row->kernel) : NULL;
	event.track_uuid = uuid;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	event.name = clean(texts, row->owner);
	event.debug_annotations = list;
	event.n_debug_annotations = row->kernel ? 2 : 1;
	perfetto_put_edge(w->put, w->ctx, &event, row->start_ns);
	free(event.name);
	free(kernel.string_value);
	event = (Eacgm__TrackEvent)EACGM__TRACK_EVENT__INIT;
	event.track_uuid = uuid;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	perfetto_put_edge(w->put, w->ctx, &event, row->end_ns);
}

void perfetto_paths(const struct incident_slices *slices, perfetto_put_fn *put,
		    perfetto_parent_fn *parent, void *ctx, uint64_t first_track)
{
	struct path_writer w = {
		.put = put, .parent = parent, .ctx = ctx, .next_track = first_track};
	for (size_t i = 0; i < slices->path.len; i++) {
		const struct path_slice *row = &slices->path.data[i];
		put_slice(&w, &slices->texts, row, track_of(&w, row));
	}
	vec_free(&w.lanes);
}
