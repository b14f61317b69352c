/* perfetto_steps.c - the steps of a job in Perfetto's trace format: a track for each loop of a
 * process, a slice for each step, with its phases' times as arguments. */
#include "base/buffer.h"
#include "export/perfetto_impl.h"

struct step_writer {
	perfetto_put_fn *put;
	perfetto_parent_fn *parent;
	void *ctx;
	const struct step_slices *slices;
};

static void describe_track(const struct step_writer *w, const struct step_slice *row, uint64_t uuid)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_uuid = 1;
	d.uuid = uuid;
	d.parent_uuid = w->parent(w->ctx, row->pid);
	d.has_parent_uuid = d.parent_uuid != 0;
	d.name = xasprintf("steps: %s", row->kind);
	p.track_descriptor = &d;
	w->put(w->ctx, &p);
	free(d.name);
}

static void annotate(Eacgm__DebugAnnotation *a, const char *name, uint64_t value)
{
	*a = (Eacgm__DebugAnnotation)EACGM__DEBUG_ANNOTATION__INIT;
	a->name = (char *)name;
	a->has_uint_value = 1;
	a->uint_value = value;
}

static void put_slice(const struct step_writer *w, const struct step_slice *row, uint64_t uuid)
{
	Eacgm__DebugAnnotation annotations[STEP_SLICE_PHASES + 2];
	Eacgm__DebugAnnotation *list[STEP_SLICE_PHASES + 2];
	char *phases[STEP_SLICE_PHASES];
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	size_t n = 0, named = 0;
	annotate(&annotations[n++], "operations", row->ops);
	annotate(&annotations[n++], "launches", row->launches);
	for (size_t i = 0; i < w->slices->phases; i++) {
		if (!row->phase_ns[i])
			continue;
		phases[named] = xasprintf("%s_ns", w->slices->phase_names[i]);
		annotate(&annotations[n++], phases[named++], row->phase_ns[i]);
	}
	for (size_t i = 0; i < n; i++)
		list[i] = &annotations[i];
	event.track_uuid = uuid;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	char *category = (char *)"user_annotation";
	event.name = xasprintf("%s %u", row->kind, row->index);
	event.categories = &category;
	event.n_categories = 1;
	event.debug_annotations = list;
	event.n_debug_annotations = n;
	perfetto_put_edge(w->put, w->ctx, &event, row->start_ns);
	free(event.name);
	for (size_t i = 0; i < named; i++)
		free(phases[i]);
	event = (Eacgm__TrackEvent)EACGM__TRACK_EVENT__INIT;
	event.track_uuid = uuid;
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	perfetto_put_edge(w->put, w->ctx, &event, row->end_ns);
}

void perfetto_steps(const struct step_slices *slices, perfetto_put_fn *put,
		    perfetto_parent_fn *parent, void *ctx, uint64_t first_track)
{
	struct step_writer w = {put, parent, ctx, slices};
	uint64_t track = first_track;
	for (size_t i = 0; i < slices->rows.len; i++) {
		const struct step_slice *row = &slices->rows.data[i], *last = row - 1;
		bool same = i && last->pid == row->pid && last->loop == row->loop;
		track += i && !same;
		if (!same)
			describe_track(&w, row, track);
		put_slice(&w, row, track);
	}
}
