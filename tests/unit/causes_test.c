/* causes_test.c - the cause that evidence tells, and where an incident is cut.
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include <cmocka.h>

#include "base/entity.h"
#include "events/tables.h"
#include "incident/cause_words.h"
#include "incident/diagnosis_impl.h"
#include "wire/stalls.h"

#define MS 1e6
#define S  1000000000ULL
enum { MM, ADD, ITEM, MALLOC, COPY, PROBES };
enum { THROTTLED, OTHERS, CLOCK, USED, LIMIT, METRICS };

static struct rec_tables tables;
static struct evidence e;

static void name_probe(uint32_t at, const char *layer, const char *name, const char *role)
{
	while (tables.probes.len <= at)
		*vec_push(&tables.probes) = (struct m_probe){.name_arg = -1};
	struct m_probe *p = &tables.probes.data[at];
	p->layer = strtab_add(&tables.strings, layer, strlen(layer));
	p->name = strtab_add(&tables.strings, name, strlen(name));
	p->role = strtab_add(&tables.strings, role, strlen(role));
}

static void name_metric(uint8_t kind, const char *name)
{
	*vec_push(&tables.metrics) =
		(struct m_metric){.kind = kind,
				  .instance = -1,
				  .name = strtab_add(&tables.strings, name, strlen(name))};
}

static int begin(void **state)
{
	(void)state;
	tables = (struct rec_tables){0};
	strtab_add(&tables.strings, "", 0);
	name_probe(MM, "torch", "aten::mm", "");
	name_probe(ADD, "torch", "aten::add_", "");
	name_probe(ITEM, "torch", "aten::item", "");
	name_probe(MALLOC, "cuda", "cudaMalloc", "alloc");
	name_probe(COPY, "cuda", "cudaMemcpy", "copy");
	name_metric(ENTITY_CGROUP, "throttled_ratio");
	name_metric(ENTITY_GPU, "other_processes");
	name_metric(ENTITY_GPU, "sm_clock_mhz");
	name_metric(ENTITY_CGROUP, "memory_used_bytes");
	name_metric(ENTITY_CGROUP, "memory_limit_bytes");
	*vec_push(&tables.threads) = (struct m_thread){7, 7, 0};
	e = (struct evidence){.t = &tables,
			      .pid = 7,
			      .by_steps = true,
			      .n_slow = 10,
			      .n_usual = 100,
			      .saving_frame = BLAME_NO_FRAME};
	e.blame.usual_ns = 1000 * MS;
	e.blame.whole_ns = 1000 * MS;
	return 0;
}

static int end(void **state)
{
	(void)state;
	evidence_free(&e);
	strtab_free(&tables.strings);
	vec_free(&tables.probes);
	vec_free(&tables.metrics);
	vec_free(&tables.threads);
	vec_free(&tables.processes);
	vec_free(&tables.sources);
	vec_free(&tables.events);
	return 0;
}

static void event(uint64_t time_ns, const char *entity, const char *name, const char *text)
{
	*vec_push(&tables.events) = (struct m_event){time_ns, strtab_add_z(&tables.strings, entity),
						     strtab_add_z(&tables.strings, name),
						     strtab_add_z(&tables.strings, text)};
	e.from_ns = 10000000000ULL;
	e.to_ns = 20000000000ULL;
}

static void part(enum blame_kind kind, enum blame_via via, double ms, uint32_t pid)
{
	*vec_push(&e.blame.parts) = (struct blame_part){.owner = {.kind = (uint8_t)kind,
								  .via = (uint8_t)via,
								  .thread = pid ? UINT32_MAX : 0,
								  .pid = pid,
								  .frame = BLAME_NO_FRAME},
							.ns = ms * MS};
	e.blame.whole_ns += ms * MS;
}

static void called(uint32_t probe, double n, double usual_n, double ms, double usual_ms)
{
	*vec_push(&e.calls) = (struct call_growth){.probe = probe,
						   .n = n,
						   .usual_n = usual_n,
						   .ns = ms * MS,
						   .usual_ns = usual_ms * MS};
}

/* Of the last calls: by themselves. */
static void of_them_own(double ms)
{
	struct call_growth *c = &e.calls.data[e.calls.len - 1];
	c->own_ns = ms * MS;
	c->usual_own_ns = c->usual_ns;
	c->outer_n = c->n;
	c->usual_outer_n = c->usual_n;
}

static void counts(uint32_t metric, double mean, double usual)
{
	*vec_push(&e.counters) = (struct counter_change){metric, mean, usual};
}

static struct cause_found is(enum cause want)
{
	struct cause_found f;
	cause_find(&f, &e);
	if (f.cause != want)
		fail_msg("%s, wanted %s", cause_id(f.cause), cause_id(want));
	assert_true(f.confidence >= 0 && f.confidence <= 1);
	assert_true(cause_title(f.cause)[0] && cause_advice(f.cause)[0]);
	struct cause_found ret = f;
	cause_free(&f);
	ret.evidence_len = 0; /* its texts are gone */
	ret.against = NULL;
	return ret;
}

static void says(const struct cause_found *f, const char *want)
{
	struct buf b = {0};
	cause_headline(&b, &tables, f);
	buf_byte(&b, 0);
	assert_string_equal((const char *)b.data, want);
	buf_free(&b);
}

static void others_on_the_cpu(void **state)
{
	(void)state;
	part(BLAME_RIVAL, VIA_ITSELF, 700, 4242);
	part(BLAME_SPREAD, VIA_ITSELF, 300, 0);
	struct cause_found f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_PROCESS);
	assert_int_equal(f.culprit.pid, 4242);
	assert_true(f.confidence > 0.5);
}

/* Where a quota is used up others may be seen on the CPU all the same. */
static void a_quota_is_no_contention(void **state)
{
	(void)state;
	part(BLAME_RIVAL, VIA_ITSELF, 300, 4242);
	part(BLAME_NO_CPU, VIA_ITSELF, 500, 0);
	counts(THROTTLED, 0.45, 0);
	is(CAUSE_CPU_THROTTLE);
}

static void without_its_counter_a_quota_is_told_by_idle_cpus(void **state)
{
	(void)state;
	part(BLAME_NO_CPU, VIA_ITSELF, 500, 0);
	is(CAUSE_CPU_THROTTLE);
}

/* The counter is there, and did not grow: kernel threads had the CPU. */
static void a_quota_that_is_not_used_up_is_no_cause(void **state)
{
	(void)state;
	part(BLAME_NO_CPU, VIA_ITSELF, 500, 0);
	counts(THROTTLED, 0, 0);
	struct cause_found f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
}

static void a_bystander_is_no_culprit(void **state)
{
	(void)state;
	part(BLAME_NO_CPU, VIA_ITSELF, 500, 0);
	part(BLAME_RIVAL, VIA_ITSELF, 20, 4242);
	counts(THROTTLED, 0, 0);
	assert_int_equal(is(CAUSE_CPU_CONTENTION).culprit.kind, CULPRIT_NONE);
}

