/* learn_sample.h - which part of recordings is learned from where they have more events than can be
 * read soon: whole stretches of time, spread evenly, so that all windows in them are whole.
 *
 * Of calls and spans of the GPU only the blocks that reach into a stretch are read; counters, waits
 * and samples are few, and read all. Between stretches it is as if no probe had been on, which the
 * sampled source says as recordings of bursts do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "events/visitor.h"

/* An hour at 6,700 a second is read whole. */
#define SAMPLE_EVENTS 24000000ULL

struct sample_stretch {
	uint64_t from_ns, to_ns; /* whole windows */
};

/* Of one recording. */
struct sample {
	struct row_source source; /* what is read; of all that is learned from as it was given */
	const struct row_source *of;
	VEC(struct sample_stretch) stretches; /* in order of time, apart; none: all is read */
	VEC(size_t) calls, gpu_spans;	      /* numbers of blocks */
	struct rec_tables tables;	      /* of the source: others own what is in them */
	VEC(struct m_window) windows;
};

/* Of all events of n recordings at most so many are read, 0: SAMPLE_EVENTS; a source that does not
 * tell times of blocks, or that has periods without probes, is read whole. */
void learn_sample_make(struct sample *ret, const struct row_source *const *recordings, size_t n,
		       uint64_t window_ns, uint64_t events);
void learn_sample_free(struct sample *s);
/* Whether a time is in one of them. */
bool learn_sample_has(const struct sample *s, uint64_t time_ns);
/* Times that are nearest to the same stretch have the same number: where it changes, there is
 * something between that was not read. */
size_t learn_sample_part(const struct sample *s, uint64_t time_ns);
/* Of the time from begin_ns on, what is learned from; and all of it. */
double learn_sample_seconds(const struct sample *s, uint64_t begin_ns);
double learn_sample_whole_seconds(const struct sample *s, uint64_t begin_ns);
