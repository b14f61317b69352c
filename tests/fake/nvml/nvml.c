/* nvml.c - a libnvidia-ml.so.1 without a GPU: it exports the real symbols and answers from a
 * script, the file that EACGM_FAKE_NVML names. The script is read again whenever it was replaced
 * (rename it into place), so a test changes the hardware under a running collector.
 *
 *   count N                 N GPUs (1 when absent), numbered from 0
 *   gpu I KEY VALUE         a value of GPU I; `keys` below has the names
 *   gone I                  GPU I was removed: those behind it move up
 *   lost I | reset I        it answers "GPU is lost" | "reset required"
 *   mig I N                 MIG mode with N instances
 *   process I PID BYTES SM  a process on GPU I, SM percent of its time
 *   xid I NUMBER            delivered once: each further line is one more event
 *   event I MASK            likewise, an nvmlEventType
 *   unsupported NAME        function nvmlNAME is not supported
 *   fail NAME RC            it returns RC
 *   spin NAME MICROSECONDS  it computes for so long
 *   init RC                 nvmlInit returns RC
 *
 * fake_nvml_calls tells how often a function was called, fake_nvml_balance what was opened and
 * not closed. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "collect/nvml_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum { GPUS = 8, INSTANCES = 4, LINES = 64 };

enum key {
	TEMPERATURE,
	MEMORY_TEMPERATURE,
	POWER_MW,
	POWER_LIMIT_MW,
	USED,
	RESERVED,
	TOTAL,
	SM,
	MEMORY,
	SM_CLOCK,
	MEMORY_CLOCK,
	HELD,
	FAN,
	ENCODER,
	DECODER,
	ENERGY_MJ,
	ECC_CORRECTED,
	ECC_UNCORRECTED,
	ROWS_CORRECTED,
	ROWS_UNCORRECTED,
	PENDING,
	FAILED,
	REPLAYS,
	PCIE_GENERATION,
	PCIE_WIDTH,
	PCIE_TX_BYTES,
	PCIE_RX_BYTES,
	LINK_TX_KIB,
	LINK_RX_KIB,
	LINK_CRC,
	LINKS,
	GPM,
	GPM_SM,
	GPM_TENSOR,
	GPM_DRAM,
	GPM_GRAPHICS,
	GPM_PCIE_TX_MIB,
	GPM_PCIE_RX_MIB,
	GPM_NVLINK_TX_MIB,
	GPM_NVLINK_RX_MIB,
	LICENSE,
	KEYS,
};

static const struct {
	const char *name;
	uint64_t value;
} keys[KEYS] = {
	[TEMPERATURE] = {"temperature", 40},
	[MEMORY_TEMPERATURE] = {"memory_temperature", 45},
	[POWER_MW] = {"power_mw", 120500},
	[POWER_LIMIT_MW] = {"power_limit_mw", 700000},
	[USED] = {"used", 1ULL << 30},
	[RESERVED] = {"reserved", 512ULL << 20},
	[TOTAL] = {"total", 80ULL << 30},
	[SM] = {"sm", 0},
	[MEMORY] = {"memory", 0},
	[SM_CLOCK] = {"sm_clock", 1980},
	[MEMORY_CLOCK] = {"memory_clock", 2619},
	[HELD] = {"held", 1},
	[FAN] = {"fan", 30},
	[ENCODER] = {"encoder", 0},
	[DECODER] = {"decoder", 0},
	[ENERGY_MJ] = {"energy_mj", 5000},
	[ECC_CORRECTED] = {"ecc_corrected", 0},
	[ECC_UNCORRECTED] = {"ecc_uncorrected", 0},
	[ROWS_CORRECTED] = {"rows_corrected", 0},
	[ROWS_UNCORRECTED] = {"rows_uncorrected", 0},
	[PENDING] = {"pending", 0},
	[FAILED] = {"failed", 0},
	[REPLAYS] = {"replays", 0},
	[PCIE_GENERATION] = {"pcie_generation", 5},
	[PCIE_WIDTH] = {"pcie_width", 16},
	[PCIE_TX_BYTES] = {"pcie_tx_bytes", 0},
	[PCIE_RX_BYTES] = {"pcie_rx_bytes", 0},
	[LINK_TX_KIB] = {"link_tx_kib", 0},
	[LINK_RX_KIB] = {"link_rx_kib", 0},
	[LINK_CRC] = {"link_crc", 0},
	[LINKS] = {"links", 18},
	[GPM] = {"gpm", 1},
	[GPM_SM] = {"gpm_sm", 0},
	[GPM_TENSOR] = {"gpm_tensor", 0},
	[GPM_DRAM] = {"gpm_dram", 0},
	[GPM_GRAPHICS] = {"gpm_graphics", 0},
	[GPM_PCIE_TX_MIB] = {"gpm_pcie_tx_mib", 0},
	[GPM_PCIE_RX_MIB] = {"gpm_pcie_rx_mib", 0},
	[GPM_NVLINK_TX_MIB] = {"gpm_nvlink_tx_mib", 0},
	[GPM_NVLINK_RX_MIB] = {"gpm_nvlink_rx_mib", 0},
	[LICENSE] = {"license", 0}, /* 0: there are none here, 1: not licensed, 2: licensed */
};

