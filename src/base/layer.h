/* layer.h - the layers that calls, counters and steps belong to: the one table of them.
 *
 * To people and in recordings a layer is a name; in BPF programs, their records and this process it
 * is a number below LAYERS_MAX (wire/event.h). What a layer means to whoever reads its rows is its
 * traits, and no other place compares names. Catalogs may name further layers: those get the next
 * numbers when they are loaded (probe/catalog.h), and have the traits of LAYER_NAMED. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum layer_traits {
	LAYER_IS_CHOSEN = 1 << 0,	/* --layers and catalogs may name it */
	LAYER_IS_WORK = 1 << 1,		/* its calls are the job's work: before it are imports */
	LAYER_HAS_OPERATORS = 1 << 2,	/* its calls are a framework's operators and passes */
	LAYER_HAS_FUNCTIONS = 1 << 3,	/* its calls are functions of an interpreter */
	LAYER_HAS_KERNELS = 1 << 4,	/* its calls are named by the GPU's kernels */
	LAYER_HAS_COLLECTIVES = 1 << 5, /* its calls are between ranks */
	LAYER_HAS_GPUS = 1 << 6,	/* telemetry of GPUs */
	LAYER_NEEDS_GPU = 1 << 7,	/* nobody expects its library on a host without GPUs */
	LAYER_IS_USERS = 1 << 8,	/* what of it was not found is always told */
	LAYER_BY_CALLS = 1 << 9,	/* its windows are judged by their calls, */
	LAYER_BY_COUNTERS = 1 << 10,	/* by counters, */
	LAYER_BY_STEPS = 1 << 11,	/* or by the job's steps */
};

/* Enumerator, name, number, traits. CHOSEN: shown where people choose; a number never changes. */
#define LAYER_TABLE(CHOSEN, OTHER)                                                                 \
	CHOSEN(CUDA, "cuda", 0,                                                                    \
	       LAYER_IS_CHOSEN | LAYER_IS_WORK | LAYER_HAS_KERNELS | LAYER_NEEDS_GPU |             \
		       LAYER_BY_CALLS)                                                             \
	CHOSEN(NCCL, "nccl", 1,                                                                    \
	       LAYER_IS_CHOSEN | LAYER_IS_WORK | LAYER_HAS_COLLECTIVES | LAYER_NEEDS_GPU |         \
		       LAYER_BY_CALLS)                                                             \
	CHOSEN(TORCH, "torch", 2,                                                                  \
	       LAYER_IS_CHOSEN | LAYER_IS_WORK | LAYER_HAS_OPERATORS | LAYER_BY_CALLS)             \
	CHOSEN(PYTHON, "python", 3, LAYER_IS_CHOSEN | LAYER_HAS_FUNCTIONS | LAYER_BY_CALLS)        \
	CHOSEN(GPU, "gpu", 4, LAYER_IS_CHOSEN | LAYER_HAS_GPUS)                                    \
	OTHER(HOST, "host", 5, LAYER_IS_CHOSEN | LAYER_BY_COUNTERS)                                \
	OTHER(CPU, "cpu", 6, LAYER_IS_CHOSEN)                                                      \
	CHOSEN(USER, "user", 7, LAYER_IS_CHOSEN | LAYER_IS_USERS)                                  \
	OTHER(HARDWARE, "hardware", 8, LAYER_BY_COUNTERS)                                          \
	OTHER(STEP, "step", 9, LAYER_BY_STEPS)                                                     \
	CHOSEN(MPI, "mpi", 10, LAYER_IS_CHOSEN | LAYER_IS_WORK | LAYER_BY_CALLS)

#define LAYER_ENUMERATOR(id, name, number, traits) LAYER_##id = (number),
enum layer {
	LAYER_TABLE(LAYER_ENUMERATOR, LAYER_ENUMERATOR)
		LAYER_NAMED, /* the first of those that only catalogs name */
};
#undef LAYER_ENUMERATOR

/* "cuda, nccl, ...", and "cuda|nccl|...", for help and completion; each ends with its separator. */
#define LAYER_IN_LIST(id, name, number, traits)	   name ", "
#define LAYER_IN_CHOICES(id, name, number, traits) name "|"
#define LAYER_UNLISTED(id, name, number, traits)
#define LAYER_LIST    LAYER_TABLE(LAYER_IN_LIST, LAYER_UNLISTED)
#define LAYER_CHOICES LAYER_TABLE(LAYER_IN_CHOICES, LAYER_UNLISTED)

#define LAYER_NAME_BYTES 24    /* of the longest name, its end included */
#define LAYER_ALL	 "all" /* stands for each of them, and is the name of none */

/* The name of one of the table; "" from LAYER_NAMED on. */
const char *layer_name(enum layer layer);

/* The number of a name, LAYER_NAMED when the table does not hold it. */
enum layer layer_of_name(const char *name);

/* Whether a file may name a layer so; what reads recordings and models does not trust them either.
 */
bool layer_name_is_valid(const char *name);

/* enum layer_traits of a number, and of a name. */
unsigned layer_traits(enum layer layer);
unsigned layer_traits_of_name(const char *name);

/* The numbers of the table that have one of the traits, as a set of bits. */
uint32_t layers_with(unsigned traits);
