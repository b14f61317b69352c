/* nvml_events.c - what happens at a moment: Xid errors, ECC errors, changes of MIG. The driver
 * queues them and gives no time with them; they get the time of the sample that finds them. */
#include <stdarg.h>
#include <stdio.h>

#include "collect/gpu_places.h"
#include "collect/nvml_impl.h"

/* So many are told in one sample; the driver keeps the rest for the next. */
#define EVENTS_A_SAMPLE 16

void note(struct nvml *c, const char *subject, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sink_note(c->sink, subject, text);
}

void event(struct nvml *c, const struct device *d, uint64_t now_ns, const char *name,
	   const char *fmt, ...)
{
	char text[256];
	va_list ap;
	struct entity gpu = ENTITY_OF_GPU(gpu_index(d), -1, 0);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sink_event(c->sink, now_ns, &gpu, name, text);
}

/* The numbers that decide what to do, in few words; NVIDIA's "GPU Debug Guidelines" has them
 * all. */
static const struct {
	uint32_t number;
	const char *text;
} xids[] = {
	{8, "a kernel ran past its time limit"},
	{13, "a kernel failed: illegal address, instruction or alignment"},
	{31, "a kernel touched memory that is not mapped"},
	{32, "a corrupted command buffer"},
	{38, "the driver's firmware reported an error"},
	{43, "a channel was reset after an error of the program"},
	{45, "channels were removed: the program ended or failed before"},
	{48, "a double bit ECC error"},
	{61, "the GPU's microcontroller stopped at a breakpoint"},
	{62, "the GPU's microcontroller halted"},
	{63, "a row of memory is being remapped or a page retired"},
	{64, "a row of memory could not be remapped or a page retired"},
	{68, "an exception of the video decoder"},
	{69, "an exception of the graphics engine"},
	{74, "an NVLink error"},
	{79, "the GPU has fallen off the bus"},
	{92, "single bit ECC errors at a high rate"},
	{94, "an uncorrectable memory error, contained to one program"},
	{95, "an uncorrectable memory error, not contained: the GPU must be reset"},
	{109, "a context switch timed out"},
	{119, "the GPU's system processor does not answer"},
	{120, "the GPU's system processor failed"},
	{121, "an error of the link between CPU and GPU"},
	{140, "an ECC error that could not be recovered from"},
	{143, "the GPU did not start"},
	{149, "a fatal NVLink error"},
	{154, "the GPU needs a recovery action"},
};

static const char *xid_text(uint64_t number)
{
	for (size_t i = 0; i < sizeof(xids) / sizeof(xids[0]); i++)
		if (xids[i].number == number)
			return xids[i].text;
	return "see NVIDIA's list of Xid errors";
}

static const struct {
	uint64_t type;
	const char *name, *text;
} kinds[] = {
	{NVML_EVENT_DOUBLE_BIT_ECC, "ecc_double_bit", "an uncorrectable memory error"},
	{NVML_EVENT_SINGLE_BIT_ECC, "ecc_single_bit", "a corrected memory error"},
	{NVML_EVENT_SINGLE_BIT_ECC_STORM, "ecc_single_bit_storm", "many corrected memory errors"},
	{NVML_EVENT_DRAM_RETIREMENT, "dram_retirement", "bad memory was taken out of use"},
	{NVML_EVENT_DRAM_RETIREMENT_FAILURE, "dram_retirement_failure",
	 "bad memory could not be taken out of use"},
	{NVML_EVENT_NONFATAL_POISON, "poison_nonfatal", "damaged data was contained"},
	{NVML_EVENT_FATAL_POISON, "poison_fatal", "damaged data was used"},
	{NVML_EVENT_GPU_UNAVAILABLE, "gpu_unavailable", "the GPU cannot be used"},
	{NVML_EVENT_RECOVERY_ACTION, "recovery_action", "the driver asks for a recovery action"},
	{NVML_EVENT_POWER_SOURCE, "power_source", "the power source changed"},
	{NVML_EVENT_MIG_CONFIG, "mig_config", "the MIG configuration changed"},
};

