/* perfetto_samples.c - stacks in Perfetto's trace format: samples of threads that run, times in
 * which they did not, and the stacks that calls carry.
 *
 * A stack is interned when it is first met, in a packet of its own before the one that needs it:
 * numbers are those of the recording's tables plus one. A sample on the CPU is a PerfSample,
 * which viewers count. A time off the CPU lasts, so it is a slice, named by its reason, on a track
 * below the thread's, and carries its stack.
 * Each frame names a mapping, for readers that refuse frames without: the library, of Python
 * frames the source file. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "base/utf8.h"
#include "export/perfetto_impl.h"

struct perfetto_stacks {
	const struct rec_tables *t;
	perfetto_put_fn *put;
	void *ctx;
	/* One bit per number: what is written already. */
	uint8_t *stacks, *frames, *names, *paths, *sources, *build_ids, *waits;
	struct wait {
		uint64_t start_ns, end_ns;
	} * last_wait;	       /* by thread: the last that was written */
	struct map64 mappings; /* path << 32 | build id -> number */
	struct buf scratch;
};

static uint8_t *bits(size_t n)
{
	return xcalloc(n / 8 + 1, 1);
}

struct perfetto_stacks *perfetto_stacks_new(const struct rec_tables *t, perfetto_put_fn *put,
					    void *ctx)
{
	struct perfetto_stacks *s = xcalloc(1, sizeof(*s));
	size_t strings = strtab_len(&t->strings);
	s->t = t;
	s->put = put;
	s->ctx = ctx;
	s->stacks = bits(t->stacks.len);
	s->frames = bits(t->frames.len);
	s->waits = bits(t->threads.len);
	s->last_wait = xcalloc(t->threads.len + 1, sizeof(*s->last_wait));
	s->names = bits(strings);
	s->paths = bits(strings);
	s->sources = bits(strings);
	s->build_ids = bits(strings);
	return s;
}

void perfetto_stacks_free(struct perfetto_stacks *s)
{
	free(s->stacks);
	free(s->frames);
	free(s->waits);
	free(s->last_wait);
	free(s->names);
	free(s->paths);
	free(s->sources);
	free(s->build_ids);
	map64_free(&s->mappings);
	buf_free(&s->scratch);
	free(s);
}

static bool is_new(uint8_t *set, uint64_t number)
{
	uint8_t *byte = &set[number / 8], bit = (uint8_t)(1u << number % 8);
	bool ret = !(*byte & bit);
	*byte |= bit;
	return ret;
}

/* ---- interning: each writes its packet before what refers to it ---- */

static void put_interned(struct perfetto_stacks *s, Eacgm__InternedData *data)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	p.interned_data = data;
	s->put(s->ctx, &p);
}

enum text_kind { TEXT_NAME, TEXT_PATH, TEXT_SOURCE, TEXT_BUILD_ID };

static void put_text(struct perfetto_stacks *s, enum text_kind kind, uint64_t iid,
		     const struct buf *text)
{
	Eacgm__InternedData data = EACGM__INTERNED_DATA__INIT;
	Eacgm__InternedString row = EACGM__INTERNED_STRING__INIT, *list = &row;
	row.has_iid = row.has_str = 1;
	row.iid = iid;
	row.str.data = text->data;
	row.str.len = text->len;
	if (kind == TEXT_NAME) {
		data.function_names = &list;
		data.n_function_names = 1;
	} else if (kind == TEXT_PATH) {
		data.mapping_paths = &list;
		data.n_mapping_paths = 1;
	} else if (kind == TEXT_SOURCE) {
		data.source_paths = &list;
		data.n_source_paths = 1;
	} else {
		data.build_ids = &list;
		data.n_build_ids = 1;
	}
	put_interned(s, &data);
}

static uint64_t intern_text(struct perfetto_stacks *s, enum text_kind kind, uint8_t *set,
			    uint32_t string)
{
	size_t len;
	if (!string)
		return 0;
	if (is_new(set, string)) {
		const char *text = strtab_get(&s->t->strings, string, &len);
		s->scratch.len = 0;
		utf8_append_clean(&s->scratch, text, len, '?');
		put_text(s, kind, (uint64_t)string + 1, &s->scratch);
	}
	return (uint64_t)string + 1;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The recording has build ids as text, Perfetto as bytes. 0: none, or no build id. */
static uint64_t intern_build_id(struct perfetto_stacks *s, uint32_t string)
{
	size_t len;
	const char *hex = strtab_get(&s->t->strings, string, &len);
	s->scratch.len = 0;
	for (size_t i = 0; i + 1 < len; i += 2) {
		int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);
		if (high < 0 || low < 0)
			return 0;
		buf_byte(&s->scratch, (uint8_t)(high << 4 | low));
	}
	if (!s->scratch.len)
		return 0;
	if (is_new(s->build_ids, string))
		put_text(s, TEXT_BUILD_ID, (uint64_t)string + 1, &s->scratch);
	return (uint64_t)string + 1;
}

