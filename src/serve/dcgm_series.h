/* dcgm_series.h - GPUs by the names of NVIDIA's dcgm-exporter, so that dashboards made for it work
 * unchanged (github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv and etc/dcp-metrics-included
 * .csv). */
#pragma once

#include "serve/agent_series.h"

void dcgm_series_write(const struct series_sink *x, const struct agent_view *v);
