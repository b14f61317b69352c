/* pyroscope.h - how Pyroscope takes a profile by HTTP: POST /ingest, and what it is of in the
 * query (its "legacy" interface, which is the documented one for pprof). */
#pragma once

#include "session/live_series.h"

#define PYROSCOPE_PATH "/ingest"

/* "?name=train.py{pid=7,host=a}&format=pprof&...", of which braces, commas and equals signs are
 * encoded; malloc'ed. Times are seconds of the Unix epoch. */
char *pyroscope_query(const struct live_process *of, const char *host, uint32_t sample_hz,
		      uint64_t from_s, uint64_t until_s);
