/* causes_test.c - the cause that evidence tells, of one process.
 * links: incident detect analyze recording base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made_evidence.h"

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

/* Of a compilation many programs live for moments each; what they are of is the same. */
static void programs_of_many_names_are_whose_they_are(void **state)
{
	(void)state;
	uint32_t names[2] = {strtab_add_z(&tables.strings, "cc1"),
			     strtab_add_z(&tables.strings, "as")};
	uint32_t group = strtab_add_z(&tables.strings, "/build");
	uint32_t make = strtab_add_z(&tables.strings, "make");
	part(BLAME_RIVAL, VIA_ITSELF, 300, 10);
	e.blame.parts.data[0].owner.name = strtab_add_z(&tables.strings, "other");
	for (uint32_t pid = 20; pid < 60; pid++) {
		part(BLAME_RIVAL, VIA_ITSELF, 10, pid);
		struct blame_owner *o = &e.blame.parts.data[e.blame.parts.len - 1].owner;
		o->name = names[pid & 1];
		o->cgroup = group;
		o->leader = pid < 50 ? make : 0; /* it was gone when it was looked for */
		o->leader_pid = pid < 50 ? 19 : 0;
	}
	part(BLAME_NO_CPU, VIA_ITSELF, 60, 0);
	struct cause_found f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_CGROUP); /* 300 of 760 are make's */
	assert_string_equal(culprit_cgroup(&tables, &f.culprit), "/build");
	struct buf b = {0};
	cause_headline(&b, &tables, &f);
	buf_byte(&b, 0);
	assert_string_equal((char *)b.data, "CPU contention by processes of cgroup /build");
	buf_free(&b);
	e.blame.parts.data[0].ns = 200 * MS;
	f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_CGROUP); /* 300 of 660 */
	e.blame.parts.data[0].ns = 100 * MS;
	f = is(CAUSE_CPU_CONTENTION);
	assert_int_equal(f.culprit.kind, CULPRIT_PROCESS);
	assert_int_equal(f.culprit.pid, 19);
	assert_string_equal(culprit_cgroup(&tables, &f.culprit), "/build");
	cause_headline(&b, &tables, &f);
	buf_byte(&b, 0);
	assert_string_equal((char *)b.data, "CPU contention by processes of make (19)");
	buf_free(&b);
}

/* In the root is whatever is in no other; in the job's own are processes of the job. */
static void a_cgroup_that_names_nobody(void **state)
{
	(void)state;
	const char *const paths[] = {"/", "/all"};
	for (uint32_t pid = 20; pid < 40; pid++) {
		part(pid < 39 ? BLAME_RIVAL : BLAME_SIBLING, VIA_ITSELF, 10, pid);
		e.blame.parts.data[e.blame.parts.len - 1].owner.name = pid;
	}
	for (size_t i = 0; i < 2; i++) {
		uint32_t path = strtab_add_z(&tables.strings, paths[i]);
		for (size_t k = 0; k < e.blame.parts.len; k++)
			e.blame.parts.data[k].owner.cgroup = path;
		assert_int_equal(is(CAUSE_CPU_CONTENTION).culprit.kind, CULPRIT_NONE);
	}
	e.blame.parts.data[e.blame.parts.len - 1].owner.cgroup = 0;
	assert_int_equal(is(CAUSE_CPU_CONTENTION).culprit.kind, CULPRIT_CGROUP);
	struct m_metric *of_job = vec_push(&tables.metrics);
	*of_job = (struct m_metric){.kind = ENTITY_CGROUP};
	of_job->label = strtab_add_z(&tables.strings, "/allowed");
	assert_int_equal(is(CAUSE_CPU_CONTENTION).culprit.kind, CULPRIT_CGROUP);
	of_job->label = strtab_add_z(&tables.strings, "/all/job"); /* and the job is in it */
	assert_int_equal(is(CAUSE_CPU_CONTENTION).culprit.kind, CULPRIT_NONE);
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
	f = is(CAUSE_PYTHON_GC);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	e.collecting_frame = 5;
	f = is(CAUSE_PYTHON_GC);
	assert_int_equal(f.culprit.kind, CULPRIT_LINE);
	assert_int_equal(f.culprit.frame, 5);
	part(BLAME_STOPPED, VIA_ITSELF, 5000, 0);
	is(CAUSE_STOPPED);
}

