/* hardware.h - rows of GPUs (layer hardware) and of processes (layer host), from counters and
 * from samples of threads off the CPU. features.h has the list.
 *
 * A value of a window is the mean of the counter's rows in it; where it has none, the last one
 * before, as long as HARDWARE_HOLD_NS (some counters are read every two seconds). Totals
 * (net_sent_bytes) become rates. Rows hold z = (value - median) / sigma against what is usual for
 * the counter in the window's regime. The regime of a process is what windows.h says of it, or last
 * said: a process that has stopped making calls has a row as long as it has counters, and its
 * calls_per_s is 0. The regime of a GPU is the one of its process with the most events. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/features.h"
#include "detect/names.h"
#include "detect/regimes.h"

#define HARDWARE_HOLD_NS 10000000000ULL
#define COUNTER_Z_MOST	 12.0 /* z is cut off there, at both ends */

/* What is usual for counters, by name and regime; see model.h's struct model_counter. */
struct counter_usual {
	uint64_t count; /* 0 unknown */
	double median, sigma;
};
struct counters_usual;
struct counters_usual *counters_usual_new(uint64_t seed);
void counters_usual_free(struct counters_usual *u);
void counters_usual_set(struct counters_usual *u, enum detect_layer layer, uint32_t feature,
			uint32_t regime, const struct counter_usual *usual);
/* Of the regime, else of regime 0 (whatever the job does); count 0: unknown. */
void counters_usual_get(const struct counters_usual *u, enum detect_layer layer, uint32_t feature,
			uint32_t regime, struct counter_usual *ret);
/* Learns a window's values, for its regime and for regime 0. */
void counters_usual_learn(struct counters_usual *u, enum detect_layer layer, uint32_t regime,
			  const double values[FEATURES_MOST]);
/* Samples become medians and sigmas. */
void counters_usual_settle(struct counters_usual *u);

struct hardware_options {
	uint64_t window_ns;
	uint64_t late_ns; /* as in windows.h */
	struct counters_usual *usual;
	bool learn; /* each row is handed to counters_usual_learn as well */
	/* x of the row: z, NaN where unknown; values: in the counters' units, of the same order. */
	void (*row)(void *ctx, const struct feature_row *row, const double values[FEATURES_MOST]);
	void *ctx;
};

struct hardware;
struct hardware *hardware_new(const struct hardware_options *o);
void hardware_free(struct hardware *h);

void hardware_counter(struct hardware *h, const struct detect_names *names,
		      const struct m_counter *c);
void hardware_sample(struct hardware *h, const struct detect_names *names,
		     const struct m_sample *s);
/* What windows.h's mix says; before hardware_upto reaches that window. */
void hardware_mix(struct hardware *h, uint32_t pid, uint64_t start_ns, const struct work *work);
/* The process has ended, and nothing of it comes any more: it is forgotten when its windows were
 * handed out. */
void hardware_process_gone(struct hardware *h, uint32_t pid);
/* Its number comes no more. */
void hardware_metric_gone(struct hardware *h, uint32_t metric);
void hardware_upto(struct hardware *h, uint64_t now_ns);
void hardware_end(struct hardware *h);
/* Another recording: numbers of strings mean something else. After hardware_end. */
void hardware_forget_rows(struct hardware *h);
