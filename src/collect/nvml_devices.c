/* nvml_devices.c - the list of GPUs and MIG instances: which there are, what they are, which
 * came and which went. A GPU is known by its UUID and keeps its index while eACGM runs, also
 * when the driver numbers the others anew. It asks for no metric. */
#include <stdio.h>
#include <string.h>

#include "collect/gpu_places.h"
#include "collect/nvml_impl.h"

/* Starting the library anew takes tens of milliseconds: only while something is missing. */
#define RESTART_NS (60 * S)

static void announce(struct nvml *c, struct device *d, bool present)
{
	if (present)
		gpu_places_put(c->env->gpu_places, &d->info);
	if (c->sink->gpu && (present || d->announced))
		c->sink->gpu(c->sink->ctx, c->now_ns, &d->info, present);
	d->announced = present;
}

void device_changed(struct nvml *c, struct device *d)
{
	announce(c, d, true);
}

/* All questions start from the beginning: what was not supported may be now. */
static void ask_afresh(struct nvml *c, struct device *d)
{
	uint8_t of = d->parent ? OF_INSTANCE : OF_GPU;
	for (size_t i = 0; i < nvml_metrics_count; i++) {
		struct task *t = &d->tasks[i];
		memset(t, 0, sizeof(*t));
		t->pace.wanted_ns = t->pace.period_ns = nvml_period(c, nvml_metrics[i].period_ns);
		t->pace.off = !(nvml_metrics[i].of & of);
	}
	d->health.filled = d->links.filled = d->link_rates.filled = d->pcie_rates.filled = false;
	d->power.filled = d->memory_temperature.filled = false;
	d->no_memory_v2 = d->no_power_field = false;
	d->held = UINT64_MAX;
	c->devices_changed = true;
}

static void describe_memory(struct nvml *c, struct device *d)
{
	struct nvml_memory_v2 v2 = {.version = NVML_VERSION(struct nvml_memory_v2, 2)};
	struct nvml_memory v1;
	if (ASK(c, DeviceGetMemoryInfo_v2, d->handle, &v2) == NVML_OK)
		d->info.memory_bytes = v2.total;
	else if (ASK(c, DeviceGetMemoryInfo, d->handle, &v1) == NVML_OK)
		d->info.memory_bytes = v1.total;
}

/* What a GPU is; what it does not tell stays 0. */
static void describe_gpu(struct nvml *c, struct device *d)
{
	struct gpu_info *info = &d->info;
	struct nvml_pci pci = {0};
	struct nvml_field links = {.id = NVML_FIELD_NVLINK_COUNT};
	int32_t major = 0, minor = 0;
	uint32_t milliwatts = 0, ecc = 0, pending = 0;
	if (ASK(c, DeviceGetPciInfo_v3, d->handle, &pci) == NVML_OK)
		snprintf(info->bus_id, sizeof(info->bus_id), "%.31s", pci.bus_id);
	if (ASK(c, DeviceGetCudaComputeCapability, d->handle, &major, &minor) == NVML_OK) {
		info->compute_major = (uint32_t)major;
		info->compute_minor = (uint32_t)minor;
	}
	ASK(c, DeviceGetMinorNumber, d->handle, &info->minor);
	ASK(c, DeviceGetMaxClockInfo, d->handle, NVML_CLOCK_SM, &info->sm_clock_max_mhz);
	ASK(c, DeviceGetMaxClockInfo, d->handle, NVML_CLOCK_MEMORY, &info->memory_clock_max_mhz);
	ASK(c, DeviceGetTemperatureThreshold, d->handle, NVML_THRESHOLD_SLOWDOWN,
	    &info->slowdown_celsius);
	ASK(c, DeviceGetMaxPcieLinkGeneration, d->handle, &info->pcie_generation_max);
	ASK(c, DeviceGetMaxPcieLinkWidth, d->handle, &info->pcie_width_max);
	if (ASK(c, DeviceGetEnforcedPowerLimit, d->handle, &milliwatts) == NVML_OK)
		info->power_limit_w = milliwatts / 1e3;
	if (ASK(c, DeviceGetEccMode, d->handle, &ecc, &pending) == NVML_OK)
		info->has_ecc = ecc == 1;
	if (ASK(c, DeviceGetFieldValues, d->handle, 1, &links) == NVML_OK && links.rc == NVML_OK)
		info->nvlink_count = links.value.u32;
}