/* None of four workers had it as long as one bystander, but they had it together. */
static void many_of_a_name_are_more_than_one_of_another(void **state)
{
	(void)state;
	part(BLAME_RIVAL, VIA_ITSELF, 250, 10);
	for (uint32_t pid = 20; pid < 24; pid++) {
		part(BLAME_RIVAL, VIA_ITSELF, 160 + pid, pid);
		e.blame.parts.data[e.blame.parts.len - 1].owner.name = 1;
	}
	struct cause_found f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_PROCESS);
	assert_int_equal(f.culprit.pid, 23);
	assert_int_equal(f.culprit.name, 1);
}

static void the_lock_and_the_cpu_that_its_holder_takes(void **state)
{
	(void)state;
	part(BLAME_SIBLING, VIA_ITSELF, 400, 7);
	part(BLAME_RUNS, VIA_GIL, 350, 0);
	is(CAUSE_PYTHON_GIL);
}

/* Where both have one CPU who has the lock has that, too: it is hardly waited for. */
static void the_lock_on_a_shared_cpu(void **state)
{
	(void)state;
	part(BLAME_SIBLING, VIA_ITSELF, 900, 7);
	part(BLAME_SPREAD, VIA_GIL, 35, 0);
	is(CAUSE_PYTHON_GIL);
	e.blame.parts.data[1].owner.kind = BLAME_RIVAL; /* it had no CPU itself */
	is(CAUSE_CPU_CONTENTION);
	e.blame.parts.data[1] = (struct blame_part){0};
	part(BLAME_SPREAD, VIA_GIL, 5, 0);
	is(CAUSE_CPU_CONTENTION);
}

/* Or it does not ask for it at all: it only wants to run, and who has the CPU runs Python. */
static void own_python_on_a_shared_cpu(void **state)
{
	(void)state;
	part(BLAME_SIBLING, VIA_ITSELF, 300, 7);
	part(BLAME_SIBLING, VIA_ITSELF, 100, 7);
	e.blame.parts.data[1].owner.frame = 3;
	struct cause_found f = is(CAUSE_PYTHON_GIL);
	assert_int_equal(f.culprit.kind, CULPRIT_LINE);
	assert_int_equal(f.culprit.frame, 3);
	e.blame.parts.data[0].ns = 1200 * MS; /* one in thirteen */
	is(CAUSE_CPU_CONTENTION);
	e.blame.parts.data[0] = e.blame.parts.data[1]; /* a child of the job, not its thread */
	e.blame.parts.data[0].owner.pid = e.blame.parts.data[1].owner.pid = 8;
	is(CAUSE_CPU_CONTENTION);
}

static void threads_of_its_own_are_contention_too(void **state)
{
	(void)state;
	part(BLAME_SIBLING, VIA_ITSELF, 400, 7);
	struct cause_found f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.pid, 7);
}

static void operations_or_reads(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 500, 0);
	called(MM, 100, 100, 900, 900);
	called(ADD, 40000, 100, 300, 1);
	is(CAUSE_LAUNCH_BOUND);
	e.calls.len = 0;
	called(MM, 100, 100, 900, 900);
	called(ITEM, 4000, 10, 300, 1);
	is(CAUSE_EXCESS_SYNC);
	e.calls.len = 0;
	called(MM, 100, 100, 1400, 900);
	is(CAUSE_SLOW_CODE);
	e.calls.len = 0;
	called(MM, 100, 100, 900, 900);
	called(MALLOC, 400, 1, 200, 1);
	is(CAUSE_ALLOC_CHURN);
}

static void a_call_that_became_slower(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 500, 0);
	called(ADD, 100, 100, 1500, 1000); /* around the other */
	of_them_own(1000);
	called(MM, 105, 100, 1400, 900);
	of_them_own(1400);
	struct cause_found f = is(CAUSE_SLOW_CALL);
	assert_int_equal(f.culprit.kind, CULPRIT_CALL);
	says(&f, "a call became slower: aten::mm");
	assert_true(f.confidence <= 0.88); /* 0.6, calibrated */
}

static void more_calls_are_none_that_became_slower(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 500, 0);
	called(MM, 150, 100, 1400, 900);
	of_them_own(1400);
	is(CAUSE_SLOW_CODE);
}

/* Lines grew, and of that a little is in calls. */
static void slower_lines_around_calls(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 500, 0);
	called(MM, 100, 100, 1100, 900);
	of_them_own(1100);
	struct cause_found f = is(CAUSE_SLOW_CODE);
	assert_int_equal(f.runner_up, CAUSE_SLOW_CALL);
}

/* Neighbours make all code some tenths slower beside whatever else is the matter. */
static void slower_alike_gives_way_to_what_is_named(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 637, 0);
	part(BLAME_GIL, VIA_ITSELF, 354, 0);
	struct cause_found f = is(CAUSE_PYTHON_GIL);
	assert_int_equal(f.runner_up, CAUSE_MEM_BANDWIDTH);
	vec_free(&e.blame.parts);
	e.blame.whole_ns = e.blame.usual_ns;
	part(BLAME_SPREAD, VIA_ITSELF, 800, 0);
	part(BLAME_GIL, VIA_ITSELF, 180, 0);
	f = is(CAUSE_MEM_BANDWIDTH);
	assert_int_equal(f.runner_up, CAUSE_PYTHON_GIL);
}

/* Each call is longer, since the thread has no CPU, or its code is slower, wherever it is; what a
 * line has more than that is no call's. */
static void all_calls_longer_alike(void **state)
{
	(void)state;
	part(BLAME_RIVAL, VIA_ITSELF, 600, 4242);
	part(BLAME_RUNS, VIA_ITSELF, 300, 0);
	called(MM, 100, 100, 1440, 900);
	of_them_own(1440);
	struct cause_found f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.runner_up, CAUSE_SLOW_CODE);
	e.blame.parts.data[0].owner.kind = BLAME_SPREAD;
	f = is(CAUSE_MEM_BANDWIDTH);
	assert_int_equal(f.runner_up, CAUSE_SLOW_CODE);
	e.blame.parts.data[0].owner.kind = BLAME_COLLECTS;
	f = is(CAUSE_PYTHON_GC);
	assert_int_equal(f.runner_up, CAUSE_SLOW_CODE);
	e.blame.parts.data[0].owner.kind = BLAME_NO_CPU;
	counts(THROTTLED, 0.6, 0);
	f = is(CAUSE_CPU_THROTTLE);
	assert_int_equal(f.runner_up, CAUSE_SLOW_CODE);
}

