/* nvml_metrics.c - the table of what is asked of a GPU and how often it is wanted, and the
 * questions that are a call or two. docs/telemetry.md describes the same table for users. */
#include <stdio.h>
#include <string.h>

#include "collect/nvml_impl.h"

/* What does not change by itself is told that often. */
#define REPEAT_NS (10 * S)

/* Clocks that are held down are told as an event at most that often, unless it is serious. */
#define HELD_EVENT_NS (5 * S)

static double field_value(const struct nvml_field *f)
{
	switch (f->type) {
	case NVML_VALUE_DOUBLE:
		return f->value.real;
	case NVML_VALUE_U32:
		return f->value.u32;
	case NVML_VALUE_S64:
		return (double)f->value.s64;
	case NVML_VALUE_S32:
		return f->value.s32;
	case NVML_VALUE_U16:
		return f->value.u16;
	default:
		return (double)f->value.u64;
	}
}

/* Asks for all fields of the set in one call; the ids and their scope are set at first use.
 * Those that are not supported leave the set; an empty set is not supported as a whole. */
static int ask_fields(struct nvml *c, struct device *d, struct field_set *set, const uint32_t *ids,
		      int n, uint32_t scope)
{
	if (!set->filled) {
		memset(set, 0, sizeof(*set));
		for (int i = 0; i < n; i++)
			set->fields[i] = (struct nvml_field){.id = ids[i], .scope = scope};
		set->n = n;
		set->filled = true;
	}
	if (!set->n)
		return NVML_NOT_SUPPORTED;
	int rc = ASK(c, DeviceGetFieldValues, d->handle, set->n, set->fields);
	if (rc != NVML_OK)
		return rc;
	int kept = 0;
	for (int i = 0; i < set->n; i++) {
		if (nvml_means_lost((int)set->fields[i].rc))
			return (int)set->fields[i].rc;
		if (!nvml_means_never((int)set->fields[i].rc))
			set->fields[kept++] = set->fields[i];
	}
	set->n = kept;
	return kept ? NVML_OK : NVML_NOT_SUPPORTED;
}

#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))

static bool field_of(const struct field_set *set, uint32_t id, double *ret)
{
	for (int i = 0; i < set->n; i++) {
		if (set->fields[i].id == id && set->fields[i].rc == NVML_OK) {
			*ret = field_value(&set->fields[i]);
			return true;
		}
	}
	return false;
}

/* Tells how fast a count grew since the last time; a count that fell began anew. */
static void tell_rate(struct nvml *c, struct device *d, struct rate *r, const char *name,
		      double value, uint64_t now_ns)
{
	if (r->time_ns && now_ns > r->time_ns && value >= r->value)
		tell(c, d, name, (value - r->value) * 1e9 / (double)(now_ns - r->time_ns));
	r->value = value;
	r->time_ns = now_ns;
}

static int ask_memory(struct nvml *c, struct device *d, uint64_t now_ns)
{
	struct nvml_memory_v2 v2 = {.version = NVML_VERSION(struct nvml_memory_v2, 2)};
	uint64_t used, total;
	int rc = d->no_memory_v2 ? NVML_NOT_SUPPORTED
				 : ASK(c, DeviceGetMemoryInfo_v2, d->handle, &v2);
	used = v2.used;
	total = v2.total;
	if (nvml_means_never(rc)) {
		struct nvml_memory v1 = {0};
		d->no_memory_v2 = true;
		rc = ASK(c, DeviceGetMemoryInfo, d->handle, &v1);
		used = v1.used;
		total = v1.total;
	}
	if (rc != NVML_OK)
		return rc;
	tell(c, d, "memory_used_bytes", (double)used);
	if (!d->total_told_ns || now_ns - d->total_told_ns >= REPEAT_NS) {
		tell(c, d, "memory_total_bytes", (double)total);
		if (!d->no_memory_v2)
			tell(c, d, "memory_reserved_bytes", (double)v2.reserved);
		d->total_told_ns = now_ns;
	}
	return NVML_OK;
}

