/* nvml_numa.c - which NUMA node a GPU is on, and how far from it the processes run that use it, by
 * the CPU that each one's main thread had last. Asks the kernel's files, not the driver; says
 * nothing on hosts with one node. Where a process has its memory is not known here. */
#include "collect/numa.h"
#include "collect/nvml_impl.h"

static const struct numa *nodes_of(struct nvml *c)
{
	if (!c->numa_looked && c->env->sys_root)
		c->numa = numa_read(c->env->sys_root);
	c->numa_looked = true;
	return c->numa;
}

int ask_numa_node(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	int node = nodes_of(c) ? numa_node_of_pci(c->env->sys_root, d->info.bus_id) : NUMA_UNKNOWN;
	if (node != NUMA_UNKNOWN)
		tell(c, d, "numa_node", node);
	return NVML_OK;
}

int ask_numa_distance(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	const struct numa *n = d->on_gpu.len ? nodes_of(c) : NULL;
	int node = n ? numa_node_of_pci(c->env->sys_root, d->info.bus_id) : NUMA_UNKNOWN;
	for (size_t i = 0; node != NUMA_UNKNOWN && i < d->on_gpu.len; i++) {
		uint32_t pid = d->on_gpu.data[i];
		int64_t cpu = numa_cpu_of(c->env->proc_root, pid);
		unsigned far = numa_distance(n, numa_node_of_cpu(n, cpu), node);
		struct entity of = entity_of(d, pid);
		if (far)
			sink_counter(c->sink, c->now_ns, &of, "numa_distance", far);
	}
	return NVML_OK;
}
