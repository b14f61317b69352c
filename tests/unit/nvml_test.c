/* nvml_test.c - the GPU collector over a made-up management library (tests/fake/nvml), whose
 * script is rewritten while the collector runs; and the arithmetic of its governor. Time is
 * virtual, ten samples a second; the CPU time that the governor measures is real.
 * links: base collect */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "collect/governor.h"
#include "collect/nvml.h"
#include "collect/registry.h"

#define MS   1000000ULL
#define TICK (100 * MS)

struct row {
	char entity[64], name[64];
	double value;
};

struct fixture {
	char folder[64];
	char script[80];
	char library[512];
	void *fake;
	uint64_t (*calls)(const char *name);
	int (*balance)(void);
	struct collect_env env;
	struct collect_sink sink;
	void *c;
	uint64_t now_ns;
	VEC(struct row) rows;
	struct buf texts, notes, gpus;
	size_t n_events;
};

/* The programs lie in BUILD/tests, the libraries in BUILD/tests/fake/nvml. */
static void find_library(char *ret, size_t size, const char *name)
{
	char self[400];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(n > 0);
	self[n] = 0;
	*strrchr(self, '/') = 0;
	snprintf(ret, size, "%s/fake/nvml/%s", self, name);
}

static void script(struct fixture *f, const char *text)
{
	char next[100];
	snprintf(next, sizeof(next), "%s.next", f->script);
	FILE *out = fopen(next, "we");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
	assert_int_equal(rename(next, f->script), 0);
}

static void on_value(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		     double value)
{
	struct fixture *f = ctx;
	struct row *r = vec_push(&f->rows);
	assert_int_equal(time_ns, f->now_ns);
	entity_text(r->entity, sizeof(r->entity), of);
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->value = value;
}

static void on_event(void *ctx, uint64_t time_ns, const struct entity *of, const char *name,
		     const char *text)
{
	struct fixture *f = ctx;
	assert_true(time_ns > 0);
	f->n_events++;
	assert_int_equal(of->kind, ENTITY_GPU);
	buf_printf(&f->texts, "[%u", of->gpu);
	if (of->pid)
		buf_printf(&f->texts, " pid %u", of->pid);
	buf_printf(&f->texts, " %s: %s]", name, text);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	buf_printf(&((struct fixture *)ctx)->notes, "[%s: %s]", subject, reason);
}

static void on_gpu(void *ctx, uint64_t time_ns, const struct gpu_info *info, bool present)
{
	assert_true(time_ns > 0);
	buf_printf(&((struct fixture *)ctx)->gpus, "[%s%s]", present ? "+" : "-", info->entity);
}

static size_t times(const struct buf *b, const char *what)
{
	size_t n = 0;
	char *text = strndup(b->data ? (const char *)b->data : "", b->len);
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	free(text);
	return n;
}

#define assert_times(b, what, n)                                                                   \
	do {                                                                                       \
		if (times(b, what) != (n))                                                         \
			fail_msg("\"%s\" is %zu times in: %.*s", what, times(b, what),             \
				 (int)(b)->len, (const char *)(b)->data);                          \
	} while (0)

static size_t rows_of(const struct fixture *f, const char *entity, const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < f->rows.len; i++)
		n += !strcmp(f->rows.data[i].entity, entity) && !strcmp(f->rows.data[i].name, name);
	return n;
}

static double last_value(const struct fixture *f, const char *entity, const char *name)
{
	for (size_t i = f->rows.len; i-- > 0;)
		if (!strcmp(f->rows.data[i].entity, entity) && !strcmp(f->rows.data[i].name, name))
			return f->rows.data[i].value;
	fail_msg("no %s of %s", name, entity);
	return 0;
}

#define assert_value(f, entity, name, want)                                                        \
	do {                                                                                       \
		double got_ = last_value(f, entity, name);                                         \
		if (!(fabs(got_ - (want)) <= 1e-9 * (1 + fabs((double)(want)))))                   \
			fail_msg("%s of %s is %.12g, not %.12g", name, entity, got_,               \
				 (double)(want));                                                  \
	} while (0)

static void run_ticks(struct fixture *f, int ticks)
{
	for (int i = 0; i < ticks; i++) {
		f->now_ns += TICK;
		collector_nvml.read(f->c, f->now_ns);
	}
}

static void forget(struct fixture *f)
{
	f->rows.len = 0;
	f->texts.len = f->notes.len = f->gpus.len = 0;
	f->n_events = 0;
}

