/* otlp_metrics_test.c - families as OpenTelemetry's metrics: names, units, kinds, starts, and the
 * names of the semantic conventions.
 *
 * links: serve session analyze events symbolize base */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/entity.h"
#include "otlp_metrics_service.pb-c.h"
#include "serve/otlp_metrics.h"

#define SECOND 1000000000ULL
#define OFFSET (1000 * SECOND)

typedef Opentelemetry__Proto__Collector__Metrics__V1__ExportMetricsServiceRequest request_t;
typedef Opentelemetry__Proto__Metrics__V1__Metric metric_t;
typedef Opentelemetry__Proto__Metrics__V1__NumberDataPoint point_t;

static struct live_series series;
static struct live_state state;
static struct live_jobs jobs;
static struct agent_causes causes;
static const struct live_notices notices;
static request_t *request;

static int begin(void **unused)
{
	(void)unused;
	series = (struct live_series){.now_ns = 20 * SECOND};
	state = (struct live_state){0};
	jobs = (struct live_jobs){0};
	causes = (struct agent_causes){0};
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	if (request)
		opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__free_unpacked(
			request, NULL);
	request = NULL;
	live_series_free(&series);
	return 0;
}

static void process(uint32_t pid, uint64_t start_ns)
{
	map64_set(&series.process_of, pid, series.processes.len);
	struct live_process *p = vec_push(&series.processes);
	*p = (struct live_process){
		.pid = pid, .comm = "python3", .rank = 3, .called = true, .start_ns = start_ns};
	proc_labels_init(&p->labels);
	snprintf(p->labels.pod, sizeof(p->labels.pod), "train-0");
}

static void counter(uint8_t kind, uint32_t pid, uint32_t gpu, int32_t instance, const char *name,
		    double value)
{
	*vec_push(&series.metrics) = (struct live_metric){.kind = kind,
							  .there = true,
							  .pid = pid,
							  .gpu = gpu,
							  .instance = instance,
							  .label = xstrdup(""),
							  .name = xstrdup(name),
							  .value = value,
							  .time_ns = series.now_ns};
}

/* The message, read back by the library. */
static size_t write_all(void)
{
	static const char *const keys[] = {"service.name"}, *const values[] = {"mine"};
	const struct otlp_about about = {.version = "1",
					 .host = "host",
					 .start_realtime_ns = OFFSET + 5 * SECOND,
					 .keys = keys,
					 .values = values,
					 .n = 1};
	struct buf b = {0};
	size_t n = otlp_metrics_write(&b, &about,
				      &(struct agent_view){.series = &series,
							   .state = &state,
							   .jobs = &jobs,
							   .causes = &causes,
							   .notices = &notices,
							   .host = "host",
							   .version = "1"},
				      OFFSET + 20 * SECOND, OFFSET);
	request =
		opentelemetry__proto__collector__metrics__v1__export_metrics_service_request__unpack(
			NULL, b.len, b.data);
	buf_free(&b);
	assert_non_null(request);
	assert_int_equal(request->n_resource_metrics, 1);
	assert_int_equal(request->resource_metrics[0]->n_scope_metrics, 1);
	return n;
}

static const metric_t *metric(const char *name)
{
	const Opentelemetry__Proto__Metrics__V1__ScopeMetrics *s =
		request->resource_metrics[0]->scope_metrics[0];
	const metric_t *found = NULL;
	for (size_t i = 0; i < s->n_metrics; i++)
		if (!strcmp(s->metrics[i]->name, name)) {
			assert_null(found); /* once */
			found = s->metrics[i];
		}
	if (!found)
		fail_msg("no metric %s", name);
	return found;
}

static const char *attribute(const point_t *p, const char *key)
{
	static char number[32];
	for (size_t i = 0; i < p->n_attributes; i++) {
		const Opentelemetry__Proto__Common__V1__AnyValue *v = p->attributes[i]->value;
		if (strcmp(p->attributes[i]->key, key) != 0)
			continue;
		if (v->value_case ==
		    OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE)
			return v->string_value;
		snprintf(number, sizeof(number), "%lld", (long long)v->int_value);
		return number;
	}
	return "";
}

static void named(const char *family, enum family_type type, const char *name, const char *unit)
{
	char got[OTLP_NAME_BYTES];
	const char *got_unit;
	otlp_metric_name(got, &got_unit, family, type);
	assert_string_equal(got, name);
	assert_string_equal(got_unit, unit);
}

static void names(void **unused)
{
	(void)unused;
	named("eacgm_calls_total", FAMILY_COUNTER, "eacgm.calls", "1");
	named("eacgm_call_seconds_total", FAMILY_COUNTER, "eacgm.call", "s");
	named("eacgm_gpu_sm_clock_hertz", FAMILY_GAUGE, "eacgm.gpu.sm_clock", "Hz");
	named("eacgm_gpu_pcie_tx_bytes_per_second", FAMILY_GAUGE, "eacgm.gpu.pcie_tx", "By/s");
	named("eacgm_process_preemptions_per_second", FAMILY_GAUGE, "eacgm.process.preemptions",
	      "1/s");
	named("eacgm_host_cpu_ratio", FAMILY_GAUGE, "eacgm.host.cpu", "1");
	named("eacgm_own_cpu_cores", FAMILY_GAUGE, "eacgm.own.cpu_cores", "{cpu}");
	named("eacgm_process_info", FAMILY_GAUGE, "eacgm.process.info", "");
	named("total", FAMILY_GAUGE, "total", "");
}

