/* registry.h - the collectors that there are: a line for each, in the order in which they are
 * opened. */
#pragma once

#include <stddef.h>

#include "collect/collector.h"

/* collector_NAME is in a file of its own. */
#define COLLECTORS(X)                                                                              \
	X(procfs)   /* CPU time, memory, threads of processes */                                   \
	X(sockets)  /* TCP connections of processes */                                             \
	X(xid)	    /* errors that the GPU's driver tells the kernel; before NVML is asked */      \
	X(nvml)	    /* GPUs, by NVIDIA's management library */                                     \
	X(host_cpu) /* what the host's CPUs did, and what was stolen from them */                  \
	X(pressure) /* how long threads waited for CPUs, memory and disks, by the kernel's sums */ \
	X(cgroup)   /* limits of cgroups: CPU time that was held back, memory */                   \
	X(vmstat)   /* memory of the host: faults, reclaim, swap, NUMA */                          \
	X(disks)    /* what disks did, how long requests took */                                   \
	X(filesystems) /* room on those of the job and the recording */                            \
	X(nics)	       /* bytes and drops of network interfaces, segments sent again */            \
	X(taskstats)   /* what threads of processes waited for, where the kernel counts it */

#define COLLECTOR_DECLARED(name) extern const struct collector collector_##name;
COLLECTORS(COLLECTOR_DECLARED)
#undef COLLECTOR_DECLARED

extern const struct collector *const collector_registry[];
extern const size_t collector_registry_len;
