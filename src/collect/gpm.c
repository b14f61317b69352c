/* gpm.c - GPM, the performance counters that Hopper and later GPUs keep without a profiler: a
 * value is the mean between two samples, so asking less often loses resolution, no activity.
 * A MIG instance is sampled through its GPU.
 *
 * On an H200 taking a sample costs 0.2 ms and computing most metrics from two of them 3 us, but
 * "graphics" 1.3 to 1.8 ms and "dram" 0.6 to 0.9 ms, as each asks the driver again: these two are
 * computed more rarely, from the same samples. */
#include "collect/nvml_impl.h"

/* The driver refreshes its counters every 100 ms; two samples must lie further apart. */
#define GPM_MIN_NS (110 * MS)

#define MIB 1048576.0

static const struct {
	uint32_t id;
	int group;
	const char *name;
	double unit;
} metrics[] = {
	{NVML_GPM_GRAPHICS, GPM_DEAR, "gpm_graphics_ratio", 0.01},
	{NVML_GPM_DRAM, GPM_DEAR, "gpm_dram_ratio", 0.01},
	{NVML_GPM_SM, GPM_CHEAP, "gpm_sm_ratio", 0.01},
	{NVML_GPM_SM_OCCUPANCY, GPM_CHEAP, "gpm_sm_occupancy_ratio", 0.01},
	{NVML_GPM_TENSOR, GPM_CHEAP, "gpm_tensor_ratio", 0.01},
	{NVML_GPM_FP16, GPM_CHEAP, "gpm_fp16_ratio", 0.01},
	{NVML_GPM_FP32, GPM_CHEAP, "gpm_fp32_ratio", 0.01},
	{NVML_GPM_FP64, GPM_CHEAP, "gpm_fp64_ratio", 0.01},
	{NVML_GPM_INTEGER, GPM_CHEAP, "gpm_integer_ratio", 0.01},
	{NVML_GPM_PCIE_TX_MIB, GPM_CHEAP, "pcie_tx_bytes_per_s", MIB},
	{NVML_GPM_PCIE_RX_MIB, GPM_CHEAP, "pcie_rx_bytes_per_s", MIB},
	{NVML_GPM_NVLINK_TX_MIB, GPM_CHEAP, "nvlink_tx_bytes_per_s", MIB},
	{NVML_GPM_NVLINK_RX_MIB, GPM_CHEAP, "nvlink_rx_bytes_per_s", MIB},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]), SAMPLES = GPM_GROUPS + 2 };

/* What it is by its id: those that a GPU lacks drop out of the question. */
static int metric_of(uint32_t id)
{
	for (int i = 0; i < METRICS; i++)
		if (metrics[i].id == id)
			return i;
	return -1;
}

bool gpm_supported(struct nvml *c, const struct device *d)
{
	const struct device *gpu = d->parent ? d->parent : d;
	struct nvml_gpm_support support = {.version = NVML_GPM_VERSION};
	if (!c->lib.GpmSampleAlloc || !c->lib.GpmSampleFree || !c->lib.GpmMetricsGet ||
	    (d->parent ? !c->lib.GpmMigSampleGet : !c->lib.GpmSampleGet))
		return false;
	return ASK(c, GpmQueryDeviceSupport, gpu->handle, &support) == NVML_OK &&
	       support.is_supported;
}

static int prepare(struct nvml *c, struct device *d)
{
	struct gpm *g = &d->gpm;
	if (g->samples[0])
		return NVML_OK;
	for (int i = 0; i < SAMPLES; i++) {
		int rc = c->lib.GpmSampleAlloc(&g->samples[i]);
		if (rc != NVML_OK) {
			g->samples[i] = NULL;
			gpm_release(c, d);
			return rc;
		}
	}
	g->latest = -1;
	for (int i = 0; i < GPM_GROUPS; i++) {
		g->groups[i].before = -1;
		g->groups[i].get = xcalloc(1, sizeof(*g->groups[i].get));
		g->groups[i].get->version = NVML_GPM_VERSION;
	}
	for (int i = 0; i < METRICS; i++) {
		struct nvml_gpm_metrics *get = g->groups[metrics[i].group].get;
		get->metrics[get->n++].id = metrics[i].id;
	}
	return NVML_OK;
}