static void calls_that_wait_for_the_gpu_are_the_gpus(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 300, 0);
	called(ITEM, 100, 100, 600, 100);
	of_them_own(600);
	called(COPY, 100, 100, 600, 100);
	of_them_own(600);
	is(CAUSE_SLOW_CODE); /* they say nothing of lines */
	e.calls.len = 0;
	called(MM, 100, 100, 600, 100); /* its launch waits for room */
	of_them_own(600);
	part(BLAME_GPU_WORKS, VIA_ITSELF, 400, 0);
	struct cause_found f = is(CAUSE_GPU_SLOW);
	assert_int_equal(f.runner_up, CAUSE_SLOW_CODE);
	e.calls.len = 0;
	called(COPY, 100, 100, 600, 100);
	of_them_own(600);
	f = is(CAUSE_PCIE);
}

static void data_checkpoints_collections(void **state)
{
	(void)state;
	part(BLAME_SLEEP, VIA_DATA, 500, 0);
	is(CAUSE_DATA_LOADER);
	part(BLAME_SAVES, VIA_ITSELF, 400, 0);
	part(BLAME_WRITE, VIA_ITSELF, 400, 0);
	struct cause_found f = is(CAUSE_CHECKPOINT);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	e.saving_frame = 4;
	f = is(CAUSE_CHECKPOINT);
	assert_int_equal(f.culprit.kind, CULPRIT_LINE);
	assert_int_equal(f.culprit.frame, 4);
	part(BLAME_COLLECTS, VIA_ITSELF, 2000, 0);
	is(CAUSE_PYTHON_GC);
	part(BLAME_STOPPED, VIA_ITSELF, 5000, 0);
	is(CAUSE_STOPPED);
}

static void the_gpu_and_who_else_is_on_it(void **state)
{
	(void)state;
	part(BLAME_GPU_WORKS, VIA_ITSELF, 500, 0);
	e.kernels_n = e.usual_kernels_n = 100;
	e.kernels_ns = 1500 * MS;
	e.usual_kernels_ns = 1000 * MS;
	is(CAUSE_GPU_SLOW);
	counts(OTHERS, 1, 0);
	is(CAUSE_GPU_CONTENTION);
	e.counters.len = 0;
	counts(CLOCK, 900, 1900);
	is(CAUSE_GPU_CLOCK);
}

static void devices_are_named(void **state)
{
	(void)state;
	uint32_t rx = strtab_add_z(&tables.strings, "NET_RX");
	uint32_t vda = strtab_add_z(&tables.strings, "vda");
	part(BLAME_INTERRUPTED, VIA_ITSELF, 300, 0);
	*vec_push(&e.stalls) = (struct stall_growth){STALL_RECLAIM, 0, 900 * MS, 0};
	*vec_push(&e.stalls) = (struct stall_growth){STALL_SOFTIRQ, rx, 300 * MS, 1 * MS};
	struct cause_found f = is(CAUSE_INTERRUPTS);
	assert_int_equal(f.culprit.kind, CULPRIT_INTERRUPT);
	assert_int_equal(f.culprit.device, rx);
	part(BLAME_DISK, VIA_ITSELF, 900, 0);
	*vec_push(&e.disks) = (struct disk_growth){vda, 0, 7, 1e6, 1e6};
	*vec_push(&e.disks) = (struct disk_growth){vda, 0, 4242, 9e8, 0};
	f = is(CAUSE_DISK);
	assert_int_equal(f.culprit.kind, CULPRIT_DISK);
	assert_int_equal(f.culprit.pid, 4242);
	assert_int_equal(f.culprit.device, vda);
}

static void sender(uint32_t pid, double ms, double usual_ms)
{
	*vec_push(&e.senders) = (struct sender_growth){strtab_add_z(&tables.strings, "flood"), pid,
						       ms * MS, usual_ms * MS};
}

static void whose_packets_they_are(void **state)
{
	(void)state;
	uint32_t rx = strtab_add_z(&tables.strings, "NET_RX");
	part(BLAME_INTERRUPTED, VIA_ITSELF, 300, 0);
	*vec_push(&e.stalls) = (struct stall_growth){STALL_SOFTIRQ, rx, 310 * MS, 10 * MS};
	sender(23, 110, 100); /* as usual */
	sender(42, 160, 0);
	struct cause_found f = is(CAUSE_INTERRUPTS);
	assert_int_equal(f.culprit.pid, 42);
	says(&f, "interrupts took the job's CPUs: NET_RX, packets of flood (42)");
	e.senders.data[1].ns = 140 * MS; /* less than half of it */
	assert_int_equal(is(CAUSE_INTERRUPTS).culprit.pid, 0);
	e.senders.data[1].ns = 290 * MS;
	*vec_push(&tables.processes) = (struct m_process){.pid = 42}; /* the job's own */
	assert_int_equal(is(CAUSE_INTERRUPTS).culprit.pid, 0);
	tables.processes.len = 0;
	*vec_push(&e.stalls) = (struct stall_growth){
		STALL_SOFTIRQ, strtab_add_z(&tables.strings, "TIMER"), 320 * MS, 0};
	assert_int_equal(is(CAUSE_INTERRUPTS).culprit.pid, 0);
}

static void who_stopped_it(void **state)
{
	(void)state;
	part(BLAME_STOPPED, VIA_ITSELF, 300, 0);
	assert_int_equal(is(CAUSE_STOPPED).culprit.kind, CULPRIT_NONE);
	e.blame.parts.data[0].owner.pid = 42;
	e.blame.parts.data[0].owner.name = strtab_add_z(&tables.strings, "gdb");
	struct cause_found f = is(CAUSE_STOPPED);
	assert_int_equal(f.culprit.kind, CULPRIT_PROCESS);
	says(&f, "the job was stopped by gdb (42)");
	struct buf b = {0};
	blame_owner_words(&b, &tables, &e.blame.parts.data[0].owner);
	buf_byte(&b, 0);
	assert_string_equal((const char *)b.data, "was stopped by gdb (42)");
	buf_free(&b);
}

static void of_host(const char *name, double mean, double usual)
{
	name_metric(ENTITY_HOST, name);
	counts((uint32_t)tables.metrics.len - 1, mean, usual);
}

/* The same instructions take longer: so much of all that ran is no more than that. */
static void cpus_that_run_slower(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 400, 0);
	part(BLAME_RUNS, VIA_ITSELF, 100, 0);
	e.blame.parts.data[0].whole_ns = 1300 * MS;
	e.blame.parts.data[1].whole_ns = 200 * MS;
	is(CAUSE_MEM_BANDWIDTH);
	name_metric(ENTITY_PROCESS, "fixed_work_ns");
	tables.metrics.data[tables.metrics.len - 1].pid = 7;
	counts((uint32_t)tables.metrics.len - 1, 1340, 1000);
	struct cause_found f = is(CAUSE_CPU_SLOW);
	assert_int_equal(f.culprit.kind, CULPRIT_HOST);
	assert_true(fabs(f.explained_ns - 0.6 * 1500 * MS * 340 / 1340) < MS);
	part(BLAME_GIL, VIA_ITSELF, 200, 0);
	is(CAUSE_PYTHON_GIL); /* beside what is named it is the host's usual weather */
	tables.metrics.data[tables.metrics.len - 1].pid = 8;
	e.blame.parts.len = 2;
	e.blame.whole_ns = 1500 * MS;
	is(CAUSE_MEM_BANDWIDTH); /* another process's CPUs */
}

