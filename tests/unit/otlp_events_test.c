/* otlp_events_test.c - what happens, as logs and spans: steps of ends that come in any order,
 * collectives within them, what is bounded, and incidents.
 *
 * links: serve symbolize base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "otlp_logs_service.pb-c.h"
#include "otlp_trace_service.pb-c.h"
#include "serve/otlp_events.h"

#define MS     1000000ULL
#define OFFSET (5000 * MS)

typedef Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest spans_t;
typedef Opentelemetry__Proto__Collector__Logs__V1__ExportLogsServiceRequest logs_t;
typedef Opentelemetry__Proto__Trace__V1__Span span_t;
typedef Opentelemetry__Proto__Logs__V1__LogRecord log_t;

static const struct otlp_about about = {.version = "1", .host = "host"};
static struct otlp_events *events;
static spans_t *spans;
static logs_t *logs;

static int begin(void **unused)
{
	(void)unused;
	events = otlp_events_new();
	return 0;
}

static void forget(void)
{
	if (spans)
		opentelemetry__proto__collector__trace__v1__export_trace_service_request__free_unpacked(
			spans, NULL);
	if (logs)
		opentelemetry__proto__collector__logs__v1__export_logs_service_request__free_unpacked(
			logs, NULL);
	spans = NULL;
	logs = NULL;
}

static int end(void **unused)
{
	(void)unused;
	forget();
	otlp_events_free(events);
	return 0;
}

static size_t write_spans(uint64_t upto_ns)
{
	struct buf b = {0};
	forget();
	size_t n = otlp_events_write_spans(events, &b, &about, OFFSET, upto_ns);
	assert_int_equal(n > 0, b.len > 0);
	if (n)
		spans = opentelemetry__proto__collector__trace__v1__export_trace_service_request__unpack(
			NULL, b.len, b.data);
	buf_free(&b);
	if (n)
		assert_int_equal(spans->resource_spans[0]->scope_spans[0]->n_spans, n);
	return n;
}

static const span_t *span(size_t i)
{
	return spans->resource_spans[0]->scope_spans[0]->spans[i];
}

static void step_end(uint32_t pid, uint64_t ms, bool first)
{
	otlp_events_step_end(events, &(struct otlp_step_end){pid, "training", ms * MS, first});
}

static void collective(uint32_t pid, uint64_t start_ns, uint64_t end_ns)
{
	otlp_events_collective(events, &(struct otlp_collective){.pid = pid,
								 .tid = pid,
								 .name = "ncclAllReduce",
								 .layer = "nccl",
								 .start_ns = start_ns,
								 .end_ns = end_ns,
								 .bytes = 64});
}

static void spans_lie(size_t i, uint64_t start_ms, uint64_t end_ms)
{
	assert_int_equal(span(i)->start_time_unix_nano, OFFSET + start_ms * MS);
	assert_int_equal(span(i)->end_time_unix_nano, OFFSET + end_ms * MS);
}

static void steps_of_ends_in_any_order(void **unused)
{
	(void)unused;
	step_end(7, 10, true);
	step_end(7, 20, false);
	step_end(7, 40, false);
	step_end(7, 30, false);
	step_end(7, 50, false);
	assert_int_equal(write_spans(45 * MS), 3);
	spans_lie(0, 10, 20);
	spans_lie(1, 20, 30);
	spans_lie(2, 30, 40);
	assert_string_equal(span(0)->name, "training step");
	assert_int_equal(write_spans(45 * MS), 0);
	assert_int_equal(write_spans(UINT64_MAX), 1);
	spans_lie(0, 40, 50);
	/* of another process there is no step between the two */
	step_end(8, 60, true);
	step_end(8, 70, false);
	assert_int_equal(write_spans(UINT64_MAX), 1);
	spans_lie(0, 60, 70);
	step_end(8, 90, true); /* other steps */
	step_end(8, 95, false);
	assert_int_equal(write_spans(UINT64_MAX), 1);
	spans_lie(0, 90, 95);
}

static bool is_child(const span_t *child, const span_t *parent)
{
	return child->parent_span_id.len == 8 &&
	       !memcmp(child->parent_span_id.data, parent->span_id.data, 8) &&
	       !memcmp(child->trace_id.data, parent->trace_id.data, 16);
}

