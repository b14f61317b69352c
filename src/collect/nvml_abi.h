/* nvml_abi.h - the part of NVIDIA's management library that the GPU collector uses.
 *
 * Numbers, layouts and signatures are those of NVIDIA's public nvml.h, as published in the
 * repository NVIDIA/go-nvml (gen/nvml/nvml.h, NVML 13.3); the declarations are our own. The
 * library is opened at run time, so nothing here is linked against. A symbol whose meaning
 * changed got a suffix (_v2, _v3) there: the struct of another suffix is another struct. */
#pragma once

#include <stdint.h>

#define NVML_LIBRARY "libnvidia-ml.so.1"

/* nvmlReturn_t */
enum {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
	NVML_NO_DATA = 21,
	NVML_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_DEPRECATED = 26,
	NVML_GPU_NOT_FOUND = 28,
	NVML_UNKNOWN = 999,
};

typedef struct nvml_device_handle *nvml_device;
typedef struct nvml_event_set_handle *nvml_event_set;
typedef struct nvml_gpm_sample_handle *nvml_gpm_sample;

/* A struct's version field holds its size and, from bit 24, its version. */
#define NVML_VERSION(type, number) ((uint32_t)sizeof(type) | (uint32_t)(number) << 24)

enum { NVML_NAME_BYTES = 96, NVML_DRIVER_BYTES = 80 };

