/* layer.h - what anomalies are told of: the layers of base/layer.h that are judged.
 *
 * Numbers are this folder's own: rows of a window come in their order, and are blurred by them, so
 * that other numbers would give other models. Layers that only files name have those from
 * DETECT_NAMED on, as they are met: struct detect_layers says which is which. */
#pragma once

#include <stdint.h>

#include "base/layer.h"

enum detect_layer {
	DETECT_CUDA,	 /* calls of the driver and runtime, what the GPU ran for them */
	DETECT_PYTHON,	 /* functions of Python */
	DETECT_TORCH,	 /* operators and nodes of backward passes */
	DETECT_NCCL,	 /* collectives */
	DETECT_HARDWARE, /* counters of GPUs */
	DETECT_HOST,	 /* counters and waits of processes */
	DETECT_STEP,	 /* whole steps of the job */
	DETECT_NAMED,
	DETECT_LAYERS = DETECT_NAMED + 8,
};

struct detect_layers {
	uint32_t len;
	char names[DETECT_LAYERS - DETECT_NAMED][LAYER_NAME_BYTES];
};

/* enum layer_traits */
unsigned detect_layer_traits(enum detect_layer layer);

/* "" where there is none of that number. */
const char *detect_layer_name(const struct detect_layers *layers, enum detect_layer layer);

/* The number of a name, a new one where there is room; DETECT_LAYERS: it is not judged. */
enum detect_layer detect_layer_add(struct detect_layers *layers, const char *name);
