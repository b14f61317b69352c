/* layer.h - what anomalies are told of. */
#pragma once

enum detect_layer {
	DETECT_CUDA,	 /* calls of the driver and runtime, what the GPU ran for them */
	DETECT_PYTHON,	 /* functions of Python */
	DETECT_TORCH,	 /* operators and nodes of backward passes */
	DETECT_NCCL,	 /* collectives */
	DETECT_HARDWARE, /* counters of GPUs */
	DETECT_HOST,	 /* counters and waits of processes */
	DETECT_STEP,	 /* whole steps of the job */
	DETECT_LAYERS,
};
#define DETECT_LAYER_NAMES                                                                         \
	{                                                                                          \
		"cuda", "python", "torch", "nccl", "hardware", "host", "step"                      \
	}
/* "cuda" */
const char *detect_layer_name(enum detect_layer layer);
