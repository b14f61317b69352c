/* live_series_test.c - what is known of a session by process and function, and as metrics: nothing
 * is told twice, what has ended goes, what finds no room is counted.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed_rows.h"
#include "base/entity.h"
#include "serve/agent_series.h"
#include "serve/exposition.h"
#include "session/live_series.h"
#include "session/session_live.h"
#include "session/session_names.h"

#define SECOND 1000000000ULL

static struct session_names names;
static struct detect_names numbers;
static struct live_series s;
static uint32_t strings;
static struct live_state state;
static struct live_jobs jobs;
static struct live_notices notices;

static int begin(void **unused)
{
	(void)unused;
	session_names_init(&names, pipeline_stack_bounds(true));
	session_names_get(&names, &numbers);
	s = (struct live_series){0};
	strings = 0;
	state = (struct live_state){0};
	jobs = (struct live_jobs){0};
	notices = (struct live_notices){0};
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	live_series_free(&s);
	session_names_free(&names);
	return 0;
}

static uint32_t text(struct feed_batch *b, const char *string)
{
	*vec_push(&b->strings) = (struct feed_string){strings, (uint32_t)b->texts.len};
	buf_add(&b->texts, string, strlen(string) + 1);
	return strings++;
}

static void pass(struct feed_batch *b, uint64_t now_ns)
{
	const struct session_view v = {.batch = b, .names = &numbers};
	session_names_take(&names, b);
	live_series_batch(&s, &v, now_ns);
	session_names_forget(&names, b);
	feed_batch_empty(b);
}

static void process(struct feed_batch *b, uint32_t pid, uint32_t comm, uint64_t start_ns,
		    uint64_t end_ns)
{
	*vec_push(&b->processes) = (struct m_process){
		.pid = pid, .comm = comm, .rank = -1, .start_ns = start_ns, .end_ns = end_ns};
}

static void thread(struct feed_batch *b, uint32_t number, uint32_t pid)
{
	*vec_push(&b->threads) = (struct m_thread){.pid = pid, .tid = pid};
	*vec_push(&b->numbers[ROW_THREAD]) = number;
}

static void probe(struct feed_batch *b, uint32_t number, uint32_t layer, uint32_t name)
{
	*vec_push(&b->probes) = (struct m_probe){.layer = layer, .name = name, .name_arg = -1};
	*vec_push(&b->numbers[ROW_PROBE]) = number;
}

static void call(struct feed_batch *b, uint32_t of, uint32_t probe_number, uint8_t flags)
{
	*vec_push(&b->calls) = (struct m_call){
		.dur_ns = 1000, .thread = of, .probe = probe_number, .flags = flags};
}

static void metric(struct feed_batch *b, uint32_t number, uint8_t kind, uint32_t pid, uint32_t name)
{
	*vec_push(&b->metrics) =
		(struct m_metric){.kind = kind, .pid = pid, .instance = -1, .name = name};
	*vec_push(&b->numbers[ROW_METRIC]) = number;
}

static char *metrics(void)
{
	static const struct agent_causes causes;
	struct exposition x = {0};
	const struct series_sink sink = exposition_sink(&x);
	agent_series_write(&sink, &(struct agent_view){.series = &s,
						       .state = &state,
						       .jobs = &jobs,
						       .causes = &causes,
						       .notices = &notices,
						       .host = "host",
						       .version = "1",
						       .dcgm = true});
	buf_byte(&x.text, 0);
	return (char *)x.text.data;
}

static void has(const char *line, bool there)
{
	char *all = metrics();
	if ((strstr(all, line) != NULL) != there)
		fail_msg("%s: %s\n%s", there ? "not there" : "there", line, all);
	free(all);
}

/* Two places of one name, as two libraries have it, and calls within others. */
static void calls_by_name(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, ""), layer = text(&b, "torch"), name = text(&b, "aten::mm");
	(void)empty;
	process(&b, 7, text(&b, "python3"), 1, 0);
	process(&b, 8, text(&b, "bash"), 1, 0);
	thread(&b, 0, 7);
	probe(&b, 0, layer, name);
	probe(&b, 1, layer, name);
	call(&b, 0, 0, 0);
	call(&b, 0, 1, CALL_NESTED);
	call(&b, 0, 1, CALL_ERROR);
	pass(&b, SECOND);
	assert_int_equal(s.functions.len, 1);
	assert_int_equal(s.functions.data[0].calls, 3);
	assert_int_equal(s.functions.data[0].errors, 1);
	assert_true(s.functions.data[0].ns == 2000);
	has("eacgm_calls_total{pid=\"7\",comm=\"python3\",layer=\"torch\",function=\"aten::mm\"} "
	    "3\n",
	    true);
	has("eacgm_process_info{pid=\"7\"", true);
	has("eacgm_process_info{pid=\"8\"", false); /* it calls nothing: no job */
}

