/* nvml.h - GPUs: what NVIDIA's management library (NVML) and its GPM tell of them.
 *
 * The library is opened at run time; where it is absent opening says so in one sentence.
 * docs/telemetry.md lists every counter with its source and its period, and every event.
 *
 * Opening: -ENOENT: no such library, -ENODEV: it finds no driver, -EINVAL: it is another library,
 * -EIO, -EACCES: it does not start. No GPU is no error: they may appear. What is asked how often
 * follows a budget of CPU time that the collector measures on itself (governor.h), so it is read
 * at a steady 10 Hz and decides what is due. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A physical GPU, or a MIG instance of one. 0 and "" stand for what the driver does not tell. */
struct gpu_info {
	char entity[32]; /* "gpu 0", "gpu 0 mig 1": the entity of its counters */
	uint32_t index;	 /* NVML's, kept for as long as the GPU is known; of an instance: within its
			    GPU */
	int32_t parent;	 /* of a MIG instance: the index of its physical GPU; else -1 */
	char uuid[96], name[96], bus_id[32], driver[80];
	uint64_t memory_bytes;
	double power_limit_w;
	uint32_t minor; /* /dev/nvidiaMINOR */
	uint32_t compute_major, compute_minor;
	uint32_t sm_clock_max_mhz, memory_clock_max_mhz;
	uint32_t slowdown_celsius; /* the hardware slows down from here */
	uint32_t pcie_generation_max, pcie_width_max;
	uint32_t nvlink_count;
	int32_t gpu_instance, compute_instance; /* of a MIG instance; else -1 */
	bool has_gpm, has_ecc, has_mig;		/* has_mig: MIG mode is on */
};