static void memory_of_another_node(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 500, 0);
	of_host("numa_hint_faults_per_s", 50000, 10);
	is(CAUSE_MEM_BANDWIDTH); /* one node */
	of_host("numa_local_pages_per_s", 90000, 100000);
	of_host("numa_other_pages_per_s", 500, 400);
	is(CAUSE_NUMA);
	assert_true(strstr(cause_advice(CAUSE_NUMA), "--membind") != NULL);
	e.counters.len = 0;
	of_host("numa_local_pages_per_s", 90000, 100000);
	of_host("numa_other_pages_per_s", 60000, 400);
	is(CAUSE_NUMA);
	e.counters.len = 0; /* more of all, as much of it the other's as usual */
	of_host("numa_local_pages_per_s", 900000, 100000);
	of_host("numa_other_pages_per_s", 9000, 1000);
	of_host("numa_migrated_pages_per_s", 900, 0);
	is(CAUSE_MEM_BANDWIDTH);
	of_host("numa_migrated_pages_per_s", 90000, 0);
	struct cause_found f = is(CAUSE_NUMA);
	assert_int_equal(f.runner_up, CAUSE_MEM_BANDWIDTH);
	e.blame.parts.data[0].owner.kind = BLAME_RUNS; /* lines stand out */
	is(CAUSE_SLOW_CODE);
}

static void nothing_that_is_known(void **state)
{
	(void)state;
	part(BLAME_OTHER, VIA_ITSELF, 500, 0);
	struct cause_found f = is(CAUSE_UNKNOWN);
	assert_true(f.confidence == 0);
}

static void an_evaluation_is_other_work(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 500, 0);
	called(MM, 300, 100, 900, 300);
	called(ADD, 0, 100, 0, 600);
	is(CAUSE_OTHER_WORK);
}

/* ---- ranks ---- */

/* Of the thread at 1, of process 50, which is rank 1. */
static void peer_part(enum blame_kind kind, double ms, uint32_t pid)
{
	if (tables.threads.len == 1) {
		*vec_push(&tables.threads) = (struct m_thread){50, 50, 0};
		*vec_push(&tables.processes) = (struct m_process){.pid = 50, .rank = 1};
	}
	part(kind, VIA_ITSELF, ms, pid);
	e.blame.parts.data[e.blame.parts.len - 1].owner.peer = 2;
}

static void a_straggler_and_what_held_it_back(void **state)
{
	(void)state;
	part(BLAME_RUNS, VIA_ITSELF, 100, 0);
	peer_part(BLAME_RIVAL, 600, 4242);
	e.blame.parts.data[1].owner.name = strtab_add_z(&tables.strings, "hog");
	peer_part(BLAME_SPREAD, 100, 0);
	struct cause_found f = is(CAUSE_STRAGGLER);
	assert_int_equal(f.culprit.kind, CULPRIT_RANK);
	assert_int_equal(f.culprit.pid, 50);
	assert_int_equal(f.culprit.rank, 1);
	assert_int_equal(f.why, CAUSE_CPU_CONTENTION);
	assert_int_equal(f.why_culprit.pid, 4242);
	assert_true(f.confidence > 0.5);
	assert_string_equal(cause_found_advice(&f), cause_advice(CAUSE_CPU_CONTENTION));
	says(&f, "straggler: rank 1 (50), CPU contention by hog (4242)");
}

/* What another rank did is no cause of one's own. */
static void what_ranks_wait_for_together_is_the_network(void **state)
{
	(void)state;
	peer_part(BLAME_NETWORK, 500, 0);
	peer_part(BLAME_RUNS, 200, 0);
	is(CAUSE_NETWORK);
	peer_part(BLAME_OTHER, 900, 0);
	struct cause_found f = is(CAUSE_STRAGGLER);
	says(&f, "straggler: rank 1 (50)");
}

static void nobody_named_is_a_straggler_too(void **state)
{
	(void)state;
	part(BLAME_RANKS, VIA_ITSELF, 500, 0);
	assert_int_equal(is(CAUSE_STRAGGLER).culprit.kind, CULPRIT_NONE);
}

static void nic(double bytes_per_s, double usual)
{
	static const char name[] = "sent_bytes_per_s", label[] = "eth0 of pid 7";
	name_metric(ENTITY_INTERFACE, name);
	tables.metrics.data[tables.metrics.len - 1].label = strtab_add_z(&tables.strings, label);
	counts((uint32_t)tables.metrics.len - 1, bytes_per_s, usual);
}

static void round_trip(double ms, double usual_ms)
{
	name_metric(ENTITY_PROCESS, "net_round_trip_ns");
	tables.metrics.data[tables.metrics.len - 1].pid = 7;
	counts((uint32_t)tables.metrics.len - 1, ms * MS, usual_ms * MS);
}

static void grows(const char *name, double by, double usual)
{
	name_metric(ENTITY_PROCESS, name);
	tables.metrics.data[tables.metrics.len - 1].pid = 7;
	counts((uint32_t)tables.metrics.len - 1, by, usual);
}

/* A second; segments that were sent again. */
static void sent(double bytes, double usual, double again, double usual_again)
{
	e.counters.len = 0;
	grows("net_sent_bytes", bytes, usual);
	grows("net_received_bytes", bytes, usual);
	grows("net_retransmits", again, usual_again);
}

static void why_the_network_was_slow(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 400, 0);
	part(BLAME_NETWORK, VIA_LOCK, 100, 0);
	struct cause_found f = is(CAUSE_NETWORK); /* nothing is known of it */
	sent(4e6, 12e6, 200, 5);
	is(CAUSE_NET_LOSS);
	nic(4e6, 12e6); /* 1 to 1, as usual */
	f = is(CAUSE_NET_LOSS);
	assert_int_equal(f.culprit.kind, CULPRIT_INTERFACE);
	says(&f, "the network lost packets, which were sent again: eth0");
	size_t before = e.counters.len;
	round_trip(9, 5);
	is(CAUSE_NET_LOSS); /* 7 % of segments: more than that queue loses */
	e.counters.len = before;
	round_trip(30, 5);
	f = is(CAUSE_NET_BANDWIDTH);
	says(&f, "the network was full, or limited: eth0");
	sent(4e6, 12e6, 20, 0);
	nic(4e6, 12e6);
	round_trip(9, 5);
	is(CAUSE_NET_BANDWIDTH); /* 0.7 % */
	sent(4e6, 12e6, 0, 0);
	nic(4e6, 12e6);
	round_trip(30, 5);
	is(CAUSE_NET_BANDWIDTH);
	sent(2e6, 12e6, 140, 0); /* 10 % */
	nic(2e6, 12e6);
	round_trip(30, 5);
	is(CAUSE_NET_LOSS);
	sent(4e30, -12e6, 0, 0); /* of a damaged file */
	cause_find(&f, &e);
	cause_free(&f);
	sent(2e5, 6e5, 0, 0); /* too little to fill anything */
	nic(2e5, 6e5);
	round_trip(30, 5);
	is(CAUSE_NETWORK);
}