void gpm_release(struct nvml *c, struct device *d)
{
	struct gpm *g = &d->gpm;
	for (int i = 0; i < SAMPLES; i++)
		if (g->samples[i])
			c->lib.GpmSampleFree(g->samples[i]);
	for (int i = 0; i < GPM_GROUPS; i++)
		free(g->groups[i].get);
	memset(g, 0, sizeof(*g));
}

/* A sample that no group will look back to. */
static int unused_sample(const struct gpm *g)
{
	int i = 0;
	while (i == g->latest || i == g->groups[GPM_CHEAP].before ||
	       i == g->groups[GPM_DEAR].before)
		i++;
	return i;
}

static int take_sample(struct nvml *c, struct device *d, uint64_t now_ns)
{
	struct gpm *g = &d->gpm;
	int rc, next = unused_sample(g);
	if (g->latest >= 0 && now_ns - g->time_ns[g->latest] < GPM_MIN_NS)
		return NVML_OK;
	if (d->parent)
		rc = c->lib.GpmMigSampleGet(d->parent->handle, (uint32_t)d->info.gpu_instance,
					    g->samples[next]);
	else
		rc = c->lib.GpmSampleGet(d->handle, g->samples[next]);
	if (rc != NVML_OK)
		return rc;
	g->time_ns[next] = now_ns;
	g->latest = next;
	return NVML_OK;
}

static void tell_metrics(struct nvml *c, struct device *d, struct nvml_gpm_metrics *get)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < get->n; i++) {
		const struct nvml_gpm_metric m = get->metrics[i];
		int which = metric_of(m.id);
		if (m.rc == NVML_OK && which >= 0 && m.value >= 0)
			tell(c, d, metrics[which].name, m.value * metrics[which].unit);
		if (!nvml_means_never((int)m.rc))
			get->metrics[kept++] = m;
	}
	get->n = kept;
}

/* From the group's last look to the latest sample, which becomes its last look. */
static int tell_group(struct nvml *c, struct device *d, struct gpm_group *group)
{
	struct gpm *g = &d->gpm;
	int before = group->before;
	if (g->latest < 0 || g->latest == before)
		return NVML_OK;
	group->before = g->latest;
	if (before < 0)
		return NVML_OK;
	group->get->first = g->samples[before];
	group->get->second = g->samples[g->latest];
	int rc = c->lib.GpmMetricsGet(group->get);
	if (rc == NVML_OK)
		tell_metrics(c, d, group->get);
	return rc == NVML_OK && !group->get->n ? NVML_NOT_SUPPORTED : rc;
}

static int sample_and_tell(struct nvml *c, struct device *d, uint64_t now_ns)
{
	int rc = prepare(c, d);
	if (rc == NVML_OK)
		rc = take_sample(c, d, now_ns);
	if (rc == NVML_OK)
		rc = tell_group(c, d, &d->gpm.groups[GPM_CHEAP]);
	return rc;
}

/* Where it is refused after all (to users without privileges, to a GPU cut into instances), the
 * other sources of PCIe and NVLink traffic take its place. */
int ask_gpm(struct nvml *c, struct device *d, uint64_t now_ns)
{
	if (!d->info.has_gpm)
		return NVML_NOT_SUPPORTED;
	int rc = sample_and_tell(c, d, now_ns);
	if (nvml_means_never(rc)) {
		gpm_release(c, d);
		d->info.has_gpm = false;
		device_changed(c, d);
	}
	return rc;
}

int ask_gpm_dear(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	if (!d->info.has_gpm)
		return NVML_NOT_SUPPORTED;
	return d->gpm.samples[0] ? tell_group(c, d, &d->gpm.groups[GPM_DEAR]) : NVML_OK;
}
