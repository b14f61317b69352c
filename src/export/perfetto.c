/* perfetto.c - Perfetto's trace format, for ui.perfetto.dev and trace_processor.
 *
 * The fields that are written are in perfetto.proto. One packet sequence holds all; each
 * string, function and place in a source file is written once and then referred to by
 * number ("interned"): string numbers of the recording plus one. Times are those of
 * CLOCK_MONOTONIC, and the clock snapshot at the head says what time of day that was.
 * Tracks are numbered by kind and index, which keeps them the same from run to run. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/kernel_name.h"
#include "base/map64.h"
#include "base/utf8.h"
#include "export/call_view.h"
#include "export/launches.h"
#include "export/perfetto_impl.h"
#include "export/sink.h"
#include "export/slice_name.h"

#define SEQUENCE	    1
#define STATE_CLEARED	    1
#define NEEDS_STATE	    2
#define TRACK_ABOUT	    1ULL
#define TRACK_PROCESS(pid)  (1ULL << 40 | (pid))
#define TRACK_THREAD(index) (2ULL << 40 | (index))
#define TRACK_COUNTER(k)    (3ULL << 40 | (k))
#define TRACK_LANE(k)	    (4ULL << 40 | (k))
#define TRACK_ENTITY(k)	    (5ULL << 40 | (k))
#define TRACK_WAIT(index)   (6ULL << 40 | (index))
#define TRACK_STREAM(k)	    (7ULL << 40 | (k))
#define TRACK_STEPS(k)	    (8ULL << 40 | (k))
#define TRACK_ANOMALIES(k)  (9ULL << 40 | (k))
#define TRACK_VERDICT	    (10ULL << 40)
#define TRACK_STALLS(index) (11ULL << 40 | (index))
#define TRACK_INCIDENTS(k)  (12ULL << 40 | (k))
#define TRACK_PATHS(k)	    (13ULL << 40 | (k))
#define MAX_ANNOTATIONS	    (MODEL_MAX_ARGS + CALL_FLAGS + 1)

/* What has been interned already, as one bit per number. */
enum {
	SEEN_NAME,
	SEEN_NODE_NAME,
	SEEN_CODE_NAME,
	SEEN_ARG_NAME,
	SEEN_ARG_VALUE,
	SEEN_CODE,
	SEEN_KINDS
};

/* The interned data that goes with one packet. */
struct interned {
	Eacgm__InternedData data;
	Eacgm__InternedName names[2 + MODEL_MAX_ARGS];
	Eacgm__InternedName *categories[1], *event_names[1], *arg_names[MODEL_MAX_ARGS];
	Eacgm__InternedString strings[MODEL_MAX_ARGS], *string_list[MODEL_MAX_ARGS];
	Eacgm__SourceLocation place, *place_list[1];
	size_t names_len;
};

struct sink {
	FILE *out;
	const struct rec_tables *t;
	uint8_t *seen[SEEN_KINDS];
	struct strtab categories; /* those that were interned */
	struct map64 with_process;
	struct launch_probes launches;
	struct lanes lanes;
	struct perfetto_stacks *stacks;
	uint8_t *with_stalls; /* by thread: its track is described */
	struct perfetto_gpu *gpu;
	struct perfetto_entities *entities;
	struct work_flows *work_flows;	     /* NULL: none */
	const struct call_flows *call_flows; /* NULL: none */
	const char *verdict;		     /* NULL: none */
	VEC(uint64_t) flows;		     /* of the event that is being written */
	VEC(uint64_t) flows_in;		     /* likewise: those that end there */
	struct buf packed;
	VEC(char *) texts; /* strings made for the packet that is being written */
	struct interned interned;
	Eacgm__DebugAnnotation annotations[MAX_ANNOTATIONS];
	Eacgm__DebugAnnotation *annotation_list[MAX_ANNOTATIONS];
	size_t annotations_len;
};

/* ---- packets ---- */

