/* names.h - what the numbers in rows stand for, whether the rows come from a file or from a
 * recording in progress. Owns nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "events/visitor.h"

/* The innermost line of Python in a sample's stack. */
struct detect_line {
	uint32_t frame; /* its number */
	uint32_t line;
	const char *function, *file;
	bool called; /* it had called PyTorch, CUDA or NCCL: what ran was theirs */
};

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
	/* false: the stack has no frame of Python. NULL: nothing is known of stacks. */
	bool (*line)(void *ctx, uint32_t stack, struct detect_line *ret);
	/* As probe; NULL: likewise. */
	const struct m_stack *(*stack)(void *ctx, uint32_t number);
	const struct m_frame *(*frame)(void *ctx, uint32_t number);
};

/* Whether a binary is one of those whose calls are layers of their own: PyTorch, CUDA, NCCL, XLA.
 */
bool detect_library_is_called(const char *path);
/* As line, of a file. */
bool detect_line_of_stack(const struct rec_tables *t, uint32_t stack, struct detect_line *ret);

/* Those of a file; valid while r is open. */
void detect_names_of_source(struct detect_names *ret, const struct row_source *r);
