/* live_gpu_memory.h - whose the device memory is that processes hold, while a session runs: NVML
 * says how much each one has, the driver's calls say who called for it. An owner is the library
 * whose code called the driver, or the CUDA runtime where that is a library of its own. What no
 * call explains is a row too, so that the rows of a process sum up to what NVML says of it. Knows
 * neither tensors nor the lines of programs.
 *
 * Not for several threads: the host locks it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "session/gpu_memory_ledger.h"

#define GPU_MEMORY_NAME_BYTES 48
#define GPU_MEMORY_OTHER      "(other)"	   /* libraries that found no room, code of no file */
#define GPU_MEMORY_NOT_SEEN   "(not seen)" /* what no call that was seen asked for */

/* What a process holds for one owner, as of the last time that NVML told. */
struct live_gpu_memory_row {
	char owner[GPU_MEMORY_NAME_BYTES];
	uint64_t bytes;
};

struct live_gpu_memory_process {
	uint32_t pid;
	bool told;	  /* there are rows */
	bool on_several;  /* they are of several GPUs or instances together */
	uint32_t gpu;	  /* else of this one */
	int32_t instance; /* or of this instance of it; -1: none */
	uint64_t told_ns; /* of CLOCK_MONOTONIC: when NVML told */
	VEC(struct live_gpu_memory_row) rows;
	struct gpu_memory_books *books; /* its own */
};

struct gpu_memory_probe;

struct live_gpu_memory {
	VEC(struct live_gpu_memory_process) processes;
	const char *proc_root; /* NULL: "/proc"; set before the first batch */
	/* the rest is its own */
	VEC(struct gpu_memory_item) items; /* that wait for their turn */
	VEC(struct gpu_memory_probe) probes;
	struct map64 process_of;
	struct gpu_memory_room room;
	uint64_t no_process; /* calls and answers of processes that found no room */
};

struct live_series;
struct session_view;

/* m: zeroed but for proc_root, and stays where it is. The calls and counters of a batch; s: whose
 * processes are kept. What happened after v->upto_ns waits, for calls and NVML's answers count in
 * the order of time. */
void live_gpu_memory_batch(struct live_gpu_memory *m, const struct session_view *v,
			   const struct live_series *s);
/* What is of processes that s does not know, or that have ended, is dropped. */
void live_gpu_memory_forget(struct live_gpu_memory *m, const struct live_series *s);
void live_gpu_memory_free(struct live_gpu_memory *m);
/* Allocations, mappings, and calls and answers of processes, that found no room so far. */
uint64_t live_gpu_memory_left_out(const struct live_gpu_memory *m);

/* The name of a library or program by its path, without version and what else stands behind its
 * name: "libnccl" of "/usr/lib/libnccl.so.2.28". */
void live_gpu_memory_owner(char ret[static GPU_MEMORY_NAME_BYTES], const char *path);