static void packet_write(struct sink *s, Eacgm__TracePacket *p)
{
	p->has_trusted_packet_sequence_id = 1;
	p->trusted_packet_sequence_id = SEQUENCE;
	p->has_sequence_flags = 1;
	if (!p->sequence_flags)
		p->sequence_flags = NEEDS_STATE;
	size_t len = eacgm__trace_packet__get_packed_size(p);
	/* Trace.packet: field 1, length-delimited. */
	uint8_t head[11] = {1 << 3 | 2};
	size_t n = 1;
	for (size_t v = len; n == 1 || v; v >>= 7)
		head[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
	s->packed.len = 0;
	buf_reserve(&s->packed, len + 1);
	eacgm__trace_packet__pack(p, s->packed.data);
	fwrite(head, 1, n, s->out);
	fwrite(s->packed.data, 1, len, s->out);
	for (size_t i = 0; i < s->texts.len; i++)
		free(s->texts.data[i]);
	s->texts.len = 0;
}

static void put_packet(void *ctx, Eacgm__TracePacket *p)
{
	packet_write(ctx, p);
}

static uint64_t process_track(void *ctx, uint32_t pid)
{
	const struct sink *s = ctx;
	uint64_t unused;
	return map64_get(&s->with_process, pid, &unused) ? TRACK_PROCESS(pid) : 0;
}

static struct sink *perfetto_open(FILE *out, const struct rec_tables *t)
{
	struct sink *s = xcalloc(1, sizeof(*s));
	s->out = out;
	s->t = t;
	s->stacks = perfetto_stacks_new(t, put_packet, s);
	s->with_stalls = xcalloc(t->threads.len + 1, 1);
	s->gpu = perfetto_gpu_new(t, put_packet, process_track, s);
	s->entities = perfetto_entities_new(t, put_packet, process_track, s, TRACK_ENTITY(0),
					    TRACK_COUNTER(0));
	launch_probes_make(&s->launches, t);
	for (size_t i = 0; i < t->processes.len; i++)
		map64_set(&s->with_process, t->processes.data[i].pid, 1);
	for (int i = 0; i < SEEN_KINDS; i++)
		s->seen[i] =
			xcalloc((i == SEEN_CODE || i == SEEN_CODE_NAME ? t->codes.len
								       : strtab_len(&t->strings)) /
						8 +
					1,
				1);
	return s;
}

/* A string as protobuf wants it, good until the packet is written. */
static char *text_z(struct sink *s, const char *str, size_t len)
{
	struct buf clean = {0};
	utf8_append_clean(&clean, str, len, '?');
	*vec_push(&s->texts) = (char *)clean.data;
	return (char *)clean.data;
}

static char *text(struct sink *s, uint32_t string)
{
	size_t len;
	const char *str = strtab_get(&s->t->strings, string, &len);
	return text_z(s, str, len);
}

/* ---- interning ---- */

static bool seen_before(struct sink *s, int kind, uint64_t number)
{
	uint8_t *byte = &s->seen[kind][number / 8], bit = (uint8_t)(1u << number % 8);
	if (*byte & bit)
		return true;
	*byte |= bit;
	return false;
}

static void interned_clear(struct interned *n)
{
	n->data = (Eacgm__InternedData)EACGM__INTERNED_DATA__INIT;
	n->data.event_categories = n->categories;
	n->data.event_names = n->event_names;
	n->data.debug_annotation_names = n->arg_names;
	n->data.debug_annotation_string_values = n->string_list;
	n->data.source_locations = n->place_list;
	n->names_len = 0;
}

static bool interned_any(const struct interned *n)
{
	return n->names_len || n->data.n_debug_annotation_string_values ||
	       n->data.n_source_locations;
}

/* name: good until the packet is written. */
static void intern_add(struct sink *s, uint64_t iid, char *name, Eacgm__InternedName **list,
		       size_t *len)
{
	Eacgm__InternedName *row = &s->interned.names[s->interned.names_len++];
	*row = (Eacgm__InternedName)EACGM__INTERNED_NAME__INIT;
	row->has_iid = 1;
	row->iid = iid;
	row->name = name;
	list[(*len)++] = row;
}

static uint64_t intern_arg_name(struct sink *s, uint32_t string)
{
	struct interned *n = &s->interned;
	uint64_t iid = (uint64_t)string + 1;
	if (!seen_before(s, SEEN_ARG_NAME, string))
		intern_add(s, iid, text(s, string), n->arg_names,
			   &n->data.n_debug_annotation_names);
	return iid;
}

static uint64_t intern_slice_name(struct sink *s, struct slice_name name)
{
	static const int seen[SLICE_NAME_KINDS] = {SEEN_NAME, SEEN_NODE_NAME, SEEN_CODE_NAME};
	uint64_t iid = (uint64_t)name.kind << 41 | (name.number + 1ULL);
	if (seen_before(s, seen[name.kind], name.number))
		return iid;
	char *full = slice_name_text(s->t, name);
	intern_add(s, iid, text_z(s, full, strlen(full)), s->interned.event_names,
		   &s->interned.data.n_event_names);
	free(full);
	return iid;
}

static uint64_t intern_category(struct sink *s, const char *category)
{
	size_t before = strtab_len(&s->categories);
	uint64_t iid = strtab_add_z(&s->categories, category) + 1ULL;
	if (strtab_len(&s->categories) > before)
		intern_add(s, iid, text_z(s, category, strlen(category)), s->interned.categories,
			   &s->interned.data.n_event_categories);
	return iid;
}

static uint64_t intern_value(struct sink *s, uint32_t string)
{
	struct interned *n = &s->interned;
	if (!seen_before(s, SEEN_ARG_VALUE, string)) {
		size_t at = n->data.n_debug_annotation_string_values++;
		Eacgm__InternedString *row = &n->strings[at];
		*row = (Eacgm__InternedString)EACGM__INTERNED_STRING__INIT;
		row->has_iid = row->has_str = 1;
		row->iid = (uint64_t)string + 1;
		row->str.data = (uint8_t *)text(s, string);
		row->str.len = strlen((char *)row->str.data);
		n->string_list[at] = row;
	}
	return (uint64_t)string + 1;
}

static uint64_t intern_place(struct sink *s, const struct m_code *code)
{
	uint64_t index = (uint64_t)(code - s->t->codes.data);
	struct interned *n = &s->interned;
	if (!seen_before(s, SEEN_CODE, index)) {
		n->place = (Eacgm__SourceLocation)EACGM__SOURCE_LOCATION__INIT;
		n->place.has_iid = n->place.has_line_number = 1;
		n->place.iid = index + 1;
		n->place.file_name = text(s, code->file);
		n->place.function_name = text(s, code->name);
		n->place.line_number = code->line;
		n->place_list[n->data.n_source_locations++] = &n->place;
	}
	return index + 1;
}

/* ---- annotations ---- */

static Eacgm__DebugAnnotation *annotation_add(struct sink *s)
{
	size_t at = s->annotations_len++;
	s->annotations[at] = (Eacgm__DebugAnnotation)EACGM__DEBUG_ANNOTATION__INIT;
	s->annotation_list[at] = &s->annotations[at];
	return &s->annotations[at];
}

static void annotate_arg(struct sink *s, const struct m_probe *p, unsigned i, uint64_t v)
{
	Eacgm__DebugAnnotation *a = annotation_add(s);
	const char *value_name = call_enum_name(s->t, p, i, v);
	char dims[SHAPE_TEXT_BYTES];
	a->has_name_iid = 1;
	a->name_iid = intern_arg_name(s, p->arg_names[i]);
	if (value_name) {
		a->string_value = text_z(s, value_name, strlen(value_name));
		return;
	}
	switch (p->arg_types[i]) {
	case ARG_TYPE_I64:
		a->has_int_value = 1;
		a->int_value = (int64_t)v;
		break;
	case ARG_TYPE_PTR:
		a->has_pointer_value = 1;
		a->pointer_value = v;
		break;
	case ARG_TYPE_BOOL:
		a->has_bool_value = 1;
		a->bool_value = v != 0;
		break;
	case ARG_TYPE_STRING:
		a->has_string_value_iid = 1;
		a->string_value_iid = intern_value(s, (uint32_t)v);
		break;
	case ARG_TYPE_CODE:
		a->has_string_value_iid = 1;
		a->string_value_iid =
			intern_value(s, v < s->t->codes.len ? s->t->codes.data[v].name : 0);
		break;
	case ARG_TYPE_DIM3:
		snprintf(dims, sizeof(dims), "%u,%u,%u", dim3_x(v), dim3_y(v), dim3_z(v));
		a->string_value = text_z(s, dims, strlen(dims));
		break;
	case ARG_TYPE_SHAPE:
		call_shape_text(v, dims);
		a->string_value = text_z(s, dims, strlen(dims));
		break;
	default:
		a->has_uint_value = 1;
		a->uint_value = v;
	}
}

static void annotate_call(struct sink *s, const struct m_call *c)
{
	const struct m_probe *p = &s->t->probes.data[c->probe];
	for (unsigned i = 0; i < c->nargs && i < MODEL_MAX_ARGS; i++)
		if (slice_shows_arg(s->t, c, i))
			annotate_arg(s, p, i, c->args[i]);
	for (size_t i = 2; i < CALL_FLAGS; i++) { /* nesting and instants can be seen */
		if (!(c->flags & call_flag_names[i].flag))
			continue;
		Eacgm__DebugAnnotation *a = annotation_add(s);
		a->name = (char *)call_flag_names[i].name;
		a->has_bool_value = 1;
		a->bool_value = 1;
	}
}

/* ---- events ---- */

static void event_write(struct sink *s, Eacgm__TrackEvent *event, uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	if (interned_any(&s->interned))
		p.interned_data = &s->interned.data;
	packet_write(s, &p);
}

static void track_write(struct sink *s, Eacgm__TrackDescriptor *d, uint64_t uuid)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	d->has_uuid = 1;
	d->uuid = uuid;
	p.track_descriptor = d;
	packet_write(s, &p);
}