static void collectives_within_steps(void **unused)
{
	(void)unused;
	step_end(7, 10, true);
	step_end(7, 20, false);
	collective(7, 5 * MS, 6 * MS);	 /* before the first */
	collective(7, 12 * MS, 14 * MS); /* in it */
	collective(8, 12 * MS, 14 * MS); /* another process's */
	collective(7, 25 * MS, 26 * MS); /* in the next, which has not ended */
	collective(7, 95 * MS, 99 * MS); /* later than is told now */
	assert_int_equal(write_spans(30 * MS), 5);
	assert_int_equal(span(1)->parent_span_id.len, 0);
	assert_true(is_child(span(2), span(0)));
	assert_int_equal(span(3)->parent_span_id.len, 0);
	assert_int_equal(span(4)->parent_span_id.len, 8);
	uint8_t next[8];
	memcpy(next, span(4)->parent_span_id.data, 8);
	step_end(7, 100, false);
	assert_int_equal(write_spans(UINT64_MAX), 2);
	assert_memory_equal(span(0)->span_id.data, next, 8); /* it is what it was told to be */
	assert_true(is_child(span(1), span(0)));
}

static void the_longest_stay(void **unused)
{
	(void)unused;
	struct otlp_events_stats s;
	for (uint64_t i = 0; i < 1000; i++)
		collective(7, i * MS, i * MS + (i * 7919) % 1000);
	assert_int_equal(write_spans(UINT64_MAX), OTLP_SPANS);
	for (size_t i = 0; i < OTLP_SPANS; i++)
		assert_true(span(i)->end_time_unix_nano - span(i)->start_time_unix_nano >=
			    1000 - OTLP_SPANS);
	otlp_events_stats(events, &s);
	assert_int_equal(s.spans_left_out, 1000 - OTLP_SPANS);
	assert_int_equal(s.spans, OTLP_SPANS);
	/* ends of steps are settled where there are very many */
	for (uint64_t i = 1; i <= 20000; i++)
		step_end(7, i, i == 1);
	size_t n = write_spans(UINT64_MAX);
	otlp_events_stats(events, &s);
	assert_int_equal(n, OTLP_SPANS);
	assert_int_equal(s.spans + s.spans_left_out, 1000 + 19999);
}

static size_t write_logs(void)
{
	struct buf b = {0};
	forget();
	size_t n = otlp_events_write_logs(events, &b, &about, OFFSET);
	if (n)
		logs = opentelemetry__proto__collector__logs__v1__export_logs_service_request__unpack(
			NULL, b.len, b.data);
	buf_free(&b);
	return n;
}

static const log_t *log_of(size_t i)
{
	return logs->resource_logs[0]->scope_logs[0]->log_records[i];
}

static const Opentelemetry__Proto__Common__V1__AnyValue *attribute(const log_t *l, const char *key)
{
	for (size_t i = 0; i < l->n_attributes; i++)
		if (!strcmp(l->attributes[i]->key, key))
			return l->attributes[i]->value;
	fail_msg("no attribute %s", key);
	return NULL;
}