struct nvml_device_handle {
	uint32_t number;
	int32_t instance; /* -1: the GPU itself */
	uint64_t values[KEYS];
	bool gone;
	int lost; /* what every question is answered with */
	uint32_t instances;
	bool mig;
};

struct line {
	char name[64];
	uint64_t a, b, c, d;
};

static struct nvml_device_handle gpus[GPUS], instances[GPUS][INSTANCES];
static struct line processes[LINES], rules[LINES], queue[LINES];
static int n_processes, n_rules, n_queue, delivered;
static uint32_t count;
static int init_rc, balance;
static struct stat read_as;
static struct line calls[LINES * 2];
static int n_calls;

/* The collector takes pid, ids and the like as they are; instances are numbered from 7 so that an
 * index in place of an id shows. */
enum { FIRST_GPU_INSTANCE = 7 };

static void defaults(void)
{
	count = 1;
	init_rc = NVML_OK;
	n_processes = n_rules = n_queue = 0;
	for (uint32_t i = 0; i < GPUS; i++) {
		gpus[i] = (struct nvml_device_handle){.number = i, .instance = -1};
		for (int k = 0; k < KEYS; k++)
			gpus[i].values[k] = keys[k].value;
		for (int k = 0; k < INSTANCES; k++)
			instances[i][k] = (struct nvml_device_handle){.number = i, .instance = k};
	}
}

static void bad(const char *text)
{
	fprintf(stderr, "fake nvml: script has: %s\n", text);
	abort();
}

static void set_value(uint64_t gpu, const char *name, uint64_t value)
{
	for (int k = 0; k < KEYS; k++) {
		if (!strcmp(keys[k].name, name)) {
			gpus[gpu].values[k] = value;
			return;
		}
	}
	bad(name);
}