static uint64_t intern_mapping(struct perfetto_stacks *s, uint32_t path, uint32_t build_id)
{
	uint64_t key = (uint64_t)path << 32 | build_id, number;
	if (map64_get(&s->mappings, key, &number))
		return number;
	Eacgm__InternedData data = EACGM__INTERNED_DATA__INIT;
	Eacgm__Mapping row = EACGM__MAPPING__INIT, *list = &row;
	uint64_t path_iid = intern_text(s, TEXT_PATH, s->paths, path);
	row.has_iid = 1;
	row.iid = number = s->mappings.len + 1;
	row.build_id = intern_build_id(s, build_id);
	row.has_build_id = row.build_id != 0;
	row.path_string_ids = &path_iid;
	row.n_path_string_ids = path_iid != 0;
	data.mappings = &list;
	data.n_mappings = 1;
	put_interned(s, &data);
	map64_set(&s->mappings, key, number);
	return number;
}

static Eacgm__Frame__Kind frame_kind(uint8_t kind)
{
	switch (kind) {
	case FRAME_NATIVE:
		return EACGM__FRAME__KIND__KIND_NATIVE;
	case FRAME_PYTHON:
		return EACGM__FRAME__KIND__KIND_INTERPRETED;
	case FRAME_KERNEL:
		return EACGM__FRAME__KIND__KIND_KERNEL;
	default:
		return EACGM__FRAME__KIND__KIND_UNKNOWN;
	}
}

static uint64_t intern_frame(struct perfetto_stacks *s, uint32_t number)
{
	const struct m_frame *f = &s->t->frames.data[number];
	bool python = f->kind == FRAME_PYTHON;
	if (!is_new(s->frames, number))
		return (uint64_t)number + 1;
	Eacgm__InternedData data = EACGM__INTERNED_DATA__INIT;
	Eacgm__Frame row = EACGM__FRAME__INIT, *list = &row;
	row.has_iid = row.has_mapping_id = row.has_rel_pc = 1;
	row.iid = (uint64_t)number + 1;
	row.function_name_id = intern_text(s, TEXT_NAME, s->names, f->name);
	row.has_function_name_id = row.function_name_id != 0;
	row.mapping_id = intern_mapping(s, python ? f->file : f->library, f->build_id);
	/* Frames of one mapping and address are one: what has no address has a number. */
	row.rel_pc = f->address ? f->address : number;
	row.source_path_iid = intern_text(s, TEXT_SOURCE, s->sources, f->file);
	row.has_source_path_iid = row.source_path_iid != 0;
	row.has_line_number = f->file && f->line;
	row.line_number = f->line;
	row.kind = frame_kind(f->kind);
	row.has_kind = row.kind != EACGM__FRAME__KIND__KIND_UNKNOWN;
	data.frames = &list;
	data.n_frames = 1;
	put_interned(s, &data);
	return row.iid;
}

uint64_t perfetto_stack(struct perfetto_stacks *s, uint32_t stack)
{
	const struct rec_tables *t = s->t;
	VEC(uint64_t) frames = {0};
	if (!stack || stack >= t->stacks.len)
		return 0;
	if (!is_new(s->stacks, stack))
		return (uint64_t)stack + 1;
	for (uint32_t i = stack; i; i = t->stacks.data[i].parent)
		*vec_push(&frames) = intern_frame(s, t->stacks.data[i].frame);
	for (size_t i = 0, k = frames.len; i + 1 < k; i++) { /* the root first */
		uint64_t leaf = frames.data[i];
		frames.data[i] = frames.data[--k];
		frames.data[k] = leaf;
	}
	Eacgm__InternedData data = EACGM__INTERNED_DATA__INIT;
	Eacgm__Callstack row = EACGM__CALLSTACK__INIT, *list = &row;
	row.has_iid = 1;
	row.iid = (uint64_t)stack + 1;
	row.frame_ids = frames.data;
	row.n_frame_ids = frames.len;
	data.callstacks = &list;
	data.n_callstacks = 1;
	put_interned(s, &data);
	vec_free(&frames);
	return (uint64_t)stack + 1;
}