/* A file that is saved and synced: the sync takes far longer, and the disk does what the job asks
 * for. Where somebody else writes more, that is why. */
static void a_checkpoint_that_is_synced(void **state)
{
	(void)state;
	*vec_push(&tables.processes) = (struct m_process){.pid = e.pid};
	part(BLAME_WRITE, VIA_ITSELF, 500, 0);
	is(CAUSE_DISK);
	*vec_push(&e.disks) = (struct disk_growth){.pid = e.pid, .bytes = 3e9, .usual_bytes = 1e6};
	is(CAUSE_DISK);
	e.saving_frame = 4;
	is(CAUSE_CHECKPOINT);
	*vec_push(&e.disks) = (struct disk_growth){.disk = 1, .pid = 78, .bytes = 4e9};
	is(CAUSE_CHECKPOINT); /* it has another */
	e.disks.data[1].disk = 0;
	is(CAUSE_DISK);
	part(BLAME_SAVES, VIA_ITSELF, 150, 0);
	is(CAUSE_DISK);
	e.disks.data[1].comm = strtab_add_z(&tables.strings, "kworker/u8:3");
	is(CAUSE_CHECKPOINT); /* what it has written, for all that is known */
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

static void of_gpu(uint32_t gpu, uint32_t pid, const char *name, double mean, double usual)
{
	name_metric(ENTITY_GPU, name);
	tables.metrics.data[tables.metrics.len - 1].gpu = gpu;
	tables.metrics.data[tables.metrics.len - 1].pid = pid;
	counts((uint32_t)tables.metrics.len - 1, mean, usual);
}

/* Of the GPU that the process is on: which node that is, and how far from it the process ran. */
static void the_node_of_its_gpu(void **state)
{
	struct cause_found f;
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 500, 0);
	of_host("numa_local_pages_per_s", 90000, 100000);
	of_host("numa_other_pages_per_s", 60000, 400);
	of_gpu(0, 0, "numa_node", 0, 0);
	of_gpu(3, 0, "numa_node", NAN, 1); /* asked each ten seconds: not within the stretch */
	of_gpu(0, 99, "numa_distance", 10, 10);
	cause_find(&f, &e);
	assert_int_equal(f.cause, CAUSE_NUMA);
	assert_int_equal(f.evidence_len, 1); /* it is on none that is known */
	cause_free(&f);
	of_gpu(3, 7, "numa_distance", 21, 10);
	cause_find(&f, &e);
	assert_int_equal(f.evidence_len, 2);
	assert_string_equal(f.evidence[0],
			    "gpu 3 is on node 1 (numactl --cpunodebind=1 --membind=1); the main "
			    "thread ran at distance 21 from it, where 10 is the same node");
	cause_free(&f);
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

/* Whoever launches more than the GPU does waits in launches, on the CPU: everything that launches
 * seems to run slower alike. */
static void launches_wait_for_room_in_the_queue(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	called(LAUNCH, 4000, 4000, 1000, 120);
	evidence_full_queue(&e, NULL, 0);
	assert_int_equal(e.blame.parts.data[0].owner.kind, BLAME_GPU);
	assert_true(fabs(e.blame.parts.data[0].ns + e.blame.parts.data[1].ns - 1000 * MS) < 1);
	counts(OTHERS, 1, 0);
	struct cause_found f = is(CAUSE_GPU_CONTENTION);
	assert_int_equal(f.runner_up, CAUSE_GPU_SLOW);
	cause_find(&f, &e);
	assert_string_equal(
		f.evidence[f.evidence_len - 1],
		"calls that hand it work took 250 us in the mean, usually 30: its queue was "
		"full");
	cause_free(&f);
}

/* Neither what another rank ran, nor other copies than usual, nor copies at all. */
static void what_is_no_full_queue(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	e.blame.parts.data[0].owner.peer = 2;
	called(LAUNCH, 4000, 4000, 1000, 120);
	evidence_full_queue(&e, NULL, 0);
	assert_int_equal(e.blame.parts.data[0].owner.kind, BLAME_SPREAD);
	e.blame.parts.data[0].owner.peer = 0;
	e.calls.len = 0;
	called(LAUNCH, 1000, 4000, 30, 120);
	called(COPY, 500, 10, 1000, 20);
	evidence_full_queue(&e, NULL, 0);
	assert_int_equal(e.blame.parts.data[0].owner.kind, BLAME_SPREAD);
}

/* In its steps likewise, and with what waited for the GPU before. */
static void steps_wait_for_room_as_well(void **state)
{
	(void)state;
	struct blame step = {.usual_ns = 100 * MS, .whole_ns = 200 * MS};
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	called(LAUNCH, 4000, 4000, 1000, 120);
	struct blame_part ran = e.blame.parts.data[0], waited = ran;
	ran.ns = 80 * MS;
	waited.owner.kind = BLAME_GPU;
	waited.ns = 20 * MS;
	*vec_push(&step.parts) = ran;
	*vec_push(&step.parts) = waited;
	evidence_full_queue(&e, &step, 1);
	assert_int_equal(step.parts.len, 2);
	assert_int_equal(step.parts.data[0].owner.kind, BLAME_GPU);
	assert_true(fabs(step.parts.data[0].ns + step.parts.data[1].ns - 100 * MS) < 1);
	vec_free(&step.parts);
}

/* A slower clock of the CPU is in all alike. */
static void launches_that_run_slower_wait_for_nothing(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	called(LAUNCH, 4000, 4000, 240, 120);
	evidence_full_queue(&e, NULL, 0);
	assert_int_equal(e.blame.parts.len, 1);
	assert_int_equal(e.blame.parts.data[0].owner.kind, BLAME_SPREAD);
	counts(OTHERS, 1, 0);
	is(CAUSE_MEM_BANDWIDTH);
}

/* Bytes a second over the link of its GPU, to it and from it. */
static void went_over_link(double to, double usual_to, double from, double usual_from)
{
	name_metric(ENTITY_GPU, "pcie_rx_bytes_per_s");
	name_metric(ENTITY_GPU, "pcie_tx_bytes_per_s");
	counts((uint32_t)tables.metrics.len - 2, to, usual_to);
	counts((uint32_t)tables.metrics.len - 1, from, usual_from);
}

/* The driver makes copies of pageable memory on the CPU: they seem to run slower alike. One of the
 * runtime's has one of the driver's within, whose time counts once. */
static void copies_wait_for_a_shared_link(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	name_probe(PROBES, "cuda", "cuMemcpyHtoDAsync_v2", "copy_htod");
	called(COPY, 100, 100, 1600, 800);
	called(PROBES, 100, 100, 1580, 790);
	for (size_t i = 0; i < e.calls.len; i++)
		e.calls.data[i].outer_n = e.calls.data[i].usual_outer_n = 100;
	e.calls.data[0].own_ns = 20 * MS;
	e.calls.data[0].usual_own_ns = 10 * MS;
	e.calls.data[1].own_ns = 1580 * MS;
	e.calls.data[1].usual_own_ns = 790 * MS;
	counts(OTHERS, 1, 0);
	went_over_link(50e9, 20e9, 45e9, 1e9);
	evidence_full_queue(&e, NULL, 0);
	assert_int_equal(e.blame.parts.data[0].owner.kind, BLAME_GPU);
	assert_true(fabs(e.blame.parts.data[0].ns - 800 * MS) < 1);
	is(CAUSE_PCIE);
}

/* Its own copies are slower because of the host's memory: less goes over the link, not more. Nor is
 * it known without that counter, nor does little matter. */
static void copies_over_a_link_of_its_own(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	called(COPY, 100, 100, 1600, 800);
	evidence_full_queue(&e, NULL, 0);
	is(CAUSE_MEM_BANDWIDTH);
	counts(OTHERS, 1, 0);
	went_over_link(14e9, 20e9, 1e9, 1e9);
	evidence_full_queue(&e, NULL, 0);
	is(CAUSE_MEM_BANDWIDTH);
	e.counters.len -= 2;
	counts((uint32_t)tables.metrics.len - 2, 4e8, 1e8);
	counts((uint32_t)tables.metrics.len - 1, 4e8, 1e8);
	evidence_full_queue(&e, NULL, 0);
	is(CAUSE_MEM_BANDWIDTH);
}

/* It copies twice as much itself, by its timeline; or there is nobody else. */
static void copies_of_its_own_fill_the_link(void **state)
{
	(void)state;
	part(BLAME_SPREAD, VIA_ITSELF, 1000, 0);
	called(COPY, 100, 100, 1600, 800);
	went_over_link(40e9, 20e9, 1e9, 1e9);
	evidence_full_queue(&e, NULL, 0);
	is(CAUSE_MEM_BANDWIDTH);
	counts(OTHERS, 1, 0);
	e.usual_copied_bytes = 18e9; /* in a second */
	e.copied_bytes = 76e9;	     /* in two */
	e.usual_copied_ns = 400 * MS;
	e.copied_ns = 1700 * MS;
	evidence_full_queue(&e, NULL, 0);
	is(CAUSE_MEM_BANDWIDTH);
}

/* By the GPU's own spans, as many bytes as usual, which are waited for; another process is there,
 * but kernels take as long as ever. */
static void spans_of_copies_wait_for_a_shared_link(void **state)
{
	(void)state;
	part(BLAME_GPU_WORKS, VIA_ITSELF, 900, 0);
	part(BLAME_RUNS, VIA_ITSELF, 100, 0);
	e.copied_bytes = 2e9;
	e.copied_ns = 1800 * MS;
	e.usual_copied_bytes = 1e9;
	e.usual_copied_ns = 400 * MS;
	e.kernels_n = e.usual_kernels_n = 100;
	e.kernels_ns = e.usual_kernels_ns = 500 * MS;
	counts(OTHERS, 1, 0);
	went_over_link(50e9, 20e9, 45e9, 1e9);
	struct cause_found f = is(CAUSE_PCIE);
	assert_true(fabs(f.explained_ns - 900 * MS) < 1); /* no line waits in a call */
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

/* Of who compiles the line is told for which; a compiler of its own is no loader. */
static void code_that_is_compiled(void **state)
{
	(void)state;
	part(BLAME_COMPILES, VIA_LOCK, 300, 0);
	struct cause_found f = is(CAUSE_COMPILATION);
	assert_int_equal(f.culprit.kind, CULPRIT_NONE);
	part_of_line(BLAME_COMPILES, 400, 1);
	f = is(CAUSE_COMPILATION);
	assert_int_equal(f.culprit.kind, CULPRIT_LINE);
	assert_int_equal(f.culprit.frame, 1);
	part(BLAME_COMPILES, VIA_DATA, 2000, 0);
	is(CAUSE_COMPILATION);
	part(BLAME_RUNS, VIA_DATA, 5000, 0);
	is(CAUSE_DATA_LOADER);
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

/* Which lock it was nobody knows: 0.6 of the waits count, and what is named goes first. */
static void a_lock_that_is_not_pythons(void **state)
{
	(void)state;
	part(BLAME_LOCK, VIA_ITSELF, 500, 0);
	struct cause_found f = is(CAUSE_LOCK);
	assert_true(fabs(f.explained_ns - 300 * MS) < MS);
	part(BLAME_DISK, VIA_ITSELF, 310, 0);
	f = is(CAUSE_DISK);
	assert_int_equal(f.runner_up, CAUSE_LOCK);
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
		T(programs_of_many_names_are_whose_they_are),
		T(a_cgroup_that_names_nobody),
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
		T(a_checkpoint_that_is_synced),
		T(code_that_is_compiled),
		T(the_gpu_and_who_else_is_on_it),
		T(devices_are_named),
		T(whose_packets_they_are),
		T(who_stopped_it),
		T(cpus_that_run_slower),
		T(memory_of_another_node),
		T(the_node_of_its_gpu),
		T(nothing_that_is_known),
		T(an_evaluation_is_other_work),
		T(a_quota_of_another_cgroup_is_no_cause),
		T(counters_of_another_host_are_no_cause),
		T(what_did_not_grow_is_no_evidence),
		T(launches_wait_for_room_in_the_queue),
		T(what_is_no_full_queue),
		T(copies_wait_for_a_shared_link),
		T(copies_over_a_link_of_its_own),
		T(copies_of_its_own_fill_the_link),
		T(spans_of_copies_wait_for_a_shared_link),
		T(steps_wait_for_room_as_well),
		T(launches_that_run_slower_wait_for_nothing),
		T(who_else_is_on_its_gpu),
		T(an_error_of_its_gpu),
		T(files_of_a_full_cgroup),
		T(copies_of_files_are_the_readers),
		T(a_lock_that_is_not_pythons),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