static void read_line(const char *text)
{
	struct line l = {0};
	unsigned long long a = 0, b = 0, c = 0, d = 0;
	char word[16] = "";
	if (sscanf(text, "%15s", word) != 1 || word[0] == '#')
		return;
	if (sscanf(text, "gpu %llu %63s %llu", &a, l.name, &b) == 3 && a < GPUS)
		set_value(a, l.name, b);
	else if (sscanf(text, "count %llu", &a) == 1 && a <= GPUS)
		count = (uint32_t)a;
	else if (sscanf(text, "gone %llu", &a) == 1 && a < GPUS)
		gpus[a].gone = true;
	else if (sscanf(text, "lost %llu", &a) == 1 && a < GPUS)
		gpus[a].lost = NVML_GPU_IS_LOST;
	else if (sscanf(text, "reset %llu", &a) == 1 && a < GPUS)
		gpus[a].lost = NVML_RESET_REQUIRED;
	else if (sscanf(text, "mig %llu %llu", &a, &b) == 2 && a < GPUS && b <= INSTANCES) {
		gpus[a].mig = true;
		gpus[a].instances = (uint32_t)b;
	} else if (sscanf(text, "process %llu %llu %llu %llu", &a, &b, &c, &d) == 4)
		processes[n_processes++] = (struct line){.a = a, .b = b, .c = c, .d = d};
	else if (sscanf(text, "xid %llu %llu", &a, &b) == 2)
		queue[n_queue++] = (struct line){.a = a, .b = NVML_EVENT_XID, .c = b};
	else if (sscanf(text, "event %llu %llu", &a, &b) == 2)
		queue[n_queue++] = (struct line){.a = a, .b = b};
	else if (sscanf(text, "init %llu", &a) == 1)
		init_rc = (int)a;
	else if (sscanf(text, "unsupported %63s", l.name) == 1) {
		l.a = NVML_NOT_SUPPORTED;
		rules[n_rules++] = l;
	} else if (sscanf(text, "fail %63s %llu", l.name, &a) == 2) {
		l.a = a;
		rules[n_rules++] = l;
	} else if (sscanf(text, "spin %63s %llu", l.name, &b) == 2) {
		l.b = b;
		rules[n_rules++] = l;
	} else {
		bad(text);
	}
	if (n_processes == LINES || n_rules == LINES || n_queue == LINES)
		bad("too many lines");
}

static void read_script(void)
{
	const char *path = getenv("EACGM_FAKE_NVML");
	struct stat now = {0};
	char text[256];
	if (!path || stat(path, &now) != 0) {
		if (!read_as.st_ino)
			defaults();
		read_as.st_ino = 1;
		return;
	}
	if (now.st_ino == read_as.st_ino && now.st_size == read_as.st_size &&
	    now.st_mtim.tv_sec == read_as.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec)
		return;
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	read_as = now;
	defaults();
	while (fgets(text, sizeof(text), f))
		read_line(text);
	fclose(f);
}

static void spin(uint64_t us)
{
	struct timespec start, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((uint64_t)((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec) <
	       us * 1000);
}

/* What every function begins with: the script, the count, what the script says of it. */
static int enter(const char *function, nvml_device d)
{
	const char *name = function + strlen("nvml");
	int rc = NVML_OK, i = 0;
	read_script();
	while (i < n_calls && strcmp(calls[i].name, name))
		i++;
	if (i == n_calls)
		snprintf(calls[n_calls++].name, sizeof(calls[0].name), "%s", name);
	calls[i].a++;
	for (i = 0; i < n_rules; i++) {
		if (strcmp(rules[i].name, name))
			continue;
		if (rules[i].b)
			spin(rules[i].b);
		else
			rc = (int)rules[i].a;
	}
	if (d && gpus[d->number].lost)
		return gpus[d->number].lost;
	return rc;
}

#define ENTER(device)                                                                              \
	do {                                                                                       \
		int enter_rc = enter(__func__, device);                                            \
		if (enter_rc != NVML_OK)                                                           \
			return enter_rc;                                                           \
	} while (0)

EXPORT uint64_t fake_nvml_calls(const char *name);
EXPORT int fake_nvml_balance(void);

uint64_t fake_nvml_calls(const char *name)
{
	for (int i = 0; i < n_calls; i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].a;
	return 0;
}

int fake_nvml_balance(void)
{
	return balance;
}

/* The real prototypes, so that a wrong one does not compile. */
#define DECLARE(name, args) EXPORT int nvml##name args;
NVML_FUNCTIONS(DECLARE)
EXPORT const char *nvmlErrorString(int rc);

const char *nvmlErrorString(int rc)
{
	return rc == NVML_UNKNOWN ? "Unknown Error" : "an error of the fake library";
}

int nvmlInit_v2(void)
{
	read_script();
	if (init_rc == NVML_OK)
		balance++;
	return init_rc;
}

int nvmlShutdown(void)
{
	balance--;
	return NVML_OK;
}

int nvmlSystemGetDriverVersion(char *text, uint32_t size)
{
	ENTER(NULL);
	snprintf(text, size, "580.00");
	return NVML_OK;
}

static uint32_t present(void)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++)
		n += !gpus[i].gone;
	return n;
}

