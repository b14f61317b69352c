/* slice_name.h - what calls are called on timelines: the categories and names of torch.profiler's
 * traces, so that who knows those finds the same words. */
#pragma once

#include <stdbool.h>

#include "events/visitor.h"

/* Where the name comes from: with the number one name's identity. */
enum slice_name_kind {
	SLICE_STRING, /* number: a string */
	SLICE_NODE,   /* number: a string, a node of a backward pass */
	SLICE_CODE,   /* number: a row of the codes, a Python function */
	SLICE_NAME_KINDS,
};

struct slice_name {
	enum slice_name_kind kind;
	uint32_t number;
};

struct slice_name slice_name_of(const struct rec_tables *t, const struct m_call *c);

/* "aten::linear", "cudaLaunchKernel", "torch/nn/modules/linear.py(114): Linear.forward",
 * "autograd::engine::evaluate_function: AddmmBackward0"; malloc'ed, any bytes. */
char *slice_name_text(const struct rec_tables *t, struct slice_name name);

/* True for arguments that are shown: those that are not the name, and not empty. */
bool slice_shows_arg(const struct rec_tables *t, const struct m_call *c, unsigned arg);

/* "cpu_op", "python_function", "cuda_runtime", "cuda_driver"; the layer of other calls. */
const char *slice_category(const struct rec_tables *t, const struct m_probe *p);