static uint64_t all_kinds(void)
{
	uint64_t mask = NVML_EVENT_XID;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		mask |= kinds[i].type;
	return mask;
}

static int register_one(struct nvml *c, struct device *d)
{
	unsigned long long supported = 0;
	int rc = c->lib.DeviceGetSupportedEventTypes(d->handle, &supported);
	supported &= all_kinds();
	if (rc == NVML_OK && supported)
		rc = c->lib.DeviceRegisterEvents(d->handle, supported, c->event_set);
	return rc;
}

void events_register(struct nvml *c)
{
	events_release(c);
	c->event_pace.off = true;
	if (!c->lib.EventSetCreate || !c->lib.EventSetFree || !c->lib.EventSetWait_v2 ||
	    !c->lib.DeviceGetSupportedEventTypes || !c->lib.DeviceRegisterEvents) {
		if (!c->event_set_failed)
			note(c, "gpu events", "not told by this version of " NVML_LIBRARY);
		c->event_set_failed = true;
		return;
	}
	int made = c->lib.EventSetCreate(&c->event_set);
	if (made != NVML_OK) {
		if (!c->event_set_failed)
			note(c, "gpu events", "not told: %s", nvml_text(&c->lib, made));
		c->event_set_failed = true;
		c->event_set = NULL;
		return;
	}
	for (size_t i = 0; i < c->devices.len; i++) {
		struct device *d = c->devices.data[i];
		if (d->parent || d->lost)
			continue;
		int rc = register_one(c, d);
		if (rc == NVML_OK) {
			c->event_pace.off = false;
		} else if (!nvml_means_lost(rc) && !d->events_noted) {
			note(c, d->info.entity, "no Xid and ECC events: %s",
			     nvml_text(&c->lib, rc));
			d->events_noted = true;
		}
	}
}

void events_release(struct nvml *c)
{
	if (c->event_set)
		c->lib.EventSetFree(c->event_set);
	c->event_set = NULL;
}

static struct device *device_of(struct nvml *c, nvml_device handle)
{
	for (size_t i = 0; i < c->devices.len; i++)
		if (c->devices.data[i]->handle == handle && !c->devices.data[i]->lost)
			return c->devices.data[i];
	return NULL;
}

static void tell_event(struct nvml *c, const struct nvml_event *v, uint64_t now_ns)
{
	char where[48] = "";
	struct device *d = device_of(c, v->device);
	if (!d)
		return;
	if (v->gpu_instance != NVML_NO_INSTANCE)
		snprintf(where, sizeof(where), ", GPU instance %u", v->gpu_instance);
	if (v->type & NVML_EVENT_XID && !gpu_places_xid_by_kernel(c->env->gpu_places))
		event(c, d, now_ns, "xid", "%llu: %s%s", (unsigned long long)v->data,
		      xid_text(v->data), where);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (v->type & kinds[i].type)
			event(c, d, now_ns, kinds[i].name, "%s%s", kinds[i].text, where);
	if (v->type & NVML_EVENT_MIG_CONFIG)
		c->list_now = true;
}

/* A lost GPU makes the whole set fail, without saying which it is. The next listing, or whoever
 * finds the lost one, makes another set. */
static void set_failed(struct nvml *c)
{
	c->event_pace.off = true;
	events_release(c);
}

void events_drain(struct nvml *c, uint64_t now_ns)
{
	for (int i = 0; i < EVENTS_A_SAMPLE && c->event_set; i++) {
		struct nvml_event v = {.gpu_instance = NVML_NO_INSTANCE,
				       .compute_instance = NVML_NO_INSTANCE};
		int rc = c->lib.EventSetWait_v2(c->event_set, &v, 0);
		if (rc == NVML_OK)
			tell_event(c, &v, now_ns);
		else if (rc != NVML_TIMEOUT)
			set_failed(c);
		if (rc != NVML_OK)
			break;
	}
}
