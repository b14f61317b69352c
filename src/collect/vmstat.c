/* vmstat.c - memory of the host: what the kernel did to find some, swap, faults that read from
 * disk, pages moved between NUMA nodes and taken from another one (/proc/vmstat), and what there is
 * of it (/proc/meminfo). What allocations had is told where there is more than one node: with one
 * alone all of them have the only one. */
#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"

/* nodes: where there are several of them alone. A counter may be the sum of several: "allocstall_"
 * is of all zones. */
static const struct {
	const char *key, *counter;
	bool is_prefix;
	bool nodes;
} rates[] = {
	{"pgmajfault", "major_faults_per_s", false, false},
	{"pgscan_direct", "direct_reclaim_pages_per_s", false, false},
	{"allocstall_", "direct_reclaim_stalls_per_s", true, false},
	{"compact_stall", "compaction_stalls_per_s", false, false},
	{"pswpin", "swap_in_pages_per_s", false, false},
	{"pswpout", "swap_out_pages_per_s", false, false},
	{"numa_pages_migrated", "numa_migrated_pages_per_s", false, false},
	{"numa_hint_faults", "numa_hint_faults_per_s", false, false},
	{"numa_hit", "numa_hit_pages_per_s", false, true},
	{"numa_miss", "numa_miss_pages_per_s", false, true},
	{"numa_local", "numa_local_pages_per_s", false, true},
	{"numa_other", "numa_other_pages_per_s", false, true},
};
#define RATES (sizeof(rates) / sizeof(rates[0]))

static const struct {
	const char *key, *counter;
} amounts[] = {
	{"MemAvailable", "memory_available_bytes"},
	{"Dirty", "dirty_bytes"},
	{"Writeback", "writeback_bytes"},
};
#define AMOUNTS (sizeof(amounts) / sizeof(amounts[0]))

struct vmstat {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct kept_file vmstat, meminfo;
	struct growth grown[RATES];
	uint64_t last_ns, vmstat_ns;
	bool nodes; /* there are several */
};

/* "0", or "0-1", "0,2": of Documentation/ABI/stable/sysfs-devices-node. */
static bool has_nodes(const struct collect_env *env)
{
	struct kept_file f = {0};
	char *folder = xasprintf("%s/devices/system/node", env->sys_root);
	kept_file_set(&f, folder, "online");
	bool ret = kept_file_read(&f) && f.text[strcspn(f.text, ",-")];
	kept_file_free(&f);
	free(folder);
	return ret;
}

static int vmstat_open(void **ret_state, const struct collect_env *env,
		       const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct vmstat *v = xcalloc(1, sizeof(*v));
	*v = (struct vmstat){.env = env, .sink = sink, .nodes = has_nodes(env)};
	kept_file_set(&v->vmstat, env->proc_root, "vmstat");
	kept_file_set(&v->meminfo, env->proc_root, "meminfo");
	if (!kept_file_read(&v->vmstat) && !kept_file_read(&v->meminfo)) {
		kept_file_free(&v->vmstat);
		kept_file_free(&v->meminfo);
		free(v);
		return -EOPNOTSUPP;
	}
	*ret_state = v;
	return 0;
}

/* Adds a line's number to the sums it belongs to. */
static void add_line(const char *line, uint64_t sums[RATES], bool found[RATES])
{
	for (size_t i = 0; i < RATES; i++) {
		size_t n = strlen(rates[i].key);
		uint64_t value;
		if (strncmp(line, rates[i].key, n) != 0 || (!rates[i].is_prefix && line[n] != ' '))
			continue;
		const char *at = line + strcspn(line, " \n");
		if (!text_number(&at, &value))
			continue;
		sums[i] += value;
		found[i] = true;
	}
}

static void read_rates(struct vmstat *v, uint64_t now_ns)
{
	uint64_t sums[RATES] = {0}, by;
	bool found[RATES] = {0};
	bool ok = kept_file_read(&v->vmstat);
	uint64_t read_ns = kept_file_time(v->env, now_ns), passed_ns = read_ns - v->vmstat_ns;
	v->vmstat_ns = read_ns;
	for (const char *line = ok ? v->vmstat.text : ""; *line; line = text_next_line(line))
		add_line(line, sums, found);
	for (size_t i = 0; i < RATES; i++) {
		if (!found[i])
			growth_forget(&v->grown[i]);
		else if (growth_take(&v->grown[i], sums[i], &by) && (v->nodes || !rates[i].nodes))
			sink_counter(v->sink, now_ns, &ENTITY_NAMED(ENTITY_HOST, ""),
				     rates[i].counter, growth_per_s(by, passed_ns));
	}
}

/* In KiB there. */
static void read_amounts(struct vmstat *v, uint64_t now_ns)
{
	uint64_t kib;
	if (!kept_file_read(&v->meminfo))
		return;
	for (size_t i = 0; i < AMOUNTS; i++)
		if (text_number_of(v->meminfo.text, amounts[i].key, &kib) && kib < UINT64_MAX >> 10)
			sink_counter(v->sink, now_ns, &ENTITY_NAMED(ENTITY_HOST, ""),
				     amounts[i].counter, (double)kib * 1024);
}

static void vmstat_read(void *state, uint64_t now_ns)
{
	struct vmstat *v = state;
	uint64_t passed_ns;
	if (!growth_passed(&v->last_ns, now_ns, &passed_ns))
		return;
	read_rates(v, now_ns);
	read_amounts(v, now_ns);
}

static void vmstat_close(void *state)
{
	struct vmstat *v = state;
	kept_file_free(&v->vmstat);
	kept_file_free(&v->meminfo);
	free(v);
}

const struct collector collector_vmstat = {
	.name = "memory of the host",
	.period_ns = 1000000000,
	.open = vmstat_open,
	.read = vmstat_read,
	.close = vmstat_close,
};