static void incidents(void **unused)
{
	(void)unused;
	struct otlp_incident i = {.id = 4,
				  .onset_ns = 100 * MS,
				  .end_ns = 300 * MS,
				  .pid = 7,
				  .culprit_pid = 9,
				  .cost_ns = 2.5e9,
				  .confidence = 0.95,
				  .sentence = "CPU contention by stress (9), 2.50 s lost",
				  .cause = "cpu_contention",
				  .culprit = "stress",
				  .culprit_kind = "process",
				  .evidence = "it had no CPU; the host was busy"};
	uint8_t trace[16];
	otlp_events_incident(events, &i);
	i.ended = true;
	otlp_events_incident(events, &i);
	assert_int_equal(write_logs(), 2);
	const log_t *l = log_of(1);
	assert_string_equal(l->body->string_value, i.sentence);
	assert_true(l->severity_number == 13 && l->time_unix_nano == OFFSET + 100 * MS);
	assert_string_equal(attribute(l, "eacgm.incident.cause")->string_value, "cpu_contention");
	assert_string_equal(attribute(l, "eacgm.incident.culprit")->string_value, "stress");
	assert_true(attribute(l, "eacgm.incident.cost")->double_value == 2.5);
	assert_true(attribute(l, "eacgm.incident.confidence")->double_value == 0.95);
	assert_int_equal(attribute(l, "eacgm.incident.culprit.pid")->int_value, 9);
	assert_true(attribute(l, "eacgm.incident.ended")->bool_value);
	assert_false(attribute(log_of(0), "eacgm.incident.ended")->bool_value);
	memcpy(trace, l->trace_id.data, 16);
	assert_memory_equal(log_of(0)->trace_id.data, trace, 16);
	assert_string_equal(attribute(l, "eacgm.incident.evidence")->string_value, i.evidence);
	for (size_t k = 0; k < l->n_attributes; k++)
		assert_string_not_equal(l->attributes[k]->key, "eacgm.incident.blame");
	assert_false(attribute(l, "eacgm.incident.beside")->bool_value);
	i.told_ns++; /* another piece of it */
	i.beside = true;
	i.blame = "2.50 s: could run, but stress (9) had the CPU";
	otlp_events_incident(events, &i);
	assert_int_equal(write_logs(), 1);
	assert_true(attribute(log_of(0), "eacgm.incident.beside")->bool_value);
	assert_string_equal(attribute(log_of(0), "eacgm.incident.blame")->string_value, i.blame);
	char many[2000] = "", one[2000];
	for (int k = 0; k < 60; k++)
		snprintf(many + strlen(many), 30, "%s%d s: its line %d", k ? "; " : "", k, k);
	snprintf(one, sizeof(one), "%01999d", 0);
	i.ended = false;
	i.evidence = one;
	i.blame = many;
	otlp_events_incident(events, &i);
	assert_int_equal(write_logs(), 1);
	assert_string_equal(attribute(log_of(0), "eacgm.incident.evidence")->string_value, "...");
	const char *cut = attribute(log_of(0), "eacgm.incident.blame")->string_value;
	size_t n = strlen(cut);
	assert_true(n > 700 && n < 768 && !strcmp(cut + n - 5, "; ..."));
	assert_memory_equal(cut, many, n - 3);
	i.ended = true;
	i.blame = i.evidence = NULL;
	assert_true(memcmp(log_of(0)->trace_id.data, trace, 16));
	assert_int_equal(write_spans(UINT64_MAX), 2); /* when they have ended */
	spans_lie(0, 100, 300);
	assert_memory_equal(span(0)->trace_id.data, trace, 16);
	assert_int_equal(span(0)->status->code, 2);
}

static void errors_and_their_limit(void **unused)
{
	(void)unused;
	struct otlp_events_stats s;
	for (int i = 0; i < OTLP_LOGS + 3; i++)
		otlp_events_notice(events, &(struct otlp_notice){.time_ns = MS,
								 .is_error = true,
								 .name = "xid",
								 .of = "gpu 0",
								 .text = "79: gone\033[31m\xff"});
	assert_int_equal(write_logs(), OTLP_LOGS);
	assert_string_equal(log_of(0)->body->string_value,
			    "xid of gpu 0: 79: gone?[31m\xef\xbf\xbd");
	assert_int_equal(log_of(0)->severity_number, 17);
	otlp_events_stats(events, &s);
	assert_int_equal(s.logs_left_out, 3);
	assert_int_equal(write_logs(), 0);
}

static void warnings(void **unused)
{
	(void)unused;
	otlp_events_notice(events, &(struct otlp_notice){.time_ns = 2 * MS,
							 .name = "early_warning",
							 .of = "host",
							 .text = "memory runs out in 4 min"});
	assert_int_equal(write_logs(), 1);
	assert_string_equal(log_of(0)->event_name, "eacgm.warning");
	assert_int_equal(log_of(0)->severity_number, 13);
	assert_string_equal(attribute(log_of(0), "eacgm.warning.type")->string_value,
			    "early_warning");
	assert_string_equal(log_of(0)->body->string_value,
			    "early_warning of host: memory runs out in 4 min");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(steps_of_ends_in_any_order), T(collectives_within_steps),
		T(the_longest_stay),	       T(incidents),
		T(errors_and_their_limit),     T(warnings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
