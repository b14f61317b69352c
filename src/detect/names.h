/* names.h - what the numbers in rows stand for, whether the rows come from a file or from a
 * recording in progress. Owns nothing. */
#pragma once

#include <stdint.h>

#include "events/visitor.h"

struct detect_names {
	void *ctx;
	/* Never NULL: "" for a number that is not there. */
	const char *(*string)(void *ctx, uint32_t number);
	/* NULL where there is no such row. Valid until the next row is asked for. */
	const struct m_probe *(*probe)(void *ctx, uint32_t number);
	const struct m_thread *(*thread)(void *ctx, uint32_t index);
	const struct m_code *(*code)(void *ctx, uint32_t number);
	const struct m_metric *(*metric)(void *ctx, uint32_t number);
	/* The communicator that was alive at the time, or NULL. */
	const struct m_comm *(*comm)(void *ctx, uint32_t pid, uint64_t handle, uint64_t time_ns);
};

/* Those of a file; valid while r is open. */
void detect_names_of_source(struct detect_names *ret, const struct row_source *r);
