/* perfetto_gpu.c - what GPUs did in Perfetto's trace format: each kernel, copy and set is a slice
 * on a track of its process, device and stream. Categories and names are torch.profiler's.
 *
 * Slices of a track may not overlap, while work of one stream may a little (programmatic dependent
 * launch). What does not fit after the last slice of a track goes to another of the same name,
 * which viewers show as one with it. A stream has at most MAX_LANES of them: what fits on none is
 * cut at its start, which only a damaged recording can need. Rows come block by block, nearly in
 * order; no more of them is kept than the end of each track. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/kernel_name.h"
#include "base/map64.h"
#include "base/utf8.h"
#include "export/perfetto_impl.h"

#define MAX_LANES 16

/* Numbers of interned names: those of calls are numbers of strings plus one. */
#define NAME_IID(string) (1ULL << 40 | (string))

struct gpu_stream {
	uint32_t pid;
	int32_t device;
	uint32_t context;
	uint32_t stream;
	uint32_t lanes;
	uint64_t lane[MAX_LANES]; /* number of its track, from 0 */
	uint64_t end_ns[MAX_LANES];
};

/* A device of a process: the track above its streams'. */
struct gpu_track {
	uint32_t pid;
	int32_t device;
	uint64_t track; /* from 0 */
};

struct perfetto_gpu {
	const struct rec_tables *t;
	perfetto_put_fn *put;
	perfetto_parent_fn *parent;
	void *ctx;
	VEC(struct gpu_stream) streams;
	VEC(struct gpu_track) devices;
	struct map64 index;
	uint64_t tracks;
	uint8_t *names; /* one bit per string: its short form is interned */
};

struct perfetto_gpu *perfetto_gpu_new(const struct rec_tables *t, perfetto_put_fn *put,
				      perfetto_parent_fn *parent, void *ctx)
{
	struct perfetto_gpu *g = xcalloc(1, sizeof(*g));
	g->t = t;
	g->put = put;
	g->parent = parent;
	g->ctx = ctx;
	g->names = xcalloc(strtab_len(&t->strings) / 8 + 1, 1);
	return g;
}

void perfetto_gpu_free(struct perfetto_gpu *g)
{
	vec_free(&g->streams);
	vec_free(&g->devices);
	map64_free(&g->index);
	free(g->names);
	free(g);
}

/* ---- tracks ---- */

static bool is_of(const struct gpu_stream *s, const struct m_gpu_span *row)
{
	return s->pid == row->pid && s->device == row->device && s->context == row->context &&
	       s->stream == row->stream;
}

static struct gpu_stream *stream_of(struct perfetto_gpu *g, const struct m_gpu_span *row)
{
	uint64_t at, key = hash_u64((uint64_t)row->pid << 32 | row->stream);
	key = hash_u64(key ^ ((uint64_t)(uint32_t)row->device << 32 | row->context));
	for (; map64_get(&g->index, key, &at); key++) /* another stream may have the hash */
		if (is_of(&g->streams.data[at], row))
			return &g->streams.data[at];
	map64_set(&g->index, key, g->streams.len);
	struct gpu_stream *s = vec_push(&g->streams);
	*s = (struct gpu_stream){row->pid, row->device, row->context, row->stream, 0, {0}, {0}};
	return s;
}

static void describe(struct perfetto_gpu *g, Eacgm__TrackDescriptor *d, uint64_t uuid,
		     uint64_t parent, char *name)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	d->has_uuid = 1;
	d->uuid = uuid;
	d->has_parent_uuid = parent != 0;
	d->parent_uuid = parent;
	d->name = name;
	p.track_descriptor = d;
	g->put(g->ctx, &p);
	free(name);
}

/* The track of a device, "GPU 0", with its streams below it by their numbers. */
static uint64_t device_track(struct perfetto_gpu *g, const struct gpu_stream *s,
			     uint64_t first_track)
{
	for (size_t i = 0; i < g->devices.len; i++)
		if (g->devices.data[i].pid == s->pid && g->devices.data[i].device == s->device)
			return first_track + g->devices.data[i].track;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	uint64_t track = g->tracks++;
	*vec_push(&g->devices) = (struct gpu_track){s->pid, s->device, track};
	d.has_child_ordering = 1;
	d.child_ordering = EACGM__TRACK_DESCRIPTOR__CHILD_TRACKS_ORDERING__EXPLICIT;
	describe(g, &d, first_track + track, g->parent(g->ctx, s->pid),
		 xasprintf("GPU %d", s->device));
	return first_track + track;
}

static void describe_lane(struct perfetto_gpu *g, const struct gpu_stream *s, uint64_t uuid,
			  uint64_t first_track)
{
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_sibling_order_rank = 1;
	d.sibling_order_rank = (int32_t)(s->stream & INT32_MAX);
	describe(g, &d, uuid, device_track(g, s, first_track), xasprintf("stream %u", s->stream));
}

