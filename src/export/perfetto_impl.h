/* perfetto_impl.h - what the files of the Perfetto export share. Private to perfetto*.c. */
#pragma once

#include <stdint.h>

#include "export/sink.h"
#include "perfetto.pb-c.h"
#include "events/visitor.h"

/* Writes a packet; ctx is the sink. Strings of it may be freed afterwards. */
typedef void perfetto_put_fn(void *ctx, Eacgm__TracePacket *p);

static inline void perfetto_put_edge(perfetto_put_fn *put, void *ctx, Eacgm__TrackEvent *event,
				     uint64_t time_ns)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	event->has_type = event->has_track_uuid = 1;
	p.has_timestamp = 1;
	p.timestamp = time_ns;
	p.track_event = event;
	put(ctx, &p);
}

/* Who writes the tracks of processes and threads: these are numbered from the two given on, by pid
 * and by row of the thread table. */
struct track_writer {
	const struct rec_tables *t;
	perfetto_put_fn *put;
	void *ctx;
	uint64_t process_track, thread_track;
};
void perfetto_tracks(const struct track_writer *w, const struct track_order *order);

/* The instant that tells of the recording, so that losses are seen in the viewer too. */
void perfetto_about(const struct track_writer *w, uint64_t track);

/* What is to be known of it, a sentence a line: a track with a slice for each, one below the other,
 * as long as the recording. */
void perfetto_verdict(const struct track_writer *w, const char *lines, uint64_t track);

/* Stacks that were written, and the threads' tracks of waiting. */
struct perfetto_stacks;
struct perfetto_stacks *perfetto_stacks_new(const struct rec_tables *t, perfetto_put_fn *put,
					    void *ctx);
void perfetto_stacks_free(struct perfetto_stacks *s);

/* The number of a stack of the recording's table; its frames are written when it is first met.
 * 0: there is none. */
uint64_t perfetto_stack(struct perfetto_stacks *s, uint32_t stack);

/* Samples on the CPU as such, times off the CPU as slices on tracks below the threads'. Tracks
 * are those of thread 0; the others' follow. */
void perfetto_samples(struct perfetto_stacks *s, const struct m_sample *rows, size_t n,
		      uint64_t thread_track, uint64_t wait_track);

/* Slices on tracks below the threads', from stall_track on; described: by thread, whether its track
 * is. */
void perfetto_stalls(const struct track_writer *w, uint64_t stall_track, uint8_t *described,
		     const struct m_stall *rows, size_t n);

/* The track of a process, 0 where it has none; ctx is the sink. */
typedef uint64_t perfetto_parent_fn(void *ctx, uint32_t pid);

/* The streams of GPUs that were met. */
struct perfetto_gpu;
struct perfetto_gpu *perfetto_gpu_new(const struct rec_tables *t, perfetto_put_fn *put,
				      perfetto_parent_fn *parent, void *ctx);
void perfetto_gpu_free(struct perfetto_gpu *g);

/* A slice for each row, on tracks from first_track on; demangle and flows may be NULL. */
void perfetto_gpu_spans(struct perfetto_gpu *g, const struct m_gpu_span *rows, size_t n,
			uint64_t first_track, demangle_fn *demangle, struct work_flows *flows);

/* The entities that counters and events are of, GPUs first of all: a track for each entity and
 * one for each of its counters, described when they are first met. Tracks are numbered from
 * the two given numbers on. */
struct perfetto_entities;
struct perfetto_entities *perfetto_entities_new(const struct rec_tables *t, perfetto_put_fn *put,
						perfetto_parent_fn *parent, void *ctx,
						uint64_t first_entity, uint64_t first_counter);
void perfetto_entities_free(struct perfetto_entities *e);

/* A value for each row, on its counter's track. */
void perfetto_counters(struct perfetto_entities *e, const struct m_counter *rows, size_t n);

/* The events of the tables in the order of time, as instants on their entities' tracks. */
void perfetto_events(struct perfetto_entities *e);

/* Slices of what was not normal, on a track for each layer, from first_track on, below one that is
 * called group; NULL: below none. */
void perfetto_anomalies(const struct anomaly_slices *slices, const char *group,
			perfetto_put_fn *put, void *ctx, uint64_t first_track);

/* Incidents' paths of blame, on tracks of their processes from first_track on. */
void perfetto_paths(const struct incident_slices *slices, perfetto_put_fn *put,
		    perfetto_parent_fn *parent, void *ctx, uint64_t first_track);

/* Slices of steps, on tracks from first_track on. */
void perfetto_steps(const struct step_slices *slices, perfetto_put_fn *put,
		    perfetto_parent_fn *parent, void *ctx, uint64_t first_track);
