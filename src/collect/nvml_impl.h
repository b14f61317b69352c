/* nvml_impl.h - what the files of the GPU collector share.
 *
 * nvml.c opens, paces and closes; nvml_library.c finds the functions; nvml_devices.c keeps the
 * list of GPUs; nvml_metrics.c holds the table of what is asked; nvml_processes.c, gpm.c,
 * nvml_events.c the parts of it that need more than one call. */
#pragma once

#include <pthread.h>

#include "base/buffer.h"
#include "collect/collector.h"
#include "collect/governor.h"
#include "collect/nvml.h"
#include "collect/nvml_abi.h"

#define MS 1000000ULL
#define S  1000000000ULL

struct device;
struct nvml;

/* Asks one thing of a device and tells the values. Returns nvmlReturn_t: an error means that
 * nothing was told. */
typedef int (*question)(struct nvml *c, struct device *d, uint64_t now_ns);

enum { OF_GPU = 1, OF_INSTANCE = 2 };

struct nvml_metric {
	const char *name; /* as notes and docs/telemetry.md name it */
	uint8_t of;	  /* OF_* */
	uint64_t period_ns;
	question ask;
};

enum { NVML_MAX_METRICS = 24 };
extern const struct nvml_metric nvml_metrics[];
extern const size_t nvml_metrics_count;

struct task {
	struct pace pace;
	uint32_t failures; /* in a row */
	bool unsupported;  /* not asked again while the device is there */
	bool noted;
};

/* Fields that are asked in one call; those that are not supported drop out. */
enum { NVML_MAX_FIELDS = 8 };
struct field_set {
	struct nvml_field fields[NVML_MAX_FIELDS];
	int n;
	bool filled;
};

/* A count that only grows, for its rate. */
struct rate {
	double value;
	uint64_t time_ns; /* 0: no value yet */
};

/* Metrics that are computed together, from the sample before to the latest. */
struct gpm_group {
	struct nvml_gpm_metrics *get;
	int before; /* index into samples; -1: none yet */
};

enum { GPM_CHEAP, GPM_DEAR, GPM_GROUPS };

struct gpm {
	/* one for each group's last look, the latest, and one to fill */
	nvml_gpm_sample samples[GPM_GROUPS + 2];
	uint64_t time_ns[GPM_GROUPS + 2]; /* when each was taken */
	int latest;			  /* -1: none yet */
	struct gpm_group groups[GPM_GROUPS];
};

struct device {
	struct gpu_info info;
	nvml_device handle;
	struct device *parent; /* of a MIG instance */
	bool seen;	       /* in the enumeration that is under way */
	bool lost;
	bool announced;
	bool events_noted; /* that it tells none */
	struct task tasks[NVML_MAX_METRICS];

	/* what questions remember */
	uint64_t total_told_ns, slowdown_told_ns;
	bool no_memory_v2, no_power_field;
	uint64_t held, held_told; /* NVML_HELD_*; held UINT64_MAX: not known yet */
	uint64_t held_told_ns;	  /* 0: never */
	struct field_set health, links, link_rates, pcie_rates, power, memory_temperature;
	double ecc_uncorrected, remapping_pending, remapping_failed; /* -1: not known */
	struct rate link_tx, link_rx, pcie_tx, pcie_rx;
	uint64_t samples_seen_us;
	VEC(uint32_t) on_gpu; /* watched processes that were on it at the last look */
	VEC(uint32_t) others; /* those of which it was told that they came */
	bool no_process;      /* nobody was */
	struct gpm gpm;
};

struct watched_pids {
	pthread_mutex_t lock;
	VEC(pid_t) data; /* under lock */
};

struct nvml {
	struct nvml_library lib;
	const struct collect_env *env;
	const struct collect_sink *sink;
	bool initialised;
	char driver[NVML_DRIVER_BYTES];

	VEC(struct device *) devices; /* instances after their GPU */
	struct watched_pids watched;
	VEC(pid_t) pids; /* this sample's copy of watched */

	/* paces of everything that may be asked; rebuilt when devices change */
	VEC(struct pace *) paces;
	struct pace event_pace, count_pace, list_pace;
	bool devices_changed, paces_changed, list_now;
	uint64_t restart_ns; /* when to start the library anew; 0: nothing is missing */
	bool count_failed;

