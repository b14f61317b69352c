/* memory_series.h - the device memory that processes hold, by owner, as a family of metrics. */
#pragma once

#include "serve/series_sink.h"
#include "session/live_series.h"

void memory_series_write(const struct series_sink *x, const struct live_series *s);
