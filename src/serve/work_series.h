/* work_series.h - the work that jobs hand to their GPUs, as families of metrics, and what share of
 * the GPUs' peak it is. */
#pragma once

#include "serve/series_sink.h"
#include "session/live_series.h"

/* What the GPUs of each process do at most, those on which it has memory by NVML. */
struct work_peaks;
struct work_peaks *work_peaks_new(const struct live_series *s);
void work_peaks_free(struct work_peaks *p);

/* Model FLOPs utilisation: the time that the GPUs of a process would take at their peak for the
 * operations of its last seconds, over that time. NaN: nothing was counted, it has none, a peak is
 * not known, or (of few calls that were seen) more than the peak would come out. float32 whose
 * kernels were not seen counts as done on tensor cores: it is not told too high. */
double work_series_mfu(const struct live_series *s, const struct work_peaks *peaks, uint32_t pid);

/* Operations a second over the same time, of all formats; NaN: nothing was counted. */
double work_series_speed(const struct live_series *s, uint32_t pid);

void work_series_write(const struct series_sink *x, const struct live_series *s);