/* A second, beside round trips of a queue. */
static void timers(double ran_out, double usual, double resent, double round_trip_ms)
{
	sent(2e6, 12e6, 9, 0);
	grows("net_resent_bytes", resent, 0);
	grows("net_timeouts", ran_out, usual);
	nic(2e6, 12e6);
	round_trip(round_trip_ms, 5);
}

static void timers_tell_a_bad_link_from_a_full_one(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 400, 0);
	timers(0.9, 0, 2e4, 30); /* 1 % */
	is(CAUSE_NET_LOSS);
	timers(0.4, 0, 2e4, 30); /* few */
	is(CAUSE_NET_BANDWIDTH);
	timers(0.9, 0.4, 2e4, 30); /* as usual */
	is(CAUSE_NET_BANDWIDTH);
	timers(0.9, 0, 2e3, 30); /* next to nothing was sent again */
	is(CAUSE_NET_BANDWIDTH);
	timers(0.9, 0, 2e4, 300); /* a queue as long as a timer */
	is(CAUSE_NET_BANDWIDTH);
}

/* What was sent again without payload, as for a connection that is made, is no loss of it. */
static void bytes_go_before_segments(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 400, 0);
	sent(1e5, 12e6, 1, 0);
	nic(1e5, 12e6);
	round_trip(5, 5);
	is(CAUSE_NET_LOSS); /* a guess: 1.4 % */
	grows("net_resent_bytes", 0, 0);
	is(CAUSE_NETWORK);
	e.counters.len = 0;
	sent(2e6, 12e6, 200, 0); /* of 15 % by their number, but they are short */
	grows("net_resent_bytes", 4e3, 0);
	nic(2e6, 12e6);
	round_trip(30, 5);
	is(CAUSE_NET_BANDWIDTH);
}

static void others_on_the_network(void **state)
{
	(void)state;
	part(BLAME_NETWORK, VIA_ITSELF, 500, 0);
	sent(4e6, 12e6, 200, 5);
	nic(12e6, 12e6); /* as much as usual, a third of it the job's */
	struct cause_found f = is(CAUSE_NET_FOREIGN);
	says(&f, "others used the network beside the job: eth0");
	sent(4e6, 12e6, 200, 5);
	nic(300e6, 1e6); /* an interface that the job does not use */
	is(CAUSE_NET_LOSS);
}

static void a_rank_that_does_not_come(void **state)
{
	(void)state;
	part(BLAME_RANKS, VIA_ITSELF, 400, 0);
	part(BLAME_NETWORK, VIA_LOCK, 100, 0);
	*vec_push(&tables.processes) = (struct m_process){
		.pid = 51, .comm = strtab_add_z(&tables.strings, "python3"), .rank = 3};
	event(25000000000ULL, "rank 3", "collective_hang", "no progress for 5 s");
	is(CAUSE_STRAGGLER); /* another time */
	event(15000000000ULL, "rank 3", "collective_hang", "no progress for 5 s");
	struct cause_found f = is(CAUSE_HANG);
	assert_int_equal(f.culprit.kind, CULPRIT_RANK);
	assert_int_equal(f.culprit.rank, 3);
	says(&f, "hang: rank 3 (51)");
}

/* Why a rank is late is no hang; and it is told of the rank that is missing alone. */
static void a_hang_says_why_its_rank_is_late(void **state)
{
	(void)state;
	part(BLAME_RANKS, VIA_ITSELF, 400, 0);
	peer_part(BLAME_RIVAL, 600, 4242);
	*vec_push(&e.stalls) = (struct stall_growth){STALL_SOFTIRQ, 0, 900 * MS, 0};
	event(15000000000ULL, "rank 1", "collective_hang", "no progress for 5 s");
	struct cause_found f = is(CAUSE_HANG);
	assert_int_equal(f.culprit.pid, 50);
	assert_int_equal(f.why, CAUSE_CPU_CONTENTION);
	tables.events.len = 0;
	*vec_push(&tables.processes) = (struct m_process){.pid = 51, .rank = 3};
	event(15000000000ULL, "rank 3", "collective_hang", "no progress for 5 s");
	f = is(CAUSE_HANG);
	assert_int_equal(f.culprit.pid, 51);
	assert_int_equal(f.why, CAUSE_UNKNOWN);
	tables.events.len = 0;
	event(15000000000ULL, "rank -1", "collective_hang", "no progress for 5 s");
	assert_int_equal(is(CAUSE_HANG).culprit.kind, CULPRIT_NONE);
}

static void of_cgroup(const char *label, double mean)
{
	name_metric(ENTITY_CGROUP, "throttled_ratio");
	tables.metrics.data[tables.metrics.len - 1].label = strtab_add_z(&tables.strings, label);
	counts((uint32_t)tables.metrics.len - 1, mean, 0);
}

static void a_quota_of_another_cgroup_is_no_cause(void **state)
{
	(void)state;
	part(BLAME_RIVAL, VIA_ITSELF, 500, 4242);
	*vec_push(&tables.processes) = (struct m_process){.pid = 7, .rank = -1};
	of_cgroup("/a", 0);
	of_cgroup("/b", 0.6);
	is(CAUSE_CPU_CONTENTION);
	tables.processes.data[0].cpu_limit = 2;
	is(CAUSE_CPU_THROTTLE);
}