/* Puts a track under its process, where that has a track. */
static void set_parent(struct sink *s, Eacgm__TrackDescriptor *d, uint32_t pid)
{
	d->parent_uuid = process_track(s, pid);
	d->has_parent_uuid = d->parent_uuid != 0;
}

/* The launch once more, on its stream's lane. */
static void lane_event(struct sink *s, const struct span *span)
{
	bool is_new;
	size_t lane = lane_of(&s->lanes, &s->launches, span->call, &is_new);
	uint64_t flow = span->launch_flow;
	char name[KERNEL_NAME_BYTES];
	if (is_new) {
		Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
		char *label = lane_label(&s->lanes.rows.data[lane]);
		d.name = text_z(s, label, strlen(label));
		/* Tracks of one name and parent are shown as one: the lanes of a stream. */
		set_parent(s, &d, s->t->threads.data[span->call->thread].pid);
		track_write(s, &d, TRACK_LANE(lane));
		free(label);
	}
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	interned_clear(&s->interned);
	event.track_uuid = TRACK_LANE(lane);
	event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	if (span->kind == SPAN_BEGIN) {
		launch_name(name, sizeof(name), s->t, span->call);
		event.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
		event.name = text_z(s, name, strlen(name));
		event.terminating_flow_ids = &flow;
		event.n_terminating_flow_ids = 1;
	}
	event_write(s, &event, span->time_ns);
}