static int ask_utilization(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	struct nvml_utilization u;
	int rc = ASK(c, DeviceGetUtilizationRates, d->handle, &u);
	if (rc == NVML_OK) {
		tell(c, d, "sm_ratio", u.gpu / 100.0);
		tell(c, d, "memory_ratio", u.memory / 100.0);
	}
	return rc;
}

/* The field is the power of this moment; the function is, from Ampere on, a mean of a second. */
static int ask_power(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	static const uint32_t ids[] = {NVML_FIELD_POWER_INSTANT};
	uint32_t milliwatts;
	double value;
	if (!d->no_power_field) {
		int rc = ask_fields(c, d, &d->power, ids, COUNT(ids), 0);
		if (rc == NVML_OK && field_of(&d->power, NVML_FIELD_POWER_INSTANT, &value))
			tell(c, d, "power_w", value / 1e3);
		if (!nvml_means_never(rc))
			return rc;
		d->no_power_field = true;
	}
	int rc = ASK(c, DeviceGetPowerUsage, d->handle, &milliwatts);
	if (rc == NVML_OK)
		tell(c, d, "power_w", milliwatts / 1e3);
	return rc;
}

static int ask_power_limit(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t milliwatts;
	int rc = ASK(c, DeviceGetEnforcedPowerLimit, d->handle, &milliwatts);
	if (rc != NVML_OK)
		return rc;
	double watts = milliwatts / 1e3;
	tell(c, d, "power_limit_w", watts);
	if (watts != d->info.power_limit_w) {
		d->info.power_limit_w = watts;
		device_changed(c, d);
	}
	return NVML_OK;
}

static int ask_temperature(struct nvml *c, struct device *d, uint64_t now_ns)
{
	struct nvml_temperature t = {.version = NVML_VERSION(struct nvml_temperature, 1),
				     .sensor = NVML_SENSOR_GPU};
	uint32_t celsius;
	int rc = ASK(c, DeviceGetTemperature, d->handle, NVML_SENSOR_GPU, &celsius);
	if (rc == NVML_OK) {
		t.celsius = (int32_t)celsius;
	} else if (nvml_means_never(rc)) {
		rc = ASK(c, DeviceGetTemperatureV, d->handle, &t);
	}
	if (rc != NVML_OK)
		return rc;
	tell(c, d, "temperature_celsius", t.celsius);
	if (d->info.slowdown_celsius &&
	    (!d->slowdown_told_ns || now_ns - d->slowdown_told_ns >= REPEAT_NS)) {
		tell(c, d, "temperature_slowdown_celsius", d->info.slowdown_celsius);
		d->slowdown_told_ns = now_ns;
	}
	return NVML_OK;
}

static int ask_memory_temperature(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	static const uint32_t ids[] = {NVML_FIELD_MEMORY_TEMPERATURE};
	double value;
	int rc = ask_fields(c, d, &d->memory_temperature, ids, COUNT(ids), 0);
	if (rc == NVML_OK && field_of(&d->memory_temperature, ids[0], &value))
		tell(c, d, "memory_temperature_celsius", value);
	return rc;
}

static int ask_fan(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t percent;
	int rc = ASK(c, DeviceGetFanSpeed, d->handle, &percent);
	if (rc == NVML_OK)
		tell(c, d, "fan_ratio", percent / 100.0);
	return rc;
}

static int ask_sm_clock(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t mhz;
	int rc = ASK(c, DeviceGetClockInfo, d->handle, NVML_CLOCK_SM, &mhz);
	if (rc == NVML_OK)
		tell(c, d, "sm_clock_mhz", mhz);
	return rc;
}

static int ask_memory_clock(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t mhz;
	int rc = ASK(c, DeviceGetClockInfo, d->handle, NVML_CLOCK_MEMORY, &mhz);
	if (rc == NVML_OK)
		tell(c, d, "memory_clock_mhz", mhz);
	return rc;
}