/* The lane that is free when the row begins, else a new one, else the one that is free first. */
static uint32_t lane_of(struct perfetto_gpu *g, struct gpu_stream *s, uint64_t start_ns,
			uint64_t first_track)
{
	uint32_t first = 0;
	for (uint32_t i = 0; i < s->lanes; i++) {
		if (s->end_ns[i] <= start_ns)
			return i;
		if (s->end_ns[i] < s->end_ns[first])
			first = i;
	}
	if (s->lanes == MAX_LANES)
		return first;
	s->lane[s->lanes] = g->tracks++;
	describe_lane(g, s, first_track + s->lane[s->lanes], first_track);
	return s->lanes++;
}

/* ---- slices ---- */

/* The short name is the slice's, the full one its argument "kernel". */
static void intern_kernel(struct perfetto_gpu *g, uint32_t string, demangle_fn *demangle)
{
	uint8_t *byte = &g->names[string / 8], bit = (uint8_t)(1u << string % 8);
	if (*byte & bit)
		return;
	*byte |= bit;
	const char *text = strtab_get(&g->t->strings, string, NULL);
	bool mangled = demangle && text[0] == '_' && text[1] == 'Z';
	char *readable = mangled ? demangle(text, 1) : NULL, name[KERNEL_NAME_BYTES];
	const char *full_text = readable ? readable : text;
	struct buf clean = {0}, full = {0};
	kernel_name_short(name, sizeof(name), full_text);
	utf8_append_clean(&clean, name[0] ? name : "kernel", name[0] ? strlen(name) : 6, '?');
	utf8_append_clean(&full, full_text, strlen(full_text), '?');
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__InternedData data = EACGM__INTERNED_DATA__INIT;
	Eacgm__InternedName row = EACGM__INTERNED_NAME__INIT, *list = &row;
	row.has_iid = 1;
	row.iid = NAME_IID(string);
	row.name = (char *)clean.data;
	data.event_names = &list;
	data.n_event_names = 1;
	Eacgm__InternedString value = EACGM__INTERNED_STRING__INIT, *values = &value;
	value.has_iid = value.has_str = 1;
	value.iid = NAME_IID(string);
	value.str = (ProtobufCBinaryData){full.len, full.data};
	data.debug_annotation_string_values = &values;
	data.n_debug_annotation_string_values = 1;
	p.interned_data = &data;
	g->put(g->ctx, &p);
	buf_free(&clean);
	buf_free(&full);
	free(readable);
}

static void put_edge(struct perfetto_gpu *g, Eacgm__TrackEvent *event, uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	g->put(g->ctx, &p);
}

enum { NOTES = 16, NOTE_TEXT = 48 };

struct notes {
	Eacgm__DebugAnnotation rows[NOTES], *list[NOTES];
	char texts[NOTES][NOTE_TEXT];
	size_t len;
};

static Eacgm__DebugAnnotation *note_add(struct notes *n, const char *name)
{
	Eacgm__DebugAnnotation *a = &n->rows[n->len];
	*a = (Eacgm__DebugAnnotation)EACGM__DEBUG_ANNOTATION__INIT;
	a->name = (char *)name;
	n->list[n->len++] = a;
	return a;
}

static void note(struct notes *n, const char *name, uint64_t value)
{
	Eacgm__DebugAnnotation *a = note_add(n, name);
	a->has_uint_value = 1;
	a->uint_value = value;
}

/* value is a literal. */
static void note_text(struct notes *n, const char *name, const char *value)
{
	note_add(n, name)->string_value = (char *)value;
}

static void note_dims(struct notes *n, const char *name, uint64_t dims)
{
	char *text = n->texts[n->len];
	if (!dims)
		return;
	snprintf(text, NOTE_TEXT, "%u,%u,%u", dim3_x(dims), dim3_y(dims), dim3_z(dims));
	note_add(n, name)->string_value = text;
}

