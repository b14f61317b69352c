/* recording_feed.h - a file's events in about the order in which they came, for whoever judges
 * them as if they came now. Reads through the recording's reader only. */
#pragma once

#include <stdint.h>

#include "events/visitor.h"

struct recording_sink {
	void *ctx;
	void (*call)(void *ctx, const struct m_call *c);
	void (*gpu_span)(void *ctx, const struct m_gpu_span *s);
	void (*wait)(void *ctx, const struct m_wait *w); /* before calls that end later */
	void (*counter)(void *ctx, const struct m_counter *c);
	void (*sample)(void *ctx, const struct m_sample *s);
	/* Blocks that were read, of all of them; may be NULL, as may those above. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
};

/* Calls come in order of their ends and spans of the GPU in order of their starts, within a block
 * and as far as blocks follow each other; spans after the calls that launched them. Blocks that
 * cannot be read are left out. Memory: two blocks. */
void recording_feed(const struct row_source *r, const struct recording_sink *sink);