/* Arrows to what the call started on the GPU, and the number that these have in common. */
static void add_work_flows(struct sink *s, const struct m_call *c)
{
	uint32_t n;
	uint32_t first = work_flows_of_call(s->work_flows, c->thread, c->start_ns, c->probe, &n);
	if (n) {
		Eacgm__DebugAnnotation *a = annotation_add(s);
		a->name = (char *)"correlation";
		a->has_uint_value = 1;
		a->uint_value = s->work_flows->rows.data[first].correlation;
	}
	for (uint32_t i = 0; i < n; i++)
		*vec_push(&s->flows) = WORK_FLOW_NUMBER(first + i);
}

/* Arrows from an operator to its backward node. */
static void add_call_flows(struct sink *s, const struct m_call *c)
{
	const struct call_flows *f = s->call_flows;
	size_t n;
	const struct call_flow_end *ends =
		call_flow_ends(f->tails.data, f->tails.len, c->thread, c->start_ns, c->probe, &n);
	for (size_t i = 0; i < n; i++)
		*vec_push(&s->flows) = CALL_FLOW_NUMBER(ends[i].number);
	ends = call_flow_ends(f->heads.data, f->heads.len, c->thread, c->start_ns, c->probe, &n);
	for (size_t i = 0; i < n; i++)
		*vec_push(&s->flows_in) = CALL_FLOW_NUMBER(ends[i].number);
}