int nvmlDeviceGetCount_v2(uint32_t *n)
{
	ENTER(NULL);
	*n = present();
	return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvml_device *ret)
{
	ENTER(NULL);
	for (uint32_t i = 0; i < count; i++) {
		if (gpus[i].gone || index--)
			continue;
		*ret = &gpus[i];
		return NVML_OK;
	}
	return NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(nvml_device d, char *text, uint32_t size)
{
	enter(__func__, NULL); /* a lost GPU's is still known */
	if (d->instance < 0)
		snprintf(text, size, "GPU-%04x", d->number);
	else
		snprintf(text, size, "MIG-%04x-%d", d->number, d->instance);
	return NVML_OK;
}

int nvmlDeviceGetName(nvml_device d, char *text, uint32_t size)
{
	ENTER(d);
	snprintf(text, size, d->instance < 0 ? "NVIDIA H200" : "NVIDIA H200 MIG 1g.18gb");
	return NVML_OK;
}

/* The value of a GPU, for what takes a device and a place for the value. */
static int value32(const char *function, nvml_device d, enum key key, uint32_t *ret)
{
	int rc = enter(function, d);
	if (rc == NVML_OK && d->instance >= 0)
		rc = NVML_NOT_SUPPORTED;
	if (rc == NVML_OK)
		*ret = (uint32_t)d->values[key];
	return rc;
}

int nvmlDeviceGetMinorNumber(nvml_device d, uint32_t *ret)
{
	ENTER(d);
	*ret = d->number;
	return NVML_OK;
}

int nvmlDeviceGetPciInfo_v3(nvml_device d, struct nvml_pci *ret)
{
	ENTER(d);
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->bus_id, sizeof(ret->bus_id), "00000000:%02X:00.0", 16 + d->number);
	return NVML_OK;
}

int nvmlDeviceGetCudaComputeCapability(nvml_device d, int32_t *major, int32_t *minor)
{
	ENTER(d);
	*major = 9;
	*minor = 0;
	return NVML_OK;
}

int nvmlDeviceGetMaxClockInfo(nvml_device d, uint32_t type, uint32_t *ret)
{
	ENTER(d);
	*ret = type == NVML_CLOCK_SM ? 1980 : 3201;
	return NVML_OK;
}

int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device d, uint32_t *ret)
{
	ENTER(d);
	*ret = 5;
	return NVML_OK;
}

int nvmlDeviceGetMaxPcieLinkWidth(nvml_device d, uint32_t *ret)
{
	ENTER(d);
	*ret = 16;
	return NVML_OK;
}

int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device d, uint32_t *ret)
{
	return value32(__func__, d, PCIE_GENERATION, ret);
}

int nvmlDeviceGetCurrPcieLinkWidth(nvml_device d, uint32_t *ret)
{
	return value32(__func__, d, PCIE_WIDTH, ret);
}

int nvmlDeviceGetTemperatureThreshold(nvml_device d, uint32_t which, uint32_t *ret)
{
	ENTER(d);
	*ret = which == NVML_THRESHOLD_SLOWDOWN ? 89 : 94;
	return NVML_OK;
}

int nvmlDeviceGetEccMode(nvml_device d, uint32_t *current, uint32_t *pending)
{
	ENTER(d);
	*current = *pending = 1;
	return NVML_OK;
}

/* An instance has an eighth of its GPU's memory, and its share of what is used. */
static uint64_t memory_of(nvml_device d, enum key key)
{
	return gpus[d->number].values[key] / (d->instance < 0 ? 1 : 8);
}

int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *ret)
{
	ENTER(d);
	ret->total = memory_of(d, TOTAL);
	ret->used = memory_of(d, USED) + memory_of(d, RESERVED);
	ret->free = ret->total - ret->used;
	return NVML_OK;
}

