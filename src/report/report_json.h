/* report_json.h - what the files that make the report's JSON share. */
#pragma once

#include <jansson.h>

#include "base/json_stream.h"
#include "report/report.h"

/* A JSON string of any bytes: what is no UTF-8 becomes U+FFFD. NULL gives null. */
json_t *report_text_json(const char *s);

static inline json_t *report_number_json(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* Adds whose a cgroup is, by its path as containers' runtimes make them: "container", 64
 * hexadecimal digits, and "pod_uid"; null where the path, or "", does not say. */
void report_container_json(json_t *o, const char *cgroup);

/* What a counter came to: "mean", "min", "max", "last", "samples". */
json_t *report_counter_json(const struct counter_sum *c);

/* Adds what samples say: functions by CPU time, waits. */
void report_profile_json(struct json_stream *out, const struct report *r);

/* Adds the programs that processes ran. */
void report_programs_json(struct json_stream *out, const struct report *r);

/* Adds what concerns GPUs: kernels, copies, memory, collectives, telemetry. */
void report_gpu_json(struct json_stream *out, const struct report *r);
