/* flops.h - the floating-point operations of a recording, how fast they were done, and how much of
 * what the devices can do that is.
 *
 * Counted are calls whose probe has one of the roles matmul, convolution, convolution_backward,
 * attention, attention_backward, gemm (flops_count.h has the formulas). A counted call inside of a
 * counted one, on the same thread, is the same work and is not counted again.
 *
 * A kernel belongs to the counted call in which it was launched. What ran outside of counted calls
 * is told beside: coverage is the kernels' time inside over the time of all. Calls that were
 * captured into a CUDA graph count as often as the graph is launched, where its making was seen.
 *
 * Numbers of operations are doubles, exact up to 2^53. Does no output. */
#pragma once

#include <stdint.h>

#include "analyze/flops_count.h"
#include "analyze/timeline.h"

struct flops_row {
	const char *name; /* "aten::addmm"; of flops.kernels: the kernel's, mangled as recorded */
	uint8_t kind;	  /* enum flops_kind, 0 for kernels */
	uint8_t format;	  /* enum flops_format */
	uint64_t calls;
	double model, hardware;
	uint64_t host_ns;   /* of the calls; 0 for kernels */
	uint64_t device_ns; /* of the kernels that were launched in them */
};
typedef VEC(struct flops_row) flops_rows_t;

struct flops_kernel_time {
	const char *name; /* mangled as recorded */
	uint64_t ns;
};

/* Means of the GPUs' own counters (src/collect/gpm.c) over the time of the counted work. */
enum flops_activity {
	ACTIVITY_SM,	    /* SMs with a warp on them */
	ACTIVITY_OCCUPANCY, /* warps on them, of what fits */
	ACTIVITY_TENSOR,    /* tensor cores */
	ACTIVITY_MEMORY,    /* device memory */
	FLOPS_ACTIVITIES,
};
#define FLOPS_ACTIVITY_NAMES                                                                       \
	{                                                                                          \
		"gpm_sm_ratio", "gpm_sm_occupancy_ratio", "gpm_tensor_ratio", "gpm_dram_ratio"     \
	}

struct flops {
	flops_rows_t operators; /* by model, most first; a row for each name and format */
	flops_rows_t kernels;	/* the longest kernel of each call stands for it */
	flops_rows_t graphs;	/* operators again: what graphs ran of them, without times */
	VEC(struct flops_kernel_time) others; /* outside of counted calls, longest first */

	uint64_t calls;		 /* counted */
	uint64_t unknown;	 /* of these roles, but a shape is missing: not counted */
	uint64_t within;	 /* of these roles, inside of a counted call */
	uint64_t captured;	 /* into graphs, instead of running: not in calls */
	uint64_t graph_launches; /* of CUDA graphs */
	uint64_t graph_unknown;	 /* of these: of graphs whose making was not seen */
	double graph_model;	 /* of model: what graphs ran */
	double model;		 /* what the operations are by their definition */
	double hardware;	 /* what was carried out: parts that are computed again too */
	double masked;		 /* of model: what causal masks leave unused */
	double by_format[FLOPS_FORMATS]; /* of model */
	double hardware_by_format[FLOPS_FORMATS];

	uint64_t first_ns, last_ns;
	uint64_t wall_ns;    /* from the first counted call to the end of the last or its work, as
			      * far as probes were on (bursts) */
	uint64_t host_ns;    /* of the counted calls, summed over threads */
	uint64_t kernels_ns; /* of all kernels, summed */
	uint64_t counted_ns; /* of these: launched in counted calls */
	uint64_t graphs_ns;  /* of kernels_ns: launched as CUDA graphs */
	uint64_t busy_ns;    /* when kernels ran, for each device of a process, summed */

	const char *device; /* its name; NULL: there is none, or there are different ones */
	uint32_t devices;   /* that ran kernels, of all processes; without a timeline, processes
			     * that launched some; 0 = all was done by the host */
	double ideal_s;	    /* how long one device would take for model at its peak; 0 unknown */
	double hardware_ideal_s;
	double activity[FLOPS_ACTIVITIES]; /* 0..1; negative: no sample */
};

/* pid: only this process, 0 = all. The calls that begin in [from_ns, to_ns), where they are not
 * 0. t is of the same span of time, and complete before the visitor ends, which makes *ret. What
 * it returns points into the source's tables. */
struct flops_options {
	uint32_t pid;
	uint64_t from_ns, to_ns;
};
struct row_visitor *flops_visitor(struct flops *ret, const struct row_source *s,
				  const struct timeline *t, const struct flops_options *o);
void flops_make(struct flops *ret, const struct row_source *s, const struct timeline *t,
		const struct flops_options *o);
void flops_free(struct flops *f);

/* Model FLOPs utilisation: ideal_s over the time that the devices had; negative when it cannot be
 * told. hardware: what was carried out instead. */
double flops_utilisation(const struct flops *f, bool hardware);