int nvmlDeviceGetUtilizationRates(nvml_device d, struct nvml_utilization *ret)
{
	ENTER(d);
	if (d->instance >= 0 || d->mig)
		return NVML_NOT_SUPPORTED;
	ret->gpu = (uint32_t)d->values[SM];
	ret->memory = (uint32_t)d->values[MEMORY];
	return NVML_OK;
}

int nvmlDeviceGetEncoderUtilization(nvml_device d, uint32_t *ret, uint32_t *period_us)
{
	*period_us = 167000;
	return value32(__func__, d, ENCODER, ret);
}

int nvmlDeviceGetDecoderUtilization(nvml_device d, uint32_t *ret, uint32_t *period_us)
{
	*period_us = 167000;
	return value32(__func__, d, DECODER, ret);
}

int nvmlDeviceGetTemperature(nvml_device d, uint32_t sensor, uint32_t *ret)
{
	if (sensor != NVML_SENSOR_GPU)
		return NVML_INVALID_ARGUMENT;
	return value32(__func__, d, TEMPERATURE, ret);
}

int nvmlDeviceGetFanSpeed(nvml_device d, uint32_t *ret)
{
	return value32(__func__, d, FAN, ret);
}

int nvmlDeviceGetPowerUsage(nvml_device d, uint32_t *ret)
{
	return value32(__func__, d, POWER_MW, ret);
}

int nvmlDeviceGetEnforcedPowerLimit(nvml_device d, uint32_t *ret)
{
	return value32(__func__, d, POWER_LIMIT_MW, ret);
}

int nvmlDeviceGetTotalEnergyConsumption(nvml_device d, unsigned long long *ret)
{
	ENTER(d);
	*ret = d->values[ENERGY_MJ];
	return NVML_OK;
}

int nvmlDeviceGetClockInfo(nvml_device d, uint32_t type, uint32_t *ret)
{
	return value32(__func__, d, type == NVML_CLOCK_SM ? SM_CLOCK : MEMORY_CLOCK, ret);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device d, unsigned long long *ret)
{
	ENTER(d);
	*ret = d->values[HELD];
	return NVML_OK;
}

int nvmlDeviceGetPcieThroughput(nvml_device d, uint32_t direction, uint32_t *ret)
{
	ENTER(d);
	*ret = direction == NVML_PCIE_TX ? 3000 : 4000; /* KB/s */
	return NVML_OK;
}

int nvmlDeviceGetPcieReplayCounter(nvml_device d, uint32_t *ret)
{
	return value32(__func__, d, REPLAYS, ret);
}

int nvmlDeviceGetTotalEccErrors(nvml_device d, uint32_t type, uint32_t counter,
				unsigned long long *ret)
{
	ENTER(d);
	if (counter != NVML_ECC_VOLATILE)
		return NVML_INVALID_ARGUMENT;
	*ret = d->values[type == NVML_ECC_CORRECTED ? ECC_CORRECTED : ECC_UNCORRECTED];
	return NVML_OK;
}

/* Copies the processes of a device; an instance has those whose pid is odd or even as it is. */
static uint32_t processes_of(nvml_device d, struct nvml_process *ret, uint32_t size)
{
	uint32_t n = 0;
	for (int i = 0; i < n_processes; i++) {
		const struct line *p = &processes[i];
		if (p->a != d->number || (d->instance >= 0 && (int)(p->b % 2) != d->instance))
			continue;
		if (n < size)
			ret[n] = (struct nvml_process){.pid = (uint32_t)p->b,
						       .used_bytes =
							       p->c ? p->c : NVML_NOT_AVAILABLE,
						       .gpu_instance = NVML_NO_INSTANCE,
						       .compute_instance = NVML_NO_INSTANCE};
		n++;
	}
	return n;
}

static int running(const char *function, nvml_device d, uint32_t *n, struct nvml_process *ret)
{
	int rc = enter(function, d);
	uint32_t size = *n;
	if (rc != NVML_OK)
		return rc;
	*n = processes_of(d, ret, size);
	return *n > size ? NVML_INSUFFICIENT_SIZE : NVML_OK;
}