struct nvml_pci {
	char bus_id_legacy[16];
	uint32_t domain, bus, device;
	uint32_t pci_device_id, pci_subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t");

struct nvml_memory {
	uint64_t total, free, used; /* used holds what the driver reserves */
};

struct nvml_memory_v2 {
	uint32_t version;
	uint64_t total, reserved, free, used; /* used is what was allocated alone */
};
_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");

struct nvml_utilization {
	uint32_t gpu, memory; /* percent of the driver's last sample period */
};

/* nvmlProcessInfo_v2_t, which the functions _v2 and _v3 fill. */
struct nvml_process {
	uint32_t pid;
	uint64_t used_bytes; /* NVML_NOT_AVAILABLE where the driver cannot tell */
	uint32_t gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");

#define NVML_NOT_AVAILABLE UINT64_MAX
#define NVML_NO_INSTANCE   UINT32_MAX

struct nvml_process_sample {
	uint32_t pid;
	uint64_t time_us;		       /* CLOCK_REALTIME */
	uint32_t sm, memory, encoder, decoder; /* percent */
};
_Static_assert(sizeof(struct nvml_process_sample) == 32, "nvmlProcessUtilizationSample_t");

/* nvmlTemperature_v1_t */
struct nvml_temperature {
	uint32_t version;
	uint32_t sensor;
	int32_t celsius;
};

enum nvml_value_type {
	NVML_VALUE_DOUBLE = 0,
	NVML_VALUE_U32 = 1,
	NVML_VALUE_ULONG = 2,
	NVML_VALUE_U64 = 3,
	NVML_VALUE_S64 = 4,
	NVML_VALUE_S32 = 5,
	NVML_VALUE_U16 = 6,
};

struct nvml_field {
	uint32_t id;
	uint32_t scope;
	int64_t time_us, latency_us;
	uint32_t type;
	uint32_t rc;
	union {
		double real;
		uint32_t u32;
		uint64_t u64;
		int64_t s64;
		int32_t s32;
		uint16_t u16;
	} value;
};
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");

/* NVML_FI_DEV_* */
enum {
	NVML_FIELD_ECC_CORRECTED = 3,
	NVML_FIELD_ECC_UNCORRECTED = 4,
	NVML_FIELD_NVLINK_CRC_FLIT_ERRORS = 38,
	NVML_FIELD_NVLINK_REPLAY_ERRORS = 52,
	NVML_FIELD_NVLINK_RECOVERY_ERRORS = 59,
	NVML_FIELD_MEMORY_TEMPERATURE = 82,
	NVML_FIELD_NVLINK_COUNT = 91,
	NVML_FIELD_PCIE_REPLAYS = 94,
	NVML_FIELD_NVLINK_TX_KIB = 138,
	NVML_FIELD_NVLINK_RX_KIB = 139,
	NVML_FIELD_REMAPPED_CORRECTED = 142,
	NVML_FIELD_REMAPPED_UNCORRECTED = 143,
	NVML_FIELD_REMAPPING_PENDING = 144,
	NVML_FIELD_REMAPPING_FAILED = 145,
	NVML_FIELD_POWER_INSTANT = 186,
	NVML_FIELD_PCIE_TX_BYTES = 197,
	NVML_FIELD_PCIE_RX_BYTES = 198,
};

#define NVML_SCOPE_ALL_LINKS UINT32_MAX

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_SENSOR_GPU = 0 };
enum { NVML_THRESHOLD_SLOWDOWN = 1 };
enum { NVML_PCIE_TX = 0, NVML_PCIE_RX = 1 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1 };
enum { NVML_ECC_VOLATILE = 0 };

/* nvmlClocksEventReasons, until driver 535 nvmlClocksThrottleReasons */
enum {
	NVML_HELD_IDLE = 0x1,
	NVML_HELD_APPLICATION_CLOCKS = 0x2,
	NVML_HELD_POWER_CAP = 0x4,
	NVML_HELD_HW_SLOWDOWN = 0x8,
	NVML_HELD_SYNC_BOOST = 0x10,
	NVML_HELD_THERMAL_SW = 0x20,
	NVML_HELD_THERMAL_HW = 0x40,
	NVML_HELD_POWER_BRAKE = 0x80,
	NVML_HELD_DISPLAY_CLOCKS = 0x100,
};

/* nvmlEventType* */
enum {
	NVML_EVENT_SINGLE_BIT_ECC = 0x1,
	NVML_EVENT_DOUBLE_BIT_ECC = 0x2,
	NVML_EVENT_XID = 0x8,
	NVML_EVENT_POWER_SOURCE = 0x80,
	NVML_EVENT_MIG_CONFIG = 0x100,
	NVML_EVENT_SINGLE_BIT_ECC_STORM = 0x200,
	NVML_EVENT_DRAM_RETIREMENT = 0x400,
	NVML_EVENT_DRAM_RETIREMENT_FAILURE = 0x800,
	NVML_EVENT_NONFATAL_POISON = 0x1000,
	NVML_EVENT_FATAL_POISON = 0x2000,
	NVML_EVENT_GPU_UNAVAILABLE = 0x4000,
	NVML_EVENT_RECOVERY_ACTION = 0x8000,
};

struct nvml_event {
	nvml_device device;
	uint64_t type;
	uint64_t data;	       /* the number of an Xid */
	uint32_t gpu_instance; /* NVML_NO_INSTANCE: of the whole device */
	uint32_t compute_instance;
};
_Static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

/* nvmlGpmMetricId_t */
enum {
	NVML_GPM_GRAPHICS = 1,
	NVML_GPM_SM = 2,
	NVML_GPM_SM_OCCUPANCY = 3,
	NVML_GPM_INTEGER = 4,
	NVML_GPM_TENSOR = 5,
	NVML_GPM_DRAM = 10,
	NVML_GPM_FP64 = 11,
	NVML_GPM_FP32 = 12,
	NVML_GPM_FP16 = 13,
	NVML_GPM_PCIE_TX_MIB = 20,
	NVML_GPM_PCIE_RX_MIB = 21,
	NVML_GPM_NVLINK_RX_MIB = 60,
	NVML_GPM_NVLINK_TX_MIB = 61,
};

struct nvml_gpm_metric {
	uint32_t id;
	uint32_t rc;
	double value; /* percent, or MiB a second */
	struct {
		char *short_name, *long_name, *unit;
	} info;
};
_Static_assert(sizeof(struct nvml_gpm_metric) == 40, "nvmlGpmMetric_t");

/* The library touches as many metrics as are asked for; the newest header has room for 333. */
enum { NVML_GPM_VERSION = 1, NVML_GPM_MAX_METRICS = 333 };

struct nvml_gpm_metrics {
	uint32_t version; /* NVML_GPM_VERSION, without the size */
	uint32_t n;
	nvml_gpm_sample first, second;
	struct nvml_gpm_metric metrics[NVML_GPM_MAX_METRICS];
};
_Static_assert(sizeof(struct nvml_gpm_metrics) == 13344, "nvmlGpmMetricsGet_t");

struct nvml_gpm_support {
	uint32_t version; /* NVML_GPM_VERSION, without the size */
	uint32_t is_supported;
};

enum { NVML_LICENSE_VGPU = 1 }; /* nvmlGridLicenseFeatureCode_t */
enum { NVML_LICENSE_FEATURES = 3, NVML_LICENSE_BYTES = 128 };

/* nvmlGridLicensableFeature_t, as the functions _v4 fill it */
struct nvml_license_feature {
	uint32_t code;
	uint32_t licensed; /* not 0: it is */
	char info[NVML_LICENSE_BYTES], product[NVML_LICENSE_BYTES];
	uint32_t enabled;
	struct {
		uint32_t year;
		uint16_t month, day, hour, min, sec;
		uint8_t status;
	} expires;
};
_Static_assert(sizeof(struct nvml_license_feature) == 284, "nvmlGridLicensableFeature_t");

struct nvml_license {
	int32_t is_supported; /* not 0: there are licences here */
	uint32_t n;
	struct nvml_license_feature features[NVML_LICENSE_FEATURES];
};
_Static_assert(sizeof(struct nvml_license) == 860, "nvmlGridLicensableFeatures_t");

/* Every function that is used: its name without "nvml", and what it takes. All return
 * nvmlReturn_t. Any may be absent from an older library. */
#define NVML_FUNCTIONS(X)                                                                          \
	X(Init_v2, (void))                                                                         \
	X(Shutdown, (void))                                                                        \
	X(SystemGetDriverVersion, (char *, uint32_t))                                              \
	X(DeviceGetCount_v2, (uint32_t *))                                                         \
	X(DeviceGetHandleByIndex_v2, (uint32_t, nvml_device *))                                    \
	X(DeviceGetUUID, (nvml_device, char *, uint32_t))                                          \
	X(DeviceGetName, (nvml_device, char *, uint32_t))                                          \
	X(DeviceGetMinorNumber, (nvml_device, uint32_t *))                                         \
	X(DeviceGetPciInfo_v3, (nvml_device, struct nvml_pci *))                                   \
	X(DeviceGetCudaComputeCapability, (nvml_device, int32_t *, int32_t *))                     \
	X(DeviceGetMaxClockInfo, (nvml_device, uint32_t, uint32_t *))                              \
	X(DeviceGetMaxPcieLinkGeneration, (nvml_device, uint32_t *))                               \
	X(DeviceGetMaxPcieLinkWidth, (nvml_device, uint32_t *))                                    \
	X(DeviceGetCurrPcieLinkGeneration, (nvml_device, uint32_t *))                              \
	X(DeviceGetCurrPcieLinkWidth, (nvml_device, uint32_t *))                                   \
	X(DeviceGetTemperatureThreshold, (nvml_device, uint32_t, uint32_t *))                      \
	X(DeviceGetEccMode, (nvml_device, uint32_t *, uint32_t *))                                 \
	X(DeviceGetMemoryInfo, (nvml_device, struct nvml_memory *))                                \
	X(DeviceGetMemoryInfo_v2, (nvml_device, struct nvml_memory_v2 *))                          \
	X(DeviceGetUtilizationRates, (nvml_device, struct nvml_utilization *))                     \
	X(DeviceGetEncoderUtilization, (nvml_device, uint32_t *, uint32_t *))                      \
	X(DeviceGetDecoderUtilization, (nvml_device, uint32_t *, uint32_t *))                      \
	X(DeviceGetTemperature, (nvml_device, uint32_t, uint32_t *))                               \
	X(DeviceGetTemperatureV, (nvml_device, struct nvml_temperature *))                         \
	X(DeviceGetFanSpeed, (nvml_device, uint32_t *))                                            \
	X(DeviceGetPowerUsage, (nvml_device, uint32_t *))                                          \
	X(DeviceGetEnforcedPowerLimit, (nvml_device, uint32_t *))                                  \
	X(DeviceGetTotalEnergyConsumption, (nvml_device, unsigned long long *))                    \
	X(DeviceGetClockInfo, (nvml_device, uint32_t, uint32_t *))                                 \
	X(DeviceGetCurrentClocksEventReasons, (nvml_device, unsigned long long *))                 \
	X(DeviceGetCurrentClocksThrottleReasons, (nvml_device, unsigned long long *))              \
	X(DeviceGetPcieThroughput, (nvml_device, uint32_t, uint32_t *))                            \
	X(DeviceGetPcieReplayCounter, (nvml_device, uint32_t *))                                   \
	X(DeviceGetTotalEccErrors, (nvml_device, uint32_t, uint32_t, unsigned long long *))        \
	X(DeviceGetRemappedRows, (nvml_device, uint32_t *, uint32_t *, uint32_t *, uint32_t *))    \
	X(DeviceGetFieldValues, (nvml_device, int, struct nvml_field *))                           \
	X(DeviceGetGridLicensableFeatures_v4, (nvml_device, struct nvml_license *))                \
	X(DeviceGetComputeRunningProcesses_v2, (nvml_device, uint32_t *, struct nvml_process *))   \
	X(DeviceGetComputeRunningProcesses_v3, (nvml_device, uint32_t *, struct nvml_process *))   \
	X(DeviceGetProcessUtilization,                                                             \
	  (nvml_device, struct nvml_process_sample *, uint32_t *, unsigned long long))             \
	X(DeviceGetMigMode, (nvml_device, uint32_t *, uint32_t *))                                 \
	X(DeviceGetMaxMigDeviceCount, (nvml_device, uint32_t *))                                   \
	X(DeviceGetMigDeviceHandleByIndex, (nvml_device, uint32_t, nvml_device *))                 \
	X(DeviceGetGpuInstanceId, (nvml_device, uint32_t *))                                       \
	X(DeviceGetComputeInstanceId, (nvml_device, uint32_t *))                                   \
	X(EventSetCreate, (nvml_event_set *))                                                      \
	X(EventSetFree, (nvml_event_set))                                                          \
	X(EventSetWait_v2, (nvml_event_set, struct nvml_event *, uint32_t))                        \
	X(DeviceGetSupportedEventTypes, (nvml_device, unsigned long long *))                       \
	X(DeviceRegisterEvents, (nvml_device, unsigned long long, nvml_event_set))                 \
	X(GpmQueryDeviceSupport, (nvml_device, struct nvml_gpm_support *))                         \
	X(GpmSampleAlloc, (nvml_gpm_sample *))                                                     \
	X(GpmSampleFree, (nvml_gpm_sample))                                                        \
	X(GpmSampleGet, (nvml_device, nvml_gpm_sample))                                            \
	X(GpmMigSampleGet, (nvml_device, uint32_t, nvml_gpm_sample))                               \
	X(GpmMetricsGet, (struct nvml_gpm_metrics *))

/* The opened library; a function that it lacks is NULL. */
struct nvml_library {
	void *handle;
	const char *(*ErrorString)(int rc);
#define NVML_POINTER(name, args) int(*name) args;
	NVML_FUNCTIONS(NVML_POINTER)
#undef NVML_POINTER
};
