/* gpm.c - GPM, the performance counters that Hopper and later GPUs keep without a profiler: a
 * value is the mean between two samples, so asking less often loses resolution, no activity.
 * A MIG instance is sampled through its GPU. */
#include "collect/nvml_impl.h"

/* The driver refreshes its counters every 100 ms; two samples must lie further apart. */
#define GPM_MIN_NS (110 * MS)

#define MIB 1048576.0

static const struct {
	uint32_t id;
	const char *name;
	double unit;
} metrics[] = {
	{NVML_GPM_GRAPHICS, "gpm_graphics_ratio", 0.01},
	{NVML_GPM_SM, "gpm_sm_ratio", 0.01},
	{NVML_GPM_SM_OCCUPANCY, "gpm_sm_occupancy_ratio", 0.01},
	{NVML_GPM_TENSOR, "gpm_tensor_ratio", 0.01},
	{NVML_GPM_DRAM, "gpm_dram_ratio", 0.01},
	{NVML_GPM_FP16, "gpm_fp16_ratio", 0.01},
	{NVML_GPM_FP32, "gpm_fp32_ratio", 0.01},
	{NVML_GPM_FP64, "gpm_fp64_ratio", 0.01},
	{NVML_GPM_INTEGER, "gpm_integer_ratio", 0.01},
	{NVML_GPM_PCIE_TX_MIB, "pcie_tx_bytes_per_s", MIB},
	{NVML_GPM_PCIE_RX_MIB, "pcie_rx_bytes_per_s", MIB},
	{NVML_GPM_NVLINK_TX_MIB, "nvlink_tx_bytes_per_s", MIB},
	{NVML_GPM_NVLINK_RX_MIB, "nvlink_rx_bytes_per_s", MIB},
};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

/* What it is by its id: those that a GPU lacks drop out of the question. */
static int metric_of(uint32_t id)
{
	for (int i = 0; i < METRICS; i++)
		if (metrics[i].id == id)
			return i;
	return -1;
}

bool gpm_supported(struct collector *c, const struct device *d)
{
	const struct device *gpu = d->parent ? d->parent : d;
	struct nvml_gpm_support support = {.version = NVML_GPM_VERSION};
	if (!c->lib.GpmSampleAlloc || !c->lib.GpmSampleFree || !c->lib.GpmMetricsGet ||
	    (d->parent ? !c->lib.GpmMigSampleGet : !c->lib.GpmSampleGet))
		return false;
	return ASK(c, GpmQueryDeviceSupport, gpu->handle, &support) == NVML_OK &&
	       support.is_supported;
}

static int prepare(struct collector *c, struct device *d)
{
	struct gpm *g = &d->gpm;
	if (g->get)
		return NVML_OK;
	for (int i = 0; i < 2; i++) {
		int rc = c->lib.GpmSampleAlloc(&g->samples[i]);
		if (rc != NVML_OK) {
			g->samples[i] = NULL;
			gpm_release(c, d);
			return rc;
		}
	}
	g->get = xcalloc(1, sizeof(*g->get));
	for (int i = 0; i < METRICS; i++)
		g->get->metrics[i].id = metrics[i].id;
	g->get->n = METRICS;
	return NVML_OK;
}

void gpm_release(struct collector *c, struct device *d)
{
	struct gpm *g = &d->gpm;
	for (int i = 0; i < 2; i++)
		if (g->samples[i])
			c->lib.GpmSampleFree(g->samples[i]);
	free(g->get);
	memset(g, 0, sizeof(*g));
}

static void tell_metrics(struct collector *c, struct device *d)
{
	struct nvml_gpm_metrics *get = d->gpm.get;
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

static int ask_samples(struct collector *c, struct device *d, uint64_t now_ns)
{
	struct gpm *g = &d->gpm;
	int rc = prepare(c, d);
	if (rc != NVML_OK)
		return rc;
	if (g->time_ns[g->newest] && now_ns - g->time_ns[g->newest] < GPM_MIN_NS)
		return NVML_OK;
	int next = !g->newest;
	g->time_ns[next] = 0;
	if (d->parent)
		rc = c->lib.GpmMigSampleGet(d->parent->handle, (uint32_t)d->info.gpu_instance,
					    g->samples[next]);
	else
		rc = c->lib.GpmSampleGet(d->handle, g->samples[next]);
	if (rc != NVML_OK)
		return rc;
	g->time_ns[next] = now_ns;
	int before = g->newest;
	g->newest = next;
	if (!g->time_ns[before])
		return NVML_OK;
	g->get->version = NVML_GPM_VERSION;
	g->get->first = g->samples[before];
	g->get->second = g->samples[next];
	rc = c->lib.GpmMetricsGet(g->get);
	if (rc == NVML_OK)
		tell_metrics(c, d);
	return rc == NVML_OK && !g->get->n ? NVML_NOT_SUPPORTED : rc;
}

/* Where it is refused after all (to users without privileges, to a GPU cut into instances), the
 * other sources of PCIe and NVLink traffic take its place. */
int ask_gpm(struct collector *c, struct device *d, uint64_t now_ns)
{
	if (!d->info.has_gpm)
		return NVML_NOT_SUPPORTED;
	int rc = ask_samples(c, d, now_ns);
	if (nvml_means_never(rc)) {
		gpm_release(c, d);
		d->info.has_gpm = false;
		device_changed(c, d);
	}
	return rc;
}