int nvmlDeviceGetComputeRunningProcesses_v2(nvml_device d, uint32_t *n, struct nvml_process *ret)
{
	return running(__func__, d, n, ret);
}

int nvmlDeviceGetProcessUtilization(nvml_device d, struct nvml_process_sample *ret, uint32_t *n,
				    unsigned long long seen_us)
{
	struct timespec t;
	uint32_t size = *n;
	ENTER(d);
	clock_gettime(CLOCK_REALTIME, &t);
	uint64_t now_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
	if (d->instance >= 0 || d->mig)
		return NVML_NOT_SUPPORTED;
	*n = 0;
	for (int i = 0; i < n_processes && now_us > seen_us; i++) {
		const struct line *p = &processes[i];
		if (p->a != d->number || !p->d)
			continue;
		if (*n < size)
			ret[*n] = (struct nvml_process_sample){.pid = (uint32_t)p->b,
							       .time_us = now_us,
							       .sm = (uint32_t)p->d,
							       .memory = 10};
		++*n;
	}
	if (*n > size)
		return NVML_INSUFFICIENT_SIZE;
	return *n ? NVML_OK : NVML_NOT_FOUND;
}

int nvmlEventSetCreate(nvml_event_set *ret)
{
	ENTER(NULL);
	*ret = calloc(1, 8);
	balance += 100;
	return NVML_OK;
}

int nvmlEventSetFree(nvml_event_set set)
{
	free(set);
	balance -= 100;
	return NVML_OK;
}

int nvmlDeviceGetSupportedEventTypes(nvml_device d, unsigned long long *ret)
{
	ENTER(d);
	*ret = NVML_EVENT_XID | NVML_EVENT_SINGLE_BIT_ECC | NVML_EVENT_DOUBLE_BIT_ECC | 0x10;
	return NVML_OK;
}

int nvmlDeviceRegisterEvents(nvml_device d, unsigned long long types, nvml_event_set set)
{
	ENTER(d);
	(void)set;
	return types & 0x10 ? NVML_INVALID_ARGUMENT : NVML_OK;
}

int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *ret, uint32_t timeout_ms)
{
	ENTER(NULL);
	(void)set;
	if (timeout_ms)
		abort();
	for (uint32_t i = 0; i < count; i++)
		if (gpus[i].lost)
			return NVML_GPU_IS_LOST;
	if (delivered >= n_queue)
		return NVML_TIMEOUT;
	const struct line *l = &queue[delivered++];
	ret->device = &gpus[l->a];
	ret->type = l->b;
	ret->data = l->c;
	return NVML_OK;
}

#ifndef FAKE_NVML_OLD

int nvmlDeviceGetMemoryInfo_v2(nvml_device d, struct nvml_memory_v2 *ret)
{
	ENTER(d);
	if (ret->version != (2 << 24 | 40))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	ret->total = memory_of(d, TOTAL);
	ret->reserved = memory_of(d, RESERVED);
	ret->used = memory_of(d, USED);
	ret->free = ret->total - ret->used - ret->reserved;
	return NVML_OK;
}

