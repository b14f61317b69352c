/* collective_series.h - families of what ranks hand to NCCL: session/live_collectives.h. */
#pragma once

#include "serve/series_sink.h"
#include "session/live_series.h"

void collective_series_write(const struct series_sink *x, const struct live_series *s);
