/* gpu_graphs.h - which calls were captured into a graph instead of running, and what each
 * launch of a graph runs.
 *
 * First the graphs are made of the kept calls: when which stream was captured, and of what
 * captures, nodes and child graphs each executable graph is put together. Then the calls are
 * read: those of a captured stream are added to the capture, launches of graphs counted.
 * Last, the content of each executable graph is summed up, times its launches. */
#pragma once

#include "analyze/gpu_kept.h"
#include "analyze/gpu_roles.h"
#include "analyze/gpu_tally.h"

/* What a graph is made of: gpu_key.a of a tally row; .b says which one. */
enum gpu_piece {
	GPU_PIECE_KERNEL,  /* string: the kernel's name, 0 unknown */
	GPU_PIECE_COPY,	   /* number of a gpu_copies cell */
	GPU_PIECE_CAPTURE, /* all that a capture got */
	GPU_PIECE_EXEC,	   /* all that an executable graph runs: launched while captured */
};

#define GPU_NONE UINT32_MAX

struct gpu_graphs;

/* Makes the graphs of the kept calls, which are sorted by time. */
struct gpu_graphs *gpu_graphs_new(const struct rec_tables *t, const struct gpu_probes *probes,
				  const gpu_kept_t *kept);
void gpu_graphs_free(struct gpu_graphs *g);

uint32_t gpu_graphs_captures(const struct gpu_graphs *g);
uint32_t gpu_graphs_execs(const struct gpu_graphs *g);

/* True when something was being captured in the process at some time in [from_ns, to_ns]. */
bool gpu_graphs_capturing(const struct gpu_graphs *g, uint32_t pid, uint64_t from_ns,
			  uint64_t to_ns);

/* The capture that a call of that time on the stream belongs to, or GPU_NONE. */
uint32_t gpu_graphs_capture(const struct gpu_graphs *g, uint32_t pid, struct gpu_stream stream,
			    uint64_t time_ns);

/* The executable graph of that handle and time, or GPU_NONE: its making was not seen. */
uint32_t gpu_graphs_exec(const struct gpu_graphs *g, uint32_t pid, uint64_t handle,
			 uint64_t time_ns);

/* Adds to *ret (keys a: GPU_PIECE_KERNEL or _COPY, b) what the launches of all executable
 * graphs ran. launches: by number of the executable graph. captured: rows with a: piece, b,
 * c: the capture they were added to. */
void gpu_graphs_sum(const struct gpu_graphs *g, const uint64_t *launches,
		    const struct gpu_tally *captured, struct gpu_tally *ret);