static void counters_of_another_host_are_no_cause(void **state)
{
	(void)state;
	uint32_t a = strtab_add_z(&tables.strings, "a"), b = strtab_add_z(&tables.strings, "b");
	*vec_push(&tables.sources) = (struct m_source){.host = a};
	*vec_push(&tables.sources) = (struct m_source){.host = b};
	*vec_push(&tables.processes) = (struct m_process){.pid = 7, .rank = 0};
	*vec_push(&tables.processes) = (struct m_process){.pid = 8, .rank = 1, .source = 1};
	part(BLAME_SPREAD, VIA_ITSELF, 500, 0);
	of_host("cpu_steal_ratio", 0.5, 0);
	tables.metrics.data[tables.metrics.len - 1].host = b;
	is(CAUSE_MEM_BANDWIDTH);
	grows("net_sent_bytes", 5e6, 5e6);
	grows("net_sent_bytes", 7e6, 7e6);
	tables.metrics.data[tables.metrics.len - 1].pid = 8;
	assert_true(evidence_net_rate(&e, "net_sent_bytes").now == 5e6);
	event(15 * S, "b gpu 0", "xid", "63: a row of memory is being remapped");
	event(15 * S, "b gpu 0 pid 99", "other_process_begins", "elsewhere");
	assert_null(evidence_event(&e, "xid"));
	assert_null(evidence_gpu_rival(&e));
	event(11 * S, "a gpu 0 pid 98", "other_process_begins", "here");
	assert_non_null(evidence_gpu_rival(&e));
	tables.metrics.data[tables.metrics.len - 3].host = a;
	is(CAUSE_CPU_STOLEN);
	tables.metrics.data[tables.metrics.len - 3].host = strtab_add_z(&tables.strings, "a#1");
	is(CAUSE_CPU_STOLEN); /* two of that name: it may be its */
}

/* Of a cause that is told by what ran: less time was stolen than usual, then more. */
static void what_did_not_grow_is_no_evidence(void **state)
{
	struct cause_found f;
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 500, 0);
	of_host("cpu_steal_ratio", 0.0007, 0.0067);
	cause_find(&f, &e);
	assert_int_equal(f.cause, CAUSE_MEM_BANDWIDTH);
	assert_int_equal(f.evidence_len, 0);
	cause_free(&f);
	e.counters.data[e.counters.len - 1].usual = 0.0001;
	cause_find(&f, &e);
	assert_int_equal(f.evidence_len, 1);
	cause_free(&f);
}

/* Named is who is there alone, or who came as it began; not who went before, was there all the time
 * among several, is on another GPU or of the job. */
static void who_else_is_on_its_gpu(void **state)
{
	(void)state;
	part(BLAME_GPU_WORKS, VIA_ITSELF, 500, 0);
	counts(OTHERS, 1, 0);
	event(1 * S, "gpu 0 pid 70", "other_process_begins", "went");
	event(2 * S, "gpu 0 pid 70", "other_process_ends", "");
	event(3 * S, "gpu 0 pid 71", "other_process_begins", "stays");
	event(21 * S, "gpu 0 pid 72", "other_process_begins", "later");
	struct cause_found f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_PROCESS);
	says(&f, "GPU contention by stays (71)");
	counts(OTHERS, 2, 0); /* another one had come before anything was recorded */
	f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	e.counters.len--;
	event(5 * S, "gpu 1 pid 71", "other_process_begins", "stays"); /* of both */
	event(6 * S, "gpu 1 pid 71", "other_process_ends", "");
	f = is(CAUSE_GPU_CONTENTION);
	says(&f, "GPU contention by stays (71)");
	event(4 * S, "gpu 0 pid 73", "other_process_begins", "beside");
	f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	says(&f, "GPU contention");
	event(15 * S, "gpu 0 pid 76", "other_process_begins", "in its midst");
	f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	event(9 * S, "gpu 0 pid 74", "other_process_begins", "");
	f = is(CAUSE_GPU_CONTENTION);
	says(&f, "GPU contention by process 74");
	*vec_push(&tables.processes) = (struct m_process){.pid = 74};
	f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	event(9 * S, "gpu 0 mig 1 pid 75", "other_process_begins", "shares");
	tables.metrics.data[OTHERS].pid = 7; /* the job has another instance */
	tables.metrics.data[OTHERS].instance = 2;
	f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	tables.metrics.data[OTHERS].instance = 1;
	f = is(CAUSE_GPU_CONTENTION);
	says(&f, "GPU contention by shares (75)");
}

static void an_error_of_its_gpu(void **state)
{
	(void)state;
	part(BLAME_GPU_WORKS, VIA_ITSELF, 500, 0);
	event(15000000000ULL, "gpu 2", "xid", "63: a row of memory is being remapped");
	counts(OTHERS, 1, 0);
	tables.metrics.data[OTHERS].gpu = 2;
	struct cause_found f = is(CAUSE_GPU_ERROR);
	assert_int_equal(f.culprit.kind, CULPRIT_GPU);
	says(&f, "the GPU reported an error: GPU 2");
	tables.metrics.data[OTHERS].gpu = 1;
	tables.metrics.data[OTHERS].pid = 7; /* the job uses another one */
	is(CAUSE_GPU_CONTENTION);
}

static struct diagnosed *incident(struct diagnosis *d, uint32_t pid, uint64_t from_s, uint64_t to_s)
{
	struct diagnosed *in = vec_push(&d->incidents);
	*in = (struct diagnosed){.pid = pid,
				 .blamed = true,
				 .cost_ns = 1e9,
				 .onset_ns = from_s * 1000000000ULL,
				 .end_ns = to_s * 1000000000ULL};
	in->cause.culprit.kind = CULPRIT_NONE;
	return in;
}

static struct diagnosed *waits_for(struct diagnosis *d, uint32_t pid, uint64_t from_s,
				   uint64_t to_s, uint32_t rank_pid)
{
	struct diagnosed *in = incident(d, pid, from_s, to_s);
	in->cause.cause = CAUSE_STRAGGLER;
	in->cause.culprit = (struct culprit){.kind = CULPRIT_RANK, .pid = rank_pid};
	return in;
}

static void one_incident_of_ranks_that_wait_for_one(void **state)
{
	(void)state;
	struct diagnosis d = {0};
	incident(&d, 50, 10, 14)->cause.cause = CAUSE_PYTHON_GC;
	waits_for(&d, 7, 9, 15, 50)->aside = true;
	waits_for(&d, 8, 10, 16, 50)->cost_ns = 0.5e9;
	incident(&d, 50, 20, 24)->cause.cause = CAUSE_DISK; /* nobody waited */
	incident(&d, 7, 20, 24)->aside = true;
	waits_for(&d, 7, 30, 34, 50);
	incident(&d, 50, 38, 44)->cause.cause = CAUSE_LOCK;	/* another time */
	incident(&d, 50, 50, 54)->cause.cause = CAUSE_NET_LOSS; /* between them */
	waits_for(&d, 7, 50, 54, 50)->aside = true;
	diagnosis_join_ranks(&d);
	assert_int_equal(d.incidents.len, 5);
	const struct diagnosed *in = d.incidents.data;
	assert_int_equal(in[0].pid, 7);
	assert_int_equal(in[0].cause.why, CAUSE_PYTHON_GC);
	assert_int_equal(in[0].onset_ns, 9000000000ULL);
	assert_int_equal(in[0].end_ns, 16000000000ULL);
	assert_int_equal(in[1].cause.cause, CAUSE_DISK);
	assert_int_equal(in[2].cause.cause, CAUSE_STRAGGLER);
	assert_int_equal(in[3].cause.cause, CAUSE_LOCK);
	assert_int_equal(in[4].cause.cause, CAUSE_NET_LOSS);
	diagnosis_free(&d);
}

