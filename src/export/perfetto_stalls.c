/* perfetto_stalls.c - what the kernel took of threads' time on CPUs, in Perfetto's trace format:
 * slices on a track below the thread's. What interrupted another lies within it. Rows of several
 * blocks are not sorted. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "export/perfetto_impl.h"

#define OPEN_MOST 8 /* slices within each other: of the kernel there are three */

struct stall_writer {
	const struct track_writer *w;
	uint64_t stall_track;
	uint8_t *described; /* by thread */
};

static void describe_track(const struct stall_writer *s, uint32_t thread)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	if (s->described[thread])
		return;
	s->described[thread] = 1;
	d.has_uuid = d.has_parent_uuid = 1;
	d.uuid = s->stall_track + thread;
	d.parent_uuid = s->w->thread_track + thread;
	d.name = (char *)"taken by the kernel";
	p.track_descriptor = &d;
	s->w->put(s->w->ctx, &p);
}

static void put_edge(const struct stall_writer *s, Eacgm__TrackEvent *event, uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	s->w->put(s->w->ctx, &p);
}

static void note_number(Eacgm__DebugAnnotation *a, const char *name, uint64_t value)
{
	*a = (Eacgm__DebugAnnotation)EACGM__DEBUG_ANNOTATION__INIT;
	a->name = (char *)name;
	a->has_uint_value = 1;
	a->uint_value = value;
}

/* "softirq NET_RX" */
static void name_slice(struct buf *ret, const struct rec_tables *t, const struct m_stall *row)
{
	static const char *const kinds[STALL_KINDS] = STALL_KIND_NAMES;
	const char *kind = kinds[row->kind];
	size_t len;
	const char *name = strtab_get(&t->strings, row->name, &len);
	buf_add(ret, kind, strlen(kind));
	if (len) {
		buf_byte(ret, ' ');
		utf8_append_clean(ret, name, len, '?');
	}
	buf_byte(ret, 0);
}

static void begin_slice(const struct stall_writer *s, const struct m_stall *row)
{
	Eacgm__DebugAnnotation own, cpu, *notes[2] = {&own, &cpu};
	Eacgm__TrackEvent begin = EACGM__TRACK_EVENT__INIT;
	struct buf name = {0};
	name_slice(&name, s->w->t, row);
	note_number(&own, "own_ns", row->own_ns);
	note_number(&cpu, "cpu", row->cpu);
	begin.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	begin.name = (char *)name.data;
	begin.track_uuid = s->stall_track + row->thread;
	begin.debug_annotations = notes;
	begin.n_debug_annotations = 2;
	put_edge(s, &begin, row->start_ns);
	buf_free(&name);
}

static void end_slice(const struct stall_writer *s, uint32_t thread, uint64_t end_ns)
{
	Eacgm__TrackEvent end = EACGM__TRACK_EVENT__INIT;
	end.type = EACGM__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	end.track_uuid = s->stall_track + thread;
	put_edge(s, &end, end_ns);
}

/* A thread's rows together, each before those within it. */
static int compare(const void *a, const void *b)
{
	const struct m_stall *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/* Slices of a track have to lie within each other or apart: one that would end after the one around
 * it ends with that. */
static void put_thread(const struct stall_writer *s, const struct m_stall *rows, size_t n)
{
	uint64_t open[OPEN_MOST];
	size_t depth = 0;
	describe_track(s, rows->thread);
	for (size_t i = 0; i < n; i++) {
		uint64_t start_ns = rows[i].start_ns, end_ns = rows[i].end_ns;
		while (depth && (open[depth - 1] <= start_ns || depth == OPEN_MOST)) {
			depth--;
			end_slice(s, rows->thread, open[depth] < start_ns ? open[depth] : start_ns);
		}
		if (depth && end_ns > open[depth - 1])
			end_ns = open[depth - 1];
		begin_slice(s, &rows[i]);
		open[depth++] = end_ns;
	}
	while (depth)
		end_slice(s, rows->thread, open[--depth]);
}

void perfetto_stalls(const struct track_writer *w, uint64_t stall_track, uint8_t *described,
		     const struct m_stall *rows, size_t n)
{
	const struct stall_writer s = {w, stall_track, described};
	struct m_stall *sorted = xcalloc(n + 1, sizeof(*sorted));
	if (n)
		memcpy(sorted, rows, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	for (size_t i = 0, next; i < n; i = next) {
		for (next = i + 1; next < n && sorted[next].thread == sorted[i].thread;)
			next++;
		put_thread(&s, &sorted[i], next - i);
	}
	free(sorted);
}
