/* otlp_metrics.h - the families that /metrics has, as OpenTelemetry's metrics: an
 * ExportMetricsServiceRequest. Counters are monotonic cumulative sums with the time that they began
 * at, units are UCUM's, and names are those of OpenTelemetry's semantic conventions where there are
 * any: hw.gpu.utilization for eacgm_gpu_sm_ratio. Other names are such that OpenTelemetry's rules
 * for Prometheus make /metrics' names of them: eacgm.gpu.sm_clock in Hz is
 * eacgm_gpu_sm_clock_hertz.
 */
#pragma once

#include "serve/agent_series.h"
#include "serve/otlp_about.h"

#define OTLP_NAME_BYTES 96

/* A family's OpenTelemetry name and unit. */
void otlp_metric_name(char ret[static OTLP_NAME_BYTES], const char **ret_unit, const char *family,
		      enum family_type type);

/* Appends the message; v's dcgm must be false, those names are Prometheus's. offset_ns:
 * CLOCK_REALTIME - CLOCK_MONOTONIC, the same each time: what began at it is told by its start.
 * Returns the points. */
size_t otlp_metrics_write(struct buf *ret, const struct otlp_about *about,
			  const struct agent_view *v, uint64_t now_realtime_ns, uint64_t offset_ns);