/* ---- cutting ---- */

#define SLICES 12
static void slices_of(struct evidence_question q[SLICES], struct evidence at[SLICES],
		      struct blame_span spans[SLICES])
{
	for (size_t i = 0; i < SLICES; i++) {
		spans[i] =
			(struct blame_span){0, i * 1000000000ULL, (i + 1) * 1000000000ULL, 0.5e9};
		q[i] = (struct evidence_question){.slow = {&spans[i], 1, 0}};
		at[i] = (struct evidence){.t = &tables, .pid = 7, .n_slow = 1};
		at[i].blame.usual_ns = 0.5e9;
		at[i].blame.whole_ns = 1e9;
	}
}

static void free_cut(questions_t *cut, struct evidence at[SLICES])
{
	for (size_t i = 0; i < SLICES; i++)
		evidence_free(&at[i]);
	for (size_t i = 0; i < cut->len; i++)
		vec_free(&cut->data[i].slow);
	vec_free(cut);
}

static void slice_has(struct evidence *at, enum blame_kind kind, double ns)
{
	*vec_push(&at->blame.parts) = (struct blame_part){
		.owner = {.kind = (uint8_t)kind, .frame = BLAME_NO_FRAME}, .ns = ns};
}

/* Files that are read again and again: of a cgroup that is full; else it is the disk's. */
static void files_of_a_full_cgroup(void **state)
{
	(void)state;
	part(BLAME_FILLS, VIA_ITSELF, 600, 0);
	part(BLAME_RUNS, VIA_ITSELF, 400, 0); /* the line that reads */
	counts(USED, 990e6, 600e6);
	counts(LIMIT, 1000e6, NAN);
	struct cause_found f = is(CAUSE_MEMORY_RECLAIM);
	assert_int_equal(f.culprit.kind, CULPRIT_CGROUP);
	assert_int_equal(f.culprit.metric, LIMIT);
	e.counters.data[0].mean = 700e6;
	is(CAUSE_DISK);
}

static void part_of_line(enum blame_kind kind, double ms, uint32_t frame)
{
	part(kind, VIA_ITSELF, ms, 0);
	e.blame.parts.data[e.blame.parts.len - 1].owner.frame = frame;
}

/* The line that reads copies, too; what another line ran is its own. */
static void copies_of_files_are_the_readers(void **state)
{
	(void)state;
	part_of_line(BLAME_FILLS, 300, 1);
	part_of_line(BLAME_RUNS, 700, 1);
	counts(USED, 990e6, 600e6);
	counts(LIMIT, 1000e6, NAN);
	is(CAUSE_MEMORY_RECLAIM);
	e.blame.parts.data[1].owner.frame = 2;
	is(CAUSE_SLOW_CODE);
	/* what one line ran is copied once, in how many ways it may have waited */
	e.blame.parts.data[1].owner.frame = 1;
	e.blame.parts.data[0].ns = 100 * MS;
	part_of_line(BLAME_FILLS, 100, 1);
	struct cause_found f = is(CAUSE_MEMORY_RECLAIM);
	assert_true(fabs(f.explained_ns - 400 * MS) < MS);
}

/* A worker that waits for its parent lost more than that; a launcher above lost nothing. */
static void a_slow_parent_is_the_victim_not_who_waits_for_its_work(void **state)
{
	const struct anomaly lost[] = {{.pid = 30, .lost_ns = 5 * MS},
				       {.pid = 20, .lost_ns = 3 * MS},
				       {.pid = 20, .lost_ns = NAN},
				       {.pid = 0, .lost_ns = 9 * MS}};
	const struct anomaly *all[] = {&lost[0], &lost[1], &lost[2], &lost[3]};
	double ns;
	(void)state;
	*vec_push(&tables.processes) = (struct m_process){.pid = 10, .parent_pid = 1};
	*vec_push(&tables.processes) = (struct m_process){.pid = 20, .parent_pid = 10};
	*vec_push(&tables.processes) = (struct m_process){.pid = 30, .parent_pid = 20};
	assert_int_equal(diagnosis_victim(&tables, all, 4, &ns), 20);
	assert_true(ns == 3 * MS);
	assert_int_equal(diagnosis_victim(&tables, all, 1, &ns), 30); /* nobody above lost any */
	assert_true(ns == 5 * MS);
	assert_int_equal(diagnosis_victim(&tables, &all[3], 1, &ns), 0);
	/* of a damaged file: each is the other's parent */
	tables.processes.data[1].parent_pid = 30;
	assert_int_not_equal(diagnosis_victim(&tables, all, 4, &ns), 0);
}

static void an_incident_is_cut_where_its_cause_changes(void **state)
{
	(void)state;
	struct evidence_question q[SLICES];
	struct evidence at[SLICES];
	struct blame_span spans[SLICES];
	questions_t cut = {0};
	slices_of(q, at, spans);
	for (size_t i = 0; i < SLICES; i++) {
		if (i == 5 || i == 6) { /* as usual */
			at[i].blame.whole_ns = 0.51e9;
			continue;
		}
		slice_has(&at[i], i < 5 ? BLAME_RIVAL : BLAME_COLLECTS, i == 2 ? 0.1e9 : 0.4e9);
		if (i == 2) /* one slice of something else is no change */
			slice_has(&at[i], BLAME_COLLECTS, 0.2e9);
	}
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 2);
	assert_int_equal(cut.data[0].slow.data[0].from_ns, 0);
	assert_int_equal(cut.data[0].slow.len, 5);
	assert_int_equal(cut.data[1].slow.data[0].from_ns, 7000000000ULL);
	assert_int_equal(cut.data[1].slow.len, 5);
	free_cut(&cut, at);
}

/* A full link, by one look at its counters in each second: measured on one of 20 Mbit/s. What few
 * seconds say of which of the network's causes it is cuts nothing; a real change does. */
static void pieces_of_network(size_t lossy_from, size_t lossy_to, size_t n)
{
	struct evidence_question q[SLICES];
	struct evidence at[SLICES];
	struct blame_span spans[SLICES];
	questions_t cut = {0};
	slices_of(q, at, spans);
	for (size_t i = 0; i < SLICES; i++) {
		bool lossy = i >= lossy_from && i < lossy_to;
		slice_has(&at[i], BLAME_NETWORK, 0.4e9);
		sent(4.1e6, 14.4e6, lossy ? 134 : 81, 0);
		nic(4.1e6, 14.4e6);
		round_trip(lossy ? 21.9 : 41.1, 12.1);
		for (size_t k = 0; k < e.counters.len; k++)
			*vec_push(&at[i].counters) = e.counters.data[k];
	}
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, n);
	free_cut(&cut, at);
}