static const struct {
	uint64_t reason;
	const char *name, *counter;
	bool serious;
} holds[] = {
	{NVML_HELD_POWER_CAP, "power_cap", "clock_limit_power_cap", false},
	{NVML_HELD_THERMAL_SW, "thermal_sw", "clock_limit_thermal_sw", false},
	{NVML_HELD_THERMAL_HW, "thermal_hw", "clock_limit_thermal_hw", true},
	{NVML_HELD_HW_SLOWDOWN, "hw_slowdown", "clock_limit_hw_slowdown", true},
	{NVML_HELD_POWER_BRAKE, "power_brake", "clock_limit_power_brake", true},
	{NVML_HELD_SYNC_BOOST, "sync_boost", "clock_limit_sync_boost", false},
	{NVML_HELD_APPLICATION_CLOCKS, "application_clocks", "clock_limit_application_clocks",
	 false},
	{NVML_HELD_DISPLAY_CLOCKS, "display_clocks", "clock_limit_display_clocks", false},
};

/* A power cap may come and go ten times a second: the counter shows that, the event only that
 * it is so. Anything serious is told at once. */
static void tell_held(struct nvml *c, struct device *d, uint64_t held, uint64_t now_ns)
{
	char text[160] = "";
	size_t len = 0;
	bool serious = false;
	if (held == d->held_told)
		return;
	for (int i = 0; i < COUNT(holds); i++) {
		if (!(held & holds[i].reason))
			continue;
		serious |= holds[i].serious && !(d->held_told & holds[i].reason);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? ", " : "",
					holds[i].name);
	}
	if (!serious && d->held_told_ns && now_ns - d->held_told_ns < HELD_EVENT_NS)
		return;
	event(c, d, now_ns, "clocks_held", "%s", len ? text : "none");
	d->held_told = held;
	d->held_told_ns = now_ns;
}

static int ask_held_clocks(struct nvml *c, struct device *d, uint64_t now_ns)
{
	unsigned long long mask;
	int rc = ASK(c, DeviceGetCurrentClocksEventReasons, d->handle, &mask);
	if (nvml_means_never(rc))
		rc = ASK(c, DeviceGetCurrentClocksThrottleReasons, d->handle, &mask);
	if (rc != NVML_OK)
		return rc;
	bool first = d->held == UINT64_MAX;
	uint64_t changed = first ? UINT64_MAX : d->held ^ mask;
	tell(c, d, "clocks_held_reasons", (double)mask);
	for (int i = 0; i < COUNT(holds); i++)
		if (changed & holds[i].reason)
			tell(c, d, holds[i].counter, (mask & holds[i].reason) != 0);
	d->held = mask;
	tell_held(c, d, mask & ~(uint64_t)NVML_HELD_IDLE, now_ns);
	return NVML_OK;
}

static int ask_video(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t percent, period_us;
	int encoder = ASK(c, DeviceGetEncoderUtilization, d->handle, &percent, &period_us);
	if (encoder == NVML_OK)
		tell(c, d, "encoder_ratio", percent / 100.0);
	if (nvml_means_lost(encoder))
		return encoder;
	int decoder = ASK(c, DeviceGetDecoderUtilization, d->handle, &percent, &period_us);
	if (decoder == NVML_OK)
		tell(c, d, "decoder_ratio", percent / 100.0);
	return encoder == NVML_OK ? encoder : decoder;
}

static int ask_energy(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	unsigned long long millijoules;
	int rc = ASK(c, DeviceGetTotalEnergyConsumption, d->handle, &millijoules);
	if (rc == NVML_OK)
		tell(c, d, "energy_j", (double)millijoules / 1e3);
	return rc;
}