static void open_library(struct fixture *f, const char *name)
{
	f->sink = (struct collect_sink){
		.ctx = f, .counter = on_value, .event = on_event, .note = on_note, .gpu = on_gpu};
	struct err e = {0};
	struct timespec t;
	find_library(f->library, sizeof(f->library), name);
	f->fake = dlopen(f->library, RTLD_NOW);
	if (!f->fake)
		fail_msg("%s", dlerror());
	*(void **)&f->calls = dlsym(f->fake, "fake_nvml_calls");
	*(void **)&f->balance = dlsym(f->fake, "fake_nvml_balance");
	f->env.nvml_library = f->library;
	f->env.proc_root = f->folder;
	if (collector_nvml.open(&f->c, &f->env, &f->sink, &e) != 0)
		fail_msg("%s", e.msg);
	clock_gettime(CLOCK_MONOTONIC, &t);
	f->now_ns = (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void open_fake(struct fixture *f)
{
	open_library(f, "libnvidia-ml.so.1");
}

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	snprintf(f->folder, sizeof(f->folder), "/tmp/eacgm-nvml-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->script, sizeof(f->script), "%s/script", f->folder);
	setenv("EACGM_FAKE_NVML", f->script, 1);
	script(f, "");
	*state = f;
	return 0;
}

/* Whatever a test did, the library was shut down and everything given back. */
static int tear_down(void **state)
{
	struct fixture *f = *state;
	int left = 0;
	if (f->c)
		collector_nvml.close(f->c);
	if (f->fake) {
		left = f->balance();
		dlclose(f->fake); /* unloads it: the next test starts with a fresh one */
	}
	unlink(f->script);
	rmdir(f->folder);
	vec_free(&f->rows);
	buf_free(&f->texts);
	buf_free(&f->notes);
	buf_free(&f->gpus);
	free(f);
	return left;
}

static void values_have_their_units(void **state)
{
	struct fixture *f = *state;
	script(f,
	       "gpu 0 sm 87\ngpu 0 memory 41\ngpu 0 temperature 63\ngpu 0 power_mw 512345\n"
	       "gpu 0 used 3000000000\ngpu 0 sm_clock 1755\ngpu 0 fan 55\ngpu 0 encoder 12\n"
	       "gpu 0 decoder 7\ngpu 0 energy_mj 123456\ngpu 0 ecc_corrected 3\n"
	       "gpu 0 rows_corrected 2\ngpu 0 rows_uncorrected 1\ngpu 0 replays 9\n"
	       "gpu 0 gpm_sm 50\ngpu 0 gpm_tensor 25\ngpu 0 gpm_dram 75\ngpu 0 gpm_pcie_tx_mib 2\n"
	       "gpu 0 link_crc 4\ngpu 0 license 2\n");
	open_fake(f);
	run_ticks(f, 50);
	assert_value(f, "gpu 0", "sm_ratio", 0.87);
	assert_value(f, "gpu 0", "memory_ratio", 0.41);
	assert_value(f, "gpu 0", "temperature_celsius", 63);
	assert_value(f, "gpu 0", "temperature_slowdown_celsius", 89);
	assert_value(f, "gpu 0", "memory_temperature_celsius", 45);
	assert_value(f, "gpu 0", "power_w", 512.345);
	assert_value(f, "gpu 0", "power_limit_w", 700);
	assert_value(f, "gpu 0", "memory_used_bytes", 3e9);
	assert_value(f, "gpu 0", "memory_total_bytes", 80.0 * 1073741824);
	assert_value(f, "gpu 0", "sm_clock_mhz", 1755);
	assert_value(f, "gpu 0", "memory_clock_mhz", 2619);
	assert_value(f, "gpu 0", "fan_ratio", 0.55);
	assert_value(f, "gpu 0", "encoder_ratio", 0.12);
	assert_value(f, "gpu 0", "decoder_ratio", 0.07);
	assert_value(f, "gpu 0", "energy_j", 123.456);
	assert_value(f, "gpu 0", "ecc_corrected_errors", 3);
	assert_value(f, "gpu 0", "ecc_uncorrected_errors", 0);
	assert_value(f, "gpu 0", "remapped_rows", 3);
	assert_value(f, "gpu 0", "remapped_rows_uncorrected", 1);
	assert_value(f, "gpu 0", "pcie_replays", 9);
	assert_value(f, "gpu 0", "pcie_width", 16);
	assert_value(f, "gpu 0", "nvlink_crc_errors", 4);
	assert_value(f, "gpu 0", "vgpu_licensed", 1);
	assert_value(f, "gpu 0", "gpm_sm_ratio", 0.5);
	assert_value(f, "gpu 0", "gpm_tensor_ratio", 0.25);
	assert_value(f, "gpu 0", "gpm_dram_ratio", 0.75);
	assert_int_equal(rows_of(f, "gpu 0", "gpm_fp64_ratio"), 0); /* the one it lacks */
	assert_value(f, "gpu 0", "pcie_tx_bytes_per_s", 2 * 1048576);
	assert_value(f, "gpu 0", "pcie_rx_bytes_per_s", 0);
	assert_true(last_value(f, "eacgm", "gpu_collector_cpu_ratio") > 0);
	assert_times(&f->gpus, "[+gpu 0]", 1);
	/* GPM has the PCIe traffic: the call of 20 ms is not made */
	assert_int_equal(f->calls("DeviceGetPcieThroughput"), 0);
}

static void periods_are_kept(void **state)
{
	struct fixture *f = *state;
	open_fake(f);
	run_ticks(f, 200);
	assert_int_equal(f->calls("DeviceGetUtilizationRates"), 100);
	assert_int_equal(rows_of(f, "gpu 0", "memory_used_bytes"), 200);
	assert_int_equal(rows_of(f, "gpu 0", "memory_total_bytes"), 2);
	assert_in_range(rows_of(f, "gpu 0", "temperature_celsius"), 39, 40);
	assert_int_equal(rows_of(f, "gpu 0", "ecc_corrected_errors"), 2);
	assert_int_equal(rows_of(f, "gpu 0", "gpm_sm_ratio"), 99); /* from the second sample on */
	assert_in_range(rows_of(f, "gpu 0", "gpm_dram_ratio"), 8, 9);
	assert_int_equal(f->calls("GpmSampleGet"), 100); /* both take the same samples */
}

/* A beat that comes a little early or late does not halve a rate. */
static void jitter_keeps_rates(void **state)
{
	struct fixture *f = *state;
	open_fake(f);
	for (int i = 0; i < 200; i++) {
		f->now_ns += i % 2 ? TICK + 20 * MS : TICK - 20 * MS;
		collector_nvml.read(f->c, f->now_ns);
	}
	assert_int_equal(rows_of(f, "gpu 0", "memory_used_bytes"), 200);
	assert_in_range(rows_of(f, "gpu 0", "sm_ratio"), 99, 101);
}

static void gpu_describes_itself(void *ctx, uint64_t time_ns, const struct gpu_info *info,
				 bool present)
{
	(void)time_ns;
	*(struct gpu_info *)ctx = *info;
	assert_true(present);
}

static void infos_are_complete(void **state)
{
	struct fixture *f = *state;
	struct gpu_info info = {0};
	struct err e;
	find_library(f->library, sizeof(f->library), "libnvidia-ml.so.1");
	f->env.nvml_library = f->library;
	f->env.proc_root = f->folder;
	f->sink = (struct collect_sink){.ctx = &info, .gpu = gpu_describes_itself};
	assert_int_equal(collector_nvml.open(&f->c, &f->env, &f->sink, &e), 0);
	assert_string_equal(info.entity, "gpu 0");
	assert_string_equal(info.uuid, "GPU-0000");
	assert_string_equal(info.name, "NVIDIA H200");
	assert_string_equal(info.bus_id, "00000000:10:00.0");
	assert_string_equal(info.driver, "580.00");
	assert_int_equal(info.memory_bytes, 80ULL << 30);
	assert_true(info.power_limit_w == 700.0);
	assert_int_equal(info.compute_major, 9);
	assert_int_equal(info.sm_clock_max_mhz, 1980);
	assert_int_equal(info.slowdown_celsius, 89);
	assert_int_equal(info.pcie_generation_max, 5);
	assert_int_equal(info.nvlink_count, 18);
	assert_int_equal(info.parent, -1);
	assert_int_equal(info.gpu_instance, -1);
	assert_true(info.has_gpm && info.has_ecc && !info.has_mig);
}

static void unsupported_is_asked_once(void **state)
{
	struct fixture *f = *state;
	script(f, "unsupported DeviceGetFanSpeed\nunsupported DeviceGetTotalEnergyConsumption\n");
	open_fake(f);
	run_ticks(f, 300);
	assert_int_equal(f->calls("EventSetCreate"), 1); /* no event is lost over it */
	assert_int_equal(f->calls("DeviceGetFanSpeed"), 1);
	assert_int_equal(f->calls("DeviceGetTotalEnergyConsumption"), 1);
	assert_int_equal(rows_of(f, "gpu 0", "fan_ratio"), 0);
	assert_times(&f->notes, "[gpu 0: not told by this GPU or driver: ", 1);
	assert_times(&f->notes, "fan", 1);
	assert_times(&f->notes, "energy", 1);
}

/* Another error may pass: it is asked again, ever more rarely, and said once. */
static void failures_back_off(void **state)
{
	struct fixture *f = *state;
	script(f, "fail DeviceGetUtilizationRates 999\n");
	open_fake(f);
	run_ticks(f, 600);
	assert_in_range(f->calls("DeviceGetUtilizationRates"), 5, 12);
	assert_times(&f->notes, "utilization fails: Unknown Error", 1);
	script(f, "gpu 0 sm 10\n");
	run_ticks(f, 200);
	assert_value(f, "gpu 0", "sm_ratio", 0.1);
	assert_true(rows_of(f, "gpu 0", "sm_ratio") > 30);
}

static void name_process(const struct fixture *f, const char *pid, const char *name)
{
	char path[120];
	snprintf(path, sizeof(path), "%s/%s", f->folder, pid);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/comm", f->folder, pid);
	FILE *out = fopen(path, "we");
	assert_non_null(out);
	fprintf(out, "%s\n", name);
	fclose(out);
}

static void forget_process(const struct fixture *f, const char *pid)
{
	char path[120];
	snprintf(path, sizeof(path), "%s/%s/comm", f->folder, pid);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s", f->folder, pid);
	rmdir(path);
}

/* Each once: those whose names cannot be seen too. */
static void others_come_and_go(void **state)
{
	struct fixture *f = *state;
	script(f, "process 0 100 5000 60\nprocess 0 200 1500 20\nprocess 0 201 250 5\n");
	name_process(f, "200", "trainer");
	open_fake(f);
	collector_nvml.add_pid(f->c, 100, false);
	run_ticks(f, 40);
	assert_times(&f->texts, "[0 pid 200 other_process_begins: trainer]", 1);
	assert_times(&f->texts, "[0 pid 201 other_process_begins: ]", 1);
	assert_int_equal(f->n_events, 2);
	script(f, "process 0 100 5000 60\nprocess 0 201 250 5\n");
	run_ticks(f, 40);
	assert_times(&f->texts, "[0 pid 200 other_process_ends: ]", 1);
	assert_int_equal(f->n_events, 3);
	collector_nvml.add_pid(f->c, 201, false); /* it is the job's after all */
	run_ticks(f, 40);
	assert_times(&f->texts, "[0 pid 201 other_process_ends: ]", 1);
	assert_int_equal(f->n_events, 4);
	forget_process(f, "200");
}

static void processes_are_told_apart(void **state)
{
	struct fixture *f = *state;
	script(f, "gpu 0 used 7000\nprocess 0 100 5000 60\nprocess 0 101 0 0\n"
		  "process 0 200 1500 20\nprocess 0 201 250 5\n");
	open_fake(f);
	collector_nvml.add_pid(f->c, 100, false);
	collector_nvml.add_pid(f->c, 101, false);
	collector_nvml.add_pid(f->c, 999, false);
	run_ticks(f, 40);
	assert_value(f, "gpu 0 pid 100", "memory_used_bytes", 5000);
	assert_value(f, "gpu 0 pid 100", "sm_ratio", 0.6);
	assert_value(f, "gpu 0 pid 100", "memory_ratio", 0.1);
	assert_value(f, "gpu 0 pid 100", "encoder_ratio", 0);
	assert_value(f, "gpu 0 pid 101", "sm_ratio", 0);
	assert_int_equal(rows_of(f, "gpu 0 pid 101", "memory_used_bytes"), 0); /* not known */
	assert_int_equal(rows_of(f, "gpu 0 pid 200", "memory_used_bytes"), 0);
	assert_int_equal(rows_of(f, "gpu 0 pid 999", "sm_ratio"), 0);
	assert_value(f, "gpu 0", "processes", 4);
	assert_value(f, "gpu 0", "other_processes", 2);
	assert_value(f, "gpu 0", "other_memory_bytes", 1750);
	assert_value(f, "gpu 0", "other_sm_ratio", 0.25);
	collector_nvml.del_pid(f->c, 100);
	forget(f);
	run_ticks(f, 20);
	assert_int_equal(rows_of(f, "gpu 0 pid 100", "memory_used_bytes"), 0);
	assert_value(f, "gpu 0", "other_memory_bytes", 6750);
	script(f, "");
	run_ticks(f, 40);
	assert_value(f, "gpu 0", "processes", 0);
	assert_value(f, "gpu 0", "other_sm_ratio", 0);
	uint64_t before = f->calls("DeviceGetProcessUtilization");
	run_ticks(f, 60); /* nobody is there: nobody is asked about */
	assert_int_equal(f->calls("DeviceGetProcessUtilization"), before);
}

/* More processes than any first guess of a buffer's size. */
/* A file of /proc or /sys; its folders are made. */
static void put(const struct fixture *f, const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", f->folder, name);
	for (char *slash = strchr(path + strlen(f->folder) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *out = fopen(path, "we");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void remove_files(const struct fixture *f)
{
	char command[128];
	snprintf(command, sizeof(command), "cd '%s' && rm -rf devices bus 100 101", f->folder);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a name of our own */
}

#define STAT_UP_TO_CPU                                                                             \
	"(a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 "  \
	"33 34 35 36 37 38 "

/* Of processes on a GPU the distance from where they run; of hosts with several nodes alone. */
static void nodes_and_distances(void **state)
{
	struct fixture *f = *state;
	f->env.sys_root = f->folder;
	script(f, "count 2\nprocess 0 100 5000 60\nprocess 0 101 1000 10\nprocess 1 100 1 1\n"
		  "process 0 200 1500 20\n");
	put(f, "devices/system/node/online", "0-1\n");
	put(f, "devices/system/node/node0/cpulist", "0-3\n");
	put(f, "devices/system/node/node1/cpulist", "4-7\n");
	put(f, "devices/system/node/node0/distance", "10 21\n");
	put(f, "devices/system/node/node1/distance", "21 10\n");
	put(f, "bus/pci/devices/0000:10:00.0/numa_node", "1\n");
	put(f, "bus/pci/devices/0000:11:00.0/numa_node", "-1\n");
	put(f, "100/stat", "100 " STAT_UP_TO_CPU "2 0\n");
	put(f, "101/stat", "101 " STAT_UP_TO_CPU "5 0\n");
	open_fake(f);
	collector_nvml.add_pid(f->c, 100, false);
	collector_nvml.add_pid(f->c, 101, false);
	run_ticks(f, 100);
	assert_value(f, "gpu 0", "numa_node", 1);
	assert_int_equal(rows_of(f, "gpu 1", "numa_node"), 0); /* the firmware does not tell */
	assert_value(f, "gpu 0 pid 100", "numa_distance", 21);
	assert_value(f, "gpu 0 pid 101", "numa_distance", 10);
	assert_int_equal(rows_of(f, "gpu 1 pid 100", "numa_distance"), 0);
	assert_int_equal(rows_of(f, "gpu 0 pid 200", "numa_distance"), 0); /* not the job's */
	put(f, "100/stat", "100 " STAT_UP_TO_CPU "7 0\n");
	put(f, "101/stat", "\n"); /* has ended */
	forget(f);
	run_ticks(f, 40);
	assert_value(f, "gpu 0 pid 100", "numa_distance", 10);
	assert_int_equal(rows_of(f, "gpu 0 pid 101", "numa_distance"), 0);
	assert_int_equal(f->notes.len, 0);
	remove_files(f);
}

static void one_node_is_not_told_of(void **state)
{
	struct fixture *f = *state;
	f->env.sys_root = f->folder;
	script(f, "process 0 100 5000 60\n");
	put(f, "devices/system/node/online", "0\n");
	put(f, "bus/pci/devices/0000:10:00.0/numa_node", "0\n");
	put(f, "100/stat", "100 " STAT_UP_TO_CPU "2 0\n");
	open_fake(f);
	collector_nvml.add_pid(f->c, 100, false);
	run_ticks(f, 100);
	assert_true(rows_of(f, "gpu 0 pid 100", "memory_used_bytes") > 0);
	assert_int_equal(rows_of(f, "gpu 0", "numa_node"), 0);
	assert_int_equal(rows_of(f, "gpu 0 pid 100", "numa_distance"), 0);
	assert_int_equal(f->notes.len, 0);
	remove_files(f);
}

static void many_processes_fit(void **state)
{
	struct fixture *f = *state;
	struct buf text = {0};
	for (int i = 0; i < 60; i++)
		buf_printf(&text, "process 0 %d 100 1\n", 1000 + i);
	buf_byte(&text, 0);
	script(f, (const char *)text.data);
	buf_free(&text);
	open_fake(f);
	run_ticks(f, 20);
	assert_value(f, "gpu 0", "processes", 60);
	assert_value(f, "gpu 0", "other_memory_bytes", 6000);
	assert_value(f, "gpu 0", "other_sm_ratio", 0.6);
}

static void events_are_told_once(void **state)
{
	struct fixture *f = *state;
	script(f, "count 2\n");
	open_fake(f);
	run_ticks(f, 5);
	assert_int_equal(f->n_events, 0);
	script(f, "count 2\nxid 1 79\nevent 0 2\n");
	run_ticks(f, 1); /* in the very next sample */
	assert_times(&f->texts, "[1 xid: 79: the GPU has fallen off the bus]", 1);
	assert_times(&f->texts, "[0 ecc_double_bit: ", 1);
	script(f, "count 2\nxid 1 79\nevent 0 2\nxid 0 31\nxid 0 12345\n");
	run_ticks(f, 50);
	assert_times(&f->texts, "[0 xid: 31: ", 1);
	assert_times(&f->texts, "[0 xid: 12345: ", 1);
	assert_int_equal(f->n_events, 4);
}

/* Where events are refused the rest goes on, and it is said once. */
static void no_events_is_said_once(void **state)
{
	struct fixture *f = *state;
	script(f, "count 2\nunsupported DeviceRegisterEvents\nxid 0 79\n");
	open_fake(f);
	run_ticks(f, 300);
	assert_times(&f->notes, "[gpu 0: no Xid and ECC events: ", 1);
	assert_times(&f->notes, "[gpu 1: no Xid and ECC events: ", 1);
	assert_int_equal(f->n_events, 0);
	assert_int_equal(f->calls("EventSetWait_v2"), 0);
	assert_true(rows_of(f, "gpu 1", "power_w") > 290);
}

static void worse_health_is_an_event(void **state)
{
	struct fixture *f = *state;
	script(f, "gpu 0 ecc_uncorrected 2\n");
	open_fake(f);
	run_ticks(f, 120);
	assert_int_equal(f->n_events, 0); /* what was so before is a value, no event */
	assert_value(f, "gpu 0", "ecc_uncorrected_errors", 2);
	script(f, "gpu 0 ecc_uncorrected 5\ngpu 0 pending 1\n");
	run_ticks(f, 220);
	assert_times(&f->texts, "[0 ecc_uncorrected: 3 more", 1);
	assert_times(&f->texts, "[0 row_remap_pending: ", 1);
	assert_int_equal(f->n_events, 2);
}

static void held_clocks_are_told(void **state)
{
	struct fixture *f = *state;
	script(f, "gpu 0 held 1\n"); /* idle holds nothing down */
	open_fake(f);
	run_ticks(f, 10);
	assert_int_equal(f->n_events, 0);
	assert_value(f, "gpu 0", "clocks_held_reasons", 1);
	assert_value(f, "gpu 0", "clock_limit_power_cap", 0);
	script(f, "gpu 0 held 4\n");
	run_ticks(f, 10);
	assert_times(&f->texts, "[0 clocks_held: power_cap]", 1);
	assert_value(f, "gpu 0", "clock_limit_power_cap", 1);
	script(f, "gpu 0 held 72\n"); /* hardware: at once, though 5 s are not over */
	run_ticks(f, 2);
	assert_times(&f->texts, "[0 clocks_held: thermal_hw, hw_slowdown]", 1);
	assert_value(f, "gpu 0", "clock_limit_power_cap", 0);
	assert_value(f, "gpu 0", "clock_limit_thermal_hw", 1);
	/* a flapping cap is all in the counter and rarely an event */
	forget(f);
	for (int i = 0; i < 50; i++) {
		script(f, i % 2 ? "gpu 0 held 4\n" : "gpu 0 held 0\n");
		run_ticks(f, 2);
	}
	assert_true(rows_of(f, "gpu 0", "clock_limit_power_cap") > 40);
	assert_in_range(f->n_events, 1, 3);
}

static void lost_gpu_is_said_once(void **state)
{
	struct fixture *f = *state;
	script(f, "count 3\n");
	open_fake(f);
	run_ticks(f, 20);
	script(f, "count 3\nlost 1\n");
	forget(f);
	run_ticks(f, 2);
	assert_times(&f->texts, "[1 fell_off_bus: gpu 1 (00000000:11:00.0)", 1);
	assert_times(&f->gpus, "[-gpu 1]", 1);
	forget(f);
	uint64_t before = f->calls("DeviceGetMemoryInfo_v2");
	run_ticks(f, 600);
	assert_int_equal(f->n_events, 0);
	assert_int_equal(f->gpus.len, 0);
	assert_int_equal(f->notes.len, 0);
	assert_int_equal(rows_of(f, "gpu 1", "power_w"), 0);
	assert_in_range(rows_of(f, "gpu 2", "power_w"), 590, 600);
	/* the two that are left, and one look in ten seconds whether the third is back */
	assert_in_range(f->calls("DeviceGetMemoryInfo_v2") - before, 1180, 1210);
	script(f, "count 3\n");
	run_ticks(f, 110);
	assert_times(&f->texts, "[1 returned: ", 1);
	assert_times(&f->gpus, "[+gpu 1]", 1);
	assert_true(rows_of(f, "gpu 1", "power_w") > 0);
}

static void reset_required_is_said(void **state)
{
	struct fixture *f = *state;
	open_fake(f);
	run_ticks(f, 5);
	script(f, "reset 0\n");
	run_ticks(f, 100);
	assert_times(&f->texts, "[0 reset_required: ", 1);
	assert_int_equal(f->n_events, 1);
}

/* GPUs that go and come keep their number, whatever the driver calls them then. */
static void gpus_come_and_go(void **state)
{
	struct fixture *f = *state;
	script(f, "count 2\ngpu 1 temperature 71\n");
	open_fake(f);
	run_ticks(f, 10);
	script(f, "count 2\ngone 0\ngpu 1 temperature 72\n");
	run_ticks(f, 60);
	assert_times(&f->gpus, "[-gpu 0]", 1);
	assert_times(&f->texts, "[0 vanished: ", 1);
	assert_value(f, "gpu 1", "temperature_celsius", 72);
	forget(f);
	script(f, "count 4\ngone 0\ngpu 1 temperature 73\ngpu 3 temperature 33\n");
	run_ticks(f, 70);
	assert_times(&f->gpus, "[+gpu 2]", 1);
	assert_times(&f->gpus, "[+gpu 3]", 1);
	assert_value(f, "gpu 1", "temperature_celsius", 73);
	assert_value(f, "gpu 3", "temperature_celsius", 33);
	script(f, "count 4\n");
	run_ticks(f, 70);
	assert_times(&f->gpus, "[+gpu 0]", 1);
	assert_value(f, "gpu 0", "temperature_celsius", 40);
}

/* No GPU at first, and a driver that goes and comes: nothing but two notes. */
static void driver_goes_and_comes(void **state)
{
	struct fixture *f = *state;
	script(f, "count 0\n");
	open_fake(f);
	assert_times(&f->notes, "[gpu: the NVIDIA driver has no GPU]", 1);
	run_ticks(f, 700);
	assert_int_equal(f->n_events, 0);
	script(f, "count 0\ninit 9\n");
	run_ticks(f, 700);
	assert_times(&f->notes, "the NVIDIA driver is not loaded", 1);
	uint64_t before = f->calls("DeviceGetCount_v2");
	run_ticks(f, 10);
	assert_int_equal(f->calls("DeviceGetCount_v2"), before);
	script(f, "count 1\n");
	run_ticks(f, 700);
	assert_times(&f->gpus, "[+gpu 0]", 1);
	assert_value(f, "gpu 0", "power_w", 120.5);
}

static void mig_instances_have_rows(void **state)
{
	struct fixture *f = *state;
	script(f, "count 2\nmig 1 2\ngpu 1 used 8000\ngpu 1 gpm_sm 40\nprocess 1 10 600 5\n"
		  "process 1 11 700 5\n");
	open_fake(f);
	assert_times(&f->gpus, "[+gpu 1]", 1);
	assert_times(&f->gpus, "[+gpu 1 mig 0]", 1);
	assert_times(&f->gpus, "[+gpu 1 mig 1]", 1);
	collector_nvml.add_pid(f->c, 10, false);
	run_ticks(f, 30);
	assert_value(f, "gpu 1", "memory_used_bytes", 8000);
	assert_value(f, "gpu 1 mig 0", "memory_used_bytes", 1000);
	assert_value(f, "gpu 1 mig 0", "memory_total_bytes", 10.0 * 1073741824);
	assert_value(f, "gpu 1 mig 1", "gpm_sm_ratio", 0.4);
	assert_value(f, "gpu 1 mig 0 pid 10", "memory_used_bytes", 600);
	assert_value(f, "gpu 1 mig 1", "other_memory_bytes", 700);
	assert_int_equal(rows_of(f, "gpu 1", "processes"), 0);
	assert_int_equal(rows_of(f, "gpu 1 mig 0", "power_w"), 0);
	/* GPM does not take the GPU as a whole then: its PCIe traffic comes from elsewhere */
	assert_int_equal(rows_of(f, "gpu 1", "gpm_sm_ratio"), 0);
	script(f, "count 2\nmig 1 1\n");
	run_ticks(f, 110);
	assert_times(&f->gpus, "[-gpu 1 mig 1]", 1);
	assert_times(&f->gpus, "[-gpu 1 mig 0]", 0);
	script(f, "count 2\ngpu 1 sm 5\n");
	run_ticks(f, 110);
	assert_times(&f->gpus, "[-gpu 1 mig 0]", 1);
	assert_value(f, "gpu 1", "sm_ratio", 0.05); /* could not be asked in MIG mode */
	assert_int_equal(f->n_events, 2);
	assert_times(&f->texts, "[1 pid 11 other_process_begins: ]", 1);
	assert_times(&f->texts, "[1 pid 11 other_process_ends: ]", 1);
}

static void mig_goes_with_its_gpu(void **state)
{
	struct fixture *f = *state;
	script(f, "mig 0 2\n");
	open_fake(f);
	run_ticks(f, 20);
	script(f, "mig 0 2\nlost 0\n");
	run_ticks(f, 120);
	assert_times(&f->gpus, "[-gpu 0", 3);
	assert_times(&f->texts, "fell_off_bus", 1);
	assert_int_equal(f->n_events, 1);
}

/* An old library: what it has is told, from the functions that it has. */
static void old_library_is_enough(void **state)
{
	struct fixture *f = *state;
	script(f, "gpu 0 used 1000\ngpu 0 reserved 24\ngpu 0 held 4\ngpu 0 ecc_corrected 6\n"
		  "gpu 0 replays 2\nprocess 0 10 600 5\nxid 0 13\n");
	open_library(f, "libnvidia-ml-old.so.1");
	collector_nvml.add_pid(f->c, 10, false);
	run_ticks(f, 60);
	assert_value(f, "gpu 0", "memory_used_bytes", 1024); /* with what is reserved */
	assert_value(f, "gpu 0", "power_w", 120.5);
	assert_value(f, "gpu 0", "temperature_celsius", 40);
	assert_value(f, "gpu 0", "clock_limit_power_cap", 1);
	assert_value(f, "gpu 0", "ecc_corrected_errors", 6);
	assert_value(f, "gpu 0", "pcie_replays", 2);
	assert_value(f, "gpu 0", "pcie_tx_bytes_per_s", 3e6);
	assert_value(f, "gpu 0", "pcie_rx_bytes_per_s", 4e6);
	assert_value(f, "gpu 0 pid 10", "memory_used_bytes", 600);
	assert_times(&f->texts, "[0 xid: 13: ", 1);
	assert_int_equal(rows_of(f, "gpu 0", "gpm_sm_ratio"), 0);
	run_ticks(f, 50);
	assert_times(&f->notes, " gpm,", 1);
	assert_times(&f->notes, "memory_temperature", 1);
}

/* Without GPM, rates are made from counts; a count that starts anew is no rate. */
static void counts_become_rates(void **state)
{
	struct fixture *f = *state;
	script(f, "gpu 0 gpm 0\ngpu 0 link_tx_kib 1000\ngpu 0 link_rx_kib 500\n"
		  "gpu 0 pcie_tx_bytes 5000\n");
	open_fake(f);
	run_ticks(f, 12); /* all were asked once */
	script(f, "gpu 0 gpm 0\ngpu 0 link_tx_kib 3000\ngpu 0 link_rx_kib 4500\n"
		  "gpu 0 pcie_tx_bytes 9000\n");
	run_ticks(f, 10);
	assert_value(f, "gpu 0", "nvlink_tx_bytes_per_s", 2000 * 1024.0);
	assert_value(f, "gpu 0", "nvlink_rx_bytes_per_s", 4000 * 1024.0);
	assert_value(f, "gpu 0", "pcie_tx_bytes_per_s", 2000);
	run_ticks(f, 10);
	assert_value(f, "gpu 0", "nvlink_tx_bytes_per_s", 0);
	size_t before = rows_of(f, "gpu 0", "nvlink_tx_bytes_per_s");
	script(f, "gpu 0 gpm 0\ngpu 0 link_tx_kib 10\n");
	run_ticks(f, 10);
	assert_int_equal(rows_of(f, "gpu 0", "nvlink_tx_bytes_per_s"), before);
}

static void refuses(const char *library, int rc, const char *words)
{
	const struct collect_env env = {.nvml_library = library};
	const struct collect_sink nobody = {0};
	void *c = &rc;
	struct err e = {0};
	assert_int_equal(collector_nvml.open(&c, &env, &nobody, &e), rc);
	if (!strstr(e.msg, words))
		fail_msg("\"%s\" is not in: %s", words, e.msg);
	assert_null(strchr(e.msg, '\n'));
	assert_ptr_equal(c, &rc);
}

static void absence_is_one_line(void **state)
{
	struct fixture *f = *state;
	char library[512];
	refuses("/nowhere/libnvidia-ml.so.1", -ENOENT, "/nowhere/libnvidia-ml.so.1");
	refuses("libm.so.6", -EINVAL, "libm.so.6 is not NVIDIA's management library");
	find_library(library, sizeof(library), "libnvidia-ml.so.1");
	script(f, "init 9\n");
	refuses(library, -ENODEV, "the NVIDIA driver is not loaded");
	script(f, "init 18\n");
	refuses(library, -EIO, "different versions");
	script(f, "init 4\n");
	refuses(library, -EACCES, "run as root");
	script(f, "init 999\n");
	refuses(library, -EIO, "Unknown Error");
}

/* A question that computes for 5 ms is asked as often as the budget allows, and the others
 * are not held back by it. */
static void dear_question_is_asked_less(void **state)
{
	struct fixture *f = *state;
	script(f, "spin DeviceGetUtilizationRates 5000\n");
	open_fake(f);
	run_ticks(f, 300);
	uint64_t before = f->calls("DeviceGetUtilizationRates");
	forget(f);
	run_ticks(f, 1200);
	uint64_t calls = f->calls("DeviceGetUtilizationRates") - before;
	/* 120 s x 0.4 % are 480 ms: 96 calls at most, where 600 were wanted */
	assert_in_range(calls, 20, 96);
	assert_in_range(rows_of(f, "gpu 0", "memory_used_bytes"), 1190, 1200);
	assert_true(last_value(f, "eacgm", "gpu_collector_stretch_ratio") > 6);
	/* and once it is cheap again, as often as wanted */
	script(f, "");
	run_ticks(f, 1200);
	before = f->calls("DeviceGetUtilizationRates");
	run_ticks(f, 100);
	assert_in_range(f->calls("DeviceGetUtilizationRates") - before, 48, 50);
}

/* What is always on reads once a second, and has 0.06 % of a core for a GPU: 72 ms of 120 s. */
static void seldom_read_has_a_smaller_budget(void **state)
{
	struct fixture *f = *state;
	script(f, "spin DeviceGetUtilizationRates 5000\n");
	f->env.period_least_ns = 1000 * MS;
	open_fake(f);
	for (int i = 0; i < 150; i++) {
		uint64_t calls = f->calls("DeviceGetUtilizationRates");
		if (i == 30)
			forget(f);
		collector_nvml.read(f->c, f->now_ns);
		f->now_ns += 1000 * MS;
		assert_true(f->calls("DeviceGetUtilizationRates") <= calls + 1);
	}
	assert_in_range(f->calls("DeviceGetUtilizationRates"), 5, 20);
	assert_in_range(rows_of(f, "gpu 0", "memory_used_bytes"), 118, 120);
}

static double load_of(const struct pace *paces, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += paces[i].cpu_ns / (double)paces[i].period_ns;
	return sum / GOVERNOR_CPU_RATIO;
}

static void governor_divides_fairly(void **state)
{
	(void)state;
	enum { N = 12 };
	struct pace paces[N];
	struct pace *all[N];
	for (int i = 0; i < N; i++) {
		paces[i] = (struct pace){.wanted_ns = TICK};
		paces[i].cpu_ns = i < 10 ? 1000 : 2e6;
		all[i] = &paces[i];
	}
	double largest = governor_plan(all, N, 1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(paces[i].period_ns, TICK);
	assert_true(paces[10].period_ns > TICK);
	assert_int_equal(paces[10].period_ns, paces[11].period_ns);
	assert_true(fabs(load_of(paces, N) - 1) < 0.01); /* all of the budget, and no more */
	assert_true(fabs(largest - (double)paces[10].period_ns / TICK) < 1e-6);
	/* twice the GPUs, twice the budget */
	uint64_t once = paces[10].period_ns;
	governor_plan(all, N, 2);
	assert_true(paces[10].period_ns < once);
	assert_true(fabs(load_of(paces, N) - 2) < 0.01);
	/* what is off costs nothing */
	paces[10].off = paces[11].off = true;
	assert_true(governor_plan(all, N, 1) == 1.0);
	/* time in the driver counts too */
	paces[3].wall_ns = 50e6;
	governor_plan(all, N, 1);
	assert_true(paces[3].period_ns > TICK);
	/* never less often than once a minute */
	paces[3].wall_ns = 1e12;
	governor_plan(all, N, 1);
	assert_int_equal(paces[3].period_ns, GOVERNOR_MAX_PERIOD_NS);
	assert_true(governor_plan(all, 0, 1) == 1.0);
}

/* One call during which the thread did not run is no slow question; slow ones are. */
static void governor_forgives_one_long_call(void **state)
{
	(void)state;
	struct pace p = {.wanted_ns = TICK};
	struct pace *all[] = {&p};
	for (int i = 0; i < 20; i++)
		pace_paid(&p, 4000, i == 10 ? 500 * MS : 4000);
	assert_true(p.wall_ns < 4001);
	assert_true(governor_plan(all, 1, 1) == 1.0);
	for (int i = 0; i < 20; i++)
		pace_paid(&p, 4000, 21 * MS);
	assert_true(p.wall_ns > 20e6);
	assert_true(governor_plan(all, 1, 1) > 6);
}

static void governor_never_overspends(void **state)
{
	(void)state;
	enum { N = 60 };
	struct pace paces[N];
	struct pace *all[N];
	uint64_t seed = 12345;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < N; i++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			paces[i] = (struct pace){.wanted_ns = TICK << (seed >> 60) % 6};
			paces[i].cpu_ns = (double)(1ULL << (seed >> 40) % 22);
			all[i] = &paces[i];
		}
		governor_plan(all, N, 1);
		assert_true(load_of(paces, N) <= 1.001);
		for (int i = 0; i < N; i++)
			assert_true(paces[i].period_ns >= paces[i].wanted_ns);
	}
}

int main(void)
{
#define WITH_FAKE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_FAKE(values_have_their_units),
		WITH_FAKE(periods_are_kept),
		WITH_FAKE(jitter_keeps_rates),
		WITH_FAKE(infos_are_complete),
		WITH_FAKE(unsupported_is_asked_once),
		WITH_FAKE(failures_back_off),
		WITH_FAKE(others_come_and_go),
		WITH_FAKE(processes_are_told_apart),
		WITH_FAKE(nodes_and_distances),
		WITH_FAKE(one_node_is_not_told_of),
		WITH_FAKE(many_processes_fit),
		WITH_FAKE(events_are_told_once),
		WITH_FAKE(no_events_is_said_once),
		WITH_FAKE(worse_health_is_an_event),
		WITH_FAKE(held_clocks_are_told),
		WITH_FAKE(lost_gpu_is_said_once),
		WITH_FAKE(reset_required_is_said),
		WITH_FAKE(gpus_come_and_go),
		WITH_FAKE(driver_goes_and_comes),
		WITH_FAKE(mig_instances_have_rows),
		WITH_FAKE(mig_goes_with_its_gpu),
		WITH_FAKE(old_library_is_enough),
		WITH_FAKE(counts_become_rates),
		WITH_FAKE(absence_is_one_line),
		WITH_FAKE(dear_question_is_asked_less),
		WITH_FAKE(seldom_read_has_a_smaller_budget),
		cmocka_unit_test(governor_divides_fairly),
		cmocka_unit_test(governor_forgives_one_long_call),
		cmocka_unit_test(governor_never_overspends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