static void sums_and_gauges(void **unused)
{
	(void)unused;
	process(7, 9 * SECOND);
	process(8, 1 * SECOND); /* before counting began */
	for (uint32_t pid = 7; pid < 9; pid++) {
		struct live_function *f = vec_push(&series.functions);
		*f = (struct live_function){.pid = pid, .layer = "torch", .calls = 12};
		snprintf(f->name, sizeof(f->name), "aten::mm\xff");
	}
	size_t n = write_all();
	const metric_t *calls = metric("eacgm.calls");
	assert_true(n > 4 &&
		    calls->data_case == OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_SUM);
	assert_true(calls->sum->is_monotonic && calls->sum->aggregation_temporality == 2);
	assert_int_equal(calls->sum->n_data_points, 2);
	const point_t *p = calls->sum->data_points[0];
	assert_true(p->as_double == 12 && p->time_unix_nano == OFFSET + 20 * SECOND);
	assert_int_equal(p->start_time_unix_nano, OFFSET + 9 * SECOND);
	assert_int_equal(calls->sum->data_points[1]->start_time_unix_nano, OFFSET + 5 * SECOND);
	assert_string_equal(attribute(p, "process.pid"), "7");
	assert_string_equal(attribute(p, "process.executable.name"), "python3");
	assert_string_equal(attribute(p, "code.function.name"), "aten::mm\xef\xbf\xbd");
	const metric_t *info = metric("eacgm.process.info");
	assert_int_equal(info->data_case, OPENTELEMETRY__PROTO__METRICS__V1__METRIC__DATA_GAUGE);
	assert_int_equal(info->gauge->data_points[0]->start_time_unix_nano, 0);
	assert_string_equal(attribute(info->gauge->data_points[0], "k8s.pod.name"), "train-0");
	assert_string_equal(attribute(info->gauge->data_points[0], "eacgm.rank"), "3");
	assert_string_equal(metric("eacgm.own.cpu_cores")->unit, "{cpu}");
}

static void conventions(void **unused)
{
	(void)unused;
	process(7, SECOND);
	*vec_push(&series.gpus) = (struct live_gpu_id){.index = 0, .parent = -1, .uuid = "GPU-0"};
	counter(ENTITY_GPU, 0, 0, -1, "sm_ratio", 0.5);
	counter(ENTITY_GPU, 0, 0, -1, "encoder_ratio", 0.25);
	counter(ENTITY_GPU, 0, 1, -1, "sm_ratio", 0.75); /* of which no UUID is known */
	counter(ENTITY_GPU, 7, 0, -1, "sm_ratio", 0.1);	 /* a process's share of it */
	counter(ENTITY_GPU, 0, 0, 1, "memory_used_bytes", 64);
	counter(ENTITY_GPU, 0, 0, -1, "memory_used_bytes", 1e9);
	counter(ENTITY_GPU, 0, 0, -1, "energy_j", 5);
	counter(ENTITY_GPU, 0, 0, -1, "ecc_corrected_errors", 3);
	counter(ENTITY_PROCESS, 7, 0, -1, "rss_bytes", 4096);
	write_all();
	const metric_t *used = metric("hw.gpu.utilization");
	assert_int_equal(used->gauge->n_data_points, 3);
	for (size_t i = 0; i < 3; i++) {
		const point_t *p = used->gauge->data_points[i];
		assert_string_equal(attribute(p, "hw.type"), "gpu");
		assert_string_equal(attribute(p, "hw.id"), p->as_double == 0.75 ? "1" : "GPU-0");
		assert_string_equal(attribute(p, "hw.gpu.task"),
				    p->as_double == 0.25 ? "encoder" : "general");
	}
	/* of a process, of an instance: they would be added to the device's */
	assert_int_equal(metric("eacgm.gpu.process_sm")->gauge->n_data_points, 1);
	assert_string_equal(
		attribute(metric("eacgm.gpu.process_sm")->gauge->data_points[0], "process.pid"),
		"7");
	assert_int_equal(metric("eacgm.gpu.memory_used")->gauge->n_data_points, 1);
	const metric_t *memory = metric("hw.gpu.memory.usage");
	assert_true(!memory->sum->is_monotonic && memory->sum->n_data_points == 1);
	assert_int_equal(memory->sum->data_points[0]->start_time_unix_nano, OFFSET + 5 * SECOND);
	assert_true(metric("hw.energy")->sum->is_monotonic);
	assert_string_equal(attribute(metric("hw.errors")->sum->data_points[0], "error.type"),
			    "corrected");
	assert_true(metric("process.memory.usage")->sum->data_points[0]->as_double == 4096);
}

static void who_tells(void **unused)
{
	(void)unused;
	write_all();
	const Opentelemetry__Proto__Resource__V1__Resource *r =
		request->resource_metrics[0]->resource;
	size_t services = 0;
	for (size_t i = 0; i < r->n_attributes; i++)
		if (!strcmp(r->attributes[i]->key, "service.name")) {
			assert_string_equal(r->attributes[i]->value->string_value, "mine");
			services++;
		}
	assert_int_equal(services, 1); /* what the user says wins */
}

/* A family may have more points than a block of memory has room for. */
static void many_points(void **unused)
{
	(void)unused;
	process(7, SECOND);
	for (uint32_t i = 0; i < SERIES_FUNCTIONS; i++) {
		struct live_function *f = vec_push(&series.functions);
		*f = (struct live_function){.pid = 7, .layer = "torch", .calls = i};
		memset(f->name, 'x', sizeof(f->name) - 1);
		snprintf(f->name, 16, "f%u", i);
	}
	write_all();
	const metric_t *calls = metric("eacgm.calls");
	assert_int_equal(calls->sum->n_data_points, SERIES_FUNCTIONS);
	for (uint32_t i = 0; i < SERIES_FUNCTIONS; i++)
		assert_true(calls->sum->data_points[i]->as_double == i);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(names), T(sums_and_gauges), T(conventions), T(who_tells), T(many_points),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