static void describe(struct nvml *c, struct device *d)
{
	struct gpu_info *info = &d->info;
	ASK(c, DeviceGetName, d->handle, info->name, sizeof(info->name));
	memcpy(info->driver, c->driver, sizeof(info->driver));
	describe_memory(c, d);
	if (d->parent) {
		uint32_t id;
		memcpy(info->bus_id, d->parent->info.bus_id, sizeof(info->bus_id));
		info->compute_major = d->parent->info.compute_major;
		info->compute_minor = d->parent->info.compute_minor;
		info->minor = d->parent->info.minor;
		if (ASK(c, DeviceGetGpuInstanceId, d->handle, &id) == NVML_OK)
			info->gpu_instance = (int32_t)id;
		if (ASK(c, DeviceGetComputeInstanceId, d->handle, &id) == NVML_OK)
			info->compute_instance = (int32_t)id;
	} else {
		describe_gpu(c, d);
	}
	info->has_gpm = gpm_supported(c, d);
}

static struct device *find(struct nvml *c, const char *uuid)
{
	for (size_t i = 0; i < c->devices.len; i++)
		if (!strcmp(c->devices.data[i]->info.uuid, uuid))
			return c->devices.data[i];
	return NULL;
}

static bool index_taken(const struct nvml *c, uint32_t index)
{
	for (size_t i = 0; i < c->devices.len; i++)
		if (!c->devices.data[i]->parent && c->devices.data[i]->info.index == index)
			return true;
	return false;
}

static struct device *add(struct nvml *c, struct device *parent, uint32_t index, const char *uuid)
{
	struct device *d = xcalloc(1, sizeof(*d));
	while (!parent && index_taken(c, index))
		index++;
	d->parent = parent;
	d->info.index = index;
	d->info.parent = parent ? (int32_t)parent->info.index : -1;
	d->info.gpu_instance = d->info.compute_instance = -1;
	d->ecc_uncorrected = d->remapping_pending = d->remapping_failed = -1;
	snprintf(d->info.uuid, sizeof(d->info.uuid), "%s", uuid);
	if (parent)
		snprintf(d->info.entity, sizeof(d->info.entity), "gpu %u mig %u",
			 parent->info.index, index);
	else
		snprintf(d->info.entity, sizeof(d->info.entity), "gpu %u", index);
	*vec_push(&c->devices) = d;
	return d;
}

/* A lost GPU keeps its handle and its UUID; whether it is back only a question shows. */
static bool answers(struct nvml *c, const struct device *d)
{
	struct nvml_memory memory;
	uint32_t celsius;
	return ASK(c, DeviceGetMemoryInfo, d->handle, &memory) == NVML_OK ||
	       ASK(c, DeviceGetTemperature, d->handle, NVML_SENSOR_GPU, &celsius) == NVML_OK;
}

/* The device of this UUID, made known and announced where it is new or back. NULL: it is there
 * but does not answer. */
static struct device *meet(struct nvml *c, struct device *parent, uint32_t index,
			   nvml_device handle, const char *uuid, uint64_t now_ns)
{
	struct device *d = find(c, uuid);
	bool fresh = !d;
	if (fresh)
		d = add(c, parent, index, uuid);
	d->handle = handle;
	d->seen = true;
	if (!fresh && !d->lost)
		return d;
	if (d->lost && !answers(c, d))
		return NULL;
	if (d->lost)
		event(c, d, now_ns, "returned", "%s answers again", d->info.entity);
	d->lost = false;
	describe(c, d);
	ask_afresh(c, d);
	return d;
}