/* "Pinned" of 'Memcpy HtoD (Pinned -> Device)'; side: 'H', 'D' or 'A', as the copy's kind says. */
static const char *memory_name(uint8_t kind, char side)
{
	static const char *const names[] = {
		[MEMORY_UNKNOWN] = "Unknown", [MEMORY_PAGEABLE] = "Pageable",
		[MEMORY_PINNED] = "Pinned",   [MEMORY_DEVICE] = "Device",
		[MEMORY_ARRAY] = "Array",     [MEMORY_MANAGED] = "Managed",
	};
	if (kind == MEMORY_UNKNOWN && side != 'H')
		kind = side == 'A' ? MEMORY_ARRAY : side ? MEMORY_DEVICE : MEMORY_UNKNOWN;
	return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

static void note_memory(struct notes *n, const char *name, uint8_t kind)
{
	static const char *const names[] = {
		[MEMORY_PAGEABLE] = "pageable", [MEMORY_PINNED] = "pinned",
		[MEMORY_DEVICE] = "device",	[MEMORY_ARRAY] = "array",
		[MEMORY_MANAGED] = "managed",
	};
	if (kind && kind < sizeof(names) / sizeof(names[0]))
		note_text(n, name, names[kind]);
}

/* What the span says of itself: 14 notes at most. */
static void note_span(struct notes *n, const struct m_gpu_span *row)
{
	note(n, "correlation", row->correlation);
	note(n, "device", (uint64_t)row->device);
	note(n, "context", row->context);
	note(n, "stream", row->stream);
	if (row->graph_node)
		note(n, "graph_node", row->graph_node);
	if (row->graph)
		note(n, "graph", row->graph);
	if (row->work == WORK_KERNEL) {
		Eacgm__DebugAnnotation *kernel = note_add(n, "kernel");
		kernel->has_string_value_iid = 1;
		kernel->string_value_iid = NAME_IID(row->name);
		note_dims(n, "grid", row->grid);
		note_dims(n, "block", row->block);
		if (row->registers)
			note(n, "registers", row->registers);
		if (row->shared_bytes)
			note(n, "shared_bytes", row->shared_bytes);
	} else if (row->work == WORK_COPY || row->work == WORK_SET) {
		note(n, "bytes", row->bytes);
		note_memory(n, "source", row->source_kind);
		note_memory(n, "destination", row->destination_kind);
		if (row->async)
			note(n, "async", 1);
	}
}

static const char *work_category(const struct m_gpu_span *row)
{
	switch (row->work) {
	case WORK_KERNEL:
		return "kernel";
	case WORK_COPY:
		return "gpu_memcpy";
	case WORK_SET:
		return "gpu_memset";
	case WORK_SYNC:
		return "cuda_sync";
	default:
		return "gpu_graph";
	}
}

/* Of what is no kernel. */
static void work_name(char ret[static NOTE_TEXT], const struct m_gpu_span *row)
{
	static const char *const copies[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					     "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
	uint8_t kind = row->copy_kind < sizeof(copies) / sizeof(copies[0]) ? row->copy_kind : 0;
	const char *copy = copies[kind];
	if (row->work == WORK_COPY)
		snprintf(ret, NOTE_TEXT, "Memcpy %s%s(%s -> %s)", copy, kind ? " " : "",
			 memory_name(row->source_kind, copy[0]),
			 memory_name(row->destination_kind, kind ? copy[3] : 0));
	else if (row->work == WORK_SET)
		snprintf(ret, NOTE_TEXT, "Memset (%s)", memory_name(row->destination_kind, 'D'));
	else
		snprintf(ret, NOTE_TEXT, "%s", row->work == WORK_SYNC ? "wait" : "graph");
}

static void put_span(struct perfetto_gpu *g, const struct m_gpu_span *row, uint64_t first_track,
		     demangle_fn *demangle, struct work_flows *flows)
{
	Eacgm__TrackEvent begin = EACGM__TRACK_EVENT__INIT, end = begin;
	struct notes notes = {.len = 0};
	struct gpu_stream *s = stream_of(g, row);
	uint32_t lane = lane_of(g, s, row->start_ns, first_track), arrow;
	uint64_t start_ns = row->start_ns > s->end_ns[lane] ? row->start_ns : s->end_ns[lane];
	uint64_t end_ns = row->end_ns > start_ns ? row->end_ns : start_ns, number;
	char name[NOTE_TEXT], *category = (char *)work_category(row);
	s->end_ns[lane] = end_ns;
	note_span(&notes, row);
	if (row->work == WORK_KERNEL) {
		intern_kernel(g, row->name, demangle);
		begin.has_name_iid = 1;
		begin.name_iid = NAME_IID(row->name);
	} else {
		work_name(name, row);
		begin.name = name;
	}
	if (flows && work_flows_take(flows, row->pid, row->start_ns, row->correlation, &arrow)) {
		number = WORK_FLOW_NUMBER(arrow);
		begin.terminating_flow_ids = &number;
		begin.n_terminating_flow_ids = 1;
	}
	begin.categories = &category;
	begin.n_categories = 1;
	begin.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	begin.track_uuid = end.track_uuid = first_track + s->lane[lane];
	begin.debug_annotations = notes.list;
	begin.n_debug_annotations = notes.len;
	put_edge(g, &begin, start_ns);
	end.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	put_edge(g, &end, end_ns);
}

static int compare_starts(const void *a, const void *b)
{
	const struct m_gpu_span *x = a, *y = b;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

void perfetto_gpu_spans(struct perfetto_gpu *g, const struct m_gpu_span *rows, size_t n,
			uint64_t first_track, demangle_fn *demangle, struct work_flows *flows)
{
	struct m_gpu_span *sorted = xcalloc(n + 1, sizeof(*sorted));
	if (n)
		memcpy(sorted, rows, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_starts);
	for (size_t i = 0; i < n; i++)
		put_span(g, &sorted[i], first_track, demangle, flows);
	free(sorted);
}
