/* session_names.h - what the numbers in a feed's rows stand for: the recording's dictionaries, as
 * far as they have come, for the thread that detects. */
#pragma once

#include "base/map64.h"
#include "base/strtab.h"
#include "detect/names.h"
#include "pipeline/pipeline.h"
#include "session/session_feed.h"

struct session_names {
	const struct stack_bounds *bounds;
	VEC(char *) strings;
	VEC(struct session_metric {
		uint32_t number;
		struct m_metric row;
	})
	metrics;		/* those that go again too */
	struct map64 metric_at; /* number -> place in metrics */
	VEC(struct m_probe) probes;
	VEC(struct m_code) codes;
	VEC(struct m_thread) threads;
	VEC(uint32_t) free_threads; /* places */
	struct map64 thread_at;	    /* index -> place */
	VEC(struct m_comm) comms;
	/* As many as two generations have, each at its number's remainder: older ones are met no
	 * more. */
	struct session_frame {
		struct m_frame row;
		uint32_t number; /* and 1; 0: none */
	} * frames;
	struct session_stack {
		struct m_stack row;
		uint32_t number; /* 0: none */
		uint32_t line;	 /* its innermost frame of Python, and 1; 0: it has none */
		bool called;	 /* below that: a library of a layer's */
	} * stacks;
};

/* bounds: of the pipeline whose rows these are; it outlives n. */
void session_names_init(struct session_names *n, const struct stack_bounds *bounds);

/* Before a batch's events are looked at, and after. */
void session_names_take(struct session_names *n, const struct feed_batch *b);
void session_names_forget(struct session_names *n, const struct feed_batch *b);
void session_names_free(struct session_names *n);

/* Valid as long as n. */
void session_names_get(struct session_names *n, struct detect_names *ret);
