/* dcgm_series.c - the table from our counters to dcgm-exporter's series, with its labels. What has
 * no value has no series: none is made up. */
#include "serve/dcgm_series.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/entity.h"

struct series {
	const char *name, *help;
	enum family_type type;
	const char *counter; /* NULL: see special() */
	double times;	     /* their unit of ours */
};

#define MIB (1.0 / (1 << 20))

static const struct series table[] = {
	{"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", FAMILY_GAUGE, "sm_clock_mhz", 1},
	{"DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", FAMILY_GAUGE,
	 "memory_clock_mhz", 1},
	{"DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", FAMILY_GAUGE,
	 "memory_temperature_celsius", 1},
	{"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", FAMILY_GAUGE, "temperature_celsius", 1},
	{"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", FAMILY_GAUGE, "power_w", 1},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption (in mJ).",
	 FAMILY_COUNTER, "energy_j", 1000},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", FAMILY_COUNTER,
	 "pcie_replays", 1},
	{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", FAMILY_GAUGE, "sm_ratio", 100},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", FAMILY_GAUGE, "memory_ratio",
	 100},
	{"DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", FAMILY_GAUGE, "encoder_ratio", 100},
	{"DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", FAMILY_GAUGE, "decoder_ratio", 100},
	{"DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", FAMILY_GAUGE, NULL,
	 1},
	{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", FAMILY_GAUGE, NULL, MIB},
	{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", FAMILY_GAUGE,
	 "memory_used_bytes", MIB},
	{"DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB).", FAMILY_GAUGE,
	 "memory_reserved_bytes", MIB},
	{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "NVLink bandwidth of all lanes (in MB/s).",
	 FAMILY_COUNTER, NULL, 1e-6},
	{"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU license status.", FAMILY_GAUGE, "vgpu_licensed",
	 1},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
	 "Number of remapped rows for uncorrectable errors.", FAMILY_COUNTER,
	 "remapped_rows_uncorrected", 1},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors.",
	 FAMILY_COUNTER, NULL, 1},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed.", FAMILY_GAUGE,
	 "remapping_failed", 1},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.",
	 FAMILY_GAUGE, "gpm_graphics_ratio", 1},
	{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor pipe is active.",
	 FAMILY_GAUGE, "gpm_tensor_ratio", 1},
	{"DCGM_FI_PROF_DRAM_ACTIVE",
	 "Ratio of cycles the device memory interface is active sending or receiving data.",
	 FAMILY_GAUGE, "gpm_dram_ratio", 1},
	{"DCGM_FI_PROF_PCIE_TX_BYTES", "Data transmitted over PCIe (in bytes per second).",
	 FAMILY_GAUGE, "pcie_tx_bytes_per_s", 1},
	{"DCGM_FI_PROF_PCIE_RX_BYTES", "Data received over PCIe (in bytes per second).",
	 FAMILY_GAUGE, "pcie_rx_bytes_per_s", 1},
};

static bool is_of(const struct live_metric *m, const struct live_gpu_id *g)
{
	bool whole = g->parent < 0;
	return m->there && m->kind == ENTITY_GPU && !m->pid &&
	       m->gpu == (whole ? g->index : (uint32_t)g->parent) &&
	       m->instance == (whole ? -1 : (int32_t)g->index);
}

static double value_of(const struct agent_view *v, const struct live_gpu_id *g, const char *name)
{
	const struct live_series *s = v->series;
	for (size_t i = 0; i < s->metrics.len; i++) {
		const struct live_metric *m = &s->metrics.data[i];
		if (is_of(m, g) && !strcmp(m->name, name))
			return m->time_ns + SERIES_OLD_NS > s->now_ns ? m->value : NAN;
	}
	return NAN;
}

static double special(const struct agent_view *v, const struct live_gpu_id *g, const char *name)
{
	if (strstr(name, "XID"))
		return g->parent < 0 ? g->xid : NAN;
	if (strstr(name, "FB_FREE")) {
		double reserved = value_of(v, g, "memory_reserved_bytes");
		return value_of(v, g, "memory_total_bytes") - value_of(v, g, "memory_used_bytes") -
		       (isnan(reserved) ? 0 : reserved);
	}
	if (strstr(name, "NVLINK"))
		return value_of(v, g, "nvlink_tx_bytes_per_s") +
		       value_of(v, g, "nvlink_rx_bytes_per_s");
	return value_of(v, g, "remapped_rows") - value_of(v, g, "remapped_rows_uncorrected");
}

/* "1g.18gb" of "NVIDIA H200 MIG 1g.18gb". */
static const char *profile_of(const char *name)
{
	static const char mark[] = " MIG ";
	const char *at = strstr(name, mark);
	return at ? at + sizeof(mark) - 1 : name;
}

/* job NULL: none is known. */
static void write_sample(const struct series_sink *x, const struct agent_view *v,
			 const struct live_gpu_id *g, const char *job, double value)
{
	char gpu[16], device[24], instance[16];
	bool whole = g->parent < 0;
	const struct live_gpu_id *of = g;
	for (size_t i = 0; i < v->series->gpus.len && !whole; i++) {
		const struct live_gpu_id *p = &v->series->gpus.data[i];
		if (p->parent < 0 && p->index == (uint32_t)g->parent)
			of = p;
	}
	snprintf(gpu, sizeof(gpu), "%u", of->index);
	snprintf(device, sizeof(device), "nvidia%u", of->index);
	snprintf(instance, sizeof(instance), "%d", g->gpu_instance);
	const struct label labels[] = {
		{"gpu", gpu},
		{"UUID", of->uuid},
		{"pci_bus_id", of->bus_id},
		{"device", device},
		{"modelName", of->name},
		{"GPU_I_PROFILE", whole ? NULL : profile_of(g->name)},
		{"GPU_I_ID", whole ? NULL : instance},
		{"Hostname", v->host},
		{"hostname", v->host}, /* since May 2026; its dashboard asks for the other */
		{"DCGM_FI_DRIVER_VERSION", of->driver},
		{"hpc_job", job},
		{"container", g->container[0] ? g->container : NULL},
		{"namespace", g->pod_namespace[0] ? g->pod_namespace : NULL},
		{"pod", g->pod[0] ? g->pod : NULL},
	};
	series_sample(x, labels, sizeof(labels) / sizeof(labels[0]), value);
}

/* A sample for each of its jobs, as dcgm-exporter has it. */
static void write_samples(const struct series_sink *x, const struct agent_view *v,
			  const struct live_gpu_id *g, double value)
{
	if (!g->jobs_len)
		write_sample(x, v, g, NULL, value);
	for (size_t i = 0; i < g->jobs_len; i++)
		write_sample(x, v, g, g->jobs[i], value);
}

void dcgm_series_write(const struct series_sink *x, const struct agent_view *v)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct series *row = &table[i];
		bool begun = false;
		for (size_t k = 0; k < v->series->gpus.len; k++) {
			const struct live_gpu_id *g = &v->series->gpus.data[k];
			double value = g->gone	      ? NAN
				       : row->counter ? value_of(v, g, row->counter)
						      : special(v, g, row->name);
			if (isnan(value))
				continue;
			if (!begun)
				series_family(x, row->name, row->type, row->help);
			begun = true;
			write_samples(x, v, g, row->times * value);
		}
	}
}