static void a_second_does_not_tell_the_networks_causes_apart(void **state)
{
	(void)state;
	pieces_of_network(5, 7, 1);
	pieces_of_network(6, SLICES, 2);
}

/* Frees the evidence. */
static void is_one_piece_from(size_t first, struct evidence_question q[SLICES],
			      struct evidence at[SLICES])
{
	questions_t cut = {0};
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 1);
	assert_int_equal(cut.data[0].slow.len, SLICES - first);
	assert_int_equal(cut.data[0].slow.data[0].from_ns, first * 1000000000ULL);
	for (size_t i = 0; i < SLICES; i++)
		evidence_free(&at[i]);
	vec_free(&cut.data[0].slow);
	vec_free(&cut);
}

/* Others took some of two seconds before it, too little for a change of the cause. */
static void what_a_cause_has_no_part_in_is_left_off_its_ends(void **state)
{
	(void)state;
	struct evidence_question q[SLICES];
	struct evidence at[SLICES];
	struct blame_span spans[SLICES];
	slices_of(q, at, spans);
	for (size_t i = 0; i < SLICES; i++)
		slice_has(&at[i], i < 2 ? BLAME_RIVAL : BLAME_COLLECTS, i < 2 ? 0.15e9 : 0.4e9);
	is_one_piece_from(2, q, at);
	/* where they took more, it is one */
	questions_t cut = {0};
	slices_of(q, at, spans);
	for (size_t i = 0; i < SLICES; i++)
		slice_has(&at[i], i < 2 ? BLAME_RIVAL : BLAME_COLLECTS, i < 2 ? 0.25e9 : 0.4e9);
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 2);
	free_cut(&cut, at);
}

/* It explains hardly more of each slice than usual time varies by. */
static void a_weak_cause_begins_where_it_does(void **state)
{
	(void)state;
	struct evidence_question q[SLICES];
	struct evidence at[SLICES];
	struct blame_span spans[SLICES];
	slices_of(q, at, spans);
	for (size_t i = 0; i < SLICES; i++) {
		at[i].blame.whole_ns = i < 4 ? 0.51e9 : 0.58e9;
		if (i >= 4)
			slice_has(&at[i], BLAME_COLLECTS, 0.06e9);
	}
	is_one_piece_from(4, q, at);
}

/* What no cause is known of is told as well. */
static void a_piece_may_be_unknown(void **state)
{
	(void)state;
	struct evidence_question q[SLICES];
	struct evidence at[SLICES];
	struct blame_span spans[SLICES];
	questions_t cut = {0};
	slices_of(q, at, spans);
	for (size_t i = 0; i < SLICES; i++)
		slice_has(&at[i], i < 4 ? BLAME_COLLECTS : BLAME_OTHER, 0.5e9);
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 2);
	assert_int_equal(cut.data[0].slow.len, 4);
	assert_int_equal(cut.data[1].slow.len, SLICES - 4);
	free_cut(&cut, at);
}

/* Plain time: the first and the last second are slow in part, and said to be as slow as the rest.
 */
static void ends_of_plain_time_say_little(void **state)
{
	(void)state;
	for (int by_steps = 0; by_steps < 2; by_steps++) {
		struct evidence_question q[SLICES];
		struct evidence at[SLICES];
		struct blame_span spans[SLICES];
		questions_t cut = {0};
		slices_of(q, at, spans);
		for (size_t i = 0; i < SLICES; i++) {
			bool end = !i || i == SLICES - 1;
			slice_has(&at[i], end ? BLAME_SPREAD : BLAME_STOPPED, end ? 0.9e9 : 0.5e9);
			q[i].by_steps = by_steps;
		}
		diagnosis_cut(q, at, SLICES, false, &cut);
		assert_int_equal(cut.len, by_steps ? 3 : 1);
		free_cut(&cut, at);
	}
}

static void without_any_cause_it_stays_whole(void **state)
{
	(void)state;
	struct evidence_question q[SLICES];
	struct evidence at[SLICES];
	struct blame_span spans[SLICES];
	questions_t cut = {0};
	slices_of(q, at, spans);
	diagnosis_cut(q, at, SLICES, false, &cut);
	assert_int_equal(cut.len, 1);
	assert_int_equal(cut.data[0].slow.len, SLICES);
	vec_free(&cut.data[0].slow);
	vec_free(&cut);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(others_on_the_cpu),
		T(a_quota_is_no_contention),
		T(without_its_counter_a_quota_is_told_by_idle_cpus),
		T(a_quota_that_is_not_used_up_is_no_cause),
		T(many_of_a_name_are_more_than_one_of_another),
		T(a_bystander_is_no_culprit),
		T(the_lock_and_the_cpu_that_its_holder_takes),
		T(the_lock_on_a_shared_cpu),
		T(own_python_on_a_shared_cpu),
		T(threads_of_its_own_are_contention_too),
		T(operations_or_reads),
		T(a_call_that_became_slower),
		T(more_calls_are_none_that_became_slower),
		T(slower_lines_around_calls),
		T(slower_alike_gives_way_to_what_is_named),
		T(all_calls_longer_alike),
		T(calls_that_wait_for_the_gpu_are_the_gpus),
		T(data_checkpoints_collections),
		T(the_gpu_and_who_else_is_on_it),
		T(devices_are_named),
		T(whose_packets_they_are),
		T(who_stopped_it),
		T(cpus_that_run_slower),
		T(memory_of_another_node),
		T(nothing_that_is_known),
		T(an_evaluation_is_other_work),
		T(a_straggler_and_what_held_it_back),
		T(what_ranks_wait_for_together_is_the_network),
		T(nobody_named_is_a_straggler_too),
		T(a_rank_that_does_not_come),
		T(a_hang_says_why_its_rank_is_late),
		T(a_quota_of_another_cgroup_is_no_cause),
		T(counters_of_another_host_are_no_cause),
		T(what_did_not_grow_is_no_evidence),
		T(who_else_is_on_its_gpu),
		T(an_error_of_its_gpu),
		T(why_the_network_was_slow),
		T(timers_tell_a_bad_link_from_a_full_one),
		T(bytes_go_before_segments),
		T(others_on_the_network),
		T(one_incident_of_ranks_that_wait_for_one),
		T(files_of_a_full_cgroup),
		T(copies_of_files_are_the_readers),
		T(a_slow_parent_is_the_victim_not_who_waits_for_its_work),
		T(an_incident_is_cut_where_its_cause_changes),
		T(a_second_does_not_tell_the_networks_causes_apart),
		T(what_a_cause_has_no_part_in_is_left_off_its_ends),
		T(a_weak_cause_begins_where_it_does),
		T(a_piece_may_be_unknown),
		T(ends_of_plain_time_say_little),
		T(without_any_cause_it_stays_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