static void list_instances(struct nvml *c, struct device *d, uint64_t now_ns)
{
	uint32_t mode = 0, pending, count = 0;
	if (ASK(c, DeviceGetMigMode, d->handle, &mode, &pending) != NVML_OK)
		mode = 0;
	if ((mode == 1) != d->info.has_mig) {
		d->info.has_mig = mode == 1;
		ask_afresh(c, d);
		if (d->announced)
			announce(c, d, true);
	}
	if (!d->announced)
		announce(c, d, true);
	if (mode != 1 || ASK(c, DeviceGetMaxMigDeviceCount, d->handle, &count) != NVML_OK)
		return;
	for (uint32_t i = 0; i < count; i++) {
		nvml_device handle;
		char uuid[NVML_NAME_BYTES];
		if (ASK(c, DeviceGetMigDeviceHandleByIndex, d->handle, i, &handle) != NVML_OK ||
		    c->lib.DeviceGetUUID(handle, uuid, sizeof(uuid)) != NVML_OK)
			continue;
		struct device *instance = meet(c, d, i, handle, uuid, now_ns);
		if (instance && !instance->announced)
			announce(c, instance, true);
	}
}

/* The GPU that had this place in the driver's list, when all that is known is that it is lost. */
static void lost_at(struct nvml *c, uint32_t index, int rc, uint64_t now_ns)
{
	for (size_t i = 0; i < c->devices.len; i++) {
		struct device *d = c->devices.data[i];
		if (d->parent || d->info.index != index)
			continue;
		d->seen = true;
		if (!d->lost)
			device_lost(c, d, rc, now_ns);
	}
}

static void remove_at(struct nvml *c, size_t i)
{
	gpm_release(c, c->devices.data[i]);
	tell_others(c, c->devices.data[i], NULL, 0);
	vec_free(&c->devices.data[i]->on_gpu);
	vec_free(&c->devices.data[i]->others);
	free(c->devices.data[i]);
	memmove(&c->devices.data[i], &c->devices.data[i + 1],
		(c->devices.len - i - 1) * sizeof(*c->devices.data));
	c->devices.len--;
	c->devices_changed = true;
}

static void stop_asking(struct nvml *c, struct device *d)
{
	for (size_t i = 0; i < nvml_metrics_count; i++)
		d->tasks[i].pace.off = true;
	gpm_release(c, d);
	d->lost = true;
	c->devices_changed = true;
	announce(c, d, false);
}

void device_lost(struct nvml *c, struct device *d, int rc, uint64_t now_ns)
{
	/* what is said of an instance is said of its GPU */
	struct device *gpu = d->parent ? d->parent : d;
	if (gpu->lost)
		return;
	if (rc == NVML_RESET_REQUIRED)
		event(c, gpu, now_ns, "reset_required", "%s must be reset before it can be used",
		      gpu->info.entity);
	else
		event(c, gpu, now_ns, "fell_off_bus",
		      "%s (%s) has fallen off the bus or cannot be reached", gpu->info.entity,
		      gpu->info.bus_id);
	stop_asking(c, gpu);
	for (size_t i = 0; i < c->devices.len; i++)
		if (c->devices.data[i]->parent == gpu && !c->devices.data[i]->lost)
			stop_asking(c, c->devices.data[i]);
	if (!c->restart_ns)
		c->restart_ns = now_ns + RESTART_NS;
}

