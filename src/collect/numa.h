/* numa.h - the NUMA nodes of a host: which node a CPU and a PCI device are of, how far nodes are
 * from each other. Read once; what is plugged in later is not known. */
#pragma once

#include <stdint.h>

#define NUMA_UNKNOWN  (-1)
#define NUMA_SAME_FAR 10 /* what the kernel says of a node and itself */

struct numa;

/* sys_root: "/sys". NULL: the host has one node, or nothing is known of nodes. */
struct numa *numa_read(const char *sys_root);
void numa_free(struct numa *n);

/* NUMA_UNKNOWN: it is not known. */
int numa_node_of_cpu(const struct numa *n, int64_t cpu);
/* bus: as NVML writes it, "00000000:1B:00.0". NUMA_UNKNOWN also where the firmware tells none. */
int numa_node_of_pci(const char *sys_root, const char *bus);
/* As the firmware tells it: NUMA_SAME_FAR within a node, 20 is twice as far; 0: it is not known. */
unsigned numa_distance(const struct numa *n, int from, int to);
/* The CPU that the main thread of a process had last; NUMA_UNKNOWN: it has ended, or may not be
 * asked. proc_root: "/proc". */
int64_t numa_cpu_of(const char *proc_root, uint32_t pid);