static int ask_pcie_link(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t generation, width;
	int rc = ASK(c, DeviceGetCurrPcieLinkGeneration, d->handle, &generation);
	if (rc == NVML_OK)
		rc = ASK(c, DeviceGetCurrPcieLinkWidth, d->handle, &width);
	if (rc != NVML_OK)
		return rc;
	tell(c, d, "pcie_generation", generation);
	tell(c, d, "pcie_width", width);
	return NVML_OK;
}

/* A counter of bytes where there is one, else what the driver measures for 20 ms a direction.
 * GPM does it better where it is. */
static int ask_pcie_rates(struct nvml *c, struct device *d, uint64_t now_ns)
{
	static const uint32_t ids[] = {NVML_FIELD_PCIE_TX_BYTES, NVML_FIELD_PCIE_RX_BYTES};
	double value;
	uint32_t tx, rx;
	if (d->info.has_gpm)
		return NVML_OK;
	int rc = ask_fields(c, d, &d->pcie_rates, ids, COUNT(ids), 0);
	if (rc == NVML_OK) {
		if (field_of(&d->pcie_rates, NVML_FIELD_PCIE_TX_BYTES, &value))
			tell_rate(c, d, &d->pcie_tx, "pcie_tx_bytes_per_s", value, now_ns);
		if (field_of(&d->pcie_rates, NVML_FIELD_PCIE_RX_BYTES, &value))
			tell_rate(c, d, &d->pcie_rx, "pcie_rx_bytes_per_s", value, now_ns);
	}
	if (!nvml_means_never(rc))
		return rc;
	rc = ASK(c, DeviceGetPcieThroughput, d->handle, NVML_PCIE_TX, &tx);
	if (rc == NVML_OK)
		rc = ASK(c, DeviceGetPcieThroughput, d->handle, NVML_PCIE_RX, &rx);
	if (rc != NVML_OK)
		return rc;
	tell(c, d, "pcie_tx_bytes_per_s", tx * 1000.0);
	tell(c, d, "pcie_rx_bytes_per_s", rx * 1000.0);
	return NVML_OK;
}

static int ask_nvlink_rates(struct nvml *c, struct device *d, uint64_t now_ns)
{
	static const uint32_t ids[] = {NVML_FIELD_NVLINK_TX_KIB, NVML_FIELD_NVLINK_RX_KIB};
	double kib;
	if (d->info.has_gpm)
		return NVML_OK;
	int rc = ask_fields(c, d, &d->link_rates, ids, COUNT(ids), NVML_SCOPE_ALL_LINKS);
	if (rc != NVML_OK)
		return rc;
	if (field_of(&d->link_rates, NVML_FIELD_NVLINK_TX_KIB, &kib))
		tell_rate(c, d, &d->link_tx, "nvlink_tx_bytes_per_s", kib * 1024, now_ns);
	if (field_of(&d->link_rates, NVML_FIELD_NVLINK_RX_KIB, &kib))
		tell_rate(c, d, &d->link_rx, "nvlink_rx_bytes_per_s", kib * 1024, now_ns);
	return NVML_OK;
}

static int ask_nvlink_errors(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	static const uint32_t ids[] = {NVML_FIELD_NVLINK_CRC_FLIT_ERRORS,
				       NVML_FIELD_NVLINK_REPLAY_ERRORS,
				       NVML_FIELD_NVLINK_RECOVERY_ERRORS};
	double value;
	int rc = ask_fields(c, d, &d->links, ids, COUNT(ids), 0);
	if (rc != NVML_OK)
		return rc;
	if (field_of(&d->links, NVML_FIELD_NVLINK_CRC_FLIT_ERRORS, &value))
		tell(c, d, "nvlink_crc_errors", value);
	if (field_of(&d->links, NVML_FIELD_NVLINK_REPLAY_ERRORS, &value))
		tell(c, d, "nvlink_replays", value);
	if (field_of(&d->links, NVML_FIELD_NVLINK_RECOVERY_ERRORS, &value))
		tell(c, d, "nvlink_recoveries", value);
	return NVML_OK;
}