/* Of calls that say how many; those that failed moved nothing. */
static void bytes_by_name(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, ""), layer = text(&b, "nccl"), name = text(&b, "ncclAllReduce");
	uint32_t bytes = text(&b, "bytes"), other = text(&b, "ncclGroupEnd");
	(void)empty;
	process(&b, 7, text(&b, "python3"), 1, 0);
	thread(&b, 0, 7);
	probe(&b, 0, layer, name);
	b.probes.data[0].arg_names[2] = bytes;
	b.probes.data[0].arg_types[2] = ARG_TYPE_BYTES;
	probe(&b, 1, layer, other);
	b.probes.data[1].arg_names[0] = bytes;
	b.probes.data[1].arg_types[0] = ARG_TYPE_PTR;
	call(&b, 0, 0, 0);
	call(&b, 0, 0, CALL_NESTED);
	call(&b, 0, 0, CALL_ERROR);
	call(&b, 0, 1, 0);
	for (size_t i = 0; i < 4; i++)
		b.calls.data[i].args[2] = 1 << 20, b.calls.data[i].nargs = 3;
	pass(&b, SECOND);
	assert_int_equal(s.functions.data[0].bytes, 2 << 20);
	has("eacgm_call_bytes_total{pid=\"7\",comm=\"python3\",layer=\"nccl\",function="
	    "\"ncclAllReduce\"} 2097152\n",
	    true);
	has("eacgm_call_bytes_total{pid=\"7\",comm=\"python3\",layer=\"nccl\",function="
	    "\"ncclGroupEnd\"}",
	    false);
}

static void what_has_ended_goes(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, ""), layer = text(&b, "torch"), name = text(&b, "f");
	uint32_t comm = text(&b, "python3");
	(void)empty;
	process(&b, 7, comm, 1, 0);
	process(&b, 9, comm, 1, 0);
	thread(&b, 0, 7);
	thread(&b, 1, 9);
	probe(&b, 0, layer, name);
	call(&b, 0, 0, 0);
	call(&b, 1, 0, 0);
	pass(&b, SECOND);
	process(&b, 7, comm, 1, 2 * SECOND);
	pass(&b, 2 * SECOND);
	has("eacgm_process_info{pid=\"7\"", false);
	has("eacgm_calls_total{pid=\"7\"", true); /* the last value is still read */
	process(&b, 10, comm, 1, 0);
	pass(&b, 3 * SECOND + SERIES_OLD_NS);
	has("eacgm_calls_total{pid=\"7\"", false);
	has("eacgm_calls_total{pid=\"9\"", true);
	thread(&b, 2, 9);
	call(&b, 2, 0, 0);
	pass(&b, 4 * SECOND + SERIES_OLD_NS);
	assert_int_equal(s.functions.len, 1);
	assert_int_equal(s.functions.data[0].calls, 2); /* the places moved */
}

