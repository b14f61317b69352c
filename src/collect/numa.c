/* numa.c - see numa.h. Sources: the kernel's Documentation/ABI/stable/sysfs-devices-node,
 * ABI/testing/sysfs-bus-pci, proc_pid_stat(5). */
#include "collect/numa.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "collect/kept_file.h"

#define NODES_MOST    64
#define CPUS_MOST     16384
#define NUMBER_MOST   1024 /* of nodes */
#define DISTANCE_MOST 255  /* the firmware's table has bytes */
#define FIELD_CPU     39   /* of /proc/PID/stat; the first one after the name is 3 */
#define FIELD_FIRST   3

struct numa {
	int nodes[NODES_MOST]; /* their numbers, as the distances have them */
	size_t n;
	unsigned distance[NODES_MOST][NODES_MOST]; /* 0: not known */
	VEC(int16_t) of_cpu;			   /* place in nodes + 1; 0: not known */
};

/* "0-3,8" into what visit is called with, up to `most`; a part that is odd ends it. */
static void each_of_list(const char *list, uint64_t most, void (*visit)(void *ctx, uint64_t number),
			 void *ctx)
{
	uint64_t first, last;
	while (text_number(&list, &first)) {
		last = first;
		if (*list == '-' && (list++, !text_number(&list, &last)))
			return;
		for (uint64_t i = first; i <= last && i < most; i++)
			visit(ctx, i);
		if (*list++ != ',')
			return;
	}
}

/* A file that is read once. False: it is not there, or may not be read. */
static bool read_once(struct kept_file *f, const char *folder, const char *name)
{
	kept_file_set(f, folder, name);
	return kept_file_read(f);
}

static void add_node(void *ctx, uint64_t number)
{
	struct numa *n = ctx;
	if (n->n < NODES_MOST)
		n->nodes[n->n++] = (int)number;
}

struct node_cpus {
	struct numa *n;
	size_t node;
};

static void add_cpu(void *ctx, uint64_t cpu)
{
	const struct node_cpus *a = ctx;
	while (a->n->of_cpu.len <= cpu)
		*vec_push(&a->n->of_cpu) = 0;
	a->n->of_cpu.data[cpu] = (int16_t)(a->node + 1);
}

static void read_node(struct numa *n, const char *folder, size_t node)
{
	char name[64];
	struct kept_file cpus = {0}, distances = {0};
	struct node_cpus of = {n, node};
	uint64_t far;
	snprintf(name, sizeof(name), "node%d/cpulist", n->nodes[node]);
	if (read_once(&cpus, folder, name))
		each_of_list(cpus.text, CPUS_MOST, add_cpu, &of);
	snprintf(name, sizeof(name), "node%d/distance", n->nodes[node]);
	if (read_once(&distances, folder, name)) {
		const char *at = distances.text;
		for (size_t i = 0; i < n->n && text_number(&at, &far); i++)
			n->distance[node][i] = far <= DISTANCE_MOST ? (unsigned)far : 0;
	}
	kept_file_free(&cpus);
	kept_file_free(&distances);
}

struct numa *numa_read(const char *sys_root)
{
	struct numa *n = xcalloc(1, sizeof(*n));
	struct kept_file online = {0};
	char *folder = xasprintf("%s/devices/system/node", sys_root);
	if (read_once(&online, folder, "online"))
		each_of_list(online.text, NUMBER_MOST, add_node, n);
	bool several = n->n > 1;
	for (size_t i = 0; several && i < n->n; i++)
		read_node(n, folder, i);
	kept_file_free(&online);
	free(folder);
	if (several)
		return n;
	numa_free(n);
	return NULL;
}

void numa_free(struct numa *n)
{
	if (!n)
		return;
	vec_free(&n->of_cpu);
	free(n);
}

int numa_node_of_cpu(const struct numa *n, int64_t cpu)
{
	if (cpu < 0 || (uint64_t)cpu >= n->of_cpu.len || !n->of_cpu.data[cpu])
		return NUMA_UNKNOWN;
	return n->nodes[n->of_cpu.data[cpu] - 1];
}

int numa_node_of_pci(const char *sys_root, const char *bus)
{
	unsigned domain, number, device, function;
	char name[64];
	struct kept_file f = {0};
	uint64_t node;
	int ret = NUMA_UNKNOWN;
	if (sscanf(bus, "%x:%x:%x.%x", &domain, &number, &device, &function) != 4)
		return ret;
	snprintf(name, sizeof(name), "bus/pci/devices/%04x:%02x:%02x.%x/numa_node", domain, number,
		 device, function);
	if (read_once(&f, sys_root, name)) {
		const char *at = f.text; /* "-1" where the firmware does not tell */
		if (text_number(&at, &node) && node < NUMBER_MOST)
			ret = (int)node;
	}
	kept_file_free(&f);
	return ret;
}

/* Its place; n->n: there is no such node. */
static size_t place_of(const struct numa *n, int node)
{
	size_t i = 0;
	while (i < n->n && n->nodes[i] != node)
		i++;
	return i;
}

unsigned numa_distance(const struct numa *n, int from, int to)
{
	size_t a = place_of(n, from), b = place_of(n, to);
	return a < n->n && b < n->n ? n->distance[a][b] : 0;
}

int64_t numa_cpu_of(const char *proc_root, uint32_t pid)
{
	struct kept_file f = {0};
	char name[32];
	uint64_t cpu;
	int64_t ret = NUMA_UNKNOWN;
	snprintf(name, sizeof(name), "%u/stat", pid);
	/* the name of the process may hold spaces and brackets */
	const char *at = read_once(&f, proc_root, name) ? strrchr(f.text, ')') : NULL;
	for (int field = FIELD_FIRST - 1; at && field < FIELD_CPU; field++)
		at = strchr(at + 1, ' ');
	if (at && text_number(&at, &cpu) && cpu < CPUS_MOST)
		ret = (int64_t)cpu;
	kept_file_free(&f);
	return ret;
}