/* GPUs stay in the list as lost, so that they get their index back; instances go for good. */
static void drop_unseen(struct nvml *c, uint64_t now_ns)
{
	bool missing = false;
	for (size_t i = c->devices.len; i-- > 0;) {
		struct device *d = c->devices.data[i];
		if (d->parent && !d->seen) {
			if (!d->lost)
				announce(c, d, false);
			remove_at(c, i);
			continue;
		}
		if (!d->seen && !d->lost) {
			event(c, d, now_ns, "vanished", "%s is no longer there", d->info.entity);
			stop_asking(c, d);
		}
		missing |= d->lost;
	}
	missing |= !c->devices.len;
	if (!missing)
		c->restart_ns = 0;
	else if (!c->restart_ns)
		c->restart_ns = now_ns + RESTART_NS;
}

void devices_update(struct nvml *c, uint64_t now_ns)
{
	uint32_t count = 0;
	c->list_now = false;
	int rc = c->lib.DeviceGetCount_v2(&count);
	if (rc != NVML_OK) {
		if (!c->count_failed)
			note(c, "gpu", "the driver does not list its GPUs: %s",
			     nvml_text(&c->lib, rc));
		c->count_failed = true;
		if (!c->restart_ns)
			c->restart_ns = now_ns + RESTART_NS;
		return;
	}
	c->count_failed = false;
	for (size_t i = 0; i < c->devices.len; i++)
		c->devices.data[i]->seen = false;
	for (uint32_t i = 0; i < count; i++) {
		nvml_device handle;
		char uuid[NVML_NAME_BYTES];
		rc = c->lib.DeviceGetHandleByIndex_v2(i, &handle);
		if (rc == NVML_OK)
			rc = c->lib.DeviceGetUUID(handle, uuid, sizeof(uuid));
		if (nvml_means_lost(rc))
			lost_at(c, i, rc, now_ns);
		if (rc != NVML_OK)
			continue;
		struct device *d = meet(c, NULL, i, handle, uuid, now_ns);
		if (d)
			list_instances(c, d, now_ns);
	}
	drop_unseen(c, now_ns);
	if (!c->event_set) /* it failed since */
		c->devices_changed = true;
}

bool devices_differ(struct nvml *c)
{
	uint32_t count = 0, known = 0;
	if (c->lib.DeviceGetCount_v2(&count) != NVML_OK)
		return false;
	for (size_t i = 0; i < c->devices.len; i++)
		known += !c->devices.data[i]->parent && c->devices.data[i]->seen;
	return count != known;
}

void devices_release(struct nvml *c)
{
	events_release(c);
	for (size_t i = 0; i < c->devices.len; i++)
		gpm_release(c, c->devices.data[i]);
}

void devices_restart(struct nvml *c, uint64_t now_ns)
{
	struct err e;
	c->restart_ns = now_ns + RESTART_NS;
	devices_release(c);
	if (c->initialised)
		c->lib.Shutdown();
	c->initialised = nvml_start(&c->lib, &e) == 0;
	if (c->initialised) {
		devices_update(c, now_ns);
		return;
	}
	if (!c->count_failed)
		note(c, "gpu", "%s", e.msg);
	c->count_failed = true;
	for (size_t i = 0; i < c->devices.len; i++)
		if (!c->devices.data[i]->lost)
			stop_asking(c, c->devices.data[i]);
}

void devices_note_unsupported(struct nvml *c)
{
	for (size_t i = 0; i < c->devices.len; i++) {
		struct device *d = c->devices.data[i];
		struct buf names = {0};
		for (size_t k = 0; k < nvml_metrics_count && !d->lost; k++) {
			struct task *t = &d->tasks[k];
			if (!t->unsupported || t->noted)
				continue;
			t->noted = true;
			buf_printf(&names, "%s%s", names.len ? ", " : "", nvml_metrics[k].name);
		}
		if (names.len)
			note(c, d->info.entity, "not told by this GPU or driver: %.*s",
			     (int)names.len, (const char *)names.data);
		buf_free(&names);
	}
}

void devices_free(struct nvml *c)
{
	while (c->devices.len)
		remove_at(c, c->devices.len - 1);
	vec_free(&c->devices);
}