static void counters_in_base_units(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, "");
	(void)empty;
	*vec_push(&b.gpus) = (struct m_gpu){.index = 0,
					    .parent = -1,
					    .uuid = text(&b, "GPU-1"),
					    .name = text(&b, "NVIDIA H200"),
					    .bus_id = text(&b, "00000000:00:06.0"),
					    .driver = text(&b, "580")};
	*vec_push(&b.events) = (struct m_event){.entity = text(&b, "gpu 0"),
						.name = text(&b, "xid"),
						.text = text(&b, "79: fallen off the bus")};
	const char *const of_gpu[] = {"sm_clock_mhz", "energy_j", "memory_total_bytes",
				      "memory_used_bytes", "memory_reserved_bytes"};
	const double values[] = {1500, 2.5, 8 << 20, 3 << 20, 1 << 20};
	for (uint32_t i = 0; i < 5; i++) {
		metric(&b, i, ENTITY_GPU, 0, text(&b, of_gpu[i]));
		*vec_push(&b.counters) = (struct m_counter){SECOND, i, values[i]};
	}
	metric(&b, 5, ENTITY_PROCESS, 8, text(&b, "rss_bytes"));
	*vec_push(&b.counters) = (struct m_counter){SECOND, 5, 1};
	pass(&b, SECOND);
	has("eacgm_gpu_sm_clock_hertz{gpu=\"0\",uuid=\"GPU-1\"} 1500000000\n", true);
	has("# TYPE eacgm_gpu_energy_joules_total counter\n", true);
	has("DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-1\",pci_bus_id=\"00000000:00:06.0\",device="
	    "\"nvidia0\",modelName=\"NVIDIA H200\",Hostname=\"host\",hostname=\"host\",DCGM_FI_"
	    "DRIVER_VERSION=\"580\"} 1500\n",
	    true);
	has("device=\"nvidia0\",modelName=\"NVIDIA H200\",Hostname=\"host\",hostname=\"host\","
	    "DCGM_FI_DRIVER_VERSION=\"580\"} 79\n",
	    true);
	has("# TYPE DCGM_FI_DEV_FB_FREE gauge\n", true);
	has("} 4\n", true);		       /* MiB: 8 less 3 and 1 */
	has("eacgm_process_rss_bytes", false); /* of a process that is not known */
	*vec_push(&b.metrics_gone) = 0;
	pass(&b, SECOND + 1);
	has("eacgm_gpu_sm_clock_hertz", false);
	pass(&b, 2 * SECOND + SERIES_OLD_NS);
	has("eacgm_gpu_energy", false);
	has("eacgm_gpu_memory", false);
}

/* Who has a GPU, and who a process is of: set by others, told here. */
static void owners(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, ""), layer = text(&b, "torch"), name = text(&b, "f");
	*vec_push(&b.gpus) = (struct m_gpu){.parent = -1,
					    .uuid = text(&b, "GPU-1"),
					    .name = empty,
					    .bus_id = empty,
					    .driver = empty};
	metric(&b, 0, ENTITY_GPU, 0, text(&b, "sm_clock_mhz"));
	*vec_push(&b.counters) = (struct m_counter){SECOND, 0, 1500};
	process(&b, 7, text(&b, "python3"), 1, 0);
	thread(&b, 0, 7);
	probe(&b, 0, layer, name);
	call(&b, 0, 0, 0);
	pass(&b, SECOND);
	has("hpc_job=", false);
	has("container_name=", false);
	struct live_gpu_id *g = &s.gpus.data[0];
	snprintf(g->pod, sizeof(g->pod), "train-0");
	snprintf(g->pod_namespace, sizeof(g->pod_namespace), "ml");
	snprintf(g->container, sizeof(g->container), "main");
	g->jobs_len = 2;
	snprintf(g->jobs[0], sizeof(g->jobs[0]), "4711");
	snprintf(g->jobs[1], sizeof(g->jobs[1]), "4712");
	struct proc_labels *l = &s.processes.data[0].labels;
	snprintf(l->container_name, sizeof(l->container_name), "main");
	process(&b, 7, text(&b, "python3"), 1, 0); /* told again: it keeps its names */
	pass(&b, 2 * SECOND);
	has("hpc_job=\"4711\",container=\"main\",namespace=\"ml\",pod=\"train-0\"} 1500\n", true);
	has("hpc_job=\"4712\",container=\"main\",namespace=\"ml\",pod=\"train-0\"} 1500\n", true);
	has("container_name=\"main\"} 1\n", true);
}

static void coverage(struct feed_batch *b, uint32_t of, uint64_t on_ns, uint64_t off_ns)
{
	*vec_push(&b->coverages) =
		(struct m_coverage){.probe = of, .on_ns = on_ns, .off_ns = off_ns};
}

