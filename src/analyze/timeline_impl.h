/* timeline_impl.h - what the files that make a timeline share. Private to timeline*.c. */
#pragma once

#include "analyze/timeline.h"
#include "analyze/timeline_match.h"
#include "base/strtab.h"

/* A call that would start work, and has not: it failed, or was captured into a graph. */
struct idle_call {
	uint64_t start_ns;
	uint32_t pid;
};

struct timeline_job {
	struct timeline *t;
	struct timeline_options o;
	struct strtab names;	    /* of kernels, readable */
	VEC(struct idle_call) idle; /* by process and start */
	uint32_t *name_of; /* by string of the recording: number in names + 1, 0 = not looked up */
};

static inline bool timeline_moves_data(uint8_t role)
{
	return role == GPU_COLLECTIVE || role == GPU_P2P;
}

enum match_class timeline_class(uint8_t role);

static inline bool timeline_is_wait(const struct timeline *t, const struct timeline_span *s)
{
	return timeline_kind_of(t, s)->work == WORK_SYNC;
}

static inline uint32_t timeline_span_pid(const struct timeline *t, size_t span)
{
	return timeline_kind_of(t, &t->spans.data[span])->pid;
}

static inline uint32_t timeline_call_pid(const struct timeline *t, size_t call)
{
	return timeline_call_kind_of(t, &t->calls.data[call])->pid;
}

/* timeline_load.c: the visitor that loads calls and spans, each by pid, then start, none with the
 * other; done is called when all are there. */
struct row_visitor *timeline_loader(struct timeline_job *job, const struct row_source *s,
				    void (*done)(struct timeline_job *job));

/* timeline_process.c: finds what started each span, process by process. */
void timeline_match_processes(struct timeline_job *job);