/* Errors since the driver was loaded, and rows of memory that were replaced. */
struct health {
	double corrected, uncorrected, rows, rows_uncorrected, pending, failed, replays;
	/* -1: not told */
};

static void fields_to_health(const struct field_set *set, struct health *h)
{
	double corrected = 0, uncorrected = 0;
	bool some = field_of(set, NVML_FIELD_REMAPPED_CORRECTED, &corrected);
	some |= field_of(set, NVML_FIELD_REMAPPED_UNCORRECTED, &uncorrected);
	if (some) {
		h->rows = corrected + uncorrected;
		h->rows_uncorrected = uncorrected;
	}
	field_of(set, NVML_FIELD_ECC_CORRECTED, &h->corrected);
	field_of(set, NVML_FIELD_ECC_UNCORRECTED, &h->uncorrected);
	field_of(set, NVML_FIELD_REMAPPING_PENDING, &h->pending);
	field_of(set, NVML_FIELD_REMAPPING_FAILED, &h->failed);
	field_of(set, NVML_FIELD_PCIE_REPLAYS, &h->replays);
}

/* The same by functions, for libraries without the fields. */
static int functions_to_health(struct nvml *c, struct device *d, struct health *h)
{
	unsigned long long errors;
	uint32_t corrected, uncorrected, pending, failed, replays;
	bool some = false;
	int rc = ASK(c, DeviceGetTotalEccErrors, d->handle, NVML_ECC_CORRECTED, NVML_ECC_VOLATILE,
		     &errors);
	if (nvml_means_lost(rc))
		return rc;
	if (rc == NVML_OK) {
		h->corrected = (double)errors;
		some = true;
	}
	if (ASK(c, DeviceGetTotalEccErrors, d->handle, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE,
		&errors) == NVML_OK)
		h->uncorrected = (double)errors;
	if (ASK(c, DeviceGetRemappedRows, d->handle, &corrected, &uncorrected, &pending, &failed) ==
	    NVML_OK) {
		h->rows = (double)corrected + uncorrected;
		h->rows_uncorrected = uncorrected;
		h->pending = pending;
		h->failed = failed;
		some = true;
	}
	if (ASK(c, DeviceGetPcieReplayCounter, d->handle, &replays) == NVML_OK) {
		h->replays = replays;
		some = true;
	}
	return some ? NVML_OK : rc;
}

/* What got worse since the last look is an event too. */
static void tell_worse(struct nvml *c, struct device *d, const struct health *h, uint64_t now_ns)
{
	if (d->ecc_uncorrected >= 0 && h->uncorrected > d->ecc_uncorrected)
		event(c, d, now_ns, "ecc_uncorrected", "%.0f more uncorrectable memory errors",
		      h->uncorrected - d->ecc_uncorrected);
	if (d->remapping_pending == 0 && h->pending > 0)
		event(c, d, now_ns, "row_remap_pending",
		      "a row of memory is to be replaced at the next reset");
	if (d->remapping_failed == 0 && h->failed > 0)
		event(c, d, now_ns, "row_remap_failed",
		      "a row of memory could not be replaced: the GPU should be exchanged");
	d->ecc_uncorrected = h->uncorrected;
	d->remapping_pending = h->pending;
	d->remapping_failed = h->failed;
}