/* A step whose end was not seen would be told as a part of the next one. */
static void steps_that_a_budget_left_out(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, ""), layer = text(&b, "torch"), name = text(&b, "backward");
	(void)empty;
	jobs.len = 3;
	for (uint32_t i = 0; i < 3; i++)
		jobs.of[i].pid = 7 + i, jobs.of[i].count = i * 5;
	snprintf(jobs.of[1].marker, sizeof(jobs.of[1].marker), "backward");
	snprintf(jobs.of[2].marker, sizeof(jobs.of[2].marker), "forward");
	probe(&b, 0, layer, name);
	probe(&b, 1, layer, name);
	pass(&b, SECOND);
	jobs.of[1].phase[0] = (struct live_phase){"load", 0.25F};
	jobs.of[1].phase_len = 1;
	jobs.of[1].phase_sum[0] = (struct live_phase_sum){"load", 1.5e9};
	jobs.of[1].phase_sum[1] = (struct live_phase_sum){"checkpoint", 2e9};
	jobs.of[1].phase_sum_len = 2;
	has("eacgm_steps_total{pid=\"8\"", true);
	has("# TYPE eacgm_step_phase_seconds_total counter\n", true);
	has("eacgm_step_phase_seconds_total{pid=\"8\",kind=\"\",phase=\"load\"} 1.5\n", true);
	has("eacgm_step_phase_seconds_total{pid=\"8\",kind=\"\",phase=\"checkpoint\"} 2\n", true);
	has("eacgm_step_phase_ratio{pid=\"8\",kind=\"\",phase=\"load\"} 0.25\n", true);
	coverage(&b, 0, SECOND, SECOND);
	coverage(&b, 1, 3 * SECOND, SECOND);
	b.coverages.data[0].in_bursts = b.coverages.data[0].for_own = true;
	state.own_budget = (struct own_budget_view){0.005, 0.004, 0.003, 4e-7};
	pass(&b, 2 * SECOND);
	has("eacgm_functions_in_bursts{budget=\"own\"} 1\n", true);
	has("eacgm_functions_in_bursts{budget=\"jobs\"} 0\n", true);
	has("eacgm_own_budget_cores 0.005\n", true);
	has("eacgm_own_always_cores 0.004\n", true);
	has("eacgm_own_fixed_cores 0.003\n", true);
	has("eacgm_own_call_seconds 4e-07\n", true);
	has("eacgm_function_seen_ratio{layer=\"torch\",function=\"backward\"} 0.5\n", true);
	has("eacgm_function_seen_ratio{layer=\"torch\",function=\"backward\"} 0.75\n", false);
	has("eacgm_steps_total{pid=\"8\"", false);
	has("eacgm_step_phase_ratio{pid", false);
	has("eacgm_step_phase_seconds_total{pid", false);
	has("eacgm_steps_total{pid=\"9\"", true);
	coverage(&b, 0, 2 * SECOND, SECOND); /* on all the time since */
	coverage(&b, 1, 4 * SECOND, SECOND);
	pass(&b, 3 * SECOND);
	has("eacgm_steps_total{pid=\"7\"", false); /* it has none so far */
	has("eacgm_steps_total{pid=\"8\"", true);
	has("eacgm_steps_left_out_processes", false);
	jobs.left_out = 2;
	has("eacgm_steps_left_out_processes 2\n", true);
	jobs.len = jobs.left_out = 0;
	has("eacgm_steps_total{", false);
}

/* The latest stay, all are counted by name; of too many names the others together. */
static void notices_of_what_was_told(void **unused)
{
	(void)unused;
	char name[64];
	live_notices_add(&notices, 1, "gpu 0", "xid", "79");
	for (uint32_t i = 0; i < 99; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		live_notices_add(&notices, 2 + i, "pid 7", name, "");
	}
	live_notices_add(&notices, 200, "gpu 1", "xid", "31");
	assert_int_equal(notices.len, LIVE_NOTICES);
	assert_string_equal(live_notices_at(&notices, LIVE_NOTICES - 1)->text, "31");
	assert_string_equal(live_notices_at(&notices, 0)->name, "n36");
	has("eacgm_notices_total{name=\"xid\"} 2\n", true);
	has("eacgm_notices_total{name=\"n29\"} 1\n", true);
	has("eacgm_notices_total{name=\"(other)\"} 69\n", true);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	live_notices_add(&notices, 201, "", name, "");
	live_notices_add(&notices, 202, "", name, "");
	has("eacgm_notices_total{name=\"(other)\"} 71\n", true);
}

static void no_room(void **unused)
{
	(void)unused;
	struct feed_batch b = {0};
	uint32_t empty = text(&b, ""), layer = text(&b, "torch");
	char name[32];
	(void)empty;
	process(&b, 7, layer, 1, 0);
	thread(&b, 0, 7);
	for (uint32_t i = 0; i < SERIES_FUNCTIONS + 10; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		probe(&b, i, layer, text(&b, name));
		call(&b, 0, i, 0);
	}
	pass(&b, SECOND);
	assert_int_equal(s.functions.len, SERIES_FUNCTIONS + 1);
	assert_int_equal(s.left_out, 10);
	has("function=\"(other)\"} 10\n", true);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(calls_by_name),
		T(notices_of_what_was_told),
		T(bytes_by_name),
		T(what_has_ended_goes),
		T(counters_in_base_units),
		T(owners),
		T(steps_that_a_budget_left_out),
		T(no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