/* ---- samples ---- */

static void put_sample(struct perfetto_stacks *s, const struct m_sample *row)
{
	const struct m_thread *thread = &s->t->threads.data[row->thread];
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__PerfSample sample = EACGM__PERF_SAMPLE__INIT;
	sample.callstack_iid = perfetto_stack(s, row->stack);
	sample.has_callstack_iid = sample.callstack_iid != 0;
	sample.has_pid = sample.has_tid = 1;
	sample.pid = thread->pid;
	sample.tid = thread->tid;
	p.has_timestamp = 1;
	p.timestamp = row->time_ns;
	p.perf_sample = &sample;
	s->put(s->ctx, &p);
}

static void describe_waits(struct perfetto_stacks *s, uint32_t thread, uint64_t thread_track,
			   uint64_t wait_track)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	if (!is_new(s->waits, thread))
		return;
	d.has_uuid = d.has_parent_uuid = 1;
	d.uuid = wait_track + thread;
	d.parent_uuid = thread_track + thread;
	d.name = (char *)"off CPU";
	p.track_descriptor = &d;
	s->put(s->ctx, &p);
}

static void put_edge(struct perfetto_stacks *s, Eacgm__TrackEvent *event, uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	s->put(s->ctx, &p);
}

/* When the wait of a row began: weight_ns before it ended, but not within the one before, since
 * slices of a track may not overlap. Rows come nearly in order: one that ended before the last
 * began stands for itself. */
static uint64_t wait_start(struct perfetto_stacks *s, const struct m_sample *row)
{
	struct wait *last = &s->last_wait[row->thread];
	uint64_t start_ns = row->time_ns > row->weight_ns ? row->time_ns - row->weight_ns : 0;
	if (row->time_ns <= last->start_ns)
		return start_ns;
	if (start_ns < last->end_ns)
		start_ns = last->end_ns < row->time_ns ? last->end_ns : row->time_ns;
	*last = (struct wait){start_ns, row->time_ns};
	return start_ns;
}

/* One time off the CPU. */
static void put_wait(struct perfetto_stacks *s, const struct m_sample *row, uint64_t track)
{
	static const char *const reasons[WAIT_REASONS] = WAIT_REASON_NAMES;
	Eacgm__DebugAnnotation waker = EACGM__DEBUG_ANNOTATION__INIT, tid = waker;
	Eacgm__DebugAnnotation *notes[2] = {&waker, &tid};
	Eacgm__TrackEvent begin = EACGM__TRACK_EVENT__INIT, end = begin;
	struct buf name = {0};
	size_t len;
	const char *comm = strtab_get(&s->t->strings, row->waker, &len);
	utf8_append_clean(&name, comm, len, '?');
	begin.callstack_iid = perfetto_stack(s, row->stack);
	begin.has_callstack_iid = begin.callstack_iid != 0;
	begin.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	begin.name = (char *)reasons[row->reason < WAIT_REASONS ? row->reason : WAIT_OTHER];
	begin.track_uuid = end.track_uuid = track;
	waker.name = (char *)"waker";
	waker.string_value = (char *)name.data;
	tid.name = (char *)"waker_tid";
	tid.has_uint_value = 1;
	tid.uint_value = row->waker_tid;
	begin.debug_annotations = notes;
	begin.n_debug_annotations = row->waker_tid || row->waker ? 2 : 0;
	put_edge(s, &begin, wait_start(s, row));
	end.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	put_edge(s, &end, row->time_ns);
	buf_free(&name);
}

static int compare_times(const void *a, const void *b)
{
	const struct m_sample *x = a, *y = b;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

void perfetto_samples(struct perfetto_stacks *s, const struct m_sample *rows, size_t n,
		      uint64_t thread_track, uint64_t wait_track)
{
	struct m_sample *sorted = xcalloc(n + 1, sizeof(*sorted));
	if (n)
		memcpy(sorted, rows, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_times);
	for (size_t i = 0; i < n; i++) {
		const struct m_sample *row = &sorted[i];
		if (row->kind == SAMPLE_CPU) {
			put_sample(s, row);
			continue;
		}
		describe_waits(s, row->thread, thread_track, wait_track);
		put_wait(s, row, wait_track + row->thread);
	}
	free(sorted);
}