	nvml_event_set event_set;
	bool event_set_failed;

	VEC(struct nvml_process) processes;
	VEC(struct nvml_process_sample) samples;
	struct numa *numa; /* collect/numa.h; NULL: one node */
	bool numa_looked;

	/* cost */
	uint64_t report_ns, first_ns;
	uint64_t cpu_ns, cpu_reported_ns;
	double stretch;

	uint64_t now_ns; /* of the running read */
};

/* A function that the library lacks is one that is not supported. */
#define ASK(c, name, ...)                                                                          \
	((c)->lib.name ? (c)->lib.name(__VA_ARGS__) : (int)NVML_FUNCTION_NOT_FOUND)

/* The index of the physical GPU. */
static inline uint32_t gpu_index(const struct device *d)
{
	return d->parent ? d->parent->info.index : d->info.index;
}

/* Of all of it, or of a process on it. */
static inline struct entity entity_of(const struct device *d, uint32_t pid)
{
	return ENTITY_OF_GPU(gpu_index(d), d->parent ? (int32_t)d->info.index : -1, pid);
}

/* Tells a value of a device. */
static inline void tell(struct nvml *c, const struct device *d, const char *name, double value)
{
	struct entity of = entity_of(d, 0);
	sink_counter(c->sink, c->now_ns, &of, name, value);
}

/* nvml.c: how often that is wanted which is to be asked so often, where collectors are read seldom.
 */
uint64_t nvml_period(const struct nvml *c, uint64_t wanted_ns);

/* Whether it makes no sense to ask again. */
bool nvml_means_never(int rc);
/* Whether the device cannot be asked anything any more. */
bool nvml_means_lost(int rc);

/* nvml_library.c. library NULL: NVML_LIBRARY where the dynamic linker finds it. */
int nvml_library_open(struct nvml_library *lib, const char *library, struct err *e);
void nvml_library_close(struct nvml_library *lib);
const char *nvml_text(const struct nvml_library *lib, int rc);
/* nvmlInit and what it says. */
int nvml_start(const struct nvml_library *lib, struct err *e);

/* nvml_devices.c */
/* Brings the list up to date with the driver's: handles, GPUs and instances that came or went. */
void devices_update(struct nvml *c, uint64_t now_ns);
/* Whether the driver counts other GPUs than the list has. */
bool devices_differ(struct nvml *c);
/* Shuts the library down and starts it again: what was attached or repaired since is seen. */
void devices_restart(struct nvml *c, uint64_t now_ns);
/* rc made the device unusable: says so once and stops asking it. */
void device_lost(struct nvml *c, struct device *d, int rc, uint64_t now_ns);
void device_changed(struct nvml *c, struct device *d);
/* Forgets all handles: before the library is shut down. */
void devices_release(struct nvml *c);
/* Notes what turned out not to be supported since the last time. */
void devices_note_unsupported(struct nvml *c);
void devices_free(struct nvml *c);

/* nvml_events.c */
void note(struct nvml *c, const char *subject, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void event(struct nvml *c, const struct device *d, uint64_t now_ns, const char *name,
	   const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Registers all present GPUs for events, once more after a change. */
void events_register(struct nvml *c);
void events_release(struct nvml *c);
/* Tells what has happened, without waiting. */
void events_drain(struct nvml *c, uint64_t now_ns);

/* nvml_processes.c, gpm.c: questions */
/* nvml_others.c: n that are not watched and are on it now. */
void tell_others(struct nvml *c, struct device *d, const uint32_t *pids, size_t n);

int ask_processes(struct nvml *c, struct device *d, uint64_t now_ns);
int ask_process_utilization(struct nvml *c, struct device *d, uint64_t now_ns);
/* nvml_numa.c: of files, so that they are never "not supported". */
int ask_numa_node(struct nvml *c, struct device *d, uint64_t now_ns);
int ask_numa_distance(struct nvml *c, struct device *d, uint64_t now_ns);
int ask_gpm(struct nvml *c, struct device *d, uint64_t now_ns);
int ask_gpm_dear(struct nvml *c, struct device *d, uint64_t now_ns);

bool gpm_supported(struct nvml *c, const struct device *d);
/* Before the handle or the library goes. */
void gpm_release(struct nvml *c, struct device *d);