static int ask_health(struct nvml *c, struct device *d, uint64_t now_ns)
{
	static const uint32_t ids[] = {
		NVML_FIELD_ECC_CORRECTED,      NVML_FIELD_ECC_UNCORRECTED,
		NVML_FIELD_REMAPPED_CORRECTED, NVML_FIELD_REMAPPED_UNCORRECTED,
		NVML_FIELD_REMAPPING_PENDING,  NVML_FIELD_REMAPPING_FAILED,
		NVML_FIELD_PCIE_REPLAYS,
	};
	struct health h = {-1, -1, -1, -1, -1, -1, -1};
	int rc = ask_fields(c, d, &d->health, ids, COUNT(ids), 0);
	if (rc == NVML_OK)
		fields_to_health(&d->health, &h);
	else if (nvml_means_never(rc))
		rc = functions_to_health(c, d, &h);
	if (rc != NVML_OK)
		return rc;
	const struct {
		const char *name;
		double value;
	} values[] = {
		{"ecc_corrected_errors", h.corrected},
		{"ecc_uncorrected_errors", h.uncorrected},
		{"remapped_rows", h.rows},
		{"remapped_rows_uncorrected", h.rows_uncorrected},
		{"remapping_pending", h.pending},
		{"remapping_failed", h.failed},
		{"pcie_replays", h.replays},
	};
	for (int i = 0; i < COUNT(values); i++)
		if (values[i].value >= 0)
			tell(c, d, values[i].name, values[i].value);
	tell_worse(c, d, &h, now_ns);
	return NVML_OK;
}

/* As DCGM says it (DCGM_FI_DEV_VGPU_LICENSE_STATUS): 0 also where there are no licences. */
static int ask_license(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	struct nvml_license l = {0};
	int rc = ASK(c, DeviceGetGridLicensableFeatures_v4, d->handle, &l);
	if (rc != NVML_OK)
		return rc;
	if (!l.is_supported)
		tell(c, d, "vgpu_licensed", 0);
	for (uint32_t i = 0; l.is_supported && i < l.n && i < NVML_LICENSE_FEATURES; i++) {
		if (l.features[i].code != NVML_LICENSE_VGPU)
			continue;
		tell(c, d, "vgpu_licensed", l.features[i].licensed != 0);
		break;
	}
	return NVML_OK;
}

const struct nvml_metric nvml_metrics[] = {
	{"memory", OF_GPU | OF_INSTANCE, 100 * MS, ask_memory},
	{"power", OF_GPU, 100 * MS, ask_power},
	{"utilization", OF_GPU, 200 * MS, ask_utilization},
	{"sm_clock", OF_GPU, 200 * MS, ask_sm_clock},
	{"clocks_held", OF_GPU, 200 * MS, ask_held_clocks},
	{"temperature", OF_GPU, 500 * MS, ask_temperature},
	{"gpm", OF_GPU | OF_INSTANCE, 200 * MS, ask_gpm},
	{"gpm_graphics_dram", OF_GPU | OF_INSTANCE, 2 * S, ask_gpm_dear},
	{"processes", OF_GPU | OF_INSTANCE, 1 * S, ask_processes},
	{"process_utilization", OF_GPU, 2 * S, ask_process_utilization},
	{"nvlink_rates", OF_GPU, 1 * S, ask_nvlink_rates},
	{"pcie_rates", OF_GPU, 2 * S, ask_pcie_rates},
	{"memory_temperature", OF_GPU, 2 * S, ask_memory_temperature},
	{"memory_clock", OF_GPU, 2 * S, ask_memory_clock},
	{"fan", OF_GPU, 2 * S, ask_fan},
	{"video", OF_GPU, 2 * S, ask_video},
	{"power_limit", OF_GPU, 10 * S, ask_power_limit},
	{"energy", OF_GPU, 30 * S, ask_energy},
	{"health", OF_GPU, 10 * S, ask_health},
	{"nvlink_errors", OF_GPU, 10 * S, ask_nvlink_errors},
	{"pcie_link", OF_GPU, 10 * S, ask_pcie_link},
	{"vgpu_license", OF_GPU, 30 * S, ask_license},
	{"numa_node", OF_GPU, 10 * S, ask_numa_node},
	{"numa_distance", OF_GPU | OF_INSTANCE, 2 * S, ask_numa_distance},
};
const size_t nvml_metrics_count = sizeof(nvml_metrics) / sizeof(nvml_metrics[0]);
_Static_assert(sizeof(nvml_metrics) / sizeof(nvml_metrics[0]) <= NVML_MAX_METRICS,
	       "struct device has room for them");