int nvmlDeviceGetTemperatureV(nvml_device d, struct nvml_temperature *ret)
{
	ENTER(d);
	if (ret->version != (1 << 24 | 12))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	ret->celsius = (int32_t)d->values[TEMPERATURE];
	return NVML_OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(nvml_device d, unsigned long long *ret)
{
	ENTER(d);
	*ret = d->values[HELD];
	return NVML_OK;
}

int nvmlDeviceGetRemappedRows(nvml_device d, uint32_t *corrected, uint32_t *uncorrected,
			      uint32_t *pending, uint32_t *failed)
{
	ENTER(d);
	*corrected = (uint32_t)d->values[ROWS_CORRECTED];
	*uncorrected = (uint32_t)d->values[ROWS_UNCORRECTED];
	*pending = (uint32_t)d->values[PENDING];
	*failed = (uint32_t)d->values[FAILED];
	return NVML_OK;
}

static const struct {
	uint32_t id;
	enum key key;
	uint32_t type;
} fields[] = {
	{NVML_FIELD_ECC_CORRECTED, ECC_CORRECTED, NVML_VALUE_U64},
	{NVML_FIELD_ECC_UNCORRECTED, ECC_UNCORRECTED, NVML_VALUE_U64},
	{NVML_FIELD_REMAPPED_CORRECTED, ROWS_CORRECTED, NVML_VALUE_U32},
	{NVML_FIELD_REMAPPED_UNCORRECTED, ROWS_UNCORRECTED, NVML_VALUE_U32},
	{NVML_FIELD_REMAPPING_PENDING, PENDING, NVML_VALUE_U32},
	{NVML_FIELD_REMAPPING_FAILED, FAILED, NVML_VALUE_U32},
	{NVML_FIELD_PCIE_REPLAYS, REPLAYS, NVML_VALUE_U32},
	{NVML_FIELD_POWER_INSTANT, POWER_MW, NVML_VALUE_U32},
	{NVML_FIELD_MEMORY_TEMPERATURE, MEMORY_TEMPERATURE, NVML_VALUE_U32},
	{NVML_FIELD_NVLINK_COUNT, LINKS, NVML_VALUE_U32},
	{NVML_FIELD_NVLINK_TX_KIB, LINK_TX_KIB, NVML_VALUE_U64},
	{NVML_FIELD_NVLINK_RX_KIB, LINK_RX_KIB, NVML_VALUE_U64},
	{NVML_FIELD_NVLINK_CRC_FLIT_ERRORS, LINK_CRC, NVML_VALUE_U64},
	{NVML_FIELD_PCIE_TX_BYTES, PCIE_TX_BYTES, NVML_VALUE_U64},
	{NVML_FIELD_PCIE_RX_BYTES, PCIE_RX_BYTES, NVML_VALUE_U64},
};

static void fill_field(nvml_device d, struct nvml_field *f)
{
	f->rc = NVML_NOT_SUPPORTED;
	f->value.u64 = 0xdeadbeefdeadbeef;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i].id != f->id)
			continue;
		f->rc = NVML_OK;
		f->type = fields[i].type;
		if (f->type == NVML_VALUE_U32)
			f->value.u32 = (uint32_t)d->values[fields[i].key];
		else
			f->value.u64 = d->values[fields[i].key];
	}
	if ((f->id == NVML_FIELD_NVLINK_TX_KIB || f->id == NVML_FIELD_NVLINK_RX_KIB) &&
	    f->scope != UINT32_MAX)
		f->rc = NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetFieldValues(nvml_device d, int n, struct nvml_field *ret)
{
	int lost = enter(__func__, d);
	if (lost != NVML_OK && lost != NVML_GPU_IS_LOST)
		return lost;
	for (int i = 0; i < n; i++) {
		fill_field(d, &ret[i]);
		if (lost)
			ret[i].rc = (uint32_t)lost;
	}
	return NVML_OK;
}

int nvmlDeviceGetGridLicensableFeatures_v4(nvml_device d, struct nvml_license *ret)
{
	ENTER(d);
	memset(ret, 0xff, sizeof(*ret));
	ret->is_supported = d->values[LICENSE] != 0;
	ret->n = 2;
	ret->features[0].code = 4; /* compute */
	ret->features[0].licensed = 1;
	ret->features[1].code = NVML_LICENSE_VGPU;
	ret->features[1].licensed = d->values[LICENSE] == 2;
	return NVML_OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device d, uint32_t *n, struct nvml_process *ret)
{
	return running(__func__, d, n, ret);
}