static void perfetto_span(struct sink *s, const struct span *span)
{
	static const Eacgm__TrackEvent__Type types[] = {
		[SPAN_BEGIN] = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN,
		[SPAN_END] = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END,
		[SPAN_INSTANT] = EACGM__TRACK_EVENT__TYPE__TYPE_INSTANT,
	};
	const struct m_call *c = span->call;
	Eacgm__TrackEvent event = EACGM__TRACK_EVENT__INIT;
	uint64_t category;
	/* First: it may write packets, which ends the strings made for this one. */
	event.callstack_iid = span->kind == SPAN_END ? 0 : perfetto_stack(s->stacks, c->stack);
	event.has_callstack_iid = event.callstack_iid != 0;
	interned_clear(&s->interned);
	s->annotations_len = 0;
	event.type = types[span->kind];
	event.track_uuid = TRACK_THREAD(c->thread);
	if (span->kind != SPAN_END) {
		struct slice_name name = slice_name_of(s->t, c);
		category = intern_category(s, slice_category(s->t, &s->t->probes.data[c->probe]));
		event.category_iids = &category;
		event.n_category_iids = 1;
		event.has_name_iid = 1;
		event.name_iid = intern_slice_name(s, name);
		if (name.kind == SLICE_CODE) {
			event.has_source_location_iid = 1;
			event.source_location_iid = intern_place(s, &s->t->codes.data[name.number]);
		}
		annotate_call(s, c);
	}
	s->flows.len = s->flows_in.len = 0;
	for (uint32_t i = 0; i < span->flows; i++)
		*vec_push(&s->flows) = span->flow_first + i;
	if (s->work_flows && span->kind == SPAN_BEGIN)
		add_work_flows(s, c);
	if (s->call_flows && span->kind == SPAN_BEGIN)
		add_call_flows(s, c);
	event.debug_annotations = s->annotation_list;
	event.n_debug_annotations = s->annotations_len;
	event.flow_ids = s->flows.data;
	event.n_flow_ids = s->flows.len;
	event.terminating_flow_ids = s->flows_in.data;
	event.n_terminating_flow_ids = s->flows_in.len;
	event_write(s, &event, span->time_ns);
	if (span->kind != SPAN_INSTANT && is_launch(&s->launches, c))
		lane_event(s, span);
}

/* ---- the head ---- */

static void clock_packet(struct sink *s)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__ClockSnapshot snapshot = EACGM__CLOCK_SNAPSHOT__INIT;
	Eacgm__ClockSnapshot__Clock clocks[2], *list[2] = {&clocks[0], &clocks[1]};
	Eacgm__TracePacketDefaults defaults = EACGM__TRACE_PACKET_DEFAULTS__INIT;
	uint64_t times[2] = {meta_number(s->t, "start_monotonic_ns"),
			     meta_number(s->t, "start_realtime_ns")};
	const uint32_t ids[2] = {EACGM__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC,
				 EACGM__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME};
	for (int i = 0; i < 2; i++) {
		clocks[i] = (Eacgm__ClockSnapshot__Clock)EACGM__CLOCK_SNAPSHOT__CLOCK__INIT;
		clocks[i].has_clock_id = clocks[i].has_timestamp = 1;
		clocks[i].clock_id = ids[i];
		clocks[i].timestamp = times[i];
	}
	snapshot.clocks = list;
	snapshot.n_clocks = times[0] && times[1] ? 2 : 1;
	snapshot.has_primary_trace_clock = 1;
	snapshot.primary_trace_clock = EACGM__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	Eacgm__PerfSampleDefaults samples = EACGM__PERF_SAMPLE_DEFAULTS__INIT;
	Eacgm__Timebase timebase = EACGM__TIMEBASE__INIT;
	timebase.has_counter = 1;
	timebase.counter = EACGM__TIMEBASE__COUNTER__SW_CPU_CLOCK;
	samples.timebase = &timebase;
	defaults.perf_sample_defaults = s->t->samples ? &samples : NULL;
	defaults.has_timestamp_clock_id = 1;
	defaults.timestamp_clock_id = EACGM__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	p.clock_snapshot = &snapshot;
	p.trace_packet_defaults = &defaults;
	p.sequence_flags = STATE_CLEARED;
	packet_write(s, &p);
}