int nvmlDeviceGetMigMode(nvml_device d, uint32_t *current, uint32_t *pending)
{
	ENTER(d);
	*current = *pending = d->mig;
	return NVML_OK;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device d, uint32_t *ret)
{
	ENTER(d);
	*ret = d->mig ? 7 : 0;
	return NVML_OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device d, uint32_t index, nvml_device *ret)
{
	ENTER(d);
	if (index >= d->instances)
		return NVML_NOT_FOUND;
	*ret = &instances[d->number][index];
	return NVML_OK;
}

int nvmlDeviceGetGpuInstanceId(nvml_device d, uint32_t *ret)
{
	ENTER(d);
	*ret = (uint32_t)d->instance + FIRST_GPU_INSTANCE;
	return d->instance < 0 ? NVML_INVALID_ARGUMENT : NVML_OK;
}

int nvmlDeviceGetComputeInstanceId(nvml_device d, uint32_t *ret)
{
	ENTER(d);
	*ret = 0;
	return d->instance < 0 ? NVML_INVALID_ARGUMENT : NVML_OK;
}

struct nvml_gpm_sample_handle {
	nvml_device device;
	uint32_t gpu_instance;
};

int nvmlGpmQueryDeviceSupport(nvml_device d, struct nvml_gpm_support *ret)
{
	ENTER(d);
	if (ret->version != 1)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	ret->is_supported = d->values[GPM] != 0;
	return NVML_OK;
}

int nvmlGpmSampleAlloc(nvml_gpm_sample *ret)
{
	ENTER(NULL);
	*ret = calloc(1, sizeof(**ret));
	balance += 10000;
	return NVML_OK;
}

int nvmlGpmSampleFree(nvml_gpm_sample s)
{
	free(s);
	balance -= 10000;
	return NVML_OK;
}

int nvmlGpmSampleGet(nvml_device d, nvml_gpm_sample s)
{
	ENTER(d);
	if (d->mig)
		return NVML_NOT_SUPPORTED;
	s->device = d;
	s->gpu_instance = NVML_NO_INSTANCE;
	return NVML_OK;
}

int nvmlGpmMigSampleGet(nvml_device d, uint32_t gpu_instance, nvml_gpm_sample s)
{
	ENTER(d);
	if (gpu_instance < FIRST_GPU_INSTANCE || gpu_instance >= FIRST_GPU_INSTANCE + d->instances)
		return NVML_INVALID_ARGUMENT;
	s->device = d;
	s->gpu_instance = gpu_instance;
	return NVML_OK;
}

static const struct {
	uint32_t id;
	enum key key;
} gpm_keys[] = {
	{NVML_GPM_GRAPHICS, GPM_GRAPHICS},
	{NVML_GPM_SM, GPM_SM},
	{NVML_GPM_TENSOR, GPM_TENSOR},
	{NVML_GPM_DRAM, GPM_DRAM},
	{NVML_GPM_PCIE_TX_MIB, GPM_PCIE_TX_MIB},
	{NVML_GPM_PCIE_RX_MIB, GPM_PCIE_RX_MIB},
	{NVML_GPM_NVLINK_TX_MIB, GPM_NVLINK_TX_MIB},
	{NVML_GPM_NVLINK_RX_MIB, GPM_NVLINK_RX_MIB},
};

int nvmlGpmMetricsGet(struct nvml_gpm_metrics *get)
{
	ENTER(NULL);
	if (get->version != 1 || !get->first->device || get->first->device != get->second->device ||
	    get->first->gpu_instance != get->second->gpu_instance || get->first == get->second)
		return NVML_INVALID_ARGUMENT;
	const uint64_t *values = get->first->device->values;
	for (uint32_t i = 0; i < get->n; i++) {
		struct nvml_gpm_metric *m = &get->metrics[i];
		m->rc = NVML_OK;
		m->value = 0;
		for (size_t k = 0; k < sizeof(gpm_keys) / sizeof(gpm_keys[0]); k++)
			if (gpm_keys[k].id == m->id)
				m->value = (double)values[gpm_keys[k].key];
		if (m->id == NVML_GPM_FP64)
			m->rc = NVML_NOT_SUPPORTED;
	}
	return NVML_OK;
}

#endif