/* ---- tracks ---- */

static struct track_writer track_writer(struct sink *s)
{
	return (struct track_writer){.t = s->t,
				     .put = put_packet,
				     .ctx = s,
				     .process_track = TRACK_PROCESS(0),
				     .thread_track = TRACK_THREAD(0)};
}

/* The tracks come with the tables, behind the packet that the file begins with. */
static void perfetto_order(struct sink *s, const struct track_order *order)
{
	const struct track_writer w = track_writer(s);
	clock_packet(s);
	perfetto_tracks(&w, order);
}

static void perfetto_verdict_lines(struct sink *s, const char *lines)
{
	s->verdict = lines;
}

static void perfetto_counter_rows(struct sink *s, const struct m_counter *rows, size_t n)
{
	perfetto_counters(s->entities, rows, n);
}

static void perfetto_sample_rows(struct sink *s, const struct m_sample *rows, size_t n)
{
	perfetto_samples(s->stacks, rows, n, TRACK_THREAD(0), TRACK_WAIT(0));
}

static void perfetto_stall_rows(struct sink *s, const struct m_stall *rows, size_t n)
{
	const struct track_writer w = track_writer(s);
	perfetto_stalls(&w, TRACK_STALLS(0), s->with_stalls, rows, n);
}

static void perfetto_work_flows(struct sink *s, struct work_flows *flows)
{
	s->work_flows = flows;
}

static void perfetto_call_flows(struct sink *s, const struct call_flows *flows)
{
	s->call_flows = flows;
}

static void perfetto_gpu_rows(struct sink *s, const struct m_gpu_span *rows, size_t n,
			      demangle_fn *demangle)
{
	perfetto_gpu_spans(s->gpu, rows, n, TRACK_STREAM(0), demangle, s->work_flows);
}

static void perfetto_step_rows(struct sink *s, const struct step_slices *slices)
{
	perfetto_steps(slices, put_packet, process_track, s, TRACK_STEPS(0));
}

static void perfetto_anomaly_rows(struct sink *s, const struct anomaly_slices *slices)
{
	perfetto_anomalies(slices, "anomalies", put_packet, s, TRACK_ANOMALIES(0));
}

static void perfetto_incident_rows(struct sink *s, const struct incident_slices *slices)
{
	perfetto_anomalies(&slices->incidents, NULL, put_packet, s, TRACK_INCIDENTS(0));
	perfetto_paths(slices, put_packet, process_track, s, TRACK_PATHS(0));
}

static void perfetto_tables(struct sink *s)
{
	const struct track_writer w = track_writer(s);
	perfetto_about(&w, TRACK_ABOUT);
	if (s->verdict)
		perfetto_verdict(&w, s->verdict, TRACK_VERDICT);
	perfetto_events(s->entities);
}

static void perfetto_close(struct sink *s)
{
	for (int i = 0; i < SEEN_KINDS; i++)
		free(s->seen[i]);
	map64_free(&s->with_process);
	strtab_free(&s->categories);
	launch_probes_free(&s->launches);
	lanes_free(&s->lanes);
	perfetto_stacks_free(s->stacks);
	free(s->with_stalls);
	perfetto_gpu_free(s->gpu);
	perfetto_entities_free(s->entities);
	vec_free(&s->flows);
	vec_free(&s->flows_in);
	buf_free(&s->packed);
	vec_free(&s->texts);
	free(s);
}

const struct sink_format sink_perfetto = {
	.name = "perfetto",
	.extension = "perfetto-trace",
	.open = perfetto_open,
	.verdict = perfetto_verdict_lines,
	.order = perfetto_order,
	.tables = perfetto_tables,
	.span = perfetto_span,
	.counters = perfetto_counter_rows,
	.samples = perfetto_sample_rows,
	.stalls = perfetto_stall_rows,
	.work_flows = perfetto_work_flows,
	.call_flows = perfetto_call_flows,
	.gpu_spans = perfetto_gpu_rows,
	.steps = perfetto_step_rows,
	.anomalies = perfetto_anomaly_rows,
	.incidents = perfetto_incident_rows,
	.close = perfetto_close,
};
